"""Questions about made-up sentences, with the stretch of words that answers each."""

import random
from dataclasses import dataclass
from typing import ClassVar

from attnscope.text.corpora import POINTERS
from attnscope.text.examples import DrawnTask, Example, TaskForm, some_of

_NAMES = ("anna", "ben", "clara", "david", "emma", "felix", "greta", "hugo", "ida", "jonas")
_AGES = ("old", "young", "tall")
_KIN = ("uncle", "aunt", "teacher", "neighbour", "friend", "cousin")
_LOOKS = ("small", "large", "new", "broken", "red", "green", "blue", "white")
_THINGS = ("ball", "book", "cup", "key", "lamp", "map", "ring", "clock")
_PLACES = ("garden", "kitchen", "station", "old town", "green park", "library")
_DAYS = ("monday", "tuesday", "friday", "sunday")
_TIMES = ("morning", "evening", "night")
_QUESTIONS = {
    "giver": "who gave something ?",
    "taker": "who got something ?",
    "thing": "what was it ?",
    "place": "where was it ?",
    "time": "when was it ?",
}
_TELLING = {"giver": 1, "taker": 1, "thing": 0, "place": 0, "time": 0}
"""The word of each question that tells what is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionsTask(DrawnTask):
    """Who gave what to whom, when and where: a question, then a sentence with an answer of one to four words.

    Place and time stand before the rest or after it. Linked is the first word of the answer with the word of
    the question that tells what is asked for.
    """

    name: ClassVar[str] = "questions"
    order: ClassVar[int] = 12
    form: ClassVar[TaskForm] = "encoder"
    pointers: ClassVar[tuple[str, ...]] = POINTERS

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        some = (*_QUESTIONS.values(), *_PLACES, *_AGES, *_KIN, *_LOOKS, *_THINGS, *_DAYS, *_TIMES, *_NAMES)
        words = " ".join((*some, "gave the my her to in on last ."))
        return tuple(sorted({*words.split()}))

    def draw(self, rng: random.Random) -> Example:
        parts = {
            "giver": _person(rng),
            "taker": _person(rng),
            "thing": ["the", *rng.sample(_LOOKS, rng.randint(0, 2)), rng.choice(_THINGS)],
            "place": ["in", "the", *rng.choice(_PLACES).split()],
            "time": [rng.choice(("on", "last")), rng.choice(_DAYS), *some_of(rng, _TIMES)],
        }
        order = ["giver", "gave", "thing", "to", "taker"]
        for part in rng.sample(("place", "time"), 2):
            order.insert(0 if rng.random() < 0.5 else len(order), part)
        asked = rng.choice(list(_QUESTIONS))
        words = _QUESTIONS[asked].split()
        places = (0, 0)
        for part in order:
            if part == asked:
                places = (len(words), len(words) + len(parts[part]) - 1)
            words += parts.get(part, [part])
        links = ((places[0], _TELLING[asked]),)
        return Example(source=" ".join([*words, "."]), places=places, links=links)


def _person(rng: random.Random) -> list[str]:
    if rng.random() < 0.5:
        return [rng.choice(_NAMES)]
    return [rng.choice(("my", "her")), *some_of(rng, _AGES), rng.choice(_KIN)]

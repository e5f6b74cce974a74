"""Questions about made-up sentences, with the stretch of words that answers each."""

import random
from dataclasses import dataclass
from typing import ClassVar

from attnscope.text.examples import Example, TaskForm, draw_examples
from attnscope.text.pointed import POINTERS

_PEOPLE = ("anna", "ben", "clara", "david", "emma", "felix", "greta", "hugo", "ida", "jonas", "klara", "leo")
_SIZES = ("small", "large", "old", "new", "broken")
_COLOURS = ("red", "green", "blue", "white", "black")
_THINGS = ("ball", "book", "cup", "key", "lamp", "map", "ring", "clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionsTask:
    """Who gave what to whom: a question, then sentences, one of which has the answer, of one to four words.

    People and things differ from sentence to sentence, so that there is one answer.
    """

    name: ClassVar[str] = "questions"
    form: ClassVar[TaskForm] = "encoder"
    pointers: ClassVar[tuple[str, ...]] = POINTERS
    min_facts: int = 2
    max_facts: int = 4

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        words = ("who", "what", "did", "give", "gave", "got", "the", "to", "from", "?", ".")
        return (*words, *_PEOPLE, *_SIZES, *_COLOURS, *_THINGS)

    def _draw(self, rng: random.Random) -> Example:
        n = rng.randint(self.min_facts, min(self.max_facts, len(_PEOPLE) // 2, len(_THINGS)))
        people, things = rng.sample(_PEOPLE, 2 * n), rng.sample(_THINGS, n)
        asked, kind = rng.randrange(n), rng.choice(("giver", "taker", "thing"))
        giver, taker, thing = people[2 * asked], people[2 * asked + 1], things[asked]
        words = {
            "giver": f"who gave the {thing} ?",
            "taker": f"who got the {thing} ?",
            "thing": rng.choice((f"what did {giver} give ?", f"what got {taker} ?")),
        }[kind].split()
        known = 2 if kind == "thing" else 3  # the word of the question that its sentence repeats
        link, places = 0, (0, 0)
        for i in range(n):
            noun = ["the", *_some(rng, _SIZES), *_some(rng, _COLOURS), things[i]]
            parts = {"giver": [people[2 * i]], "thing": noun, "taker": [people[2 * i + 1]]}
            if rng.random() < 0.5:
                order = ("giver", "gave", "thing", "to", "taker", ".")
            else:
                order = ("taker", "got", "thing", "from", "giver", ".")
            for part in order:
                if i == asked and part == kind:
                    places = (len(words), len(words) + len(parts[part]) - 1)
                words += parts.get(part, [part])
                link = len(words) - 1 if i == asked and words[-1] == words[known] else link
        return Example(source=" ".join(words), places=places, links=((link, known),))

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` questions with their sentences, and the first and the last word of each answer.

        Linked is the word that sentence and question share.
        """
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


def _some(rng: random.Random, words: tuple[str, ...]) -> list[str]:
    return [rng.choice(words)] if rng.random() < 0.5 else []

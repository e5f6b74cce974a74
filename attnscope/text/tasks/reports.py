"""Short reports with made-up names and numbers, and summaries that have to copy them."""

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from attnscope.text.examples import Example, TaskForm, TaskKind, draw_examples

_SYLLABLES = tuple(first + vowel for first in "bdfgklmnprtvz" for vowel in "aeiou")
_N_MADE_UP, _N_NEW, _N_IN_VOCABULARY = 500, 100, 200
_THINGS = ("lamp", "window", "engine", "door", "heater", "pump", "mirror", "radio")
_FAULTS = ("broken", "leaking", "loose", "noisy", "dark", "stuck")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
_OTHERS = ("visited", "called", "thanked", "met")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsTask(TaskKind):
    """A report of two to four sentences in any order, and its summary: what, where, by whom, and when.

    People and rooms go by names or by numbers, so that only the words around tell which is which. Those of
    held-out reports occur in no other. The vocabulary has half of those to learn from, and none that is new:
    such a word is unknown, and can only be copied (See et al. 2017). Linked are the words that a summary
    takes over with their places in the report.
    """

    name: ClassVar[str] = "reports"
    writes: ClassVar[str] = "summary"
    order: ClassVar[int] = 16
    form: ClassVar[TaskForm] = "encoder-decoder"

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words that a model may generate: of names and numbers, some of those in training."""
        words = " ".join((*_THINGS, *_FAULTS, *_DAYS, *_OTHERS, "the in room found it on repaired by ."))
        return (*sorted({*words.split()}), *training_words()[:_N_IN_VOCABULARY])

    def _draw(self, rng: random.Random, *, is_new: bool) -> Example:
        finder, mender, room, *others = rng.sample(new_words() if is_new else training_words(), 5)
        thing, fault, day = rng.choice(_THINGS), rng.choice(_FAULTS), rng.choice(_DAYS)
        sentences = [
            f"{finder} found the {thing} in room {room} {fault} .",
            f"{mender} repaired it on {day} .",
        ]
        for other in others[: rng.randint(0, 2)]:
            who = rng.choice((finder, mender))
            sentences.append(f"on {rng.choice(_DAYS)} {other} {rng.choice(_OTHERS)} {who} .")
        rng.shuffle(sentences)
        source = " ".join(sentences).split()
        target = f"{thing} in room {room} {fault} found by {finder} repaired by {mender} on {day}"
        words = target.split()
        links = [(i, _place(source, word)) for i, word in enumerate(words) if word in (finder, mender)]
        links += [(i, source.index(word)) for i, word in enumerate(words) if word in (room, thing, fault)]
        return Example(source=" ".join(source), target=target, links=tuple(sorted(links)))

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` reports with their summaries; the new words decide what is held out, and the hash."""
        return draw_examples(
            lambda rng: self._draw(rng, is_new=held_out), n, name=self.name, seed=seed, held_out=held_out
        )


def training_words() -> tuple[str, ...]:
    """The names and numbers of training reports."""
    return _made_up()[_N_NEW:]


def new_words() -> tuple[str, ...]:
    """The names and numbers of held-out reports."""
    return _made_up()[:_N_NEW]


@lru_cache(maxsize=1)
def _made_up() -> tuple[str, ...]:
    """Names of two or three syllables and numbers alternately, always the same."""
    rng = random.Random("names of reports")
    found: dict[str, None] = {}
    while len(found) < _N_MADE_UP:
        found["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 3)))] = None
        found[str(rng.randrange(100, 1000))] = None
    return tuple(found)


def _place(source: list[str], name: str) -> int:
    """Position in a sentence that tells what a person did, not whom somebody met."""
    return next(i for i, word in enumerate(source) if word == name and source[i + 1] in ("found", "repaired"))

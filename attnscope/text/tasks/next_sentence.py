"""Pairs of sentences of made-up stories: the second continues the first, or is from another story."""

import random
from dataclasses import dataclass
from typing import ClassVar

from attnscope.text.examples import DrawnTask, Example, TaskForm, every_word, some_of

_HEROES = {
    "she": ("anna", "clara", "emma", "greta"),
    "he": ("ben", "david", "felix", "hugo"),
}
_OWNS = {"she": "her", "he": "his"}
_THINGS = {
    "kitchen": ("soup", "bread", "oven", "spoon"),
    "harbour": ("boat", "sail", "anchor", "rope"),
    "garden": ("rose", "hedge", "spade", "lawn"),
    "school": ("lesson", "chalk", "desk", "homework"),
    "stable": ("horse", "saddle", "hay", "bridle"),
}
_DEEDS = ("found", "forgot", "wanted", "showed", "missed")
_LATER_DEEDS = ("took", "looked for", "cleaned", "praised", "watched")
_TIMES = ("on monday", "on friday", "in the morning", "at noon", "last night")
_THEN = ("then", "later", "soon")
_Story = tuple[str, str]
"""Whether it is about her or him, and where it happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSentenceTask(DrawnTask):
    """Does the second sentence follow? Its pronoun has to fit the hero, and its things the place.

    `anna forgot her soup in the kitchen .` goes on with `then she took the spoon and her bread .`, or with
    `then she took the spoon in the kitchen .`. A second sentence of another story has the other pronoun, is
    of another place, or both. Linked are the pronoun with the hero of the first sentence, and both words of
    the place with that.
    """

    name: ClassVar[str] = "next-sentence"
    order: ClassVar[int] = 17
    form: ClassVar[TaskForm] = "encoder"
    tells_next: ClassVar[bool] = True

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        told = (*_HEROES.values(), *_THINGS.values(), _DEEDS, _LATER_DEEDS, _TIMES, _THEN)
        return every_word(*told, tuple(_HEROES), tuple(_OWNS.values()), tuple(_THINGS), ("the", "and", "."))

    def draw(self, rng: random.Random) -> Example:
        story = (rng.choice(tuple(_HEROES)), rng.choice(tuple(_THINGS)))
        is_next = rng.random() < 0.5
        told = story if is_next else _another(rng, story)
        first, hero, place = _first_sentence(rng, story)
        second, pronoun, things = _second_sentence(rng, told)
        links = ((pronoun, hero), *((thing, place) for thing in things))
        return Example(source=" ".join(first), target=" ".join(second), links=links, is_next=is_next)


def _another(rng: random.Random, story: _Story) -> _Story:
    """A second sentence with another pronoun, of another place, or both; half of them keep the pronoun."""
    (other,) = (pronoun for pronoun in _HEROES if pronoun != story[0])
    elsewhere = rng.choice([place for place in _THINGS if place != story[1]])
    return rng.choice(((story[0], elsewhere), (story[0], elsewhere), (other, story[1]), (other, elsewhere)))


def _first_sentence(rng: random.Random, story: _Story) -> tuple[list[str], int, int]:
    """The words, and the positions of hero and place."""
    pronoun, place = story
    when = some_of(rng, _TIMES)
    words = [*when, rng.choice(_HEROES[pronoun]), rng.choice(_DEEDS), _OWNS[pronoun]]
    words += [rng.choice(_THINGS[place]), "in", "the", place, "."]
    return words, len(when), len(words) - 2


def _second_sentence(rng: random.Random, story: _Story) -> tuple[list[str], int, tuple[int, int]]:
    """The words, and the positions of the pronoun and the two words of the place."""
    pronoun, place = story
    then = some_of(rng, _THEN)
    first, second = rng.sample(_THINGS[place], 2)
    words = [*then, pronoun, *rng.choice(_LATER_DEEDS).split(), "the", first]
    n = len(words)
    words += ["in", "the", place, "."] if rng.random() < 0.5 else ["and", _OWNS[pronoun], second, "."]
    return words, len(then), (n - 1, len(words) - 2)

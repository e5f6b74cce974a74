"""Two sentences: the second follows from the first, contradicts it, or adds to it."""

import random
from dataclasses import dataclass
from typing import ClassVar

from attnscope.text.examples import DrawnTask, Example, TaskForm, every_word

_OPPOSITES = (("big", "small"), ("old", "young"), ("wet", "dry"), ("happy", "sad"))
_NUMBERS = ("two", "three", "four", "five")
_ANIMALS = ("dogs", "cats", "horses", "birds", "foxes", "mice")
_ACTS = ("sleep", "run", "eat", "play", "wait")
_WHERE = ("by the river", "in the barn", "under the tree", "near the road")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntailmentTask(DrawnTask):
    """Two sentences about animals: the second follows from the first, contradicts it, or adds to it.

    It follows when it only leaves out; it contradicts with another number or the opposite of an adjective;
    it is neutral when it adds an adjective that the first sentence is silent about. Words that the second
    sentence takes over are linked to where they stand in the first, a replaced one to what it replaces.
    """

    name: ClassVar[str] = "entailment"
    order: ClassVar[int] = 10
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("contradiction", "entailment", "neutral")
    vocabulary: ClassVar[tuple[str, ...]] = every_word(_NUMBERS, _ANIMALS, _ACTS, _WHERE, *_OPPOSITES)

    def draw(self, rng: random.Random) -> Example:
        label = rng.choice(self.labels)
        kinds = rng.sample(range(len(_OPPOSITES)), rng.randint(1, 3))
        adjectives = [rng.choice(_OPPOSITES[kind]) for kind in kinds]
        number, animals, act, where = (rng.choice(some) for some in (_NUMBERS, _ANIMALS, _ACTS, _WHERE))
        premise = [number, *adjectives, animals, act, *where.split()]
        said: list[tuple[str, int | None]] = [(number, 0)]
        said += [(word, 1 + i) for i, word in enumerate(adjectives) if rng.random() < 0.5]
        if label == "contradiction":
            said = _contradicted(rng, said, number, adjectives)
        if label == "neutral":
            silent = [pair for kind, pair in enumerate(_OPPOSITES) if kind not in kinds]
            said.insert(rng.randint(1, len(said)), (rng.choice(rng.choice(silent)), None))
        n = 1 + len(adjectives)
        said += [(animals, n), (act, n + 1)]
        if rng.random() < 0.5:
            said += [(word, n + 2 + i) for i, word in enumerate(where.split())]
        links = tuple((i, place) for i, (_, place) in enumerate(said) if place is not None)
        text = " ".join(word for word, _ in said)
        return Example(source=" ".join(premise), target=text, label=label, links=links)


def _contradicted(
    rng: random.Random, said: list[tuple[str, int | None]], number: str, adjectives: list[str]
) -> list[tuple[str, int | None]]:
    """A contradiction: another number, or the opposite of one adjective of the first sentence."""
    if rng.random() < 0.4:
        return [(rng.choice([other for other in _NUMBERS if other != number]), 0), *said[1:]]
    place = rng.randrange(len(adjectives))
    pair = next(pair for pair in _OPPOSITES if adjectives[place] in pair)
    opposite = pair[1 - pair.index(adjectives[place])]
    kept = [entry for entry in said if entry[1] != 1 + place]
    at = sum(entry[1] is not None and entry[1] < 1 + place for entry in kept)
    return [*kept[:at], (opposite, 1 + place), *kept[at:]]

"""Tasks in which a text, or two, have a label, and it is known which words decide it.

sentiment    one word of a sentence is a verdict, positive or negative; or none is
reviews      several sentences with a verdict each; the one about the food decides
entailment   does the second sentence follow from the first, contradict it, or neither
"""

import random
from dataclasses import dataclass
from typing import ClassVar

from attnscope.text.examples import Example, TaskForm, draw_examples

_GOOD = ("wonderful", "lovely", "charming", "superb", "pleasant", "excellent")
_BAD = ("awful", "dreadful", "boring", "terrible", "nasty", "poor")
_PLAIN = ("old", "long", "little", "second", "wooden", "green")
_PEOPLE = ("waiter", "teacher", "doctor", "singer", "neighbour", "sailor")
_THINGS = ("story", "soup", "song", "letter", "garden", "picture")
_DEEDS = ("brought", "showed", "gave", "promised")
_PLACES = ("in the kitchen", "on the train", "after the rain", "before lunch", "near the river")
_FOOD = ("soup", "bread", "fish", "cake")
_OTHER = ("music", "waiter", "room", "view", "table", "door")
_OPPOSITES = (("big", "small"), ("old", "young"), ("wet", "dry"), ("happy", "sad"))
_NUMBERS = ("two", "three", "four", "five")
_ANIMALS = ("dogs", "cats", "horses", "birds", "foxes", "mice")
_ACTS = ("sleep", "run", "eat", "play", "wait")
_WHERE = ("by the river", "in the barn", "under the tree", "near the road")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentTask:
    """Sentences of which one word, wherever it stands, says whether something was good or bad, or none."""

    name: ClassVar[str] = "sentiment"
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("negative", "neutral", "positive")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        return _words_of(_GOOD, _BAD, _PLAIN, _PEOPLE, _THINGS, _DEEDS, _PLACES, ("the", "a", "us", "."))

    def _draw(self, rng: random.Random) -> Example:
        label = rng.choice(self.labels)
        words = ["the", *_some(rng, _PLAIN), rng.choice(_PEOPLE), rng.choice(_DEEDS), "us", "a"]
        words += [*_some(rng, _PLAIN), rng.choice(_THINGS), *_some(rng, _PLACES), "."]
        nouns = [i for i, word in enumerate(words) if word in _PEOPLE or word in _THINGS]
        if label == "neutral":
            return Example(source=" ".join(words), label=label)
        place = rng.choice(nouns)
        words.insert(place, rng.choice(_GOOD if label == "positive" else _BAD))
        return Example(source=" ".join(words), label=label, links=((0, place),))

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` sentences with their labels, each linked to its verdict."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewsTask:
    """Reviews of several sentences, each with a verdict of its own; only that on the food counts."""

    name: ClassVar[str] = "reviews"
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("negative", "positive")
    min_sentences: int = 2
    max_sentences: int = 5

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        return _words_of(_GOOD, _BAD, _FOOD, _OTHER, _PLAIN, ("the", "was", "."))

    def _draw(self, rng: random.Random) -> Example:
        n = rng.randint(self.min_sentences, self.max_sentences)
        about_food, label = rng.randrange(n), rng.choice(self.labels)
        words: list[str] = []
        links: tuple[tuple[int, int], ...] = ()
        for sentence in range(n):
            is_food = sentence == about_food
            is_good = label == "positive" if is_food else rng.random() < 0.5
            words += ["the", *_some(rng, _PLAIN), rng.choice(_FOOD if is_food else _OTHER), "was"]
            if is_food:
                links = ((0, len(words)),)
            words += [rng.choice(_GOOD if is_good else _BAD), "."]
        return Example(source=" ".join(words), label=label, links=links)

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` reviews with their labels, each linked to the verdict on the food."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntailmentTask:
    """Two sentences about animals: the second follows from the first, contradicts it, or says more.

    It follows when it only leaves out; it contradicts with another number or the opposite of an adjective;
    it is neutral when it adds an adjective that the first sentence is silent about. Words that the second
    sentence takes over are linked to where they stand in the first, a replaced one to what it replaces.
    """

    name: ClassVar[str] = "entailment"
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("contradiction", "entailment", "neutral")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur."""
        return _words_of(_NUMBERS, _ANIMALS, _ACTS, _WHERE, *_OPPOSITES)

    def _draw(self, rng: random.Random) -> Example:
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

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` pairs with their labels and gold alignments."""
        return draw_examples(self._draw, n, name=self.name, seed=seed, held_out=held_out)


def _contradicted(
    rng: random.Random, said: list[tuple[str, int | None]], number: str, adjectives: list[str]
) -> list[tuple[str, int | None]]:
    """What is said with another number, or with the opposite of one adjective of the first sentence."""
    if rng.random() < 0.4:
        return [(rng.choice([other for other in _NUMBERS if other != number]), 0), *said[1:]]
    place = rng.randrange(len(adjectives))
    pair = next(pair for pair in _OPPOSITES if adjectives[place] in pair)
    opposite = pair[1 - pair.index(adjectives[place])]
    kept = [entry for entry in said if entry[1] != 1 + place]
    at = sum(entry[1] is not None and entry[1] < 1 + place for entry in kept)
    return [*kept[:at], (opposite, 1 + place), *kept[at:]]


def _some(rng: random.Random, words: tuple[str, ...]) -> list[str]:
    """One of the words (or phrases), or nothing."""
    return rng.choice(words).split() if rng.random() < 0.5 else []


def _words_of(*groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({word for group in groups for phrase in group for word in phrase.split()}))

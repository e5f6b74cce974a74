"""Sentences with a verdict, good or bad: of one word, or of the sentence on the food."""

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from attnscope.text.examples import DrawnTask, Example, Range, TaskForm, every_word, some_of

_GOOD = ("wonderful", "lovely", "charming", "superb", "pleasant", "excellent")
_BAD = ("awful", "dreadful", "boring", "terrible", "nasty", "poor")
_PLAIN = ("old", "long", "little", "second", "wooden", "green")
_PEOPLE = ("waiter", "teacher", "doctor", "singer", "neighbour", "sailor")
_THINGS = ("story", "soup", "song", "letter", "garden", "picture")
_DEEDS = ("brought", "showed", "gave", "promised")
_PLACES = ("in the kitchen", "on the train", "after the rain", "before lunch", "near the river")
_FOOD = ("soup", "bread", "fish", "cake")
_OTHER = ("music", "waiter", "room", "view", "table", "door")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentimentTask(DrawnTask):
    """Sentences in which one word, wherever it is, says whether something was good or bad, or none does."""

    name: ClassVar[str] = "sentiment"
    order: ClassVar[int] = 8
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("negative", "neutral", "positive")
    vocabulary: ClassVar[tuple[str, ...]] = every_word(
        _GOOD, _BAD, _PLAIN, _PEOPLE, _THINGS, _DEEDS, _PLACES, ("the", "a", "us", ".")
    )

    def draw(self, rng: random.Random) -> Example:
        label = rng.choice(self.labels)
        words = ["the", *some_of(rng, _PLAIN), rng.choice(_PEOPLE), rng.choice(_DEEDS), "us", "a"]
        words += [*some_of(rng, _PLAIN), rng.choice(_THINGS), *some_of(rng, _PLACES), "."]
        nouns = [i for i, word in enumerate(words) if word in _PEOPLE or word in _THINGS]
        if label == "neutral":
            return Example(source=" ".join(words), label=label)
        place = rng.choice(nouns)
        words.insert(place, rng.choice(_GOOD if label == "positive" else _BAD))
        return Example(source=" ".join(words), label=label, links=((0, place),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewsTask(DrawnTask):
    """Reviews of several sentences, each with a verdict of its own; only that on the food counts."""

    name: ClassVar[str] = "reviews"
    order: ClassVar[int] = 9
    form: ClassVar[TaskForm] = "encoder"
    labels: ClassVar[tuple[str, ...]] = ("negative", "positive")
    min_sentences: Annotated[int, Range(1, 100)] = 2
    max_sentences: Annotated[int, Range(1, 100)] = 5
    vocabulary: ClassVar[tuple[str, ...]] = every_word(
        _GOOD, _BAD, _FOOD, _OTHER, _PLAIN, ("the", "was", ".")
    )

    def draw(self, rng: random.Random) -> Example:
        n = rng.randint(self.min_sentences, self.max_sentences)
        about_food, label = rng.randrange(n), rng.choice(self.labels)
        words: list[str] = []
        links: tuple[tuple[int, int], ...] = ()
        for sentence in range(n):
            is_food = sentence == about_food
            is_good = label == "positive" if is_food else rng.random() < 0.5
            words += ["the", *some_of(rng, _PLAIN), rng.choice(_FOOD if is_food else _OTHER), "was"]
            if is_food:
                links = ((0, len(words)),)
            words += [rng.choice(_GOOD if is_good else _BAD), "."]
        return Example(source=" ".join(words), label=label, links=links)

"""Nested lists in brackets, each with a name: `( a x ( b y ) z )`; held-out texts are nested deeper."""

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from attnscope.text.examples import Example, Range, TaskForm, TaskKind, draw_examples

_LETTERS = "abcdefgh"
_MOST_IN_LIST = 5
_LEAST_DEPTH = 3
"""Flatter lists would have more members than positions in a tree tell apart."""
_LEAVES = (6, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedListsTask(TaskKind):
    """For each token the name of its list: the word after the opening bracket of that list.

    Names and other words are the same letters, so that only the tree tells. Training sees lists up to
    `max_depth` deep; held-out texts have lists that are deeper, by up to `more_depth`, but as many lists and
    words. Links lead from each word to the name of its list.
    """

    name: ClassVar[str] = "nested-lists"
    order: ClassVar[int] = 18
    form: ClassVar[TaskForm] = "encoder"
    max_depth: Annotated[int, Range(2, 20)] = 4
    more_depth: Annotated[int, Range(1, 20)] = 3
    vocabulary: ClassVar[tuple[str, ...]] = (*_LETTERS, "(", ")")

    word_labels: ClassVar[tuple[str, ...]] = tuple(_LETTERS)

    def _draw(self, rng: random.Random, *, is_deeper: bool) -> Example:
        least = self.max_depth + 1 if is_deeper else min(_LEAST_DEPTH, self.max_depth)
        depth = rng.randint(least, self.max_depth + (self.more_depth if is_deeper else 0))
        lists = _nested(rng, depth, self.max_depth + self.more_depth + rng.randint(0, 2))
        words: list[str] = []
        owners: list[int] = []
        _write(lists, 0, words, owners)
        return Example(
            source=" ".join(words),
            links=tuple(enumerate(owners)),
            word_labels=tuple(words[owner] for owner in owners),
        )

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        return draw_examples(
            lambda rng: self._draw(rng, is_deeper=held_out), n, name=self.name, seed=seed, held_out=held_out
        )


def _nested(rng: random.Random, depth: int, n_lists: int) -> list[list[str | int]]:
    """Contents of each list, its name first: words, and numbers of other lists; exactly `depth` deep."""
    lists: list[list[str | int]] = [[rng.choice(_LETTERS)]]
    depths = [1]
    while len(lists) < n_lists:
        open_lists = [i for i, some in enumerate(lists) if depths[i] < depth and len(some) <= _MOST_IN_LIST]
        parent = len(lists) - 1 if len(lists) < depth else rng.choice(open_lists or [0])
        _insert(rng, lists[parent], len(lists))
        depths.append(depths[parent] + 1)
        lists.append([rng.choice(_LETTERS)])
    for _ in range(rng.randint(*_LEAVES)):
        with_room = [some for some in lists if len(some) <= _MOST_IN_LIST]
        _insert(rng, rng.choice(with_room or lists), rng.choice(_LETTERS))
    return lists


def _insert(rng: random.Random, some: list[str | int], item: str | int) -> None:
    some.insert(rng.randint(1, len(some)), item)


def _write(lists: list[list[str | int]], at: int, words: list[str], owners: list[int]) -> None:
    """Add the words of a list, with the position of each one's list name."""
    name = len(words) + 1

    def say(word: str) -> None:
        words.append(word)
        owners.append(name)

    say("(")
    for item in lists[at]:
        if isinstance(item, int):
            _write(lists, item, words, owners)
        else:
            say(item)
    say(")")

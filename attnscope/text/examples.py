"""Tasks: examples whose right attention is known, a tenth of them held out.

Words are counted as `text.split()` counts them, which is how a `words` tokenizer reads these texts.
"""

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import RecipeError

TaskForm = Literal["encoder", "decoder", "encoder-decoder"]
TOKENIZER_KIND = "words"
"""The tokenizer of every task: its tokens are the words that links count."""
_HELD_OUT_ONE_IN = 10
_MAX_TRIES_PER_EXAMPLE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One text of a task, with the attention that solves it.

    With a target, `links` holds (target word, source word): the target word translates the source word.
    Without one, it holds (query word, key word): the query is the word whose output predicts the next word,
    and the key is a word that tells which one it is. The first `n_given` words of a text without target
    cannot be predicted; what follows can (except in `brackets`, where only closing brackets can).

    With a `label` the model tells that one, and `links` of a single text hold (0, word): the summary of the
    text is to look at that word. Of two texts they hold (word of the second text, word of the first). With
    `word_labels` it tells one of each word, and links hold (word, word that its label comes from). With
    `places` it points to these words: to one, or to the first and the last of some. With `is_next` it tells
    whether the target follows the source.
    """

    source: str
    target: str | None = None
    links: tuple[tuple[int, int], ...] = ()
    n_given: int = 0
    label: str = ""
    word_labels: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    is_next: bool | None = None


class Task(Protocol):
    """A source of examples whose right attention is known."""

    @property
    def name(self) -> str:
        """The name used in recipes."""

    @property
    def form(self) -> TaskForm:
        """The form of model the task is for."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every word that can occur, in source or target."""

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """`n` examples; a source that can be held out never occurs among the others, whatever the seed."""


class Range(NamedTuple):
    """The range of a task's option, beside its type in `Annotated`."""

    least: int
    most: int


class TaskKind(ABC):
    """A task as named in a recipe, in a file of `text/tasks`; `order` is its rank among the others.

    Options are fields with a `Range`, and `form` where it may be one of several `forms`.
    """

    __slots__ = ()
    name: ClassVar[str] = ""
    order: ClassVar[int] = 0
    forms: ClassVar[tuple[TaskForm, ...]] = ()
    writes: ClassVar[str] = ""
    """Kind of target, in a word or two, if there is one."""

    @abstractmethod
    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        """See `Task`."""

    def fault(self) -> RecipeError | None:
        """Conflict between options that are valid one by one."""
        return None


class DrawnTask(TaskKind):
    """A task whose examples are drawn one by one; an example's hash decides whether it is held out."""

    __slots__ = ()

    @abstractmethod
    def draw(self, rng: random.Random) -> Example:
        """Draw an example."""

    def examples(self, n: int, *, seed: int, held_out: bool = False) -> list[Example]:
        return draw_examples(self.draw, n, name=self.name, seed=seed, held_out=held_out)


def some_of(rng: random.Random, words: tuple[str, ...]) -> list[str]:
    """One of the words (or phrases), or none."""
    return rng.choice(words).split() if rng.random() < 0.5 else []


def every_word(*groups: tuple[str, ...]) -> tuple[str, ...]:
    """The words of all phrases of some groups, in alphabetical order."""
    return tuple(sorted({word for group in groups for phrase in group for word in phrase.split()}))


def labels_of(task: Task) -> tuple[str, ...]:
    """The labels of a task, in order; none for a task of tokens."""
    labels: tuple[str, ...] = getattr(task, "labels", ())
    return labels


def word_labels_of(task: Task) -> tuple[str, ...]:
    """The labels of a task for single words, in order; none for another task."""
    labels: tuple[str, ...] = getattr(task, "word_labels", ())
    return labels


def pointers_of(task: Task) -> tuple[str, ...]:
    """The names of the positions asked for by a task, in order; none for another task."""
    pointers: tuple[str, ...] = getattr(task, "pointers", ())
    return pointers


def tells_next(task: Task) -> bool:
    """Whether a task asks if a second sentence follows a first."""
    return bool(getattr(task, "tells_next", False))


def vectors_of(task: Task) -> NDArray[np.float64] | None:
    """Vectors of a task's words, [n_words, n_numbers]; None if words are read."""
    vectors: NDArray[np.float64] | None = getattr(task, "vectors", None)
    return vectors


def picture_shape_of(task: Task) -> tuple[int, int, int] | None:
    """Height, width and channels of the pictures named by a task's sources; None if texts are read."""
    shape: tuple[int, int, int] | None = getattr(task, "picture_shape", None)
    return shape


def is_held_out(source: str) -> bool:
    """Whether a source belongs to the held-out tenth, by its hash alone."""
    digest = hashlib.blake2b(source.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % _HELD_OUT_ONE_IN == 0


def draw_examples(
    draw: Callable[[random.Random], Example], n: int, *, name: str, seed: int, held_out: bool
) -> list[Example]:
    """Draw until `n` examples are on the wanted side of the split; the same arguments give the same list."""
    rng = random.Random(f"{name}/{seed}/{held_out}")
    examples: list[Example] = []
    n_misses = 0
    while len(examples) < n:
        example = draw(rng)
        if is_held_out(held_out_key(example)) == held_out:
            examples.append(example)
            n_misses = 0
            continue
        n_misses += 1
        if n_misses > _MAX_TRIES_PER_EXAMPLE:
            raise RecipeError(
                f"The task {name} has too few different texts to keep some for validation.",
                expected="longer texts",
                action="Raise data.max_words or data.n_digits.",
            )
    return examples


def held_out_key(example: Example) -> str:
    """Key that decides whether an example is held out: the source, or the given part of a text without
    target.
    """
    if example.target is not None or example.n_given == 0:
        return example.source
    return " ".join(example.source.split()[: example.n_given])

"""Shared by all objectives: the data they read, the model they need, what is scored and how it is reported.

The loss is the cross-entropy at the scored rows (`training/objectives.py`), of pieces of the vocabulary or of
labels. Batches are made by those who read the data: an objective says which.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from attnscope.text.examples import Task
    from attnscope.training.batches import BatchMaker
    from attnscope.training.parts import ObjectivePart, Recipe

Fault = tuple[str, object, str]
"""The key of a recipe, the value found, and what was expected."""


class NeededKeys(NamedTuple):
    """Keys that [model] must have: why, what requires it, and what to do otherwise."""

    keys: Mapping[str, object]
    cause: str
    reason: str
    instead: str


class RunningText(Protocol):
    """Running text, ready for batching."""

    def windows(self, mask_share: float | None) -> "BatchMaker":
        """Stretches in which each token is to predict the next, or a share of hidden tokens is to be
        guessed.
        """

    def stretches(self) -> "BatchMaker":
        """Two stretches; in half of the rows the second follows the first; tokens are hidden."""

    def spans(self) -> "BatchMaker":
        """Text with hidden spans, and the spans as targets."""


class ObjectiveScheme(Scheme):
    """An objective; by default one of pieces that scores every token."""

    words: ClassVar[str] = ""
    """The learning task, in words."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of [objective] that it reads, besides `label_smoothing`."""
    forms: ClassVar[tuple[str, ...]] = ("decoder",)
    """The forms of model that can learn it, the usual one first."""
    data: ClassVar[tuple[str, ...]] = ("text",)
    """The kinds of data that it reads; tasks besides, see `reads_task`."""
    labels: ClassVar[Literal["", "text", "token", "place"]] = ""
    """The subject of a label; empty if pieces are predicted."""
    over: ClassVar[str] = "token"
    """Unit over which losses and accuracies are averaged."""
    presets: ClassVar[str] = ""
    """The heading of the published sizes that learned by it; empty where none is listed."""
    hides_tokens: ClassVar[bool] = False
    """Whether the tokenizer needs a mask token."""
    hides_spans: ClassVar[bool] = False
    """Whether the tokenizer needs sentinels for spans."""
    can_guide: ClassVar[bool] = False
    """Whether a head of the cross-attention may learn from a statistical aligner."""

    def reads_task(self, task: "Task") -> bool:
        """Whether it can learn from the examples of a task."""
        kinds = (("token", "word_labels"), ("text", "labels"), ("place", "pointers"))
        told = next((kind for kind, name in kinds if getattr(task, name, ())), "")
        return task.form in self.forms[:1] and told == self.labels

    def asked_of_model(self, part: "ObjectivePart") -> NeededKeys | None:
        """Requirements for [model] besides the form."""
        return None

    def faults(self, recipe: "Recipe") -> Iterator[Fault]:
        """Choices of a recipe that conflict with it."""
        yield from ()

    def task_faults(self, recipe: "Recipe") -> Iterator[Fault]:
        """Choices that conflict with it if the data are of a task that it reads."""
        yield from ()

    def scored_share(self, part: "ObjectivePart", n_tokens: int) -> float:
        """The share of the tokens of a text that are scored."""
        return 1.0

    def batches(self, part: "ObjectivePart", text: RunningText) -> "BatchMaker":
        """The batches of running text, if it reads any."""
        raise NotImplementedError

"""What every lab is: a choice of the person, and what follows from it, worked out at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from psygnal import Signal

from attnscope.records.experiments import Answer

Choice = TypeVar("Choice")
Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabWords:
    """What a lab says: its formula, the live numbers in it, and one sentence on what to see."""

    formula: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    sentence: str


class Lab(Generic[Choice, Shown]):
    """Holds a frozen choice and what `resolve` makes of it."""

    changed = Signal()

    def __init__(self, choice: Choice, resolve: Callable[[Choice], Shown]) -> None:
        self._resolve = resolve
        self.choice = choice
        self.shown = resolve(choice)

    def choose(self, choice: Choice) -> None:
        """Take another choice and work out what follows; the same one again does nothing."""
        if choice != self.choice:
            self.shown = self._resolve(choice)
            self.choice = choice
            self.changed.emit()


def claimed(claim: str, answer: Answer) -> str:
    """What a lab is to show, while its numbers are worked out; what went wrong, where they are not."""
    if answer.error:
        return answer.error
    done = f" ({answer.n_done:,} of {answer.n_total:,})" if answer.n_total else ""
    return f"{claim} Measured here now{done}…" if answer.is_asked else claim


def said_trained(answer: Answer, n_steps: int) -> str:
    """How long each model of an answer was trained, and where, as the end of a sentence."""
    return f" {n_steps:,} steps each{', in advance' if answer.is_kept else ''}."


def where_trained(answer: Answer) -> str:
    """Where the models of an answer were trained, as the label of how they were."""
    return "trained before: steps" if answer.is_kept else "trained here: steps each"

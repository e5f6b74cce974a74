"""A lab while it is looked at: the choice of the person, and what follows from it, worked out at once."""

from collections.abc import Callable
from typing import Generic, TypeVar

from psygnal import Signal

Choice = TypeVar("Choice")
Shown = TypeVar("Shown")


class LabState(Generic[Choice, Shown]):
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

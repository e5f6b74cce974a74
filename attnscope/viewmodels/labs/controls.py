"""What is set in a lab, and what follows from it: undone, made again, brought back to the example, kept."""

import operator
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar, cast

from psygnal import EmitLoopError, Signal

from attnscope.viewmodels.session.history import UndoStack

LabValues = tuple[tuple[str, bool | int | float | str], ...]
"""What is set in a lab, by name: what can be kept in a file."""
T = TypeVar("T")
_LARGEST = 1e6
"""No lab has a number larger than this; one in a file is left."""


class LabControls(Generic[T]):
    """The frozen choice of a lab, read by `get` and set by `take`, with what was chosen before.

    `allows` says of a choice from a file whether the lab's own controls could make it.
    """

    changed = Signal()
    """A person made another choice."""

    def __init__(
        self,
        example: T,
        get: Callable[[], T],
        take: Callable[[T], None],
        *,
        is_example: Callable[[T, T], bool] = operator.eq,
        allows: Callable[[T], bool],
    ) -> None:
        self._example, self._get, self._take = example, get, take
        self._is_example, self._allows = is_example, allows
        self._past: UndoStack[T] = UndoStack()

    @property
    def can_undo(self) -> bool:
        """Whether a change can be taken back."""
        return self._past.can_undo

    @property
    def can_redo(self) -> bool:
        """Whether a change can be made again."""
        return self._past.can_redo

    @property
    def is_example(self) -> bool:
        """Whether everything is as in the example."""
        return self._is_example(self._get(), self._example)

    def ask(self, choice: T, group: str = "") -> None:
        """The person wants another choice; those of one non-empty `group` in a row are one step."""
        if choice != self._get():
            self._past.leave(self._get(), group)
            self._change(choice)

    def settle(self) -> None:
        """The hand has let go: the next change is a step of its own."""
        self._past.close_group()

    def undo(self) -> None:
        """Take back the last change."""
        self._change(self._past.undo(self._get()))

    def redo(self) -> None:
        """Make the change again that was taken back."""
        self._change(self._past.redo(self._get()))

    def reset(self) -> None:
        """Back to the example, as a step of its own."""
        if not self.is_example:
            self.ask(self._example)

    @property
    def values(self) -> LabValues:
        """The numbers, texts, yes and no of the choice, by the names of their fields."""
        return _values_of(self._get())

    def take_values(self, values: LabValues) -> None:
        """Choose what was kept; a choice that the lab cannot show is left."""
        # from a file: anything may be in it; what fails at showing it is told as an EmitLoopError
        with suppress(ValueError, LookupError, ArithmeticError, TypeError, EmitLoopError):
            choice = _with_values(self._example, values)
            if self._allows(choice):
                self.ask(choice)

    def _change(self, choice: T) -> None:
        self._take(choice)
        self.changed.emit()


class UnkeptControls(LabControls[T]):
    """Those of a lab of which files keep nothing."""

    def __init__(self, example: T, get: Callable[[], T], take: Callable[[T], None]) -> None:
        super().__init__(example, get, take, allows=lambda _: False)

    @property
    def values(self) -> LabValues:
        return ()


def _values_of(choice: object) -> LabValues:
    found = ((f.name, getattr(choice, f.name)) for f in fields(cast("Any", choice)))
    return tuple((name, value) for name, value in found if isinstance(value, bool | int | float | str))


def _with_values(choice: T, values: LabValues) -> T:
    """The choice with these values; what it does not know, or is of another kind, is left as it is."""
    own, known = dict(_values_of(choice)), dict[str, object]()
    for name, value in values:
        kind = type(own.get(name))
        is_small = isinstance(value, bool | str) or abs(value) <= _LARGEST
        if name in own and is_small and (type(value) is kind or (kind is float and type(value) is int)):
            known[name] = kind(value)
    return cast("T", replace(cast("Any", choice), **known))


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

"""What was there before a change, to go back to and forward again: for what has no place in the history.

Must not import Qt. The history of the session is `session/history.py`; labs and kept views have their own.
"""

from typing import Generic, TypeVar

T = TypeVar("T")
_N_STEPS = 100


class UndoStack(Generic[T]):
    """Values that were left, the latest last; those of one non-empty `group` in a row are one step."""

    def __init__(self) -> None:
        self._before: list[T] = []
        self._after: list[T] = []
        self._group = ""

    @property
    def can_undo(self) -> bool:
        """Whether there is something to go back to."""
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        """Whether there is something to go forward to."""
        return bool(self._after)

    def leave(self, value: T, group: str = "") -> None:
        """A person is about to change `value`; what was undone before is forgotten."""
        if not (group and group == self._group and self._before and not self._after):
            self._before.append(value)
            del self._before[:-_N_STEPS]
        self._after.clear()
        self._group = group

    def close_group(self) -> None:
        """Let the next change be a step of its own, for instance when a drag ends."""
        self._group = ""

    def undo(self, now: T) -> T:
        """The value before the last change; `now` can be gone forward to. The same when there is none."""
        return self._turn(now, self._before, self._after)

    def redo(self, now: T) -> T:
        """The value after the change that was undone last. The same when there is none."""
        return self._turn(now, self._after, self._before)

    def forget(self) -> None:
        """There is nothing to go back to any more."""
        self._before.clear()
        self._after.clear()
        self._group = ""

    def _turn(self, now: T, taken: list[T], given: list[T]) -> T:
        if not taken:
            return now
        given.append(now)
        self._group = ""
        return taken.pop()

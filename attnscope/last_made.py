"""What was made last, kept with what it was made of: a layout of this size, a copy of that model."""

from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class LastMade(Generic[Made]):
    """Makes a thing anew only of something else; the one before is let go first."""

    def __init__(self) -> None:
        self._of: object = None
        self._made: tuple[Made, ...] = ()

    @property
    def newest(self) -> Made | None:
        """What was made last, of whatever it was; None before, and where making it has failed."""
        return self._made[0] if self._made else None

    def of(self, key: object, make: Callable[[], Made]) -> Made:
        """What `make` makes of the things in `key`, compared by ==; raises what `make` raises."""
        if not self._made or key != self._of:
            self._made, self._of = (), key
            self._made = (make(),)
        return self._made[0]

    def forget(self) -> None:
        """Make it anew next time, whatever of."""
        self._made, self._of = (), None

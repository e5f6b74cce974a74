"""A cache of the last result, kept with its inputs: a layout of this size, a copy of that model."""

from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class LastMade(Generic[Made]):
    """Caches one result; the old one is released before a new one is made."""

    def __init__(self) -> None:
        self._of: object = None
        self._made: tuple[Made, ...] = ()

    @property
    def newest(self) -> Made | None:
        """The last result, whatever its inputs; None before the first, or after a failure."""
        return self._made[0] if self._made else None

    def of(self, key: object, make: Callable[[], Made]) -> Made:
        """Result of `make` for the inputs in `key`, compared by ==; passes on exceptions of `make`."""
        if not self._made or key != self._of:
            self._made, self._of = (), key
            self._made = (make(),)
        return self._made[0]

    def forget(self) -> None:
        """Invalidate the cache."""
        self._made, self._of = (), None

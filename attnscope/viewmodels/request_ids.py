"""Where request numbers come from: no two are alike, and each tells which part of the window asked."""

from itertools import count


class RequestIds:
    """Counts up from `first` in steps; number 0 belongs to nobody."""

    def __init__(self, first: int = 1, step: int = 1) -> None:
        self._count = count(first, step)

    def next(self) -> int:
        """The next unused number."""
        return next(self._count)

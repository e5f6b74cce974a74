"""Where request numbers come from: one source for the whole window, so that no two are alike."""

from itertools import count


class Numbers:
    """Counts up from 1; number 0 belongs to nobody."""

    def __init__(self) -> None:
        self._count = count(1)

    def next(self) -> int:
        """The next unused number."""
        return next(self._count)

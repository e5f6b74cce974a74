"""How fast a run goes, and how long it will still take. Must not import Qt."""

from collections import deque
from collections.abc import Callable

from attnscope.counting import time_left

_WINDOW_S, _LEAST_S = 30.0, 2.0
"""Over how long the speed is measured, and how much of it must have passed: the first steps are slow."""


class Pace:
    """Steps per second over the last half minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Forget the past: the run was held, or begins."""
        self._seen.clear()

    def note(self, step: int) -> None:
        """The run has reached `step`."""
        now = self._clock()
        self._seen.append((now, step))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()

    @property
    def steps_per_s(self) -> float | None:
        """The present speed, None until it can be told."""
        if len(self._seen) < 2:
            return None
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s - first_s >= _LEAST_S and last > first else None

    def remaining(self, n_steps: int) -> str:
        """How long `n_steps` more will take, in words; empty while that is not known."""
        speed = self.steps_per_s
        return time_left(n_steps / speed) if speed and n_steps > 0 else ""

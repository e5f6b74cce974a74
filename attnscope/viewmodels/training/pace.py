"""How fast a run goes, and how long it will still take. Must not import Qt."""

from collections import deque
from collections.abc import Callable

_WINDOW_S = 30.0


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
        return (last - first) / (last_s - first_s) if last_s - first_s > 0.5 and last > first else None

    def remaining(self, n_steps: int) -> str:
        """How long `n_steps` more will take, in words; empty while that is not known."""
        speed = self.steps_per_s
        return f"{duration_text(n_steps / speed)} left" if speed and n_steps > 0 else ""


def duration_text(seconds: float) -> str:
    """A duration as people say it: `8 s`, `3 min 20 s`, `2 h 05 min`, `4 d 3 h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"

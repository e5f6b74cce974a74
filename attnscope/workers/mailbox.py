"""The order in which requests are served: a pure data structure, without threads and without Qt.

Views (a trace, heads, positions) are served newest first wins: a new one replaces the waiting one of
the same kind and model (or view, where it names one). Everything else (load, train, save, open) keeps
its order, and nothing overtakes it. A view is served at most `MAX_PER_S` times a second for each kind
and model, so that the window never drowns in replies.

One request more may wait for the user to want nothing: it is served when all has been quiet for `IDLE_S`,
given up for whatever is posted meanwhile, and served anew after the next such while, until it is finished.
"""

import time
from collections.abc import Callable

from attnscope.records.requests import Request, RequestKey

MAX_PER_S = 20.0
IDLE_S = 1.0


class RateLimit:
    """Says yes at most `max_per_s` times a second."""

    def __init__(self, max_per_s: float = MAX_PER_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = 1.0 / max_per_s
        self._clock = clock
        self._last_s = float("-inf")

    def wait_s(self) -> float:
        """Seconds until the next time; 0 if it is allowed now."""
        return max(0.0, self._last_s + self._interval_s - self._clock())

    def take(self) -> bool:
        """Whether it is allowed now; if so, count it."""
        if self.wait_s() > 0.0:
            return False
        self._last_s = self._clock()
        return True


class Mailbox:
    """The requests that wait, in the order they will be served.

    Not safe for use from two threads: the owner holds a lock around each call.
    """

    def __init__(self, *, max_per_s: float = MAX_PER_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_per_s = max_per_s
        self._clock = clock
        self._waiting: list[Request] = []
        self._newest: dict[RequestKey, int] = {}
        self._limits: dict[RequestKey, RateLimit] = {}
        self._cancelled: set[int] = set()
        self._idle: Request | None = None
        self._last_s = clock()

    def __len__(self) -> int:
        return len(self._waiting)

    def post(self, request: Request) -> None:
        """Add a request; a view replaces the waiting one of its kind and model."""
        if request.is_idle:
            self._idle = request
            return
        key = request.key
        if key is not None:
            self._waiting = [waiting for waiting in self._waiting if waiting.key != key]
            self._newest[key] = request.number
        self._waiting.append(request)

    def take(self) -> Request | None:
        """Remove and return the next request due; None if there is none.

        An ordered request waits for every view before it; a view never overtakes an ordered request,
        but may overtake another view that is held back by the rate limit.
        """
        is_held_back = False
        for index, request in enumerate(self._waiting):
            key = request.key
            if key is None:
                return None if is_held_back else self._waiting.pop(index)
            if self._limit(key).take():
                return self._waiting.pop(index)
            is_held_back = True
        return None

    def take_idle(self) -> Request | None:
        """The idle request, if nothing else waits; it stays until it is finished."""
        return self._idle if not self._waiting and self._quiet_in_s() == 0.0 else None

    def wait_s(self) -> float | None:
        """Seconds until `take` or `take_idle` returns a request: 0 for at once, None if nothing waits."""
        shortest: float | None = None
        if not self._waiting and self._idle is not None:
            return self._quiet_in_s()
        for request in self._waiting:
            key = request.key
            if key is None:
                return 0.0 if shortest is None else shortest
            wait_s = self._limit(key).wait_s()
            shortest = wait_s if shortest is None else min(shortest, wait_s)
        return shortest

    def cancel(self, number: int) -> None:
        """Drop a waiting request; a running one is cancelled at its next yield."""
        if self._idle is not None and self._idle.number == number:
            self._idle = None
            return
        n_before = len(self._waiting)
        self._waiting = [waiting for waiting in self._waiting if waiting.number != number]
        if len(self._waiting) == n_before:
            self._cancelled.add(number)

    def is_abandoned(self, request: Request) -> bool:
        """Whether the answer is no longer wanted: cancelled, or a newer view was posted.

        What waited for quiet gives way to everything.
        """
        if request.is_idle:
            return request is not self._idle or bool(self._waiting)
        if request.number in self._cancelled:
            return True
        key = request.key
        return key is not None and self._newest.get(key, request.number) != request.number

    def finish(self, request: Request) -> None:
        """Note that a request has been handled, and drop its cancellation."""
        if request.is_idle:
            self._idle = self._idle if self.is_abandoned(request) else None
            return
        self._last_s = self._clock()
        self._cancelled.discard(request.number)

    def clear(self) -> None:
        """Drop everything that waits."""
        self._waiting.clear()
        self._idle = None

    def _quiet_in_s(self) -> float:
        return max(0.0, self._last_s + IDLE_S - self._clock())

    def _limit(self, key: RequestKey) -> RateLimit:
        if key not in self._limits:
            self._limits[key] = RateLimit(self._max_per_s, self._clock)
        return self._limits[key]

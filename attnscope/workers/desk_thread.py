"""A thread beside the worker that serves small requests from a desk, a piece at a time.

It starts with its first request and owns no model. Across the border go only frozen records, through one
signal.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from PySide6.QtCore import QObject, QThread, Signal

from attnscope.records.messages import Failed

STOP_WITHIN_S = 3.0


class WorkDesk(Protocol):
    """What the thread works at; it is only ever touched on the thread."""

    def take(self, request: Any) -> None:
        """Begin with a request."""
        ...

    @property
    def wait_s(self) -> float | None:
        """Seconds until `step` would get something done: 0 for at once, None while there is nothing to do."""
        ...

    def step(self) -> Iterable[object]:
        """One piece of work, and the replies it gave; a job that raises is given up."""
        ...


class DeskThread(QThread):
    """Serves the requests of one desk; `replied` carries one reply or Failed, for slots of QObjects only.

    Of the requests that wait, the newest with the same `key_of` wins.
    """

    replied = Signal(object)

    def __init__(
        self,
        name: str,
        build: Callable[[], WorkDesk],
        failed: Callable[[BaseException], Failed],
        parent: QObject | None = None,
        *,
        key_of: Callable[[Any], Hashable] = id,
    ) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self._build, self._failed, self._key_of = build, failed, key_of
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, Any] = {}
        self._is_stopping = False

    def post(self, request: object) -> None:
        """Leave a request; returns at once."""
        with self._changed:
            if self._is_stopping:
                return
            self._waiting[self._key_of(request)] = request
            self._changed.notify()
        if not self.isRunning():
            self.start()

    def stop(self, within_s: float = STOP_WITHIN_S) -> bool:
        """Ask the thread to end and wait; False when it is still busy after `within_s`."""
        with self._changed:
            self._is_stopping = True
            self._waiting.clear()
            self._changed.notify()
        return self.wait(int(within_s * 1000))

    def run(self) -> None:
        """The thread's life. Called by Qt."""
        desk: WorkDesk | None = None
        while not self._is_stopping:
            requests = self._take(None if desk is None else desk.wait_s)
            try:
                desk = desk or self._build()
                for request in requests:
                    desk.take(request)
                for reply in desk.step():
                    if not self._is_stopping:
                        self.replied.emit(reply)
            except BaseException as error:  # noqa: BLE001  an edge: a fault here must not end the window
                self.replied.emit(self._failed(error))

    def _take(self, wait_s: float | None) -> tuple[Any, ...]:
        with self._changed:
            if wait_s is None:
                while not self._waiting and not self._is_stopping:
                    self._changed.wait()
            elif wait_s > 0.0 and not self._waiting and not self._is_stopping:
                self._changed.wait(wait_s)
            requests = tuple(self._waiting.values())
            self._waiting.clear()
        return requests

"""The tile thread: serves parts of finished traces, so that panning stays smooth while the worker is busy.

It starts with its first request and owns no model. Across the border go only frozen records, through one
signal.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QThread, Signal

from attnscope.records.messages import Failed
from attnscope.records.tiles import TileRequest
from attnscope.workers.tile_desk import Kind, Server, TileDesk, kind_of
from attnscope.workers.views import Views

STOP_WITHIN_S = 3.0
CrashWriter = Callable[[BaseException, str], Path | None]
BuildServer = Callable[[Views], Server]


def build_server(views: Views) -> Server:
    """The server; imports the engine's libraries, which the worker has loaded before there is a trace."""
    from attnscope.workers.serve_tiles import TileServer

    return TileServer(views)


class TileThread(QThread):
    """Serves tile requests; `replied` carries one TileReply or Failed, for slots of QObjects only."""

    replied = Signal(object)

    def __init__(
        self,
        views: Views,
        write_crash: CrashWriter,
        parent: QObject | None = None,
        *,
        build: BuildServer = build_server,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("tiles")
        self._views, self._write_crash, self._build = views, write_crash, build
        self._changed = threading.Condition()
        self._waiting: dict[Kind, TileRequest] = {}
        self._is_stopping = False

    def post(self, request: TileRequest) -> None:
        """Leave a request; returns at once. The newest of a kind wins."""
        with self._changed:
            if self._is_stopping:
                return
            self._waiting[kind_of(request)] = request
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
        desk: TileDesk | None = None
        while not self._is_stopping:
            requests = self._take(wait=desk is None or not desk.has_work)
            try:
                desk = desk or TileDesk(self._build(self._views))
                for request in requests:
                    desk.take(request)
                for reply in desk.step():
                    if not self._is_stopping:
                        self.replied.emit(reply)
            except BaseException as error:  # noqa: BLE001  an edge: a fault here must not end the window
                self._tell_failure(error)

    def _take(self, *, wait: bool) -> tuple[TileRequest, ...]:
        with self._changed:
            while wait and not self._waiting and not self._is_stopping:
                self._changed.wait()
            requests = tuple(self._waiting.values())
            self._waiting.clear()
        return requests

    def _tell_failure(self, error: BaseException) -> None:
        log = self._write_crash(error, "serving tiles")
        message = f"This part of the map failed through a fault of AttnScope ({type(error).__name__})."
        if isinstance(error, MemoryError):
            message = "There is not enough memory for this part of the map. Choose a shorter text."
        self.replied.emit(Failed(number=0, request="tiles", message=message, crash_log=str(log or "")))

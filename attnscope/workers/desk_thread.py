"""Threads beside the worker, each of which serves small requests from a desk, a piece at a time.

A thread starts with its first request and owns no model. Across the border go only frozen records, through
one signal.

The download thread: a slow or dead server keeps neither the window nor the worker waiting.

The tile thread: serves parts of finished traces, so that panning stays smooth while the worker is busy.

Of each kind (and slot) of request the newest wins, also over one in the making. Between two steps the most
urgent is chosen anew: single cells, heads in full, then what is looked at, the overview, edges, pyramids,
thumbnails.
"""

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Protocol

from PySide6.QtCore import QObject, QThread, Signal

from attnscope.crash import CrashWriter
from attnscope.records.messages import Failed, HeadsShown, ShowHeads
from attnscope.records.tiles import ReadCell, RefineGrids, ShowEdges, ShowTile, TileReply, TileRequest
from attnscope.workers.views import Views

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


def fetch_thread(write_crash: CrashWriter, parent: QObject | None = None) -> DeskThread:
    """A thread that serves requests of the shelf, in their order."""

    def failed(error: BaseException) -> Failed:
        log = write_crash(error, "serving the shelf of models")
        message = f"The shelf of models failed because of a fault in AttnScope ({type(error).__name__})."
        return Failed(number=0, request="shelf", message=message, crash_log=str(log or ""))

    return DeskThread("downloads", _build, failed, parent, key_of=lambda request: request.number)


def _build() -> WorkDesk:
    from attnscope.workers.fetch_desk import FetchDesk  # not before the first paint

    return FetchDesk()


URGENCY = ("cell", "heads", "view", "overview", "edges", "pyramid", "grids")
Kind = str
MapRequest = TileRequest | ShowHeads
MapReply = TileReply | HeadsShown


class Server(Protocol):
    """What the desk needs of `serve_tiles.TileServer`."""

    def start(self, request: MapRequest) -> Iterator[MapReply | None]:
        """Begin to answer."""
        ...

    @property
    def has_idle_work(self) -> bool:
        """Whether `grow` would get something done."""
        ...

    def grow(self) -> Iterator[TileReply]:
        """A little of the work that nobody waits for."""
        ...


def request_kind(request: MapRequest) -> Kind:
    """The kind of a request; a newer one of the same kind replaces it."""
    match request:
        case ReadCell():
            return "cell"
        case ShowHeads():
            return "heads"
        case ShowTile():
            return request.slot
        case ShowEdges():
            return "edges"
        case RefineGrids():
            return "grids"
        case _:
            raise TypeError(f"unknown request {type(request).__name__}")


class TileDesk:
    """Works on requests step by step; not safe for use from two threads."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._jobs: dict[Kind, Iterator[MapReply | None]] = {}

    def take(self, request: MapRequest) -> None:
        """Begin with a request; an older one of its kind is given up."""
        self._jobs[request_kind(request)] = self._server.start(request)

    @property
    def has_work(self) -> bool:
        """Whether `step` would get something done."""
        return bool(self._jobs) or self._server.has_idle_work

    @property
    def wait_s(self) -> float | None:
        """Seconds until `step` would get something done: 0 for at once, None while there is nothing to do."""
        return 0.0 if self.has_work else None

    def step(self) -> tuple[MapReply, ...]:
        """One piece of the most urgent work, and the replies it gave; a job that raises is given up."""
        for kind in URGENCY:
            if kind == "pyramid" and self._server.has_idle_work:
                return tuple(self._server.grow())
            job = self._jobs.get(kind)
            if job is None:
                continue
            try:
                reply = next(job)
            except StopIteration:
                del self._jobs[kind]
                return ()
            except BaseException:
                del self._jobs[kind]
                raise
            return () if reply is None else (reply,)
        return ()


def build_server(views: Views) -> Server:
    """The server; imports the engine's libraries, which the worker has loaded before there is a trace."""
    from attnscope.workers.serve_tiles import TileServer

    return TileServer(views)


def tile_thread(views: Views, write_crash: CrashWriter, parent: QObject | None = None) -> DeskThread:
    """A thread that serves tile requests; of each kind the newest wins."""

    def failed(error: BaseException) -> Failed:
        log = write_crash(error, "serving tiles")
        message = f"This part of the map failed because of a fault in AttnScope ({type(error).__name__})."
        if isinstance(error, MemoryError):
            message = "There is not enough memory for this part of the map. Choose a shorter text."
        return Failed(number=0, request="tiles", message=message, crash_log=str(log or ""))

    return DeskThread("tiles", lambda: TileDesk(build_server(views)), failed, parent, key_of=request_kind)

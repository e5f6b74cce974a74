"""The tile thread: serves parts of finished traces, so that panning stays smooth while the worker is busy.

Of each kind (and slot) of request the newest wins, also over one in the making. Between two steps the most
urgent is chosen anew: single cells, heads in full, then what is looked at, the overview, edges, pyramids,
thumbnails.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject

from attnscope.records.messages import Failed, HeadsShown, ShowHeads
from attnscope.records.tiles import ReadCell, RefineGrids, ShowEdges, ShowTile, TileReply, TileRequest
from attnscope.workers.desk_thread import DeskThread
from attnscope.workers.views import Views

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


CrashWriter = Callable[[BaseException, str], Path | None]
BuildServer = Callable[[Views], Server]


def build_server(views: Views) -> Server:
    """The server; imports the engine's libraries, which the worker has loaded before there is a trace."""
    from attnscope.workers.serve_tiles import TileServer

    return TileServer(views)


def tile_thread(
    views: Views,
    write_crash: CrashWriter,
    parent: QObject | None = None,
    *,
    build: BuildServer = build_server,
) -> DeskThread:
    """A thread that serves tile requests; of each kind the newest wins."""

    def failed(error: BaseException) -> Failed:
        log = write_crash(error, "serving tiles")
        message = f"This part of the map failed because of a fault in AttnScope ({type(error).__name__})."
        if isinstance(error, MemoryError):
            message = "There is not enough memory for this part of the map. Choose a shorter text."
        return Failed(number=0, request="tiles", message=message, crash_log=str(log or ""))

    return DeskThread("tiles", lambda: TileDesk(build(views)), failed, parent, key_of=request_kind)

"""The tile thread: serves parts of finished traces, so that panning stays smooth while the worker is busy."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from attnscope.records.messages import Failed
from attnscope.workers.desk_thread import DeskThread
from attnscope.workers.tile_desk import Server, TileDesk, request_kind
from attnscope.workers.views import Views

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

"""The download thread: a slow or dead server keeps neither the window nor the worker waiting."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from attnscope.records.messages import Failed
from attnscope.workers.desk_thread import DeskThread, WorkDesk

CrashWriter = Callable[[BaseException, str], Path | None]


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

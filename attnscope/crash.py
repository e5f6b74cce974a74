"""Crash logs: faults of the program itself, on disk before anything else is tried.

Two kinds of file lie in the logs folder: `crash-….log`, a traceback that Python could still write,
and `fatal-….log`, what the fault handler leaves when the process dies. No Qt here: a message to the
window goes through the function given to `install_hooks`.
"""

import faulthandler
import os
import platform
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TextIO

from attnscope import __version__

_N_KEPT = 20
CrashWriter = Callable[[BaseException, str], Path | None]
"""Writes the log of a fault, told what the program was doing; gives its file, if it could be written."""


class CrashLog:
    """The logs of one process in one folder. Nothing is written unless something goes wrong."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watch = ExitStack()
        self._lock = threading.Lock()
        self._n_written = 0

    @property
    def folder(self) -> Path:
        return self._folder

    def write(self, error: BaseException, doing: str) -> Path | None:
        """Write a log of `error`, raised while `doing`; returns its path, or None if the disk refuses.

        Never raises: it runs where an error has just been caught.
        """
        with self._lock:
            self._n_written += 1
            number = self._n_written
        stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
        path = self._folder / f"crash-{stamp}-{os.getpid()}-{number}.log"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(crash_report(error, doing), encoding="utf-8", errors="backslashreplace")
            self._drop_oldest()
        except OSError:
            return None
        return path

    def watch_process(self) -> Path | None:
        """Let the fault handler write to a log if the process dies; returns an earlier process's log.

        The log that an earlier process left is renamed, so that it is told once.
        """
        found = self._take_fatal()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"fatal-{os.getpid()}.log"
            fatal = path.open("w", encoding="utf-8")
        except OSError:
            faulthandler.enable()
            return found
        faulthandler.enable(fatal, all_threads=True)
        self._watch.callback(_end_watch, fatal)
        return found

    def close(self) -> None:
        """End the watch of the process, removing its empty log."""
        self._watch.close()

    def _take_fatal(self) -> Path | None:
        """The newest non-empty log of a dead process, renamed; empty ones are removed."""
        newest: Path | None = None
        for path in sorted(self._folder.glob("fatal-*.log"), key=_modified):
            if _is_alive(path.stem.removeprefix("fatal-")):
                continue
            try:
                if path.stat().st_size == 0:
                    path.unlink()
                    continue
                stamp = datetime.fromtimestamp(_modified(path)).strftime("%Y-%m-%d-%H%M%S")
                newest = path.rename(path.with_name(f"crash-{stamp}-{path.stem}.log"))
            except OSError:
                continue
        return newest

    def _drop_oldest(self) -> None:
        logs = sorted(self._folder.glob("crash-*.log"), key=_modified)
        for path in logs[:-_N_KEPT]:
            path.unlink(missing_ok=True)


def crash_report(error: BaseException, doing: str) -> str:
    """The text of a crash log: what the program was doing, where it ran, the traceback."""
    facts = [
        f"AttnScope {__version__}, {datetime.now().isoformat(timespec='seconds')}",
        f"Python {platform.python_version()}, {platform.platform()}",
        f"While: {doing}",
        "",
    ]
    return "\n".join(facts) + "".join(traceback.format_exception(error))


def install_hooks(log: CrashLog, tell: Callable[[str], None]) -> None:
    """Catch otherwise uncaught errors, on any thread: write a log, then `tell` one sentence.

    `tell` may be called on any thread and must not raise.
    """

    def on_error(error: BaseException, doing: str) -> None:
        path = log.write(error, doing)
        tell(fault_sentence(error, path))

    def on_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        on_error(error.with_traceback(trace), "the window's own work")

    def on_thread(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            on_error(arguments.exc_value, f"thread {arguments.thread and arguments.thread.name}")

    def on_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_value is not None:
            on_error(unraisable.exc_value, f"clean-up of {unraisable.object!r}"[:200])

    sys.excepthook = on_uncaught
    threading.excepthook = on_thread
    sys.unraisablehook = on_unraisable


def remove_hooks() -> None:
    """Restore Python's own hooks."""
    sys.excepthook = sys.__excepthook__
    threading.excepthook = threading.__excepthook__
    sys.unraisablehook = sys.__unraisablehook__


def fault_sentence(error: BaseException, log: Path | None) -> str:
    """A fault of the program, as one line for the user.

    Of a fault in what reacts to a signal that is the fault itself; the log has both.
    """
    from psygnal import EmitLoopError  # commands have no signals, and need not wait for it

    if isinstance(error, EmitLoopError) and error.__cause__ is not None:
        error = error.__cause__
    where = f"The log is {log}." if log else "The log could not be written."
    text = " ".join(str(error).split())[:200]
    return f"A fault in AttnScope ({type(error).__name__}: {text}). {where}"


def _end_watch(log: TextIO) -> None:
    """Stop writing to the log; delete it if empty."""
    faulthandler.disable()
    log.close()
    path = Path(log.name)
    try:
        if path.stat().st_size == 0:
            path.unlink()
    except OSError:
        pass


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_alive(pid_text: str) -> bool:
    """Whether a process of that number runs (this one counts as dead: its log is about to be made)."""
    if not pid_text.isdigit() or int(pid_text) == os.getpid():
        return False
    if sys.platform == "win32":
        return False  # an open log cannot be renamed there, which is the same answer
    try:
        os.kill(int(pid_text), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True

"""Keeping a copy of the open session on the disk, and finding those of programs that died.

Each running program holds a lock beside its copy; a copy whose lock nobody holds belongs to a program
that ended without saying so. A clean end takes the copy away, so there are no false alarms. Writing
happens on another thread: a slow disk must not be felt.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, QThreadPool, QTimer, Slot

from attnscope.errors import SaveError
from attnscope.files import replace_file
from attnscope.viewmodels.session.file import ENDING

_PAUSE_MS = 1000
_MAX_AGE_S = 30 * 24 * 3600
LAST_NAME = f"last{ENDING}"


class Autosave(QObject):
    """Writes what `content` gives into `folder`, at most once a second; empty content is not kept."""

    def __init__(self, folder: Path, content: Callable[[], bytes], parent: QObject) -> None:
        super().__init__(parent)
        self._folder, self._content = folder, content
        self._path = folder / f"open-{os.getpid()}-{time.time_ns()}{ENDING}"
        self._lock = QLockFile(f"{self._path}.lock")
        self._lock.setStaleLockTime(0)
        self._written = b""
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self.save_now)

    @property
    def path(self) -> Path:
        """Where the copy is."""
        return self._path

    def start(self) -> Path | None:
        """Begin; gives the newest copy of a program that died, or None."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return None
        self._lock.tryLock(0)
        left = _left_behind(self._folder, self._path)
        return left[0] if left else None

    def touch(self) -> None:
        """Something changed: it will be written within a second."""
        if not self._timer.isActive():
            self._timer.start()

    @Slot()
    def save_now(self) -> None:
        """Write what changed, on another thread."""
        content = self._content()
        if content and content != self._written and self._lock.isLocked():
            self._written = content
            self._pool.start(lambda: _write_quietly(self._path, content))

    def end(self) -> None:
        """The program ends as it should: what was open becomes the last session, the copy goes."""
        self._timer.stop()
        self._pool.waitForDone(2000)
        content = self._content()
        if content and self._lock.isLocked():
            _write_quietly(self._folder / LAST_NAME, content)
        self._path.unlink(missing_ok=True)
        self._lock.unlock()

    def last(self) -> Path | None:
        """What to restore: the newest copy of a program that died, else what was open the last time."""
        left = _left_behind(self._folder, self._path)
        last = self._folder / LAST_NAME
        return left[0] if left else last if last.is_file() else None

    def forget(self, path: Path) -> None:
        """A copy was restored or refused: do not offer it again."""
        if path.parent == self._folder and path.name != LAST_NAME:
            path.unlink(missing_ok=True)
            Path(f"{path}.lock").unlink(missing_ok=True)


def _left_behind(folder: Path, own: Path) -> list[Path]:
    """Copies of programs that died, newest first; those of a month ago are removed."""
    found: list[tuple[float, Path]] = []
    try:
        candidates = [path for path in folder.glob(f"open-*{ENDING}") if path != own]
    except OSError:
        return []
    for path in candidates:
        lock = QLockFile(f"{path}.lock")
        lock.setStaleLockTime(0)
        if not lock.tryLock(0):
            continue  # its program is alive
        lock.unlock()
        try:
            changed_s = path.stat().st_mtime
        except OSError:
            continue
        if time.time() - changed_s > _MAX_AGE_S:
            path.unlink(missing_ok=True)
        else:
            found.append((changed_s, path))
    return [path for _, path in sorted(found, reverse=True)]


def _write_quietly(path: Path, content: bytes) -> None:
    """A copy that cannot be written is not worth a message at every key."""
    try:
        replace_file(path, content)
    except SaveError:
        return

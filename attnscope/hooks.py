"""What reaches the program from outside Python: messages of Qt, and the signals to stop."""

import collections
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

from PySide6.QtCore import (
    QMessageLogContext,
    QObject,
    QSocketNotifier,
    QtMsgType,
    Slot,
    qInstallMessageHandler,
)

from attnscope.crash import CrashLog, fault_sentence

_N_KEPT = 50


class QtFault(Exception):
    """A critical message of Qt, as an error that a crash log can hold."""


class QtMessages:
    """Keeps the last messages of Qt; a critical one goes to a crash log and is told."""

    def __init__(self, log: CrashLog, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self.recent: collections.deque[str] = collections.deque(maxlen=_N_KEPT)

    def install(self) -> None:
        """Take Qt's messages from now on."""
        qInstallMessageHandler(self.take)

    def remove(self) -> None:
        """Give Qt its own handler back."""
        qInstallMessageHandler(None)

    def take(self, kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        """One message of Qt, on any thread."""
        self.recent.append(message)
        if kind in (QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg):
            fault = QtFault(message)
            path = self._log.write(fault, "Qt:\n" + "\n".join(self.recent))
            self._tell(fault_sentence(fault, path))


class StopSignals(QObject):
    """Turns SIGTERM, SIGINT and SIGHUP into a call on the window's thread; a second one ends at once.

    Python looks at signals only between its own instructions, so a socket wakes Qt's event loop.
    """

    def __init__(self, stop: Callable[[], None], end_now: Callable[[int], object], parent: QObject) -> None:
        super().__init__(parent)
        self._stop = stop
        self._end_now = end_now
        self._n_seen = 0
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._notifier = QSocketNotifier(self._reader.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_woken)
        self._old_wakeup = -1
        self._old_handlers: dict[int, object] = {}

    def install(self) -> None:
        """Take the signals from now on; only on the main thread."""
        self._old_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        names = ("SIGINT", "SIGTERM", "SIGHUP") if sys.platform != "win32" else ("SIGINT", "SIGTERM")
        for name in names:
            number = getattr(signal, name)
            self._old_handlers[number] = signal.signal(number, self._on_signal)

    def remove(self) -> None:
        """Give the signals back."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._old_handlers.clear()
        signal.set_wakeup_fd(self._old_wakeup)
        self._notifier.setEnabled(False)
        self._reader.close()
        self._writer.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._n_seen += 1
        if self._n_seen == 1:
            self._stop()
        else:
            self._end_now(128 + number)

    @Slot()
    def _on_woken(self) -> None:
        """Empty the socket; being called at all has let Python run the handler."""
        try:
            self._reader.recv(64)
        except OSError:
            return

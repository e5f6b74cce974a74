"""Later starts hand their files to the open window, over a local socket of one user and display.

A start sends a line of JSON, `{"format": 1, "open": PATH OR NAME}`, and the window answers `1` (it is being
opened) or `0` (refused). A further window sends `{"format": 1, "wait": true}` and keeps the line open without
an answer: when it breaks, the window that listened has gone, however it ended, and one that waits takes its
place. The socket lies in a folder that its user alone may enter; on Windows it is a pipe of that user. What
comes in is not trusted all the same: it must be whole in time and short, and ask for one of the two. Must
not import the window or torch: a start that hands over is done before either is there.
"""

import contextlib
import hashlib
import json
import os
import stat
import sys
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, QTimer, Signal, Slot
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from attnscope.errors import LoadError
from attnscope.outside import parse_object
from attnscope.paths import sockets_folder

MOST_BYTES = 16_384
_MOST_LETTERS = 4_096
_MOST_WAITING = 8
_FORMAT = 1
_TAKEN, _REFUSED = b"1\n", b"0\n"
_WAIT = {"format": _FORMAT, "wait": True}
_CONNECT_MS, ANSWER_MS, LINE_MS, _LOCK_MS = 500, 5_000, 2_000, 2_000
_MOST_PATH_BYTES = 100
"""Of the path of a socket; Linux allows 107, macOS 103."""


def door_name(display: str, host: str) -> str:
    """Address at which this user's window on this display and machine listens; empty if it cannot be
    private.
    """
    folder = sockets_folder()
    digest = hashlib.sha256("\0".join((str(folder), host, display)).encode()).hexdigest()[:12]
    if sys.platform == "win32":
        return f"attnscope-{digest}"
    name = str(folder / digest)
    return name if len(os.fsencode(name)) <= _MOST_PATH_BYTES and _is_private(folder) else ""


def _is_private(folder: Path) -> bool:
    """Whether the folder is private to this user; it is created if missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def hand_over(source: str, door: str) -> bool:
    """Ask the window that listens there to open a file, folder or name; returns whether it does."""
    socket = QLocalSocket()
    socket.connectToServer(door)
    if not socket.waitForConnected(_CONNECT_MS):
        return False
    wanted = os.path.abspath(source) if os.path.exists(source) else source
    socket.write(json.dumps({"format": _FORMAT, "open": wanted}).encode() + b"\n")
    socket.flush()
    while not socket.canReadLine():
        if not socket.waitForReadyRead(ANSWER_MS):
            socket.abort()  # the window then leaves it to this start
            return False
    return bytes(socket.readLine().data()) == _TAKEN


def read_wanted(line: bytes) -> str:
    """The request in a line; empty for anything else."""
    try:
        said = parse_object(line, what="a request to open a file")
    except LoadError:
        return ""
    wanted, number = said.get("open"), said.get("format")
    is_known = type(number) is int and number == _FORMAT
    if said.keys() != {"format", "open"} or not is_known or not isinstance(wanted, str):
        return ""
    is_good = 0 < len(wanted) <= _MOST_LETTERS and wanted.isprintable()
    return wanted if is_good else ""


def asks_to_wait(line: bytes) -> bool:
    """Whether a line is from a further window, which waits for this one to close."""
    try:
        said = parse_object(line, what="a request to wait")
    except LoadError:
        return False
    return said == _WAIT and type(said["format"]) is int and said["wait"] is True


class Door(QObject):
    """Listens for later starts, or waits until it may; `wanted` is emitted with each request."""

    wanted = Signal(str)

    def __init__(self, name: str, parent: QObject) -> None:
        super().__init__(parent)
        self._name = name
        self._server = QLocalServer(self)
        self._server.setMaxPendingConnections(_MOST_WAITING)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_new_connection)
        self._line: QLocalSocket | None = None
        self._begin()

    @property
    def is_open(self) -> bool:
        """Whether this window is the listening one."""
        return self._server.isListening()

    def close(self) -> None:
        """Stop listening or waiting; the socket is removed, and a waiting window then listens."""
        self._name = ""
        self._server.close()
        self._leave_line()
        for visitor in self.findChildren(Visitor):
            visitor.leave()

    @Slot()
    def _begin(self) -> None:
        """Wait for the listening window to go; listen if there is none.

        Of several that waited for the same one the first listens, and the others wait for it.
        """
        if not self._name or self._wait():
            return
        lock = _lock_of(self._name)
        if not lock.tryLock(_LOCK_MS) and lock.error() == QLockFile.LockError.LockFailedError:
            return
        if _is_answered(self._name):
            QTimer.singleShot(0, self, self._begin)
        else:
            QLocalServer.removeServer(self._name)  # of a process that has died
            self._server.listen(self._name)
        lock.unlock()

    def _wait(self) -> bool:
        """Whether a window listens; the connection to it is kept open."""
        socket = QLocalSocket(self)
        socket.connectToServer(self._name)
        if not socket.waitForConnected(_CONNECT_MS):
            socket.deleteLater()
            return False
        self._line = socket
        socket.readyRead.connect(self._leave_line)  # refused, as by an earlier version
        socket.disconnected.connect(self._on_gone)
        socket.write(json.dumps(_WAIT).encode() + b"\n")
        socket.flush()
        return True

    @Slot()
    def _on_gone(self) -> None:
        """Take the place of the window that listened, unless it refused."""
        is_refused = self._line is not None and self._line.bytesAvailable() > 0
        self._leave_line()
        if not is_refused:
            QTimer.singleShot(0, self, self._begin)

    @Slot()
    def _leave_line(self) -> None:
        if self._line is not None:
            line, self._line = self._line, None
            line.disconnected.disconnect(self._on_gone)
            line.abort()
            line.deleteLater()

    @Slot()
    def _on_new_connection(self) -> None:
        while self._server.hasPendingConnections():
            visitor = Visitor(self._server.nextPendingConnection(), self)
            visitor.wanted.connect(self.wanted)


class Visitor(QObject):
    """One connection: read to the end of its line, answered, closed."""

    wanted = Signal(str)

    def __init__(self, socket: QLocalSocket, parent: QObject) -> None:
        super().__init__(parent)
        self._socket, self._door = socket, parent
        socket.setParent(self)
        socket.setReadBufferSize(MOST_BYTES + 1)
        socket.readyRead.connect(self._on_ready_read)
        socket.disconnected.connect(self._on_disconnected)
        self._deadline = QTimer(self, interval=LINE_MS, singleShot=True)
        self._deadline.timeout.connect(self._on_late)
        self._deadline.start()
        self._on_ready_read()

    @Slot()
    def _on_ready_read(self) -> None:
        socket = self._socket
        if not self._deadline.isActive():
            return
        if not socket.canReadLine():
            if socket.bytesAvailable() > MOST_BYTES:
                self._answer("")
            return
        line = bytes(socket.readLine(MOST_BYTES + 1).data())
        if asks_to_wait(line) and len(self._door.findChildren(Visitor)) <= _MOST_WAITING:
            self._deadline.stop()
            return
        wanted = read_wanted(line)
        if self._answer(wanted) and wanted:
            self.wanted.emit(wanted)

    def leave(self) -> None:
        """Close the connection without an answer."""
        self._socket.abort()

    @Slot()
    def _on_disconnected(self) -> None:
        self._deadline.stop()
        self.deleteLater()

    @Slot()
    def _on_late(self) -> None:
        self._answer("")

    def _answer(self, wanted: str) -> bool:
        """Whether the answer arrives; a start that no longer waits opens a window of its own."""
        self._deadline.stop()
        socket = self._socket
        socket.write(_TAKEN if wanted else _REFUSED)
        socket.flush()
        is_there = socket.state() == QLocalSocket.LocalSocketState.ConnectedState
        socket.disconnectFromServer()
        self.deleteLater()
        return is_there


def _lock_of(name: str) -> QLockFile:
    """Lock that keeps two windows from using the same address; that of a dead process does not count."""
    folder = sockets_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return QLockFile(str(folder / f"{os.path.basename(name)}.lock"))


def _is_answered(name: str) -> bool:
    """Whether somebody listens there."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    is_connected = socket.waitForConnected(_CONNECT_MS)
    socket.abort()
    return is_connected

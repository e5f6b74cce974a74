"""Later starts hand their files to the window that is open, over a local socket of one user and display.

A start sends a line of JSON, `{"format": 1, "open": PATH OR NAME}`, and the window answers `1` (it is being
opened) or `0` (refused). The socket lies in a folder that its user alone may enter; on Windows it is a pipe
of that user. What comes in is not trusted all the same: it must be whole in time and short, and name one
thing to open. Must not import the window or torch: a start that hands over is done before either is there.
"""

import hashlib
import json
import os
import stat
import sys
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from attnscope.errors import LoadError
from attnscope.paths import sockets_folder
from attnscope.strict_json import parse_object

MOST_BYTES = 16_384
_MOST_LETTERS = 4_096
_MOST_WAITING = 8
_FORMAT = 1
_TAKEN, _REFUSED = b"1\n", b"0\n"
_CONNECT_MS, ANSWER_MS, LINE_MS = 500, 5_000, 2_000
_MOST_PATH_BYTES = 100
"""Of the path of a socket; Linux allows 107, macOS 103."""


def door_name(display: str, host: str) -> str:
    """Where the window of this user on this display and machine listens; empty where it cannot be private."""
    folder = sockets_folder()
    digest = hashlib.sha256("\0".join((str(folder), host, display)).encode()).hexdigest()[:12]
    if sys.platform == "win32":
        return f"attnscope-{digest}"
    name = str(folder / digest)
    return name if len(os.fsencode(name)) <= _MOST_PATH_BYTES and _is_private(folder) else ""


def _is_private(folder: Path) -> bool:
    """Whether the folder is this user's alone; it is made where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def hand_over(source: str, door: str) -> bool:
    """Have the window that listens there open a file, folder or name; whether it does."""
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
    """What a line asks to open; empty for anything else than such a request."""
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


class Door(QObject):
    """Listens for later starts; `wanted` is emitted with what each asks to open."""

    wanted = Signal(str)

    def __init__(self, name: str, parent: QObject) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setMaxPendingConnections(_MOST_WAITING)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._on_new_connection)
        self.is_open = bool(name) and self._listen(name)

    def close(self) -> None:
        """Listen no longer; the socket is gone."""
        self._server.close()

    def _listen(self, name: str) -> bool:
        """Whether this window is the one that listens; the socket of a process that has died is removed."""
        if _is_answered(name):
            return False
        QLocalServer.removeServer(name)
        return self._server.listen(name)

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
        self._socket = socket
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
        wanted = read_wanted(bytes(socket.readLine(MOST_BYTES + 1).data()))
        if self._answer(wanted) and wanted:
            self.wanted.emit(wanted)

    @Slot()
    def _on_disconnected(self) -> None:
        self._deadline.stop()
        self.deleteLater()

    @Slot()
    def _on_late(self) -> None:
        self._answer("")

    def _answer(self, wanted: str) -> bool:
        """Whether the answer arrives; a start that waits no longer opens a window of its own."""
        self._deadline.stop()
        socket = self._socket
        socket.write(_TAKEN if wanted else _REFUSED)
        socket.flush()
        is_there = socket.state() == QLocalSocket.LocalSocketState.ConnectedState
        socket.disconnectFromServer()
        self.deleteLater()
        return is_there


def _is_answered(name: str) -> bool:
    """Whether somebody listens there."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    is_connected = socket.waitForConnected(_CONNECT_MS)
    socket.abort()
    return is_connected

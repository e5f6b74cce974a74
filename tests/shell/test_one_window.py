"""A later start hands its file to the window that is open; nothing else gets in."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from attnscope import one_window, paths
from attnscope.one_window import MOST_BYTES, Door, Visitor, asks_to_wait, door_name, hand_over, read_wanted
from attnscope.settings import StartOptions

pytestmark = [
    pytest.mark.qt,
    pytest.mark.skipif(sys.platform == "win32", reason="sockets of Unix stand for hostile programs here"),
]


def request_for(wanted: object) -> bytes:
    return json.dumps({"format": 1, "open": wanted}).encode() + b"\n"


@pytest.fixture
def name(private_folders: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A socket's path as short as one in a home folder."""
    monkeypatch.setattr(one_window, "sockets_folder", lambda: Path(os.environ["HOME"]) / "w")
    found = door_name(":0", "host")
    assert found
    return found


@pytest.fixture
def door(qtbot: QtBot, name: str) -> Iterator[Door]:
    parent = QObject()
    opened = Door(name, parent)
    assert opened.is_open
    yield opened
    opened.close()
    parent.deleteLater()


def answer_to(sent: bytes, door: Door, name: str, qtbot: QtBot) -> bytes:
    """What the window answers a program that sends this and keeps the line open."""

    def talk() -> bytes:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(20)
            line.connect(name)
            line.sendall(sent)
            return line.recv(100)

    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(talk)
        qtbot.waitUntil(told.done, timeout=20_000)
    return told.result()


@pytest.mark.slow
def test_that_a_window_opens_what_a_later_start_hands_over(
    door: Door, name: str, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.attnscope").write_text("{}", encoding="utf-8")
    seen: list[str] = []
    door.wanted.connect(seen.append)
    both = f"print([hand_over(source, {name!r}) for source in ('a.attnscope', 'grammar')])"
    code = f"from attnscope.one_window import hand_over; {both}"
    start = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )  # it holds its thread
    qtbot.waitUntil(lambda: start.poll() is not None, timeout=60_000)
    assert start.communicate()[0] == "[True, True]\n"
    qtbot.waitUntil(lambda: len(seen) == 2)
    assert seen == [str(tmp_path / "a.attnscope"), "grammar"]


def test_that_nothing_is_handed_over_where_no_window_listens(name: str, qtbot: QtBot) -> None:
    assert not hand_over("grammar", name)


def test_that_a_window_that_does_not_answer_in_time_is_left_alone(
    door: Door, name: str, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_window, "ANSWER_MS", 20)
    seen: list[str] = []
    door.wanted.connect(seen.append)
    assert not hand_over("grammar", name)  # this thread is the window's, and is waiting
    qtbot.wait(50)
    assert seen == []


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"open /etc/passwd\n",
        b"[]\n",
        b"null\n",
        b"[" * 5_000 + b"\n",
        b"\xff\xfe\n",
        b'{"format": 1}\n',
        b'{"format": 2, "open": "grammar"}\n',
        b'{"format": true, "open": "grammar"}\n',
        b'{"format": 1, "open": "grammar", "run": "rm"}\n',
        b'{"format": 1, "open": "grammar", "open": "stories"}\n',
        *map(
            request_for,
            (7, None, ["grammar"], "", "a\0b", "a\nb", "\x1b[2J", "\u202e", "x" * 5_000, "\ud800"),
        ),
    ],
)
def test_that_any_other_line_asks_for_nothing(line: bytes) -> None:
    assert read_wanted(line) == ""


def test_that_a_request_asks_for_its_path() -> None:
    assert read_wanted(request_for("/a b/√.attnscope")) == "/a b/√.attnscope"


@pytest.mark.parametrize("sent", [b"{}\n", b"x" * (MOST_BYTES + 1), b"x" * (8 * MOST_BYTES) + b"\n"])
def test_that_a_wrong_request_is_refused(door: Door, name: str, qtbot: QtBot, sent: bytes) -> None:
    seen: list[str] = []
    door.wanted.connect(seen.append)
    try:
        assert answer_to(sent, door, name, qtbot) == b"0\n"
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was cut off while it was still sending
    assert seen == []


def test_that_a_request_that_does_not_end_is_refused_after_a_while(
    name: str, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_window, "LINE_MS", 30)
    parent = QObject()
    door = Door(name, parent)
    assert answer_to(b'{"format": 1, ', door, name, qtbot) == b"0\n"
    door.close()
    parent.deleteLater()


def test_that_only_one_window_listens_and_the_next_after_it_closed(
    door: Door, name: str, qtbot: QtBot
) -> None:
    parent = QObject()
    assert not Door(name, parent).is_open
    door.close()
    later = Door(name, parent)
    assert later.is_open
    later.close()
    parent.deleteLater()


def test_that_the_socket_of_a_window_that_died_is_taken_over(name: str, qtbot: QtBot) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(name)
    assert Path(name).exists()
    parent = QObject()
    door = Door(name, parent)
    assert door.is_open
    assert Path(name).stat().st_mode & 0o077 == 0
    door.close()
    assert not Path(name).exists()
    parent.deleteLater()


def test_that_a_window_that_waits_takes_over_when_the_one_that_listened_closes(
    door: Door, name: str, qtbot: QtBot
) -> None:
    parent = QObject()
    others = [Door(name, parent) for _ in range(3)]
    assert [other.is_open for other in others] == [False] * 3
    qtbot.wait(50)
    assert door.is_open
    door.close()
    qtbot.waitUntil(lambda: sum(other.is_open for other in others) == 1, timeout=20_000)
    first = next(other for other in others if other.is_open)
    first.close()
    rest = [other for other in others if other is not first]
    qtbot.waitUntil(lambda: sum(other.is_open for other in rest) == 1, timeout=20_000)
    for other in others:
        other.close()
    assert not Path(name).exists()
    parent.deleteLater()


@pytest.mark.slow
def test_that_a_window_that_waits_takes_over_from_one_that_was_killed(name: str, qtbot: QtBot) -> None:
    code = (
        "from PySide6.QtCore import QCoreApplication\n"
        "from attnscope.one_window import Door\n"
        f"app = QCoreApplication([]); door = Door({name!r}, app); print(door.is_open, flush=True); app.exec()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        parent = QObject()
        door = Door(name, parent)
        assert not door.is_open
    finally:
        other.kill()
        other.communicate()
    qtbot.waitUntil(lambda: door.is_open, timeout=20_000)
    door.close()
    parent.deleteLater()


def test_that_a_window_that_is_refused_does_not_ask_again(name: str, qtbot: QtBot) -> None:
    """As by a window of an earlier version, which knows no waiting."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        listening.listen()
        parent = QObject()
        door = Door(name, parent)
        line, _ = listening.accept()
        with line:
            assert json.loads(line.recv(100)) == {"format": 1, "wait": True}
            line.sendall(b"0\n")
        qtbot.wait(100)
        listening.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listening.accept()
        assert not door.is_open
        door.close()
        parent.deleteLater()


def test_that_only_a_few_lines_are_kept_open(door: Door, name: str, qtbot: QtBot) -> None:
    parent = QObject()
    others = [Door(name, parent) for _ in range(12)]
    qtbot.waitUntil(lambda: len(door.findChildren(Visitor)) == 8, timeout=20_000)
    qtbot.wait(50)
    assert len(door.findChildren(Visitor)) == 8
    for other in others:
        other.close()
    parent.deleteLater()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"format": 1, "wait": true}\n', True),
        (b'{"format": 1, "wait": 1}\n', False),
        (b'{"format": true, "wait": true}\n', False),
        (b'{"format": 2, "wait": true}\n', False),
        (b'{"format": 1, "wait": true, "open": "grammar"}\n', False),
        (b"wait\n", False),
    ],
)
def test_that_one_line_asks_to_wait(line: bytes, *, expected: bool) -> None:
    assert asks_to_wait(line) is expected
    assert read_wanted(line) == ""


def test_that_no_window_listens_where_others_may_enter(
    monkeypatch: pytest.MonkeyPatch, private_folders: Path
) -> None:
    monkeypatch.setattr(one_window, "sockets_folder", lambda: private_folders / "w")
    name = door_name(":0", "host")
    assert Path(name).parent.stat().st_mode & 0o777 == 0o700
    assert door_name(":1", "host") != name
    Path(name).parent.chmod(0o777)
    assert door_name(":0", "host") == ""
    Path(name).parent.rmdir()
    Path(name).parent.symlink_to(private_folders)
    assert door_name(":0", "host") == ""
    monkeypatch.setattr(one_window, "sockets_folder", lambda: private_folders / ("long" * 40))
    assert door_name(":0", "host") == ""
    assert paths.sockets_folder().is_relative_to(private_folders)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (StartOptions(source="grammar"), True),
        (StartOptions(), False),
        (StartOptions(source="grammar", is_new_window=True), False),
        (StartOptions(source="grammar", device="cuda"), False),
        (StartOptions(source="grammar", is_safe_mode=True), False),
        (StartOptions(source="grammar", is_reset=True), False),
        (StartOptions(source="grammar", is_smoke=True), False),
    ],
)
def test_that_only_a_start_that_just_opens_something_is_handed_over(
    options: StartOptions, *, expected: bool
) -> None:
    assert options.may_be_handed_over is expected


@pytest.mark.slow
def test_that_a_file_the_desktop_wants_opened_is_told() -> None:
    code = (
        "from PySide6.QtGui import QFileOpenEvent\n"
        "from attnscope.app import make_application\n"
        "app = make_application(); app.file_wanted.connect(print)\n"
        "app.sendEvent(app, QFileOpenEvent('/a/b.attnscope'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "/a/b.attnscope\n", "")

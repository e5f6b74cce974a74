"""F40, F59, F66, F68, F70: stopping, terminals, settings files, displays, signals."""

import os
import re
import subprocess
import sys
from pathlib import Path

import PySide6
import pytest

from attnscope import paths
from attnscope.boot import WINDOW_LIBRARIES, display_fault, qt_import_error
from attnscope.cli.terminal import json_text, one_line, printable
from attnscope.settings import SETTINGS_NAME, Settings, read_settings

CHECKOUT = Path(__file__).parents[2]


def attnscope(
    *arguments: str, drop: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in drop} | variables
    return subprocess.run(
        [sys.executable, "-m", "attnscope", *arguments],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


BAD_SETTINGS = {
    "random bytes": bytes(range(256)) * 4,
    "empty": b"",
    "cut short": b'{"theme": "da',
    "a list": b"[1, 2]",
    "a wrong type": b'{"geometry": "@ByteArray(pickled)"}',
    "not a number": b'{"geometry": [NaN, 0, 0, 0]}',
    "deep": b"[" * 100_000,
    "a huge number": b'{"geometry": [' + b"9" * 5000 + b", 0, 0, 0]}",
    "an old Qt file": b"[General]\ngeometry=@Variant(\\0\\0\\0\\x7f)\n",
    "too large": b" " * 2_000_000,
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_that_f66_a_bad_settings_file_is_kept_aside_and_told(name: str, tmp_path: Path) -> None:
    (tmp_path / SETTINGS_NAME).write_bytes(BAD_SETTINGS[name])
    remembered = read_settings(tmp_path)
    assert remembered.settings == Settings()
    (aside,) = tmp_path.glob("settings.json.bad-*")
    assert aside.read_bytes() == BAD_SETTINGS[name]
    assert aside.name in remembered.warning
    assert read_settings(tmp_path).warning == ""


def test_that_f66_a_second_bad_file_of_a_day_does_not_replace_the_first(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        (tmp_path / SETTINGS_NAME).write_bytes(content)
        read_settings(tmp_path)
    kept = {path.read_bytes() for path in tmp_path.glob("settings.json.bad-*")}
    assert kept == {b"first", b"second"}


def test_that_f66_a_settings_file_that_is_a_folder_is_survived(tmp_path: Path) -> None:
    (tmp_path / SETTINGS_NAME).mkdir()
    assert read_settings(tmp_path).settings == Settings()


@pytest.mark.skipif(sys.platform != "linux", reason="displays are found otherwise elsewhere")
def test_that_f68_no_display_is_one_line_and_exit_code_2() -> None:
    result = attnscope(drop=("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "no display" in result.stderr
    assert "attnscope figure" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="displays are found otherwise elsewhere")
def test_that_f68_a_display_that_does_not_answer_is_one_line_and_exit_code_2() -> None:
    result = attnscope(drop=("WAYLAND_DISPLAY", "QT_QPA_PLATFORM"), DISPLAY=":9731")
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="fonts are found otherwise elsewhere")
def test_that_f68_no_fonts_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    none = tmp_path / "fonts.conf"
    none.write_text('<?xml version="1.0"?><fontconfig></fontconfig>', encoding="utf-8")
    result = attnscope("--safe-mode", FONTCONFIG_FILE=str(none), QT_QPA_PLATFORM="offscreen")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "No fonts are installed" in result.stderr.splitlines()[-1]
    assert "fonts-dejavu-core" in result.stderr.splitlines()[-1]


def load_nothing(name: str) -> object:
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.parametrize(
    ("variables", "platform", "expected"),
    [
        ({}, "linux", "no display"),
        ({"QT_QPA_PLATFORM": "offscreen"}, "linux", None),
        ({"QT_QPA_PLATFORM": "minimal:option"}, "linux", None),
        ({"QT_QPA_PLATFORM": "xcb"}, "linux", "no display"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", None),
        ({"WAYLAND_DISPLAY": "wayland-0", "QT_QPA_PLATFORM": "xcb"}, "linux", "no display"),
        ({}, "darwin", None),
        ({}, "win32", None),
    ],
)
def test_that_f68_the_display_is_judged_by_platform_and_variables(
    variables: dict[str, str], platform: str, expected: str | None
) -> None:
    fault = display_fault(variables, platform, load=len, reach=lambda: True)
    assert (fault is None) if expected is None else (fault is not None and expected in str(fault))


def test_that_f68_a_missing_cursor_library_is_named_with_its_package() -> None:
    fault = display_fault({"DISPLAY": ":0"}, "linux", load=load_nothing, reach=lambda: True)
    assert fault is not None
    assert "apt install libxcb-cursor0" in str(fault)


def test_that_every_library_is_named_without_which_qt_ends_the_process() -> None:
    def load(name: str) -> None:
        if name in ("libxcb-icccm.so.4", "libxcb-keysyms.so.1"):
            raise OSError(f"{name}: cannot open shared object file")

    fault = display_fault({"DISPLAY": ":0"}, "linux", load=load, reach=lambda: True)
    assert "without libxcb-icccm.so.4, libxcb-keysyms.so.1." in str(fault)
    assert "apt install libxcb-icccm4 libxcb-keysyms1;" in str(fault)
    assert "dnf install xcb-util-wm xcb-util-keysyms)" in str(fault)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WAYLAND_DISPLAY": "wayland-0"}, "without libwayland-cursor.so.0."),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, None),  # Qt turns to X
        (
            {"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0", "QT_QPA_PLATFORM": "wayland"},
            "libwayland-cursor0;",
        ),
    ],
)
def test_that_what_is_missing_for_wayland_is_named_where_x_cannot_step_in(
    variables: dict[str, str], expected: str | None
) -> None:
    def load(name: str) -> None:
        if name == "libwayland-cursor.so.0":
            raise OSError(f"{name}: cannot open shared object file")

    fault = display_fault(variables, "linux", load=load, reach=lambda: True)
    assert (fault is None) if expected is None else expected in str(fault)


@pytest.mark.skipif(sys.platform != "linux", reason="windows under X are of Linux")
def test_that_what_qts_windows_need_of_x_is_asked_for_by_name() -> None:
    plugin = Path(PySide6.__file__).parent / "Qt" / "plugins" / "platforms" / "libqxcb.so"
    needed = set(re.findall(rb"lib(?:xcb-|xkbcommon-)[a-z0-9-]+\.so\.\d+", plugin.read_bytes()))
    assert needed == {name.encode() for name in WINDOW_LIBRARIES}


def test_that_f68_a_qt_that_cannot_be_loaded_names_the_missing_library() -> None:
    error = ImportError("libEGL.so.1: cannot open shared object file: No such file or directory")
    assert "libEGL.so.1" in str(qt_import_error(error))


ESCAPES = {
    "colour": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "c1": "\x9b31m",
    "backspace": "a\x08b",
    "return": "a\rb",
    "bidi": "abc\u202edef",
    "isolate": "\u2066x\u2069",
    "zero width": "a\u200bb",
    "surrogate": "a\ud800b",
    "line separator": "a\u2028b",
}


@pytest.mark.parametrize("name", ESCAPES)
def test_that_f59_terminal_escapes_are_written_out(name: str) -> None:
    shown = printable(ESCAPES[name])
    assert "\\" in shown
    assert shown.isprintable()
    assert one_line(ESCAPES[name]).isprintable()
    assert json_text({ESCAPES[name]: ESCAPES[name]}).isascii()


def test_that_f59_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "the café – 東京 العربية हिन्दी 🙂 L3H5 × 2"
    assert printable(text) == text


def test_that_f59_a_wrong_argument_cannot_colour_the_terminal() -> None:
    result = attnscope("--\x1b[31mred")
    assert result.returncode == 2
    assert "\x1b" not in result.stderr + result.stdout
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_that_f59_a_missing_model_with_escapes_in_its_name_is_one_plain_line() -> None:
    result = attnscope("info", "nowhere\x1b[31m\n/red")
    assert result.returncode == 2
    assert "\x1b" not in result.stderr + result.stdout
    assert len(result.stderr.splitlines()) == 1


SIGNALLED = """
import os, signal, sys
from PySide6.QtCore import QTimer
from attnscope import boot
from attnscope.app import Program
from attnscope.settings import StartOptions

show = Program.show

def show_and_be_told_to_stop(self):
    show(self)
    QTimer.singleShot(200, lambda: os.kill(os.getpid(), getattr(signal, sys.argv[1])))

Program.show = show_and_be_told_to_stop
boot.prepare_environment(has_window=True)
boot.open_window(StartOptions())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_that_f70_a_signal_closes_the_window_and_keeps_its_settings(name: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SIGNALLED, name],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert (paths.settings_folder() / SETTINGS_NAME).is_file()
    assert not list(paths.logs_folder().glob("*.log"))

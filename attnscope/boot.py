"""How the program starts and ends: environment, display, crash log, window, worker, hard exit.

The only reader and writer of the process's environment variables. Nothing here imports torch: the
worker thread does, after the first paint.
"""

import dataclasses
import gc
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.settings import StartOptions

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""From glibc's malloc.h."""


_OWN: dict[str, str] = {}
"""What this process has set of its environment; the rest is a person's."""


def require_folder() -> None:
    """Raise UserError if the current folder has been deleted: torch's libraries would end the process."""
    try:
        os.getcwd()
    except OSError as error:
        raise UserError(
            "The folder that this was started in no longer exists.",
            action="Change to another folder and start again.",
        ) from error


def prepare_environment(*, has_window: bool) -> None:
    """Set the variables that native libraries read when they load; see `prepared`."""
    wanted = prepared(has_window=has_window)
    _OWN.update({name: value for name, value in wanted.items() if os.environ.get(name) != value})
    os.environ.update(_OWN)
    keep_freed_memory()


def prepared(*, has_window: bool) -> dict[str, str]:
    """The environment for computing in a window or a command; the user's own settings win.

    Threads that wait must sleep, not spin, or training and window slow each other down twentyfold on
    shared cores; a window gets one core for itself. Nothing is told to anybody; that nothing but a download
    asked for by name reaches for the network is seen to where that library is imported.
    """
    own = {
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
        "OMP_NUM_THREADS": str(max(1, n_cores() - int(has_window))),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    theirs = {name: value for name, value in os.environ.items() if _OWN.get(name) != value}
    if sys.platform == "linux" and theirs.get("LC_ALL") in ("C", "POSIX"):
        theirs["LC_ALL"] = "C.UTF-8"  # as Python reads it; Qt would say on standard error that it does so too
    return {**os.environ, **own, **theirs}


def keep_freed_memory() -> None:
    """Have the C library of Linux keep up to 64 MB of freed memory for the next pass.

    Else it gives what a trace held back to the system at once, and the next one touches 600 to 900 new pages:
    one part in thirty of a pass of BERT-base over 16 tokens. The numbers are those that glibc comes to by
    itself once a program has freed a block of 32 MB (mallopt(3), M_MMAP_THRESHOLD).
    """
    if sys.platform != "linux":
        return
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries may not have it
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, 32 * 2**20)
        set_option(_M_TRIM_THRESHOLD, 64 * 2**20)


def n_cores() -> int:
    """Number of processor cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def environment() -> Mapping[str, str]:
    """The environment variables of this process, to be passed to a child."""
    return dict(os.environ)


def use_offscreen() -> None:
    """Let Qt paint into memory; only before the first Qt application object is created."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    os.environ.setdefault("QT_LOGGING_RULES", "qt.qpa.fonts=false;qt.text.font.db=false")


def offscreen_application(*, has_widgets: bool = False) -> object:
    """A Qt application for painting without a display; keep the object while painting.

    Raises UserError when Qt's own libraries are not complete.
    """
    use_offscreen()
    try:
        from PySide6.QtGui import QGuiApplication

        if has_widgets:
            from PySide6.QtWidgets import QApplication
    except ImportError as error:
        raise qt_import_error(error) from error
    spare_sources()
    existing = QGuiApplication.instance()
    if existing is not None:
        return existing
    return QApplication(["attnscope"]) if has_widgets else QGuiApplication(["attnscope"])


def spare_sources() -> None:
    """Keep PySide6 from reading, and keeping, the source of every module imported after it.

    It searches them for a use of its switchable spellings (`__feature__`), of which there is none here. That
    is a tenth of the start, and 60 MB once the engine is there. Where sources are missing, as in a bundle, it
    finds no use in any module; so it does after this. Drop when PySide6 reads no sources.
    """
    feature = sys.modules.get("shibokensupport.feature")
    if feature is not None:
        vars(feature)["_mod_uses_pyside"] = lambda _module: False


def check_display() -> None:
    """Raise UserError if no window can be opened here; Qt itself would abort the process."""
    try:
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as error:
        raise qt_import_error(error) from error
    spare_sources()
    fault = display_fault(os.environ, sys.platform)
    if fault is not None:
        raise fault


WINDOW_LIBRARIES = {
    "libxcb-cursor.so.0": ("libxcb-cursor0", "xcb-util-cursor"),
    "libxcb-icccm.so.4": ("libxcb-icccm4", "xcb-util-wm"),
    "libxcb-image.so.0": ("libxcb-image0", "xcb-util-image"),
    "libxcb-keysyms.so.1": ("libxcb-keysyms1", "xcb-util-keysyms"),
    "libxcb-randr.so.0": ("libxcb-randr0", "libxcb"),
    "libxcb-render-util.so.0": ("libxcb-render-util0", "xcb-util-renderutil"),
    "libxcb-render.so.0": ("libxcb-render0", "libxcb"),
    "libxcb-shape.so.0": ("libxcb-shape0", "libxcb"),
    "libxcb-shm.so.0": ("libxcb-shm0", "libxcb"),
    "libxcb-sync.so.1": ("libxcb-sync1", "libxcb"),
    "libxcb-util.so.1": ("libxcb-util1", "xcb-util"),
    "libxcb-xfixes.so.0": ("libxcb-xfixes0", "libxcb"),
    "libxcb-xkb.so.1": ("libxcb-xkb1", "libxcb"),
    "libxkbcommon-x11.so.0": ("libxkbcommon-x11-0", "libxkbcommon-x11"),
}
"""What Qt's windows under X need, and no wheel brings: without one of them Qt ends the process. With the
packages of Debian and of Fedora that have it."""
WAYLAND_LIBRARIES = {
    "libwayland-client.so.0": ("libwayland-client0", "libwayland-client"),
    "libwayland-cursor.so.0": ("libwayland-cursor0", "libwayland-cursor"),
}
"""The same under Wayland."""


def display_fault(
    variables: Mapping[str, str],
    platform: str,
    load: Callable[[str], object] | None = None,
    reach: Callable[[], bool] | None = None,
) -> UserError | None:
    """Reason why no window can open, or None; `load` and `reach` are replaced in tests."""
    if platform != "linux" or variables.get("QT_QPA_PLATFORM", "xcb").split(":")[0] not in ("xcb", "wayland"):
        return None
    load = load or _load_library
    if variables.get("WAYLAND_DISPLAY") and variables.get("QT_QPA_PLATFORM", "wayland") != "xcb":
        fault = _fault_of_missing(WAYLAND_LIBRARIES, load)
        if fault is None or "QT_QPA_PLATFORM" in variables or not variables.get("DISPLAY"):
            return fault  # else Qt turns to X
    if not variables.get("DISPLAY"):
        return UserError(
            "There is no display to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set).",
            action="Start AttnScope from a desktop session, or use the command line: "
            "attnscope figure MODEL --text … -o figure.svg needs no display.",
        )
    fault = _fault_of_missing(WINDOW_LIBRARIES, load)
    if fault is not None:
        return fault
    if not (reach or _can_reach_display)():
        return UserError(
            f"The display {variables['DISPLAY']} cannot be reached.",
            action="Check DISPLAY, or start AttnScope from a desktop session.",
        )
    return None


def qt_import_error(error: ImportError) -> UserError:
    """The error for an incomplete Qt installation, naming what is missing."""
    missing = str(error).split(":")[0]
    return UserError(
        f"Qt cannot be loaded: {error}.",
        action=f"Install the package with {missing} (Debian, Ubuntu: apt install libgl1 libegl1 "
        "libxkbcommon0 libfontconfig1 libdbus-1-3).",
    )


def open_window(options: "StartOptions") -> int:
    """Open the window and wait until it is closed. Ends the process itself, with the exit code.

    What is to be opened goes to a window that is open, if there is one, and the process ends.
    Raises UserError when a window cannot be opened here.
    """
    started_s = time.time()
    if options.is_unattended:
        use_offscreen()
    gc.disable()  # its walks over all that is being imported delay the window; then `Collecting` walks
    check_display()
    leave_sources_unread()
    door = ""
    if not (options.is_unattended or options.is_safe_mode):
        import platform

        from attnscope.one_window import door_name, hand_over

        door = door_name(os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY", ""), platform.node())
        if door and options.may_be_handed_over and hand_over(options.source, door):
            hard_exit(0)

    with quick_records():
        from attnscope.lifetime import run_window
    hard_exit(run_window(options, started_s=started_s, end_now=hard_exit, door=door))


def open_missing_output() -> None:
    """Discard output if standard output or error is closed.

    Else the next file that is opened would stand in its place, and take what native libraries print.
    """
    for wanted in (1, 2):
        try:
            os.fstat(wanted)
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != wanted:
                os.dup2(nowhere, wanted)
                os.close(nowhere)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def forget_output(*, has_errors: bool = False) -> None:
    """Discard further standard output: its reader has gone. `has_errors`: standard error as well."""
    for stream in (sys.stdout, sys.stderr) if has_errors else (sys.stdout,):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def forget_terminal() -> None:
    """Discard further output to a terminal that has gone; files and pipes are still written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            number = stream.fileno()
            if stat.S_ISCHR(os.fstat(number).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        except (OSError, ValueError, AttributeError):
            continue


def hard_exit(code: int) -> NoReturn:
    """End the process at once; everything worth keeping is on disk. Threads in native code are killed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(code)


def _fault_of_missing(
    libraries: Mapping[str, tuple[str, str]], load: Callable[[str], object]
) -> UserError | None:
    """Libraries that cannot be loaded, with how to get them; None if all can."""
    missing = [name for name in libraries if not _is_there(name, load)]
    if not missing:
        return None
    packages = zip(*(libraries[name] for name in missing), strict=True)
    debian, fedora = (" ".join(dict.fromkeys(names)) for names in packages)
    return UserError(
        f"Qt cannot open a window without {', '.join(missing)}.",
        action=f"Install what is missing (Debian, Ubuntu: apt install {debian}; "
        f"Fedora: dnf install {fedora}).",
    )


def _is_there(library: str, load: Callable[[str], object]) -> bool:
    """Whether a native library can be loaded."""
    try:
        load(library)
    except OSError:
        return False
    return True


def _load_library(name: str) -> object:
    """Load a native library; raises OSError."""
    import ctypes

    return ctypes.CDLL(name)


def _can_reach_display() -> bool:
    """Whether an X server answers on DISPLAY."""
    import ctypes

    try:
        xcb = ctypes.CDLL("libxcb.so.1")
    except OSError:
        return False
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(None, None)
    is_reached = bool(xcb.xcb_connection_has_error(connection) == 0)
    xcb.xcb_disconnect(connection)
    return is_reached


def leave_sources_unread() -> None:
    """Keep PySide from reading the source of every module that is imported from now on, torch's 800 too.

    It seeks its own name there, to know where `from __feature__ import …` can count; that counts all the
    same where it is written.
    """
    import PySide6.QtCore  # noqa: F401  it brings the module that is meant

    feature = sys.modules.get("shibokensupport.feature")
    if hasattr(feature, _READS_SOURCE):
        setattr(feature, _READS_SOURCE, lambda _module: False)


@contextmanager
def quick_records() -> Iterator[None]:
    """Let classes decorated in the block share functions; their behaviour is unchanged."""
    known = vars(dataclasses)
    quicker = _QUICKER if sys.version_info < (3, 13) and known.keys() >= _QUICKER.keys() else {}
    before = {name: known[name] for name in quicker}
    known.update(quicker)
    try:
        yield
    finally:
        known.update(before)


def _values_of(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _frozen(kind: Any, fields: Sequence["dataclasses.Field[Any]"], _: object) -> tuple[object, object]:
    names = frozenset(field.name for field in fields)

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    return __setattr__, __delattr__


def _compared(name: str, sign: str, own: str, other: str, globals: Mapping[str, object]) -> object:
    if name != "__eq__":
        return _SLOW(name, sign, own, other, globals=globals)
    values = _values_of(re.findall(r"self\.(\w+)", own))

    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(fields: Sequence["dataclasses.Field[Any]"], _: object) -> object:
    values = _values_of([field.name for field in fields])

    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _repr(fields: Sequence["dataclasses.Field[Any]"], _: object) -> object:
    names = [field.name for field in fields]

    def __repr__(self: object) -> str:
        said = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({said})"

    return vars(dataclasses)["_recursive_repr"](__repr__)


def _init(*given: Any) -> Callable[..., None]:
    """A constructor that is compiled on its first call, and then replaces itself."""

    def __init__(self: object, *values: object, **named: object) -> None:
        made = _SLOW_INIT(*given)
        made.__qualname__ = __init__.__qualname__
        for kind in type(self).__mro__:
            if vars(kind).get("__init__") is __init__:  # another thread may have been first
                kind.__init__ = made  # type: ignore[misc]
        made(self, *values, **named)

    return __init__


_READS_SOURCE = "_mod_uses_pyside"
_SLOW: Any = vars(dataclasses).get("_cmp_fn")
_SLOW_INIT: Any = vars(dataclasses).get("_init_fn")
_QUICKER = {
    "_init_fn": _init,
    "_frozen_get_del_attr": _frozen,
    "_cmp_fn": _compared,
    "_hash_fn": _hash,
    "_repr_fn": _repr,
}
"""By the names under which `dataclasses` asks for them."""

"""What every test gets: one torch thread, no display, private folders, and a check for leaks."""

import faulthandler
import gc
import itertools
import operator
import os
import random
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attnscope.boot import leave_sources_unread
from attnscope.hub.shelf import shelf_entries

os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # their thread may be the one that collects what Qt made
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["PYTHONPATH"] = (
    os.pathsep.join(  # programs that tests start are of this checkout, wherever they run
        filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
    )
)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # programs that tests start compile it once
leave_sources_unread()
os.fsync = lambda _descriptor: None  # nobody pulls the plug; programs that tests start wait for the disk

_MOST_PROCESSES = 4
"""Each imports torch, Qt and every test anew, and holds more than a gigabyte in the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share the whole suite out among processes; files or folders that are named run in this one.

    `-n 0` runs everything in this process, `-n 3` whatever is named in three. Who has less to do takes
    half of what another has left: neighbours, and with them a module's fixtures, mostly stay together.
    """
    if not config.pluginmanager.hasplugin("xdist") or hasattr(config, "workerinput"):
        return
    option = config.option
    if option.numprocesses is None and not option.tx and _is_whole_suite(config):
        n_processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        option.numprocesses = min(n_processors or 1, _MOST_PROCESSES)
    if option.numprocesses and option.dist == "no":
        option.dist = "worksteal"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would walk torch's and Qt's objects over and over."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _is_whole_suite(config: pytest.Config) -> bool:
    """Whether everything runs, unwatched: a debugger, -s and new pictures need this very process."""
    option = config.option
    if option.usepdb or option.trace or option.capture == "no" or option.update_pictures:
        return False
    tests = Path(__file__).parent
    return all(Path(config.invocation_params.dir, name) in (tests, tests.parent) for name in config.args)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new folder each time; pytest's own way reads the names of all that are there, every time."""
    parent = tmp_path_factory.mktemp("homes")
    return (parent / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def private_folders(homes: Iterator[Path]) -> Iterator[Path]:
    """Settings, logs and runs of a test go to a folder of its own.

    With a MonkeyPatch of its own: a test's ends first, and nothing is looked at from the folder that it
    worked in, which is gone by then.
    """
    home = next(homes)
    home.mkdir()
    with pytest.MonkeyPatch.context() as changes:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME"):
            changes.setenv(name, str(home))
        yield home


@pytest.fixture(autouse=True)
def no_carried_models() -> Iterator[None]:
    """No test depends on which packages that carry a model happen to be installed."""
    entries = tuple(replace(entry, package="", file="", sha256="") for entry in shelf_entries())
    with pytest.MonkeyPatch.context() as changes:
        changes.setattr("attnscope.hub.shelf.shelf_entries", lambda: entries)
        yield


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Random numbers begin alike in every test, whichever ran before it in its process."""
    random.seed(0)
    # torch.manual_seed also writes down its whole stack, for each kind of device that is not there.
    for name, seed in (("numpy", "random.seed"), ("torch", "default_generator.manual_seed")):
        if name in sys.modules:
            operator.attrgetter(seed)(sys.modules[name])(0)


@pytest.fixture(autouse=True)
def same_theme(request: pytest.FixtureRequest) -> Iterator[None]:
    """The colours and the size of type that a test gives the whole program end with it."""
    yield
    if "qapp" in request.fixturenames or "qtbot" in request.fixturenames:
        from PySide6.QtGui import QPalette
        from PySide6.QtWidgets import QApplication

        from attnscope.figures import set_type_factor

        set_type_factor(1.0)
        QApplication.setPalette(QPalette())


@pytest.fixture(autouse=True)
def collected_between_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Garbage is collected between tests, on the main thread, as the window does it.

    A thread of a test may not collect what an earlier test left of Qt: that ends the process, then or later.
    """
    if request.node.get_closest_marker("collector"):
        yield
        return
    gc.disable()
    yield
    gc.enable()
    gc.collect(2 if gc.get_count()[2] > 200 else 1)


@pytest.fixture(autouse=True)
def fault_handler() -> Iterator[None]:
    """A crash is told with its stack also after a test whose program ended its own watch."""
    yield
    if not faulthandler.is_enabled():
        faulthandler.enable(file=sys.__stderr__)


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves threads, top-level widgets or running timers behind."""
    threads_before = set(threading.enumerate())
    has_qt = "qapp" in request.fixturenames or "qtbot" in request.fixturenames
    if has_qt:
        # What an earlier test held is let go of only now. What is alive after that is not looked at again:
        # a collection over everything takes seconds, and widgets that pile up make every new one slower.
        gc.collect()
        gc.freeze()
    yield
    new = set(threading.enumerate()) - threads_before
    for thread in new:
        if thread.name.startswith("ThreadPoolExecutor-"):  # a library's pool that nobody waited for: ours end
            thread.join(timeout=2.0)
    left = [t.name for t in new if t.is_alive() and not t.daemon]
    assert not left, f"threads left running: {left}"
    if has_qt:
        _check_qt_leaks()


def _check_qt_leaks() -> None:
    from PySide6.QtCore import QCoreApplication, QEvent, QThread, QTimer
    from PySide6.QtWidgets import QApplication

    app = QApplication.instance()
    if app is None:
        return
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    app.processEvents()
    visible = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
    names = [f"{type(w).__name__} '{w.objectName() or w.windowTitle()}'" for w in visible]
    assert not names, f"top-level widgets left open: {names}"
    gc.collect()
    # type(), not isinstance(): torch keeps objects whose __class__ warns when it is asked for.
    objects = gc.get_objects()
    running = [o for o in objects if issubclass(type(o), QThread) and o != app.thread() and _is_running(o)]
    assert not running, f"QThreads left running: {running}"
    timers = [o for o in objects if issubclass(type(o), QTimer) and _is_active(o) and o.parent() is None]
    assert not timers, f"timers without a parent left active: {timers}"


def _is_running(thread: object) -> bool:
    try:
        return bool(thread.isRunning())  # type: ignore[attr-defined]
    except RuntimeError:
        return False


def _is_active(timer: object) -> bool:
    try:
        return bool(timer.isActive())  # type: ignore[attr-defined]
    except RuntimeError:
        return False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-pictures", action="store_true", help="write the README's pictures anew")
    parser.addoption("--update-numbers", action="store_true", help="write the public numbers anew")


@pytest.fixture(scope="session")
def is_updating_pictures(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-pictures"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pure tests first, then those with a window, then the slow ones.

    Where they are shared out among processes the longest begin: no process waits for another's in the end.
    """
    items.sort(key=lambda item: ("slow" in item.keywords) * 2 + ("qt" in item.keywords))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: "long" not in item.keywords)


@pytest.fixture(scope="session", autouse=True)
def one_application(request: pytest.FixtureRequest) -> object:
    """A whole QApplication from the start: a test of figures must not make a lesser one first."""
    if not any("qt" in item.keywords for item in request.session.items):
        return None
    from PySide6.QtWidgets import QApplication

    return QApplication.instance() or QApplication(["attnscope"])

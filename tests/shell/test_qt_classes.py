"""Classes of Qt are made, and asked for, on the window's thread alone: see `PlotsAhead`."""

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QThread
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.crash import CrashLog
from attnscope.settings import Settings, StartOptions
from attnscope.widgets.labs import MeasuringThread

WALK = """
import sys, threading, time
seen = []
class Noting:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("PySide6", "pyqtgraph") or name.startswith("attnscope.widgets"):
            seen.append((name, threading.current_thread() is threading.main_thread()))
from attnscope import boot
boot.prepare_environment(has_window=True)
boot.use_offscreen()
application = boot.offscreen_application(has_widgets=True)
from pathlib import Path
from attnscope.app import Program
from attnscope.crash import CrashLog
from attnscope.settings import Settings, StartOptions
sys.meta_path.insert(0, Noting())
program = Program(settings=Settings(device="cpu"), crash_log=CrashLog(Path(sys.argv[1])),
                  options=StartOptions(source="grammar"), is_remembering=False, is_measuring=True)
program.show()
until_s = time.monotonic() + 60
while time.monotonic() < until_s and "pyqtgraph.graphicsItems.PlotItem" not in sys.modules:
    application.processEvents()
    time.sleep(0.002)
print(len(seen), [name for name, is_main in seen if not is_main])
boot.hard_exit(0)
"""


@pytest.mark.slow
def test_that_the_plotting_library_is_imported_on_the_windows_thread_once_nobody_types(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WALK, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    n_seen, _, elsewhere = done.stdout.partition(" ")
    assert elsewhere.strip() == "[]"
    assert int(n_seen) > 100


@pytest.mark.qt
def test_that_every_thread_of_qt_has_a_name_and_so_is_not_asked_for_its_class(
    qtbot: QtBot, tmp_path: Path
) -> None:
    program = Program(
        settings=Settings(device="cpu"),
        crash_log=CrashLog(tmp_path),
        options=StartOptions(source="grammar"),
        is_remembering=False,
    )
    meter = MeasuringThread((1, 2), lambda sizes: iter(sizes), program)
    threads = program.findChildren(QThread)
    assert meter in threads
    assert {type(thread) for thread in threads} == {
        kind for kind in QThread.__subclasses__() if kind.__module__.startswith("attnscope.")
    }
    assert all(thread.objectName() for thread in threads)
    program.window.deleteLater()
    program.deleteLater()

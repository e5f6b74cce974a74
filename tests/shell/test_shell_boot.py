"""What a start settles before anything is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HELD = """
import resource
from attnscope.boot import prepare_environment
prepare_environment(has_window=False)
def hold():
    return [bytearray(b"x") * 200_000 for _ in range(30)]  # as many bytes as a trace holds
for _ in range(3):
    hold()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    hold()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt is of glibc")
def test_that_memory_which_was_freed_is_used_again_without_asking_the_system() -> None:
    told = subprocess.run(
        [sys.executable, "-c", HELD], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(told.stdout) < 200  # pages touched for the first time; 28,660 when it is given back


THREADS = """
import os
from attnscope import boot
boot.n_cores = lambda: 4
boot.prepare_environment(has_window=False)
boot.prepare_environment(has_window=False)
print(os.environ["OMP_NUM_THREADS"], *(boot.prepared(has_window=w)["OMP_NUM_THREADS"] for w in (False, True)))
"""


@pytest.mark.parametrize(("given", "told"), [("", "4 4 3"), ("2", "2 2 2")])
def test_that_a_window_of_another_process_leaves_a_core_to_itself_unless_a_person_said_how_many(
    monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    found = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == told.split()


@pytest.mark.skipif(sys.platform != "linux", reason="the locale of Linux")
def test_that_a_figure_in_the_plain_locale_is_drawn_without_a_word_of_qt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "attnscope", "lab", "Masks as structure", "-o", str(tmp_path / "é.svg")]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "é.svg").stat().st_size > 2_000


SOURCES = """
import linecache, sys
from attnscope.boot import leave_sources_unread
leave_sources_unread()
sys.path.insert(0, sys.argv[1])
import plain, switched
from PySide6.QtCore import QObject
one = QObject()
one.setObjectName("here")
print(plain.told(one), switched.told(one), *(name for name in linecache.cache if sys.argv[1] in name))
"""


def test_that_qt_reads_no_source_of_what_is_imported_and_still_has_the_names_that_a_module_chose(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain.py").write_text("import PySide6\ntold = lambda one: one.objectName()\n")
    switched = "from __feature__ import snake_case\ntold = lambda one: one.object_name()\n"
    (tmp_path / "switched.py").write_text(f"from PySide6 import QtCore\n{switched}")
    found = subprocess.run(
        [sys.executable, "-c", SOURCES, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == ["here", "here"]

"""Where a bundle starts: what is undone before the program begins."""

import os
import py_compile
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from shipping import PACKAGING, contents

ENTRY = runpy.run_path(str(PACKAGING / "entry.py"))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"LD_LIBRARY_PATH": "/opt/x"}, {}),
        ({"LD_LIBRARY_PATH": "/opt/x:/a", "LD_LIBRARY_PATH_ORIG": "/a"}, {"LD_LIBRARY_PATH": "/a"}),
        ({"LD_LIBRARY_PATH": "/opt/x", "LD_LIBRARY_PATH_ORIG": ""}, {"LD_LIBRARY_PATH": ""}),
    ],
)
def test_that_other_programs_get_the_search_path_of_the_person(
    variables: dict[str, str], expected: dict[str, str]
) -> None:
    assert ENTRY["outer_environment"](variables) == expected


@pytest.mark.parametrize(
    ("variables", "is_changed"),
    [
        ({}, True),
        ({"LANG": "C"}, True),
        ({"LANG": "", "LC_CTYPE": "POSIX"}, True),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_ALL": "C"}, False),
    ],
)
def test_that_a_start_without_a_language_reads_utf_8(variables: dict[str, str], *, is_changed: bool) -> None:
    assert ENTRY["readable_locale"](variables) == ({"LC_CTYPE": "C.UTF-8"} if is_changed else {})


@pytest.mark.slow
def test_that_a_bundle_takes_back_what_its_bootloader_has_set() -> None:
    code = (
        "import runpy, sys\n"
        "class FrozenFinder:\n"
        "    @classmethod\n"
        "    def path_hook(cls, path): raise ImportError\n"
        "sys.path_hooks.insert(0, FrozenFinder.path_hook)\n"
        f"entry = runpy.run_path({str(PACKAGING / 'entry.py')!r})\n"
        "entry['prepare']()\n"
        "import os, colorsys\n"
        "print(len(sys.path_hooks), os.environ.get('LD_LIBRARY_PATH'), os.environ.get('QT_PLUGIN_PATH'))"
    )
    given = {"LD_LIBRARY_PATH": "/b", "LD_LIBRARY_PATH_ORIG": "/a", "QT_PLUGIN_PATH": "/p"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **given}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 /a None\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ""),
        (["figure", "grammar", "-o", "x.svg"], ""),
        (["-c"], ""),
        (["generate", "-c", "import os"], ""),
        (
            ["-B", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
            "from multiprocessing.resource_tracker import main;main(5)",
        ),
        (
            ["--multiprocessing-fork", "tracker_fd=5", "parent_pid=None", "x();y=1"],
            "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, parent_pid=None)",
        ),
    ],
)
def test_that_helpers_of_multiprocessing_are_known(arguments: list[str], expected: str) -> None:
    assert ENTRY["helper_command"](arguments) == expected


def test_that_files_of_a_bundle_are_known_as_modules() -> None:
    places = [
        "attnscope/__init__.pyc",
        "attnscope/cli/main.pyc",
        "numpy\\_core\\_multiarray_umath.cp312-win_amd64.pyd",
        "python3.11/lib-dynload/_struct.cpython-311-x86_64-linux-gnu.so",
        "torch/__pycache__/_tensor.cpython-311.pyc",
        "six.pyc",
    ]
    assert contents.module_names(places) == {
        "attnscope",
        "attnscope.cli.main",
        "numpy._core._multiarray_umath",
        "_struct",
        "torch._tensor",
        "six",
    }


def test_that_a_compiled_module_lies_where_python_takes_it_before_its_source(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    source, kept = tmp_path / "part" / "one.py", tmp_path / "one.pyc"
    source.write_text("NAME = 'compiled'\n")
    py_compile.compile(
        str(source), cfile=str(kept), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    source.write_text("NAME = 'source'\n")
    entries = [
        ("part/one.py", str(source), "DATA"),
        ("part/one.pyc", str(kept), "DATA"),
        ("x.pyc", "y", "DATA"),
    ]
    (_, (place, _, _), other) = contents.beside_sources(entries)
    assert other == ("x.pyc", "y", "DATA")
    (tmp_path / place).parent.mkdir()
    kept.rename(tmp_path / place)
    code = "from part.one import NAME; print(NAME)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "compiled\n"

"""The bridge holds in a fresh interpreter, and nothing heavy is imported before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from attnscope.cli.main import opens_window

CHECKOUT = Path(__file__).parents[2]


def _imported(statement: str, names: tuple[str, ...]) -> list[str]:
    code = f"{statement}\nimport sys\nprint(*[n for n in {names!r} if n in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


HEAVY = ("torch", "tokenizers", "safetensors", "transformers", "PySide6", "pyqtgraph")
ENGINE = ("torch", "tokenizers", "safetensors", "transformers")
QT = ("PySide6", "pyqtgraph")


@pytest.mark.parametrize(
    "name", ["attnscope", "attnscope.records.messages", "attnscope.viewmodels.session.state"]
)
def test_that_importing_the_light_parts_imports_nothing_heavy(name: str) -> None:
    assert _imported(f"import {name}", HEAVY) == []


@pytest.mark.parametrize("name", ["widgets.window.main_window", "figures.export", "boot", "app"])
def test_that_the_window_is_imported_without_tensors_and_without_the_plotting_library(name: str) -> None:
    assert _imported(f"import attnscope.{name}", (*ENGINE, "pyqtgraph")) == []


def test_that_qt_keeps_no_source_of_what_is_imported_after_it() -> None:
    code = (
        "from attnscope import boot; boot.use_offscreen(); boot.check_display()\n"
        "import attnscope.records.messages, linecache, sys\n"
        "sys.modules.update({n: sys for n in linecache.cache if 'attnscope' in n})"
    )
    assert _imported(code, (str(CHECKOUT / "attnscope" / "records" / "messages.py"),)) == []


def test_that_the_window_alone_is_parsed_without_the_commands() -> None:
    commands = ("attnscope.cli.train", "attnscope.cli.bench")
    code = "from attnscope.cli.main import {0}; assert {1}"
    assert _imported(code.format("build_parser", "build_parser(has_commands=False)"), commands) == []
    assert _imported(code.format("build_parser", "build_parser()"), commands) == list(commands)


@pytest.mark.parametrize(
    ("arguments", "is_window"),
    [
        ([], True),
        (["--smoke", "--json"], True),
        (["open", "train"], True),
        (["train", "open"], False),
        (["--help"], False),
        (["--smoke", "trian"], False),
        (["--device", "cpu", "train"], False),
    ],
)
def test_that_arguments_for_the_window_alone_are_told_from_commands(
    arguments: list[str], is_window: bool
) -> None:
    assert opens_window(arguments) == is_window


def test_that_the_engine_never_imports_qt() -> None:
    parts = ("models", "training", "analysis.measures", "trace.trace", "text.tokenizer")
    assert _imported("; ".join(f"import attnscope.{part}" for part in parts), QT) == []


def test_that_the_command_line_starts_without_tensors() -> None:
    assert _imported("import attnscope.cli.main", ENGINE) == []

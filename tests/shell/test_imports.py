"""The bridge holds in a fresh interpreter, and nothing heavy is imported before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

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
def test_that_the_window_never_imports_tensors(name: str) -> None:
    assert _imported(f"import attnscope.{name}", ENGINE) == []


@pytest.mark.parametrize("name", ["models", "training", "analysis.measures", "trace.trace", "text.tokenizer"])
def test_that_the_engine_never_imports_qt(name: str) -> None:
    assert _imported(f"import attnscope.{name}", QT) == []


def test_that_the_command_line_starts_without_tensors() -> None:
    assert _imported("import attnscope.cli.main", ENGINE) == []

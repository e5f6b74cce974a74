"""What the README says can be done is done here, word for word but for the length of the training."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from attnscope import from_arrays, load_trace
from attnscope.cli.main import main

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.qt, pytest.mark.slow]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_that_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, own = _blocks("python")
    short = code.replace('out="runs/reverse"', 'out="runs/reverse", overrides={"training.n_steps": "2"}')
    assert short != code
    exec(compile(short, "README.md", "exec"), {})
    assert (tmp_path / "figure.svg").stat().st_size > 2_000
    assert (tmp_path / "runs" / "reverse" / "metrics.jsonl").is_file()
    exec(compile(own, "README.md", "exec"), {})
    assert all((tmp_path / name).stat().st_size > 2_000 for name in ("grid.svg", "lines.html"))
    assert load_trace(tmp_path / "mine.safetensors").recorded is not None


def _commands() -> list[str]:
    """Every command of the console block but `bench`, which measures for minutes and is run by hand."""
    lines = [line.removeprefix("$ ") for block in _blocks("console") for line in block.splitlines() if line]
    return [line for line in lines if not line.startswith("attnscope bench")]


@pytest.mark.parametrize("command", _commands())
def test_that_a_command_of_the_readme_runs(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *words = shlex.split(command)
    assert program == "attnscope"
    if words[0] == "study":
        words += ["--quick"]
    if words[0] == "train":
        words += ["--set", "training.n_steps=2"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentences.txt").write_text("to be or not to be\nthe king is dead\n" * 3, encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("the white cat sleeps .\tle chat blanc dort .\n", encoding="utf-8")
    weights = np.full((2, 4, 3, 3), 1 / 3)
    from_arrays(weights, ["the", "cat", "sat"]).save(tmp_path / "mine.safetensors")
    assert main(words) == 0, capsys.readouterr().err

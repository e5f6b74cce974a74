"""Every option of every command, given numbers, names and texts that nobody means: one line and exit code 2.

Or what was asked for, where it can be meant. ATTNSCOPE_HOSTILE=20 tries every value on every option.
"""

import argparse
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_fault_hostile import SEED, TIMES, patience
from tiny_models import SENTENCE, tiny_model

from attnscope.cli.main import COMMANDS, add_command, build_parser, main

_NUMBERS = ("-1", "0", "1e400", "nan", "-inf", "1" + "0" * 30, "9" * 5_000, "0.5", "", "x", "²", str(2**63))
_WORDS = (
    "",
    " ",
    "\0",
    "\x1b[31m",
    "x" * 5_000,
    "../..",
    "hf:owner/name",
    "/dev/null/x",
    "=",
    "L99999H99999",
    "-",
)
_COMMANDS = {
    "ask": ["residual-stream", "MODEL", "--text", SENTENCE],
    "attribute": ["MODEL", "--text", SENTENCE],
    "completion": ["bash"],
    "convert": ["stories", "-o", "OUT"],
    "curve": ["MODEL", "--task", "copy", "--max-texts", "4"],
    "figure": ["MODEL", "--text", SENTENCE, "-o", "OUT.svg"],
    "flow": ["MODEL", "--text", SENTENCE],
    "generate": ["MODEL", "--text", "the cat"],
    "get": ["--list"],
    "importance": ["MODEL", "--task", "copy", "--max-texts", "4"],
    "info": ["MODEL"],
    "lab": ["Masks as structure", "-o", "OUT.svg"],
    "lens": ["MODEL", "--text", SENTENCE],
    "measure": ["MODEL", "--text", SENTENCE],
    "models": [],
    "patch": ["MODEL", "--clean", SENTENCE, "--corrupt", "the dog sat on the mat"],
    "predict": ["MODEL", "--text", SENTENCE],
    "prune": ["MODEL", "--heads", "L0H1", "-o", "OUT"],
    "relevance": ["MODEL", "--text", SENTENCE],
    "rollout": ["MODEL", "--text", SENTENCE],
    "trace": ["MODEL", "--text", SENTENCE, "-o", "OUT.npz"],
    "train": ["reverse", "--out", "OUT", "--plan"],
    "translate": ["MODEL", "--text", SENTENCE],
    "weights": ["MODEL", "L0H0"],
}
_NOT_TRIED = {"study", "bench", "handout"}
"""They take minutes, or open a window each time."""
_ENDLESS = {"--steps", "--max-texts", "--jobs", "--pipe", "--verbose", "--help"}


def test_that_every_command_is_tried() -> None:
    assert set(COMMANDS) - set(_COMMANDS) == _NOT_TRIED


def _options(command: str) -> list[argparse.Action]:
    parser = argparse.ArgumentParser()
    add_command(parser.add_subparsers(), command)
    (children,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return [a for a in children.choices[command]._actions if a.option_strings and a.nargs != 0]


def _values(action: argparse.Action, draw: random.Random) -> Iterator[str]:
    is_number = isinstance(action.default, int | float) or action.metavar in (
        "N",
        "W",
        "X",
        "MM",
        "PT",
        "P",
        "K",
    )
    values = _NUMBERS if is_number else (*_WORDS, *_NUMBERS[:3])
    return iter(draw.sample(values, min(len(values), 2 * TIMES)))


@pytest.mark.qt
@pytest.mark.parametrize("command", _COMMANDS)
def test_that_no_argument_is_a_fault(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    qapp: object,
) -> None:
    draw = random.Random(f"{SEED} {command}")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    tiny_model("encoder-decoder" if command == "translate" else "decoder").save(folder)
    places = {"MODEL": str(folder), "OUT": "out", "OUT.svg": "out.svg", "OUT.npz": "out.npz"}
    given = [places.get(word, word) for word in _COMMANDS[command]]
    kept = {file: file.read_bytes() for file in folder.iterdir()}
    assert main([command, *given]) == 0, capfd.readouterr().err  # else no option is ever reached
    capfd.readouterr()
    faults = []
    for option in _options(command):
        name = option.option_strings[-1]
        for value in _values(option, draw) if name not in _ENDLESS else ():
            arguments = [command, *given, f"{name}={value}"]
            with patience():
                code = main(arguments)
            told = capfd.readouterr()
            is_fault = code not in (0, 2) or "fault in AttnScope" in told.err or "Traceback" in told.err
            if is_fault or "panicked" in told.err or (code == 2 and not told.err.strip()):
                faults.append(f"{name}={value[:60]!r}: {code} {told.err[-300:]}")
    assert not faults, "\n".join(faults)
    assert {file: file.read_bytes() for file in folder.iterdir()} == kept


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says of an argument that it does not take."""
    assert main(arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "nan", "1" * 5_000, "", "1e3", str(10**9 + 1)])
def test_that_a_count_is_a_whole_number_from_one_on(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a whole number from 1" in refused(capsys, "lens", "stories", f"--top={text}")
    assert build_parser(("lens",)).parse_args(["lens", "stories", "--text", "a", "--top", "12"]).top == 12


@pytest.mark.parametrize("text", ["1000000001", "+1" + "0" * 30, "9" * 5_000])
def test_that_a_number_beyond_what_is_meant_is_told_how_far_it_may_go(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, "lens", "stories", f"--top={text}")
    assert "is not a whole number from 1 to 1,000,000,000." in told
    told = refused(capsys, "lens", "stories", f"--position=-{text.lstrip('+')}")
    assert "is not a whole number from -1,000,000,000 to 1,000,000,000." in told


@pytest.mark.parametrize("text", ["nan", "inf", "-0.1", "1.1", "1e400", "x"])
def test_that_a_share_is_between_nothing_and_all(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a number from 0" in refused(capsys, "curve", "stories", f"--step={text}")
    assert build_parser(("curve",)).parse_args(["curve", "stories", "--step", "0.5"]).step == 0.5


@pytest.mark.qt
@pytest.mark.parametrize(
    "arguments",
    [
        ["figure", "stories", "--text", "To be", "-o", "a.svg", "--dpi", "0"],
        ["measure", "stories", "--corpus", "a.txt", "--max-texts", "-1"],
        ["generate", "stories", "--text", ""],
        ["figure", "stories", "--text", "To be", "-o", "."],
    ],
)
def test_that_what_nobody_means_is_refused_before_anything_is_written(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("To be")
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert os.listdir(tmp_path) == ["a.txt"]

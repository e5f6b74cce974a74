"""Standard streams that are closed or full, and Ctrl+C in the middle of an import."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnscope.cli.main import main
from attnscope.cli.terminal import is_importing

PROGRAM = [sys.executable, "-m", "attnscope"]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="shells close streams on POSIX only")


def run_in_shell(line: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"{before}{sys.executable} -m attnscope {line}"], capture_output=True, text=True
    )


def test_that_a_closed_standard_error_does_not_put_an_error_among_the_output() -> None:
    ended = run_in_shell("nothing 2>&-")
    assert (ended.returncode, ended.stdout) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("line", ["--version", "--help", "train --help"])
def test_that_a_full_standard_output_is_one_line_and_no_fault_of_the_program(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    ended = run_in_shell(f"{line} > /dev/full")
    assert ended.returncode == 2
    assert ended.stderr.startswith("attnscope: Standard output could not be written: No space left")
    assert ended.stderr.count("\n") == 1


def test_that_ctrl_c_in_an_import_ends_the_program_with_one_line(tmp_path: Path) -> None:
    started = tmp_path / "started"
    (tmp_path / "torch.py").write_text(f"open({str(started)!r}, 'w').close()\nimport time\ntime.sleep(30)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"}
    command = [*PROGRAM, "info", "grammar"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # one that is ignored stays so
    try:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    finally:
        signal.signal(signal.SIGINT, before)
    until = time.monotonic() + 60
    while not started.exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "attnscope: stopped.\n")


def test_that_an_import_is_told_from_other_code() -> None:
    assert not is_importing(sys._getframe())


def test_that_standard_input_is_read_where_a_file_is_named_by_a_hyphen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the place of one that is missing, closed or a terminal nothing is waited for."""
    text = "she went home . she went to the sea .\n"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    piped = run_in_shell(f"measure stories -f - < {tmp_path}/a.txt")
    assert piped.returncode == 0, piped.stderr
    assert main(["measure", "stories", "-f", f"{tmp_path}/a.txt"]) == 0
    assert piped.stdout == capsys.readouterr().out
    closed = run_in_shell("predict stories -f - <&-")
    assert closed.returncode == 2
    assert "'-', standard input, cannot be read" in closed.stderr
    for command in (["predict", "stories", "-f", "-"], ["measure", "stories", "--corpus", "-"]):
        with open(os.devnull, encoding="utf-8") as empty:
            monkeypatch.setattr(sys, "stdin", empty)
            assert main(command) == 2
        told = capsys.readouterr().err
        assert told.startswith("attnscope: standard input "), told
    for command in ("figure stories --text a -o -", "trace stories --text a -o -"):
        refused = run_in_shell(command)
        assert refused.returncode == 2
        assert "/dev/stdout" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "told", ["--json | head -n 6", "2>&1 >/dev/null | head -n 6", "--seeds 0 2>&1 >/dev/null | head -n 6"]
)
def test_that_training_whose_reader_has_gone_saves_what_it_has_learned(tmp_path: Path, told: str) -> None:
    few = ("training.evaluation_batches=1", "data.n_examples=2000")
    asked = ("training.evaluate_every=1", "training.save_every=100000", *few)
    run, sets = tmp_path / "run", " ".join(f"--set {one}" for one in asked)
    words, _, reader = told.partition("|")
    command = f"train copy --out {run} {sets} {words}"
    ended = run_in_shell(f"{command}; echo $? > {tmp_path}/code; }} |{reader}", before="{ ")
    assert ended.stdout.count("\n") == 6, ended.stderr
    assert (tmp_path / "code").read_text() == "141\n"
    assert max(int(folder.name) for folder in run.glob("**/checkpoints/*")) > 0

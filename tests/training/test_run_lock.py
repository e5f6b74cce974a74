"""One writer a run folder (F44): who holds it, who is refused, and what becomes of a dead holder's lock."""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnscope.counting import age_words
from attnscope.errors import SaveError, UserError
from attnscope.training import LOCK_NAME, RunLock, TrainingRun, parse_recipe, read_writer

_HOLD = "import sys; from pathlib import Path; from attnscope.training.run import RunLock\n"
_HOLD += "lock = RunLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"


def _write_lock(folder: Path, **values: object) -> None:
    holder = {"pid": os.getpid(), "host": platform.node(), "since": time.time(), **values}
    (folder / LOCK_NAME).write_text(json.dumps(holder))


@pytest.mark.slow
def test_that_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError) as caught:
            RunLock(tmp_path)
        assert f"process {holder.pid} on this computer since {time.strftime('%Y-')}" in str(caught.value)
        writer = read_writer(tmp_path)
        assert writer is not None
        assert (writer.pid, writer.is_here) == (holder.pid, True)
        holder.kill()
    assert (tmp_path / LOCK_NAME).exists()
    assert read_writer(tmp_path) is None
    RunLock(tmp_path).release()
    assert not (tmp_path / LOCK_NAME).exists()


def test_that_a_lock_of_another_computer_is_respected_with_its_age_and_a_way_out(tmp_path: Path) -> None:
    _write_lock(tmp_path, host="elsewhere", pid=99_999_999)  # no process of this one has it
    three_hours_ago = time.time() - 3 * 3600 - 5
    os.utime(tmp_path / LOCK_NAME, (three_hours_ago, three_hours_ago))
    with pytest.raises(UserError) as caught:
        RunLock(tmp_path)
    message = str(caught.value)
    for part in ("process 99999999 on elsewhere", "last wrote 3 h ago", f"delete {tmp_path / LOCK_NAME}"):
        assert part in message
    (tmp_path / LOCK_NAME).unlink()
    RunLock(tmp_path).release()


def test_that_a_run_on_a_full_disk_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(SaveError, match=r"run cannot be written: No space left on device"):
        RunLock(tmp_path / "run")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", ["", "{}", "\0" * 40, '{"pid": "x", "host": 1, "since": null}', "[1]"])
def test_that_a_damaged_lock_that_nobody_holds_is_taken_over(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK_NAME).write_text(content)
    assert read_writer(tmp_path) is None
    RunLock(tmp_path).release()


@pytest.mark.slow
def test_that_a_run_holds_its_folder_from_its_making_to_its_end(tiny_recipe: str, tmp_path: Path) -> None:
    recipe = parse_recipe(tiny_recipe)
    run = TrainingRun(recipe, tmp_path / "run", "cpu")
    events = run.events()
    next(events)
    with pytest.raises(UserError, match=f"process {os.getpid()} on this computer"):
        TrainingRun(recipe, tmp_path / "run", "cpu")
    list(events)
    assert read_writer(tmp_path / "run") is None
    assert TrainingRun(recipe, tmp_path / "run", "cpu").step == recipe.training.n_steps


def test_that_a_run_that_cannot_begin_leaves_no_folder_behind(tiny_recipe: str, tmp_path: Path) -> None:
    recipe = parse_recipe(tiny_recipe, overrides={"data.path": str(tmp_path / "none.txt")})
    with pytest.raises(UserError):
        TrainingRun(recipe, tmp_path / "run", "cpu")
    assert not (tmp_path / "run").exists()


def test_that_ages_are_told_in_the_largest_unit() -> None:
    ages = {5: "just now", 60: "1 min ago", 7200: "2 h ago", 3 * 86400 + 1: "3 d ago"}
    assert {seconds: age_words(seconds) for seconds in ages} == ages


@pytest.mark.parametrize("name", ["x" * 1000, "a\0b", "y/" * 3000])
def test_that_a_folder_that_cannot_be_is_a_save_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(SaveError, match="Choose another folder"):
        RunLock(tmp_path / name)

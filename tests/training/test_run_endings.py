"""How a run ends when its folder, its disk or its terminal is taken away; what is finished is handed over."""

import argparse
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnscope import boot, files, paths
from attnscope.cli import train as command
from attnscope.errors import UserError
from attnscope.models import load, read_model_folder
from attnscope.records import Finished, Saved, SaveFailed, Step
from attnscope.training import TrainingRun, parse_recipe, read_run

pty = pytest.importorskip("pty", reason="terminals of POSIX")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and open files of POSIX; runs there")


def _begin(recipe: str, out: Path, **more: object) -> TrainingRun:
    recipe = recipe.replace("save_every = 100", "save_every = 2")
    return TrainingRun(parse_recipe(recipe), out, "cpu", **more)  # type: ignore[arg-type]


def _command(recipe: str, tmp_path: Path, *words: str) -> int:
    (tmp_path / "recipe.toml").write_text(recipe)
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    command.add_parser(parser.add_subparsers())
    given = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run"), *words]
    arguments = parser.parse_args(given)
    return int(arguments.run(arguments))


def _handed_over() -> list[Path]:
    folder = paths.runs_folder()
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _same_model(a: Path, model: object) -> bool:
    state, live = read_model_folder(a).module.state_dict(), model.own.module.state_dict()  # type: ignore[attr-defined]
    return all(state[name].equal(live[name]) for name in live)


# -- the folder -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "named"),
    [
        ("checkpoints", "4 checkpoints to step 6"),
        ("metrics.jsonl", "metrics.jsonl"),
        ("state.safetensors", "state.safetensors"),
    ],
)
def test_that_what_is_left_of_a_run_is_named_and_never_written_over(
    task_recipe: str, tmp_path: Path, kept: str, named: str
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    list(_begin(task_recipe, whole).events())
    out.mkdir()
    if kept == "checkpoints":
        shutil.copytree(whole / kept, out / kept)
    else:
        (out / kept).write_bytes(b"{}\n")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=named) as caught:
        _begin(task_recipe, out)
    assert "no recipe.toml" in str(caught.value)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_that_a_folder_of_a_run_that_never_began_is_taken(task_recipe: str, tmp_path: Path) -> None:
    for inner in ("checkpoints", "probes"):
        (tmp_path / "run" / inner).mkdir(parents=True)
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert list(_begin(task_recipe, tmp_path / "run").events())[-1].step == 6


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(3, 4), (1, 2)], ids=["at a checkpoint", "at a flush"])
def test_that_a_run_whose_folder_is_deleted_ends_and_hands_its_model_over(
    task_recipe: str, tmp_path: Path, steps: tuple[int, int]
) -> None:
    deleted_at, ends_at = steps
    now = [0.0]
    run = _begin(task_recipe, tmp_path / "run", clock=lambda: now[0])
    events = []
    for event in run.events():
        events.append(event)
        if isinstance(event, Step) and event.step == deleted_at:
            shutil.rmtree(tmp_path / "run")
        now[0] += 2.0 * (deleted_at == 1)
    last = events[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.step) == ("stopped", ends_at)
    assert "is gone" in last.note
    assert "Training continues" not in "".join(e.reason for e in events if isinstance(e, SaveFailed))
    assert not run.is_saved
    assert not (tmp_path / "run").exists()
    (model,) = _handed_over()
    assert str(model) in last.note
    assert _same_model(model, run.model)


# -- the disk -------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A disk that is full below `full`, from outside: nothing can be moved into its place there."""
    state, move = SimpleNamespace(full=None), files._move

    def checked(source: Path, target: Path) -> None:
        if state.full is not None and target.is_relative_to(state.full):
            raise OSError(errno.ENOSPC, "No space left on device")
        move(source, target)

    monkeypatch.setattr(files, "_move", checked)
    return state


def _until_full(run: TrainingRun, disk: SimpleNamespace, full: Path, step: int) -> list:
    events = []
    for event in run.events():
        events.append(event)
        if isinstance(event, Step) and event.step == step:
            disk.full = full
    return events


@pytest.mark.slow
def test_that_a_finished_model_that_its_folder_does_not_take_is_saved_elsewhere(
    task_recipe: str, tmp_path: Path, disk: SimpleNamespace
) -> None:
    run = _begin(task_recipe, tmp_path / "run")
    last = _until_full(run, disk, tmp_path / "run", 5)[-1]
    assert isinstance(last, Finished)
    assert last.reason == "done"
    assert not run.is_saved
    (model,) = _handed_over()
    assert model.name == "run step 6"
    assert str(model) in last.note
    assert _same_model(model, run.model)
    disk.full = None
    assert _begin(task_recipe, tmp_path / "run").step == 4  # weights and state are one: not a half of step 6


@pytest.mark.slow
def test_that_a_finished_model_that_nothing_takes_is_tried_again_until_it_is_saved(
    task_recipe: str, tmp_path: Path, disk: SimpleNamespace
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        disk.full = None if len(waited) == 3 else disk.full

    run = _begin(task_recipe, tmp_path / "run", wait=wait)
    events = _until_full(run, disk, Path("/"), 5)
    assert waited == sorted(waited)
    assert len(waited) == 3
    assert waited[-1] > waited[0]
    assert run.is_saved
    assert isinstance(events[-2], Saved)
    assert isinstance(events[-1], Finished)
    assert events[-1].note == ""
    assert _handed_over() == []


@pytest.mark.slow
def test_that_a_disk_without_room_is_noticed_before_anything_is_written(
    task_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, free = _begin(task_recipe, tmp_path / "run"), [10**9]
    monkeypatch.setattr(
        "attnscope.training.saving.shutil.disk_usage", lambda folder: SimpleNamespace(free=free[0])
    )
    events = []
    for event in run.events():
        events.append(event)
        if isinstance(event, Step) and event.step == 3:
            free[0] = 50_000  # the weights would fit, the state beside them would not
            before = sorted((tmp_path / "run" / "checkpoints").rglob("*"))
    failed = [event for event in events if isinstance(event, SaveFailed)]
    assert "needs 1." in failed[0].reason
    assert "0.1 MB left" in failed[0].reason
    assert sorted((tmp_path / "run" / "checkpoints").rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--seeds", "3", "--jobs", "1")], ids=["one", "sweep"])
def test_that_a_command_that_could_not_save_its_model_ends_with_2(
    task_recipe: str,
    tmp_path: Path,
    disk: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def rate(step: int, recipe: object) -> float:
        disk.full = tmp_path / "run" if step == 5 else disk.full
        return 1e-3

    monkeypatch.setattr("attnscope.training.loop.learning_rate_at", rate)
    assert _command(task_recipe, tmp_path, *words) == 2
    (model,) = _handed_over()
    assert str(model) in "".join(capsys.readouterr().err.split("\n"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a small disk is mounted as root")
def test_that_a_run_on_a_small_disk_hands_its_model_over_and_keeps_a_whole_checkpoint(
    task_recipe: str, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)]
    if subprocess.run(mounting, capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        run = _begin(task_recipe, small / "run")
        for event in run.events():
            if isinstance(event, Step) and event.step == 3:
                (small / "other").write_bytes(bytes(shutil.disk_usage(small).free - 20_000))
        assert isinstance(event, Finished)
        assert not run.is_saved
        (small / "other").unlink()
        (model,) = _handed_over()
        assert load(model).own.card.training["step"] == 6
        steps = [step for step, _ in read_run(small / "run").checkpoints]
        assert steps == [0, 2]
        assert _begin(task_recipe, small / "run").step == 2
    finally:
        subprocess.run(["umount", "-l", small], check=True)


# -- signals --------------------------------------------------------------------------------------


@pytest.fixture
def signalled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A signal that comes in the third step."""
    monkeypatch.setattr(boot, "forget_terminal", lambda: None)

    def send(number: int) -> None:
        def rate(step: int, recipe: object) -> float:
            if step == 3:
                signal.raise_signal(number)
            return 1e-3

        monkeypatch.setattr("attnscope.training.loop.learning_rate_at", rate)

    return send


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("words", [(), ("--seeds", "3")], ids=["one", "sweep"])
def test_that_a_signal_saves_and_its_exit_code_says_that_the_run_is_not_done(
    task_recipe: str,
    tmp_path: Path,
    signalled: Callable[[int], None],
    name: str,
    code: int,
    words: tuple[str, ...],
) -> None:
    before = signal.getsignal(getattr(signal, name))
    signalled(getattr(signal, name))
    assert _command(task_recipe, tmp_path, *words) == code
    out = tmp_path / "run" / "seed=3" if words else tmp_path / "run"
    assert [step for step, _ in read_run(out).checkpoints] == [0, 3]
    assert signal.getsignal(getattr(signal, name)) == before


@pytest.mark.slow
def test_that_a_hang_up_that_is_ignored_from_outside_stays_ignored(
    task_recipe: str, tmp_path: Path, signalled: Callable[[int], None]
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        signalled(signal.SIGHUP)
        assert _command(task_recipe, tmp_path) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
def test_that_a_run_outlives_its_terminal_until_it_is_saved(task_recipe: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(task_recipe.replace("n_steps = 6", "n_steps = 1000000"))
    words = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run"), "--device", "cpu"]
    variables = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[1])}
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=variables,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    while b"tokens/s" not in seen:
        seen += os.read(ours, 1000)
    os.close(ours)
    assert child.wait(timeout=60) == 129
    run = read_run(tmp_path / "run")
    assert isinstance(run.events[-1], Finished)
    assert run.events[-1].step == run.checkpoints[-1][0] > 0


TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # this terminal is the one whose end is told
from attnscope.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_that_what_a_signal_says_in_the_middle_of_another_line_is_said_and_ends_nothing() -> None:
    code = """
import contextlib, os, signal
from attnscope.cli.terminal import say, say_error
signal.signal(signal.SIGUSR1, lambda *_: say_error("stopping after this step"))
os.set_blocking(2, False)
with contextlib.suppress(BlockingIOError):
    while True:
        os.write(2, b".")  # nobody reads yet
os.set_blocking(2, True)
say("ready")
say_error("a line")
say("done")
"""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    variables = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[1])}
    variables.pop("PYTHONUNBUFFERED", None)  # without a buffer there is no middle
    with subprocess.Popen([sys.executable, "-c", code], env=variables, **pipes) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
        said, told = child.communicate(timeout=60)
    assert (child.returncode, said) == (0, b"done\n")
    assert sorted(told.strip(b".").splitlines()) == [b"a line", b"stopping after this step"]

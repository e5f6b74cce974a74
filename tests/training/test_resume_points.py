"""A run goes on from its newest whole checkpoint: the same bits, whatever was killed, damaged or is old."""

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from forked import start

from attnscope import files
from attnscope.errors import LoadError
from attnscope.files import check_manifest, drop_listed
from attnscope.models import CONFIG, STATE, WEIGHTS, load, read_model_folder
from attnscope.records import Started, Step
from attnscope.training import Metrics, TrainingRun, parse_recipe, read_run

pytestmark = pytest.mark.slow

N_STEPS = 6
WATCH = '[[watch]]\ntext = "a b c"\ntarget = "c b a"\n'


@pytest.fixture
def recipe(task_recipe: str) -> str:
    return task_recipe + WATCH


def begin(recipe: str, out: Path, **changes: str) -> TrainingRun:
    overrides = {"training.n_steps": str(N_STEPS), "training.save_every": "2"}
    overrides |= {name.replace("__", "."): value for name, value in changes.items()}
    return TrainingRun(parse_recipe(recipe, overrides=overrides), out, "cpu")


def train(recipe: str, out: Path, **changes: str) -> list:
    return list(begin(recipe, out, **changes).events())


def assert_same_run(out: Path, whole: Path, n_steps: int = N_STEPS) -> None:
    """The same weights to the bit, every step once, and a probe for every checkpoint."""
    found, expected = (
        read_model_folder(run / "checkpoints" / str(n_steps)).module.state_dict() for run in (out, whole)
    )
    assert found.keys() == expected.keys()
    for name in found:
        assert torch.equal(found[name], expected[name]), name
    record, straight = read_run(out), read_run(whole)
    assert record.n_bad_lines == 0
    told, right = ([e for e in one.events if isinstance(e, Step)] for one in (record, straight))
    assert [event.step for event in told] == list(range(1, n_steps + 1))
    assert [event.loss for event in told] == [event.loss for event in right]
    assert [step for step, _ in record.checkpoints] == [step for step, _ in straight.checkpoints]
    for step, folder in record.checkpoints:
        check_manifest(folder)
        assert (out / "probes" / f"{step}.safetensors").is_file()


def states(out: Path) -> list[str]:
    return sorted(str(path.parent.relative_to(out)) for path in out.rglob(STATE))


def test_that_the_last_two_checkpoints_keep_their_state_and_all_of_them_open(
    recipe: str, tmp_path: Path
) -> None:
    train(recipe, tmp_path / "run")
    assert states(tmp_path / "run") == ["checkpoints/4", "checkpoints/6"]
    for step in (0, 2, 4, 6):
        folder = tmp_path / "run" / "checkpoints" / str(step)
        check_manifest(folder)
        listed = json.loads((folder / "manifest.json").read_text())
        assert (STATE in listed) == (step >= 4)
        assert WEIGHTS in listed


class Death(BaseException):
    """The process is gone: nothing after it is done."""


def die_at(monkeypatch: pytest.MonkeyPatch, n: int) -> Callable[[], bool]:
    """Let everything that is written fail from the n-th rename on, as if the process had been killed."""
    n_calls, move, flush = 0, files._move, Metrics.flush

    def counted(source: Path, target: Path) -> None:
        nonlocal n_calls
        n_calls += 1
        if n_calls >= n:
            raise Death
        move(source, target)

    def flushed(metrics: Metrics) -> bool:
        return flush(metrics) if n_calls < n else False

    monkeypatch.setattr(files, "_move", counted)
    monkeypatch.setattr(Metrics, "flush", flushed)
    return lambda: n_calls >= n


def test_that_a_run_that_dies_at_any_rename_goes_on_to_the_same_bits(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(recipe, tmp_path / "whole")
    deaths = 0
    for n in range(1, 100, 2):
        out = tmp_path / f"run{n}"
        with monkeypatch.context() as patch:
            has_died = die_at(patch, n)
            try:
                train(recipe, out)
            except Death:
                deaths += 1
            if not has_died():
                break
        train(recipe, out)
        assert_same_run(out, tmp_path / "whole")
        assert not list(out.rglob(".attnscope-tmp-*"))
        shutil.rmtree(out)
    assert deaths >= 12


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (STATE, flip_a_bit),
        (WEIGHTS, flip_a_bit),
        (STATE, cut),
        (STATE, Path.unlink),
        (CONFIG, Path.unlink),
        ("manifest.json", Path.unlink),
        ("manifest.json", cut),
    ],
)
def test_that_a_damaged_checkpoint_is_noticed_and_the_one_before_it_taken(
    recipe: str, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    train(recipe, tmp_path / "whole")
    run = begin(recipe, tmp_path / "run")
    for event in run.events():
        if event.step == 4:
            run.request_stop()
    damage(tmp_path / "run" / "checkpoints" / "4" / name)
    events = train(recipe, tmp_path / "run")
    started = events[0]
    assert isinstance(started, Started)
    assert started.step == 2
    assert "4 is damaged: it has been renamed to 4.damaged" in started.note
    assert (tmp_path / "run" / "checkpoints" / "4.damaged").is_dir()
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_that_a_model_opens_although_its_state_is_damaged(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run")
    flip_a_bit(tmp_path / "run" / "checkpoints" / "6" / STATE)
    assert load(tmp_path / "run").own.card.training["step"] == 6


def test_that_a_run_without_a_whole_state_is_refused_and_left_as_it_was(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "run")
    for step in (4, 6):
        flip_a_bit(tmp_path / "run" / "checkpoints" / str(step) / STATE)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(LoadError, match="has changed since it was saved") as caught:
        begin(recipe, tmp_path / "run")
    assert caught.value.kind == "state"
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def as_of_0_7(out: Path) -> None:
    """The layout of older versions: one state, in the run folder."""
    newest = max(int(path.name) for path in (out / "checkpoints").iterdir())
    shutil.copy(out / "checkpoints" / str(newest) / STATE, out / STATE)
    for folder in (out / "checkpoints").iterdir():
        drop_listed(folder, STATE)


def test_that_runs_of_older_versions_go_on(recipe: str, tmp_path: Path) -> None:
    train(recipe, tmp_path / "whole")
    run = begin(recipe, tmp_path / "run")
    for event in run.events():
        if event.step == 2:
            run.request_stop()
    as_of_0_7(tmp_path / "run")
    assert states(tmp_path / "run") == ["."]
    events = train(recipe, tmp_path / "run")
    assert events[0].step == 2
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert states(tmp_path / "run") == ["checkpoints/4", "checkpoints/6"]


def test_that_a_run_killed_before_its_first_state_begins_again(recipe: str, tmp_path: Path) -> None:
    """As 0.7 left it: the first checkpoint is there, and no state."""
    train(recipe, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole" / "checkpoints" / "0", tmp_path / "run" / "checkpoints" / "0")
    shutil.copy(tmp_path / "whole" / "recipe.toml", tmp_path / "run")
    train(recipe, tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "whole")


CHILD = """
import sys
from pathlib import Path
from attnscope.training import train
for event in train(Path(sys.argv[1]).read_text(), sys.argv[2], "cpu"):
    print(event.step, flush=True)
"""


def kill_again_and_again(recipe: Path, out: Path, draw: random.Random, n_kills: int) -> int:
    """Train in processes that are killed at random moments, the last one not; gives how often that was."""
    for n in range(n_kills + 1):
        child, told = start(CHILD, recipe, out)
        with told:
            for _ in zip(range(draw.randrange(1, 30) if n < n_kills else sys.maxsize), told, strict=False):
                pass
            if n < n_kills:
                child.join(timeout=draw.uniform(0, 0.03))
                child.kill()
            told.read()
        child.join()
        if child.exitcode == 0:
            return n
        assert child.exitcode is not None
        assert child.exitcode < 0
    raise AssertionError("the last process did not end")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kill -9; runs again on POSIX")
def test_that_a_run_killed_at_random_moments_goes_on_to_the_same_bits(recipe: str, tmp_path: Path) -> None:
    n_steps = 100
    changed = recipe.replace("n_steps = 6", f"n_steps = {n_steps}")
    changed = changed.replace("save_every = 100", "save_every = 3")
    (tmp_path / "recipe.toml").write_text(changed)
    list(TrainingRun(parse_recipe(changed), tmp_path / "whole", "cpu").events())
    n = kill_again_and_again(tmp_path / "recipe.toml", tmp_path / "run", random.Random(7), 4)
    assert n >= 2
    assert_same_run(tmp_path / "run", tmp_path / "whole", n_steps)

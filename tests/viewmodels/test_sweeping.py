"""Several runs from the window: what is asked of the command line, and what its folder tells."""

import io
import json
import math
import os
import time
from pathlib import Path

import pytest

from attnscope import paths
from attnscope.errors import RecipeError, UserError
from attnscope.records import OpenRuns, Request
from attnscope.viewmodels import Requests, WorkState, watch_sweep
from attnscope.viewmodels.training import (
    SweepState,
    SweepWish,
    TrainingState,
    best_of,
    keep_wish,
    share_made,
    unfinished_wish,
)


class Child:
    """A process that ends when it is told."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.stdin = io.BytesIO()

    def poll(self) -> int | None:
        return self.code


class Desk:
    """A sweep whose process is played by hand."""

    def __init__(self, folder: Path) -> None:
        self.posted: list[Request] = []
        self.child = Child()
        self.commands: list[list[str]] = []
        self.out = folder / "several"
        training = TrainingState(Requests(self.posted.append))
        training.recipe.take('[data]\nkind = "task"\n')
        self.state = SweepState(training, self.spawn)  # type: ignore[arg-type]

    def spawn(self, words: list[str], _out: Path) -> Child:
        self.commands.append(words)
        return self.child

    def run_begins(self, name: str, *lines: str) -> None:
        (self.out / name).mkdir()
        (self.out / name / "recipe.toml").write_text("")
        with open(self.out / "sweep.log", "a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in lines)
        self.state.tick()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def _wish(desk: Desk) -> SweepWish:
    return SweepWish(values=("model.d_model=16,32",), seeds="2", keep_best=1, after=10, out=str(desk.out))


def test_that_it_is_the_command_lines_sweep_followed_by_its_log(desk: Desk) -> None:
    desk.state.start(_wish(desk))
    words = desk.commands[0]
    assert words[words.index("train") + 1] == str(desk.out / "sweep.toml")
    assert " ".join(words).endswith("--sweep model.d_model=16,32 --seeds 0,1 --keep-best 1 --after 10")
    desk.run_begins("d_model=16,seed=0", "[1/4] d_model=16,seed=0: step 10 of 1,000, validation 2.5000")
    assert desk.state.phase == "running"
    assert desk.state.fraction == pytest.approx(10 / (4 * 10 + 990))  # three of four end at step 10
    assert [r.folders for r in desk.posted if isinstance(r, OpenRuns)] == [(str(desk.out),)]
    assert not desk.child.stdin.closed
    desk.state.stop()
    assert desk.child.stdin.closed
    assert desk.state.what.startswith("saving run 1 of 4: d_model=16,seed=0 · step 10 of 1,000")
    desk.run_begins("d_model=16,seed=1", "[2/4] d_model=16,seed=1: step 10 of 1,000, validation 2.4000")
    assert (desk.state.phase, desk.state.what[:15]) == ("stopping", "saving run 1 of")
    desk.child.code = 130
    desk.state.tick()
    assert desk.state.phase == "stopped"
    assert desk.state.suggested == _wish(desk)
    assert "2 of them are in this folder already and will be continued." in desk.state.summary(_wish(desk))


@pytest.mark.parametrize("seeds", ["0", "1001", "9" * 12, "9" * 13, "9" * 5_000])
def test_that_too_many_seeds_are_told_in_one_short_sentence(seeds: str) -> None:
    with pytest.raises(RecipeError, match="seeds cannot be trained") as told:
        _ = SweepWish(seeds=seeds, out="/r").runs
    assert len(str(told.value)) < 120


def test_that_it_is_under_way_from_its_start_to_its_end(desk: Desk) -> None:
    work = WorkState()
    watch_sweep(work, desk.state)
    desk.state.start(_wish(desk))
    assert [job.name for job in work.jobs] == ["Several runs"]
    desk.run_begins("d_model=16,seed=0", "[1/4] d_model=16,seed=0: step 10 of 1,000, validation 2.5000")
    assert work.jobs[0].what.startswith("run 1 of 4")
    work.stop("Several runs")
    assert desk.state.phase == "stopping"
    desk.child.code = 130
    desk.state.tick()
    assert not work.jobs


def test_that_another_window_goes_on_with_runs_that_one_was_closed_over(
    desk: Desk, private_folders: Path, tmp_path: Path
) -> None:
    out = paths.runs_folder() / "run-several"
    wish = SweepWish(values=("model.d_model=16,32",), seeds="5", keep_best=1, after=10, out=str(out))
    desk.state.start(wish)  # and the window is closed: nobody is told how it ended
    later = Desk(tmp_path)
    assert later.state.suggested == wish
    later.state.training.recipe.edit('[data]\nkind = "task"\ntask = "copy"\n')
    fresh = later.state.suggested  # of another recipe nothing is unfinished
    assert (fresh.seeds, fresh.values, Path(fresh.out).name) == ("3", (), "run-several-2")
    desk.child.code = 0
    desk.state.tick()
    assert Path(Desk(tmp_path).state.suggested.out).name == "run-several-2"
    (out / "sweep.wish").write_text('{"seeds": 1}', encoding="utf-8")
    assert Path(Desk(tmp_path).state.suggested.out).name == "run-several-2"


def test_that_the_newest_wish_for_this_recipe_that_is_whole_is_found(tmp_path: Path) -> None:
    def leave(name: str, seeds: str, age_s: int, *, recipe: str = "r", padding: str = "") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        keep_wish(SweepWish(seeds=seeds, values=(padding,) if padding else (), out=str(folder)))
        (folder / "sweep.toml").write_text(recipe, encoding="utf-8")
        os.utime(folder / "sweep.wish", (1_000_000 - age_s, 1_000_000 - age_s))
        return folder

    leave("run-several", "11", 30)
    whole = leave("run-several-2", "12", 20)
    leave("run-several-3", "13", 10, recipe="another")
    leave("other-several", "14", 5)
    leave("run-several-4", "15", 4, padding="x" * 100_000)
    (leave("run-several-5", "16", 3) / "sweep.toml").unlink()
    found = unfinished_wish(tmp_path, "run-several", "r")
    assert found == SweepWish(seeds="12", out=str(whole))
    assert unfinished_wish(tmp_path / "nowhere", "run-several", "r") is None


def test_that_what_the_engine_refuses_is_told(desk: Desk) -> None:
    desk.state.start(_wish(desk))
    (desk.out / "sweep.log").write_text("attnscope: seed=x: training.seed is x. Change it.\n")
    desk.child.code = 2
    desk.state.tick()
    assert (desk.state.phase, desk.state.problem) == ("failed", "seed=x: training.seed is x. Change it.")


def test_that_the_best_run_is_told_with_the_spread_over_its_seeds() -> None:
    def run(name: str, loss: float | None, **settings: str) -> dict[str, object]:
        known = {"folder": f"/r/{name}", "name": name, "best_loss": loss, "best_step": 40}
        return {**known, "loss_unit": "nats per token", "settings": settings}

    runs = [
        run("a", 2.0, **{"training.seed": "0", "model.d_model": "16"}),
        run("b", 1.0, **{"training.seed": "1", "model.d_model": "16"}),
        run("c", None, **{"training.seed": "0", "model.d_model": "32"}),
    ]
    spread = {"settings": [["model.d_model", "16"]], "n": 2, "mean": 1.5, "deviation": math.sqrt(0.5)}
    best = best_of(json.dumps({"out": "/r", "runs": runs, "seeds": [spread]}))
    assert best is not None
    assert best.folder == "/r/b"
    assert "1.0000 nats per token at step 40 · 1.5000 ± 0.7071 over 2 seeds" in best.words


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (SweepWish(seeds="0"), "0 seeds"),
        (SweepWish(seeds="999999999999"), "999,999,999,999 seeds"),
        (SweepWish(), "nothing to vary"),
        (SweepWish(values=("model.d_model=",)), "names no values"),
        (SweepWish(values=("model.d_model=1,2",), seeds="150"), "300 runs"),
        (SweepWish(values=("training.name=" + "x" * 1000,)), "has 1,000 characters"),
        (SweepWish(values=("training.name=a\0b,c",)), "cannot be printed"),
        (SweepWish(seeds="0,\udc80"), "cannot be printed"),
        (SweepWish(values=("x" * 1000 + ".y=1",)), "names no values"),
        (SweepWish(values=("model.d_model=64," + "6" * 400,)), "has 400 digits"),
    ],
)
def test_that_wrong_values_are_refused_before_anything_starts(wish: SweepWish, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        _ = wish.runs


@pytest.mark.parametrize("name", ["x" * 1000, "a\0b", "y/" * 3000, "file/below"])
def test_that_an_impossible_folder_is_refused_before_anything_starts(desk: Desk, name: str) -> None:
    (desk.out.parent / "file").write_text("")
    wish = SweepWish(seeds="2", out=str(desk.out.parent / name))
    with pytest.raises(UserError):
        desk.state.summary(wish)
    with pytest.raises(UserError):
        desk.state.start(wish)
    assert desk.commands == []
    assert not desk.state.is_active


def test_that_every_run_has_a_folder_of_its_own_with_a_name_that_fits() -> None:
    keys = ("training.name", "data.about", "data.path")
    values = tuple(f"{key}={'é' * 60 + end},{'é' * 60 + end}2" for key, end in zip(keys, "abc", strict=True))
    runs = SweepWish(values=values, seeds="2").runs
    assert len({run.name for run in runs}) == len(runs) == 16
    assert all(len(run.name.encode()) < 256 for run in runs)
    assert SweepWish(values=("data.path=a/b,a_b",)).runs[0].name == "path=a_b"
    assert len({run.name for run in SweepWish(values=("data.path=a/b,a_b",)).runs}) == 2


def test_that_a_recipe_with_an_impossible_path_is_told_and_not_a_fault(desk: Desk) -> None:
    desk.state.training.recipe.take(f'[data]\nkind = "text"\npath = "{"x" * 3000}"\n')
    desk.state.start(_wish(desk))
    assert desk.state.is_active  # the engine says that there is no such file


def test_that_stopping_early_costs_less() -> None:
    assert share_made(SweepWish(keep_best=1, after=25), 4, 100) == (4 * 25 + 75) / 400
    assert share_made(SweepWish(), 4, 100) == 1.0


RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 16

[data]
kind = "task"
task = "reverse"
max_words = 6
n_examples = 50

[objective]
kind = "translation"

[training]
n_steps = 1000000
batch_size = 4
evaluate_every = 10
"""


@pytest.mark.slow
def test_that_a_process_that_trains_saves_when_it_is_stopped(tmp_path: Path) -> None:
    training = TrainingState(Requests([].append))
    training.recipe.take(RECIPE, "tiny")
    training.place.set_device("cpu")
    state = SweepState(training)
    state.start(SweepWish(seeds="2", out=str(tmp_path / "out")))
    until = time.monotonic() + 120
    while state.fraction is None and state.is_active and time.monotonic() < until:
        time.sleep(0.02)
        state.tick()
    assert state.phase == "running", state.problem
    state.stop()
    assert (state.phase, state.what[:19]) == ("stopping", "saving run 1 of 2: ")
    while state.is_active and time.monotonic() < until:
        time.sleep(0.02)
        state.tick()
    assert (state.phase, state.problem) == ("stopped", "")
    lines = (tmp_path / "out" / "seed=0" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    saved, finished = (json.loads(line) for line in lines[-2:])
    assert (finished["event"], finished["reason"]) == ("finished", "stopped")
    assert saved["step"] == finished["step"] >= 10
    assert (Path(saved["folder"]) / "model.safetensors").is_file()
    assert not (tmp_path / "out" / "seed=1").exists()

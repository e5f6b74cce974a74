"""Sweeps: which runs they make, which go on, and that nothing is done twice."""

import argparse
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnscope import paths
from attnscope.cli import train as command
from attnscope.errors import RecipeError, UserError
from attnscope.figures import seed_chart
from attnscope.records import (
    Evaluated,
    Finished,
    RunLines,
    RunSummary,
    Saved,
    Started,
    Step,
    best_at,
    loss_at,
    parse_axes,
    seed_spreads,
    sweep_runs,
)
from attnscope.training import line_from_event, read_run


def summary(name: str, losses: dict[int, float], **values: object) -> RunSummary:
    known = {step: loss for step, loss in losses.items() if math.isfinite(loss)}
    run = RunSummary(
        folder=name,
        name=name,
        end="done",
        step=max(losses, default=0),
        n_steps=10,
        n_parameters=1000,
        n_body=500,
        last_loss=list(losses.values())[-1] if losses else math.nan,
        best_loss=min(known.values(), default=math.nan),
        best_step=0,
        n_tokens=1e4,
        flops=1e9,
        seconds=1.0,
        validation=RunLines(steps=np.array([*losses], float), values=np.array([*losses.values()])),
        recipe="",
    )
    return replace(run, **values)  # type: ignore[arg-type]


def _train(*words: str) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    command.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["train", *words, "--device", "cpu"])
    return int(arguments.run(arguments))


def test_that_a_sweep_makes_every_combination_with_readable_names() -> None:
    runs = sweep_runs(parse_axes(["model.d_model=16, 32", "data.kind=text"], "0,1"))
    assert [run.name for run in runs] == [
        f"d_model={width},kind=text,seed={seed}" for width in (16, 32) for seed in (0, 1)
    ]
    assert runs[-1].overrides == (("model.d_model", "32"), ("data.kind", "text"), ("training.seed", "1"))


def test_that_keys_that_end_alike_are_named_in_full_and_names_are_file_names() -> None:
    runs = sweep_runs({"data.kind": ("text",), "optimizer.kind": ("adamw",), "data.path": ("/a/b:c",)})
    assert runs[0].name == "data.kind=text,optimizer.kind=adamw,path=_a_b_c"


@pytest.mark.parametrize("text", ["model.d_model", "d_model=1", "model.d_model=", "model.d_model= , "])
def test_that_a_sweep_without_values_is_a_recipe_error(text: str) -> None:
    with pytest.raises(RecipeError, match="names no values"):
        parse_axes([text])


def test_that_too_many_runs_and_a_key_twice_are_recipe_errors() -> None:
    with pytest.raises(RecipeError, match="would make 225 runs"):
        sweep_runs({"a.x": [str(i) for i in range(15)], "a.y": [str(i) for i in range(15)]})
    with pytest.raises(RecipeError, match="swept twice"):
        parse_axes(["a.x=1", "a.x=2"])


def test_that_the_best_are_those_with_the_lowest_loss_by_then() -> None:
    late = summary("late", {5: 3.0, 10: 0.5})
    runs = (late, summary("good", {5: 1.0}), summary("none", {}), summary("odd", {5: math.nan}))
    assert [run.name for run in best_at(runs, 5, 2)] == ["good", "late"]
    assert best_at(runs, 10, 1) == (late,)
    assert loss_at(summary("gone", {2: 0.1}, end="diverged", step=3), 5) == math.inf


def test_that_seeds_are_told_by_mean_and_sample_deviation() -> None:
    losses = (1.0, 1.2, 1.7)
    runs = [
        summary(f"s{i}", {10: loss}, settings=(("model.d_model", "8"), ("training.seed", str(i))))
        for i, loss in enumerate(losses)
    ]
    unseeded = [replace(run, settings=(("model.d_model", "9"),)) for run in runs]
    gone = replace(runs[0], name="gone", end="diverged", best_loss=9.0)
    (spread,) = seed_spreads([*runs, *unseeded, gone])
    assert (spread.settings, spread.n) == ((("model.d_model", "8"),), 3)
    assert spread.mean == pytest.approx(np.mean(losses))
    assert spread.deviation == pytest.approx(np.std(losses, ddof=1))


def test_that_a_curve_over_seeds_is_the_mean_at_the_steps_that_all_of_them_have() -> None:
    def of(width: str, seed: str, losses: dict[int, float]) -> RunSummary:
        return summary(
            f"{width}-{seed}", losses, settings=(("model.d_model", width), ("training.seed", seed))
        )

    runs = [
        of("8", "0", {10: 1.0, 20: 0.5, 30: 0.4}),
        of("8", "1", {10: 1.4, 20: 0.9, 25: 7.0}),
        of("16", "0", {10: 0.7, 20: 0.2}),
        of("8", "2", {10: 1.2, 15: 7.0, 20: 1.0, 30: math.nan}),
    ]
    chart = seed_chart(runs)
    low, high, mean, alone = chart.series
    assert (chart.is_log_y, seed_chart(runs, is_log=True).is_log_y) == (False, True)
    assert ("deviation" in chart.y_label, "deviation" in seed_chart(runs[:1]).y_label) == (True, False)
    means, spread = [1.2, 0.8], [np.std([1.0, 1.4, 1.2], ddof=1), np.std([0.5, 0.9, 1.0], ddof=1)]
    np.testing.assert_array_equal(mean.xs, [10, 20])
    np.testing.assert_allclose(mean.ys, means)
    np.testing.assert_allclose(low.ys, np.subtract(means, spread))
    np.testing.assert_allclose(high.ys, np.add(means, spread))
    assert (mean.name, mean.is_quiet, low.is_quiet) == ("d_model=8 (3 seeds)", False, True)
    assert (alone.name, alone.colour) == ("d_model=16", 1)
    np.testing.assert_allclose(alone.ys, [0.7, 0.2])
    single = seed_chart([of("8", "0", {10: 1.0})])
    assert (single.title, seed_chart(runs).title) == ("Held-out loss", "Held-out loss, mean over seeds")
    with pytest.raises(ValueError, match="no run"):
        seed_chart([of("8", "0", {})])


@pytest.mark.slow
def test_that_the_worst_stop_early_and_a_second_call_does_nothing_twice(
    task_recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(task_recipe.replace("save_every", "evaluate_every = 2\nsave_every"))
    words = [str(recipe), "--out", str(tmp_path / "out"), "--sweep", "optimizer.learning_rate=0.01,1e-6"]
    words += ["--seeds", "0,1", "--keep-best", "2", "--after", "2", "--json"]
    words += ["--set", "schedule.kind=constant", "--set", "schedule.warmup_steps=0"]
    assert _train(*words) == 0
    told = json.loads(capsys.readouterr().out)
    ends = {run["name"]: (run["step"], run["end"]) for run in told["runs"]}
    assert ends == {
        "learning_rate=0.01,seed=0": (6, "done"),
        "learning_rate=0.01,seed=1": (6, "done"),
        "learning_rate=1e-6,seed=0": (2, "stopped"),
        "learning_rate=1e-6,seed=1": (2, "stopped"),
    }
    assert [spread["n"] for spread in told["seeds"]] == [2]
    metrics = {path: path.read_bytes() for path in (tmp_path / "out").rglob("metrics.jsonl")}
    assert _train(*words) == 0
    assert {path: path.read_bytes() for path in metrics} == metrics


def test_that_what_goes_on_is_told_with_the_step_of_its_loss_and_lost_runs_do_not(
    task_recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(task_recipe.replace("save_every", "evaluate_every = 2\nsave_every"))
    started = Started(folder="", step=0, n_steps=6, n_parameters=9, device="cpu")
    looks = [Evaluated(step=step, loss=loss, accuracy=0.0) for step, loss in ((2, 0.5), (6, 0.1))]
    made = Step(step=6, loss=0.1, learning_rate=0.1, gradient_norm=1.0, tokens_per_s=9.0)
    runs = {
        "seed=0": [started, made, *looks, Finished(step=6, reason="done")],
        "seed=1": [started, Finished(step=1, reason="diverged")],
    }
    for name, events in runs.items():
        folder = tmp_path / "out" / name
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text(recipe.read_text())
        (folder / "metrics.jsonl").write_text("".join(f"{line_from_event(1, one)}\n" for one in events))
    words = [
        str(recipe),
        "--out",
        str(tmp_path / "out"),
        "--seeds",
        "0,1",
        "--keep-best",
        "2",
        "--after",
        "3",
    ]
    assert _train(*words) == 0
    told = capsys.readouterr().err
    assert "Continues: seed=0, validation 0.5000 nats per target token at step 2." in told
    assert "Stopped at step 3: 1 of 2 runs." in told
    assert told.count("Continues") == 1


def test_that_a_wrong_combination_is_told_before_anything_is_trained(
    task_recipe: str, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(task_recipe)
    words = (str(recipe), "--out", str(tmp_path / "out"))
    with pytest.raises(RecipeError, match="n_heads=3: "):
        _train(*words, "--sweep", "model.n_heads=2,3")
    with pytest.raises(RecipeError, match="At step 2 no held-out loss"):
        _train(*words, "--seeds", "0,1", "--keep-best", "1", "--after", "2")
    with pytest.raises(UserError, match="belong together"):
        _train(*words, "--seeds", "0,1", "--after", "2")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_that_a_run_stops_after_the_step_it_is_told(task_recipe: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(task_recipe)
    assert _train(str(recipe), "--out", str(tmp_path / "run"), "--until", "4") == 0
    assert [path.name for path in sorted((tmp_path / "run" / "checkpoints").iterdir())] == ["0", "4"]


@pytest.mark.parametrize("name", ["gpt-2", "copy"])
def test_that_a_sweep_takes_the_name_of_a_preset_and_of_a_built_in_recipe(
    name: str, text_file: Path, tmp_path: Path
) -> None:
    words = [name, "--out", str(tmp_path / "out"), "--sweep", "model.n_heads=4,7"]
    words += ["--set", f"data.path={text_file}"] if name == "gpt-2" else []
    with pytest.raises(RecipeError, match=r"n_heads=7: model\.n_heads is 7"):
        _train(*words)
    with pytest.raises(UserError, match="--plan"):
        _train(*words, "--plan")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_that_the_end_of_its_input_saves_every_run_of_a_sweep_and_ends_them(
    task_recipe: str, tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_text(task_recipe)
    out = tmp_path / "out"
    words = [sys.executable, "-m", "attnscope", "train", str(tmp_path / "recipe.toml"), "--out", str(out)]
    words += ["--seeds", "0,1", "--jobs", "2", "--json", "--device", "cpu", "--stop-at-eof"]
    words += ["--set", "training.n_steps=1000000", "--set", "training.evaluate_every=10"]
    variables = {**os.environ, "PYTHONPATH": str(paths.resources_folder().parent)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8", env=variables
    ) as child:
        assert child.stdin is not None
        assert child.stderr is not None
        assert child.stdout is not None
        begun: set[str] = set()
        while len(begun) < 2:
            begun.add(child.stderr.readline().partition(":")[0])  # [1/2] seed=0: step 10 of …
        child.stdin.close()
        told = json.loads(child.stdout.read())
    assert child.returncode == 130
    assert {run["end"] for run in told["runs"]} == {"stopped"}
    for seed in (0, 1):
        run = read_run(out / f"seed={seed}")
        saved, finished = run.events[-2:]
        assert isinstance(saved, Saved)
        assert isinstance(finished, Finished)
        assert saved.step == finished.step == run.checkpoints[-1][0] >= 10
        assert not (out / f"seed={seed}" / ".lock").exists()

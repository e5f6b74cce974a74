"""The one estimate of a run's time: the last run of the same recipe, else probes; alike at every door."""

import json
import os
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_models import tiny_model
from torch.utils._python_dispatch import TorchDispatchMode

from attnscope import paths
from attnscope.cli.main import main
from attnscope.counting import rough_text
from attnscope.records import Pace, PlanRecipe, RecipePlanned
from attnscope.settings import Settings, known_run_folders, write_settings
from attnscope.training import (
    EVALUATED_STEPS,
    SAVE_S,
    START_S,
    Recipe,
    Way,
    find_recipe,
    measured_pace,
    pace_of,
    parse_recipe,
    plan_recipe,
    read_recipe,
    tanh_numbers,
    usual_s,
    write_recipe,
)
from attnscope.viewmodels.training import work_rows
from attnscope.workers import Engine

CPU = torch.device("cpu")


@pytest.fixture
def recipe(tiny_recipe: str) -> Recipe:
    return parse_recipe(tiny_recipe)


def leave_run(folder: Path, recipe: Recipe, tokens_per_s: float = 1000.0, at_s: float = 1e9) -> None:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(write_recipe(recipe))
    lines = [{"attempt": 1, "event": "started", "device": "cpu"}]
    lines += [{"attempt": 1, "event": "step", "step": i, "tokens_per_s": tokens_per_s} for i in range(1, 9)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(folder / "metrics.jsonl", (at_s, at_s))


def test_that_the_last_run_of_the_same_recipe_counts_wherever_it_is(recipe: Recipe, tmp_path: Path) -> None:
    longer = replace(
        recipe, training=replace(recipe.training, n_steps=7, seed=9, name="another", save_every=3)
    )
    leave_run(tmp_path / "one", longer, 1000.0, 1e9)
    leave_run(tmp_path / "several" / "seed=1", longer, 2000.0, 1.1e9)
    assert "one" in pace_of(recipe, CPU, [tmp_path / "one"]).words
    pace = pace_of(recipe, CPU, [tmp_path])
    seconds = plan_recipe(recipe, CPU, pace=pace).seconds
    assert seconds is not None
    steps_s = recipe.training.n_steps * 4 * 16 / 2000.0
    assert seconds[1] == pytest.approx(steps_s + sum(s for _, s in pace.beside))
    assert pace.doubt < 1.5
    for other in (
        replace(recipe, training=replace(recipe.training, batch_size=3)),
        replace(recipe, model=replace(recipe.model, d_ff=65)),
    ):
        assert "measured" in pace_of(other, CPU, [tmp_path]).words  # what other recipes reach tells nothing


def test_that_a_bad_moment_does_not_change_the_estimate(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the window is just opening: of five probes one takes a hundred times as long."""
    monkeypatch.setattr("attnscope.training.speed._probes", lambda *_: deque(maxlen=99))

    def measured(slow: float) -> float:
        now, n = 0.0, 0

        def clock() -> float:
            nonlocal now, n
            n += 1
            now += 0.001 * (slow if n % 10 == 0 else 1.0)
            return now

        monkeypatch.setattr("attnscope.training.speed.time.perf_counter", clock)
        return measured_pace(recipe, CPU).flops_per_s

    assert measured(slow=100.0) == pytest.approx(measured(slow=1.0))


@pytest.mark.parametrize(
    ("load", "doubt", "words"), [(0.4, 2.0, "a factor of 2"), (9.5, 3.0, "other programs")]
)
def test_that_an_estimate_beside_other_work_says_so_and_is_wider(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch, load: float, doubt: float, words: str
) -> None:
    monkeypatch.setattr("attnscope.training.speed.os.cpu_count", lambda: 2)
    monkeypatch.setattr("attnscope.training.speed.os.getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    pace = measured_pace(recipe, CPU)
    assert pace.doubt == doubt
    assert words in pace.words
    seconds = plan_recipe(recipe, CPU, pace=pace).seconds
    assert seconds is not None
    assert seconds[2] == pytest.approx(doubt * seconds[1])


def test_that_every_door_tells_the_same_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], private_folders: Path
) -> None:
    """The command line, the Train page and what Learn offers."""
    recipe = read_recipe(find_recipe("copy"))
    remembered = tmp_path / "anywhere" / "run"
    leave_run(remembered, recipe)
    write_settings(Settings(recent_runs=(str(remembered),)), paths.settings_folder())
    assert main(["--device", "cpu", "train", "copy", "--plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["seconds"]["expected"]
    text = find_recipe("copy").read_text()
    for out in ("", str(tmp_path / "next")):
        request = PlanRecipe(number=1, recipe=text, device="cpu", out=out, run_folders=known_run_folders(out))
        *_, planned = Engine(lambda error, what: None).handle(request)
        assert isinstance(planned, RecipePlanned)
        assert planned.plan is not None
        assert planned.plan.seconds is not None
        assert planned.plan.seconds[1] == pytest.approx(told)
    tokens = planned.plan.tokens_a_step * planned.plan.n_steps
    assert told == pytest.approx(tokens / 1000.0 + planned.plan.beside_seconds)
    assert main(["--device", "cpu", "train", "copy", "--plan"]) == 0
    assert f"about {rough_text(told)}" in capsys.readouterr().out


def test_that_what_a_person_waits_for_beside_the_steps_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = read_recipe(find_recipe("copy"))
    monkeypatch.setattr("attnscope.training.speed._example_s", lambda _making: 0.001)
    training = replace(
        recipe.training, n_steps=100, evaluate_every=30, evaluation_batches=5, save_every=40, batch_size=4
    )
    many = replace(recipe, training=training, data=replace(recipe.data, n_examples=980))
    pace = pace_of(many, CPU, [])
    beside = dict(pace.beside)
    plan = plan_recipe(many, CPU, pace=pace)
    step_s = plan.flops_a_step / pace.flops_per_s
    assert beside["data"] == pytest.approx(0.001 * (980 + 5 * 4))
    assert beside["evaluations"] == pytest.approx(4 * 5 * EVALUATED_STEPS * step_s)
    assert beside["start"] == pytest.approx(START_S)  # one thread: there is nothing to choose
    assert beside["checkpoints and watched sentences"] > 4 * SAVE_S
    seconds = plan.seconds
    assert seconds is not None
    assert seconds[1] == pytest.approx(100 * step_s + sum(beside.values()))
    assert seconds[0] <= seconds[1] / 2
    assert seconds[2] >= seconds[1] * 2
    words = dict(work_rows(plan))["beside the steps"]
    assert "start 4 s" in words
    assert "data 1 s" in words


def test_that_a_known_speed_of_steps_says_less_of_what_is_beside_them() -> None:
    pace = Pace(flops_per_s=1e9, doubt=1.25, words="", beside=(("start", 4.0), ("data", 6.0)))
    plan = plan_recipe(read_recipe(find_recipe("copy")), CPU, pace=pace)
    assert plan.seconds is not None
    steps_s = plan.flops / 1e9
    assert plan.seconds == pytest.approx((steps_s / 1.25 + 5.0, steps_s + 10.0, steps_s * 1.25 + 20.0))


def test_that_data_are_timed_on_a_small_scale_and_files_by_their_size(tmp_path: Path) -> None:
    task = dict(pace_of(read_recipe(find_recipe("set-anomaly")), CPU, []).beside)
    assert 0.5 < task["data"] < 500.0
    file = tmp_path / "text.txt"
    text = find_recipe("shakespeare-characters").read_text()
    seconds = []
    for n in (1_000, 1_000_000):
        file.write_text("to be or not\n" * n)
        large = parse_recipe(text, overrides={"data.path": str(file)})
        seconds.append(dict(pace_of(large, CPU, []).beside)["data"])
    assert seconds[1] == pytest.approx(1000 * seconds[0])


@pytest.mark.parametrize(
    ("gain", "words"), [(1.6, "in 2 threads side by side, each with rows of its own,"), (0.9, "just now at")]
)
def test_that_a_plan_takes_the_way_in_which_a_run_will_be_quickest(
    recipe: Recipe, gain: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Way, int]] = []

    def probe(_work: object, _device: str, way: Way, _probes: object) -> float:
        seen.append((way, torch.get_num_threads()))
        return 1e-3 / (gain if way.is_by_rows else 0.8 if way.n > 1 else 1.0)

    monkeypatch.setattr("attnscope.training.speed.usual_s", probe)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = measured_pace(recipe, CPU)
    assert {way for way, _ in seen} == {Way()}
    torch.set_num_threads(2)
    try:
        found = measured_pace(recipe, CPU)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert words in found.words
    assert {way for way, _ in seen} == {Way(), Way(2, True), Way(2)}
    assert all(n == way.in_products for way, n in seen)
    assert (found.flops_per_s > 1.2 * alone.flops_per_s) == (gain > 1.0)
    assert found.flops_per_s <= max(1.0, gain) * alone.flops_per_s * 1.0001


def test_that_threads_at_once_share_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each piece of work the time is told, and by rows as many threads do it as there would be."""
    done: list[int] = []
    monkeypatch.setattr("attnscope.training.speed._LEAST_S", 0.0)
    for way, n_threads in ((Way(), 1), (Way(3, True), 3), (Way(3), 1)):
        done.clear()
        usual_s(lambda: done.append(threading.get_ident()), "cpu", way, deque())
        assert 1 <= len(set(done)) <= n_threads
        assert (len(done) - 1) % (4 * n_threads) == 0


class TanhCount(TorchDispatchMode):
    """How many numbers torch takes the tanh of."""

    n = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.n += args[0].numel() if function.__name__.startswith("tanh") else 0
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("score", ["additive", "scaled-dot"])
def test_that_the_tanh_of_an_additive_score_is_counted_in_a_transformer(form: str, score: str) -> None:
    model = tiny_model(form, score=score, n_kv_heads=4)
    ids = torch.ones(3, 5, dtype=torch.long)
    target = {"target_ids": ids} if form == "encoder-decoder" else {}
    with TanhCount() as counted, torch.no_grad():
        model.network.module(ids, **target)
    assert tanh_numbers(model.network.module.config, 3, 5.0) == counted.n
    assert (counted.n > 0) == (score == "additive")


def test_that_the_tanh_of_additive_scores_is_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    additive = read_recipe(find_recipe("reverse-additive"))
    monkeypatch.setattr("attnscope.training.speed.product_rate", lambda *_: 1e10)
    monkeypatch.setattr("attnscope.training.speed.number_s", lambda *_: 1e-9)
    counted = measured_pace(additive, CPU).flops_per_s
    monkeypatch.setattr("attnscope.training.speed.tanh_numbers", lambda *_: 0.0)
    assert counted < 0.6 * measured_pace(additive, CPU).flops_per_s

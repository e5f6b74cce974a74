"""Rows of a batch side by side: the gradients of the whole, the same dice each time, no thread left over."""

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.models import BatchShape, activation_bytes, n_turns_of, rows_at_once
from attnscope.nn import ModelConfig, core_groups
from attnscope.records import Finished, Step
from attnscope.training import (
    ALONE,
    Ranks,
    RowWorkers,
    TrainingRun,
    Way,
    can_divide,
    keep_ways,
    kept_ways,
    parse_recipe,
)

CPU = torch.device("cpu")
TRANSLATING = """
[model]
d_model = 8
n_layers = 1
n_heads = 2
d_ff = 12
dropout = {dropout}
[data]
kind = "task"
task = "copy"
n_examples = 40
[objective]
kind = "translation"
label_smoothing = 0.1
[training]
n_steps = 4
batch_size = 5
precision = "float32"
"""
MASKED = """
[model]
d_model = 8
n_layers = 2
n_heads = 2
d_ff = 12
max_tokens = 16
[tokenizer]
kind = "characters"
[data]
kind = "text"
path = "text.txt"
[objective]
kind = "masked"
next_sentence = true
[training]
n_steps = 4
batch_size = 7
accumulate = 2
precision = "float32"
"""


def _recipe(folder: Path, text: str, dropout: float = 0.0) -> object:
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 40)
    return parse_recipe(text.format(dropout=dropout), base_folder=folder)


def _trained(folder: Path, text: str, way: Way, dropout: float = 0.0, n_steps: int = 4):
    recipe = _recipe(folder, text, dropout)
    recipe = replace(recipe, training=replace(recipe.training, n_steps=n_steps))
    out = folder / f"{way.n}{way.is_by_rows}"
    run = TrainingRun(recipe, out, CPU, may_lengthen=True)
    keep_ways(out, {1: way})
    assert run.choose_threads() == way
    losses = [event.loss for event in run.events() if isinstance(event, Step)]
    return losses, {name: value.clone() for name, value in run.model.own.module.state_dict().items()}


@pytest.mark.slow
@pytest.mark.parametrize("text", [TRANSLATING, MASKED])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_that_rows_side_by_side_learn_what_the_whole_batch_teaches(text: str, n: int, tmp_path: Path) -> None:
    losses, weights = _trained(tmp_path, text, Way())
    other_losses, other_weights = _trained(tmp_path, text, Way(n, True))
    assert other_losses == pytest.approx(losses, rel=1e-5)
    for name, weight in weights.items():
        torch.testing.assert_close(other_weights[name], weight, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("text", [TRANSLATING, MASKED])
@pytest.mark.parametrize("way", [Way(), Way(2, True)])
def test_that_rows_in_turns_learn_what_the_whole_batch_teaches(
    text: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "turns").mkdir()
    losses, weights = _trained(tmp_path / "whole", text, Way())
    monkeypatch.setattr("attnscope.models.cost.AT_ONCE_BYTES", 6000)
    other_losses, other_weights = _trained(tmp_path / "turns", text, way)
    assert other_losses == pytest.approx(losses, rel=1e-5)
    for name, weight in weights.items():
        torch.testing.assert_close(other_weights[name], weight, rtol=1e-3, atol=2e-5)


def test_that_rows_of_a_turn_keep_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(form="decoder", vocab_size=9, d_model=8, n_layers=2, n_heads=2, d_ff=8)
    shape = BatchShape(n_sequences=17, n_tokens=6, n_scored=17 * 6)
    whole = activation_bytes(config, shape)
    for n_turns in (1, 2, 3, 8, 17, 40):
        monkeypatch.setattr("attnscope.models.cost.AT_ONCE_BYTES", -(-whole // n_turns))
        assert n_turns_of(config, shape) == min(n_turns, 17)
        assert rows_at_once(config, shape).n_sequences == -(-17 // min(n_turns, 17))


@pytest.mark.slow
def test_that_two_runs_by_rows_drop_the_same_places_and_a_resumed_one_too(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    losses, weights = _trained(tmp_path / "a", TRANSLATING, Way(2, True), dropout=0.3)
    first, _ = _trained(tmp_path / "b", TRANSLATING, Way(2, True), dropout=0.3, n_steps=2)
    rest, resumed = _trained(tmp_path / "b", TRANSLATING, Way(2, True), dropout=0.3)
    assert first + rest == losses
    assert all(torch.equal(resumed[name], weight) for name, weight in weights.items())


@pytest.mark.slow
def test_that_the_threads_end_with_the_run(tmp_path: Path) -> None:
    _trained(tmp_path, TRANSLATING, Way(3, True))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rows")]


def test_that_a_fault_in_one_part_is_raised_after_all_have_ended() -> None:
    running, done = threading.Event(), []
    parameter = torch.ones(2, requires_grad=True)

    def loss_of(batch: object) -> torch.Tensor:
        if len(batch.ids) == 1:
            running.set()
            done.append(True)
            raise RuntimeError("not enough memory: you tried to allocate 9 bytes")
        running.wait()
        loss = parameter.sum() * len(batch.ids)
        done.append(True)
        return loss

    batch = _recipe_free_batch(3)
    workers = RowWorkers()
    with pytest.raises(RuntimeError, match="not enough memory"):
        workers.descend(2, loss_of, batch, [parameter])
    assert len(done) == 2
    workers.close()


def _recipe_free_batch(n_rows: int) -> object:
    from attnscope.training import Batch

    ids = torch.from_numpy(np.arange(n_rows * 2).reshape(n_rows, 2))
    return Batch(ids=ids, scored=torch.arange(n_rows * 2), labels=ids.flatten())


def test_that_a_weight_which_only_one_part_reads_gets_its_gradient() -> None:
    used, rare = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)

    def loss_of(batch: object) -> torch.Tensor:
        loss = (used * batch.ids.float().sum()).sum()
        return loss + (rare * 3.0).sum() if int(batch.ids.min()) > 0 else loss

    workers = RowWorkers()
    for n_passes in (1, 2):  # as of two batches before one step
        total = workers.descend(2, loss_of, _recipe_free_batch(3), [used, rare])
        assert float(total) == 2 * 15 + 6
        assert used.grad.tolist() == [15.0 * n_passes] * 2
        assert rare.grad.tolist() == [3.0 * n_passes] * 2
    workers.close()


def test_that_recipes_whose_rows_hang_together_are_not_divided(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, TRANSLATING)
    assert can_divide(recipe, CPU, ALONE)
    assert not can_divide(recipe, CPU, Ranks(n=2))
    assert not can_divide(recipe, torch.device("cuda"), ALONE)
    for section, key, value in [
        ("training", "checkpointing", True),
        ("training", "compile", "on"),
        ("gates", "l0_penalty", 0.1),
        ("model", "body", "gru"),
    ]:
        part = getattr(recipe, section)
        object.__setattr__(part := replace(part), key, value) if section == "model" else None
        part = part if section == "model" else replace(part, **{key: value})
        assert not can_divide(replace(recipe, **{section: part}), CPU, ALONE), key


@pytest.mark.slow
def test_that_a_kept_way_by_more_rows_than_a_batch_has_is_tried_anew(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, TRANSLATING)
    run = TrainingRun(recipe, tmp_path / "run", CPU)
    keep_ways(tmp_path / "run", {1: Way(6, True)})
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert run.choose_threads() == Way()
        assert kept_ways(tmp_path / "run") == {1: Way()}
    finally:
        torch.set_num_threads(n)
    assert isinstance(list(run.events())[-1], Finished)


@pytest.mark.skipif(sys.platform != "linux", reason="cores cannot be chosen on this system")
def test_that_threads_keep_to_cores_of_their_own_and_give_them_back() -> None:
    before, seen = os.sched_getaffinity(0), []

    def loss_of(batch: object) -> torch.Tensor:
        seen.append(os.sched_getaffinity(0))
        return parameter.sum() * len(batch.ids)

    parameter, workers = torch.ones(2, requires_grad=True), RowWorkers()
    workers.descend(2, loss_of, _recipe_free_batch(3), [parameter])
    workers.close()
    groups = core_groups(2)
    assert sorted(map(sorted, seen)) == sorted(sorted(cores or before) for cores in groups)
    assert not groups[0] & groups[1]
    assert groups[0] | groups[1] in (before, set())
    assert os.sched_getaffinity(0) == before
    assert core_groups(len(before) + 1) == [set()] * (len(before) + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="cores cannot be chosen on this system")
def test_that_rows_are_worked_out_where_the_system_gives_no_core_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: int, _cores: set[int]) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    parameter, workers = torch.ones(2, requires_grad=True), RowWorkers()
    total = workers.descend(
        2, lambda batch: parameter.sum() * len(batch.ids), _recipe_free_batch(3), [parameter]
    )
    workers.close()
    assert float(total) == 6.0
    assert parameter.grad.tolist() == [3.0, 3.0]

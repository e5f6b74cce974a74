"""The step as a CUDA graph, on a processor: with a stand-in that keeps the work and does it again."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from attnscope.nn.building import build_own
from attnscope.records.training import Finished, Started, Step
from attnscope.training import graphs, loop, parse_recipe
from attnscope.training.data import prepare
from attnscope.training.distributed import ALONE, SharedLoss
from attnscope.training.graphs import StepGraph, capture_step, wants_graph
from attnscope.training.loop import TrainingRun
from attnscope.training.objectives import loss_sum, pack, unpack

CPU = torch.device("cpu")


class StandIn:
    """As a graph does: capturing does nothing, a replay writes the result where it was, dice go on."""

    def __init__(self, *_: object) -> None:
        self.calls: list[str] = []

    def warm_up(self, work: Callable[[], Tensor]) -> None:
        self.calls.append("warm up")
        work()

    def capture(self, work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        self.calls.append("capture")
        result = torch.empty(())

        def replay() -> None:
            self.calls.append("replay")
            result.copy_(work())

        return replay, result


class Stale(StandIn):
    """A graph that went wrong: it computes what it was captured with, whatever batch it is given."""

    def capture(self, work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        result = work()
        return (lambda: None), result


class Louder(StandIn):
    """A graph whose gradients are right and whose loss is not."""

    def capture(self, work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        replay, result = super().capture(work)
        return lambda: (replay(), result.mul_(1.01))[0], result


class Broken(StandIn):
    def capture(self, work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")


def _prepared(text: str, n_draws: int = 2, **changes: str):
    recipe = parse_recipe(text, overrides={"training.precision": "float32", **changes})
    data = prepare(recipe)
    rng = np.random.default_rng(0)
    batches = tuple(data.batches.draw(rng, 0.0) for _ in range(n_draws))
    module = build_own(data.fitted(recipe.model), 0)
    return SharedLoss(module, ALONE, CPU, is_sharded=False), batches


def test_that_a_packed_batch_unpacks_to_itself(task_recipe: str, tiny_recipe: str) -> None:
    pairs = {"objective.kind": "masked", "objective.next_sentence": "true"}
    for text, changes in ((task_recipe, {}), (tiny_recipe, {}), (tiny_recipe, pairs)):
        _, (batch, _) = _prepared(text, **changes)
        again = unpack(batch, pack(batch))
        for name in ("ids", "scored", "labels", "valid", "target_ids", "target_valid", "segments", "is_next"):
            given, found = getattr(batch, name), getattr(again, name)
            assert (given is None) == (found is None), name
            assert given is None or (torch.equal(given, found) and given.dtype == found.dtype), name


def test_that_a_replay_adds_the_gradients_of_each_batch(tiny_recipe: str) -> None:
    loss_of, batches = _prepared(tiny_recipe, n_draws=4)
    recorder = StandIn()
    graph, note = capture_step(loss_of, batches[:2], CPU, nullcontext, 0.1, recorder)
    assert graph is not None
    assert note == "Steps are replayed as one CUDA graph."
    assert recorder.calls == ["warm up", "capture", "replay"]
    assert all(not p.grad.any() for p in loss_of.module.parameters() if p.grad is not None)
    losses = [graph.run(batch, 7) for batch in batches[2:]]
    found = {name: p.grad.clone() for name, p in loss_of.module.named_parameters() if p.grad is not None}
    loss_of.module.zero_grad(set_to_none=True)
    expected = [loss_sum(loss_of.module, batch, 0.1) / 7 for batch in batches[2:]]
    torch.autograd.backward(sum(expected))
    assert [a.item() for a in losses] == [b.item() for b in expected]
    for name, p in loss_of.module.named_parameters():
        assert (p.grad is None) == (name not in found)
        assert p.grad is None or torch.allclose(p.grad, found[name], atol=1e-7), name


def test_that_weights_and_dice_stay_as_they_were(task_recipe: str) -> None:
    loss_of, (batch, _) = _prepared(task_recipe)
    before = {name: value.clone() for name, value in loss_of.module.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    graph, _ = capture_step(loss_of, (batch, batch), CPU, nullcontext, 0.0, StandIn())
    assert graph is not None  # with dropout, drawn from the same seed both times
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(before[name], value) for name, value in loss_of.module.state_dict().items())


@pytest.mark.parametrize(
    ("recorder", "words"),
    [
        (Stale(), "No CUDA graph: its gradients were not those of a plain step."),
        (Louder(), "No CUDA graph: its gradients were not those of a plain step."),
        (Broken(), "No CUDA graph: operation not permitted when stream is capturing"),
    ],
)
def test_that_a_graph_that_fails_or_is_wrong_is_not_used(
    recorder: StandIn, words: str, tiny_recipe: str
) -> None:
    loss_of, batches = _prepared(tiny_recipe)
    assert capture_step(loss_of, batches, CPU, nullcontext, 0.0, recorder) == (None, words)
    assert all(p.grad is None for p in loss_of.module.parameters())


def test_that_only_batches_of_the_captured_shape_fit(tiny_recipe: str) -> None:
    _, (batch, other) = _prepared(tiny_recipe)
    graph = StepGraph(batch, pack(batch), torch.ones(()))
    assert graph.fits(other)
    assert not graph.fits(replace(batch, ids=batch.ids[:, :-1]))
    assert not graph.fits(replace(batch, valid=torch.ones_like(batch.ids, dtype=torch.bool)))
    masked, (one, two) = _prepared(tiny_recipe, **{"objective.kind": "masked"})
    assert len(one.scored) != len(two.scored)
    assert capture_step(masked, (one, two), CPU, nullcontext, 0.0, Broken()) == (None, "")


@pytest.mark.parametrize(
    ("changes", "is_wanted"),
    [
        ({}, True),
        ({"training.compile": "on"}, True),
        ({"training.compile": "off"}, False),
        ({"training.checkpointing": "true"}, False),
        ({"gates.l0_penalty": "0.1"}, False),
    ],
)
def test_which_runs_are_captured(changes: dict[str, str], is_wanted: bool, tiny_recipe: str) -> None:
    recipe = parse_recipe(tiny_recipe, overrides=changes)
    assert wants_graph(recipe, torch.device("cuda")) is is_wanted
    assert not wants_graph(recipe, torch.device("cuda"), n_processes=2)
    assert not wants_graph(recipe, CPU)
    assert not wants_graph(recipe, torch.device("mps"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training.accumulate": "2", "objective.label_smoothing": "0.1"},
        {"model.dropout": "0.2", "training.clip_norm": "0", "optimizer.kind": "sgd"},
    ],
)
def test_that_a_run_of_replays_makes_the_steps_of_a_plain_run(
    tiny_recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    recipe = parse_recipe(tiny_recipe, overrides={"schedule.kind": "constant", **changes})
    plain = [e.loss for e in TrainingRun(recipe, tmp_path / "plain", "cpu").events() if isinstance(e, Step)]
    monkeypatch.setattr(loop, "wants_graph", lambda *_: True)
    monkeypatch.setattr(graphs, "CudaRecorder", StandIn)
    halves = []
    for _ in range(2):
        run = TrainingRun(recipe, tmp_path / "replayed", "cpu")
        for event in run.events():
            if isinstance(event, Started):
                assert event.note.endswith("Steps are replayed as one CUDA graph.")
            if isinstance(event, Step):
                halves.append(event.loss)
                if event.step == 3:
                    run.request_stop()
    assert isinstance(event, Finished)
    assert halves == plain

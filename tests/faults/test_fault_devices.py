"""A device that gives up, and curves without end: F36 and F45."""

import argparse
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope.cli.main import MENDABLE, run_guarded
from attnscope.models import Model
from attnscope.nn import lost_device
from attnscope.records import Failed, LoadModel, ModelLoaded, TraceText
from attnscope.training import TrainingRun, parse_recipe, read_run
from attnscope.viewmodels.training import CAPACITY, CurveData
from attnscope.workers import Engine

LOST = "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported"
RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 24
[data]
kind = "task"
task = "copy"
n_examples = 40
[objective]
kind = "translation"
[training]
n_steps = 6
batch_size = 4
save_every = 2
precision = "float32"
"""


def give_up(*_: object, **__: object) -> None:
    raise torch.AcceleratorError(LOST)


@pytest.mark.parametrize("kind", [torch.AcceleratorError, RuntimeError])
def test_f36_that_a_lost_device_is_told_with_what_is_left_to_do(kind: type[Exception]) -> None:
    told = str(lost_device(kind(LOST)))
    assert "device-side assert triggered." in told
    assert "last checkpoint" in told
    assert "asynchronously" not in told


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("no such shape"), KeyError("CUDA error")],
)
def test_f36_that_other_errors_are_none_of_the_device(error: BaseException) -> None:
    assert lost_device(error) is None


def test_f36_that_the_worker_says_so_and_serves_on(monkeypatch: pytest.MonkeyPatch) -> None:
    crashes: list[str] = []
    engine = Engine(lambda _error, what: crashes.append(what))  # type: ignore[arg-type, return-value, func-returns-value]
    loading = LoadModel(number=1, source="grammar")
    assert isinstance(list(engine.handle(loading))[-1], ModelLoaded)
    with monkeypatch.context() as patch:
        patch.setattr(Model, "look", give_up)
        (failed,) = engine.handle(TraceText(number=2, text="the cat"))
    assert isinstance(failed, Failed)
    assert "graphics device stopped responding" in failed.message
    assert crashes == []
    assert isinstance(list(engine.handle(loading))[-1], ModelLoaded)


def test_f36_that_the_command_line_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_guarded(argparse.Namespace(run=give_up)) == MENDABLE
    assert capsys.readouterr().err.count("\n") == 1


def test_f36_that_a_run_keeps_its_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = TrainingRun(parse_recipe(RECIPE), tmp_path / "run", "cpu")
    events = run.events()
    while getattr(next(events), "step", 0) < 5:
        pass
    monkeypatch.setattr(torch.optim.AdamW, "step", give_up)
    with pytest.raises(torch.AcceleratorError):
        list(events)
    assert read_run(tmp_path / "run").checkpoints[-1][0] == 4
    monkeypatch.undo()
    again = TrainingRun(parse_recipe(RECIPE), tmp_path / "run", "cpu")
    assert list(again.events())[-1].step == 6


def test_f45_that_three_million_points_stay_few_quick_and_keep_their_extremes() -> None:
    curve, n = CurveData(), 3_000_000
    values = np.sin(np.arange(n) / 1000.0)
    values[1_234_567] = 9.0
    began = time.process_time()
    for first in range(0, n, 50_000):
        steps = np.arange(first, first + 50_000, dtype=np.float64)
        curve.extend(steps, values[first : first + 50_000])
    assert time.process_time() - began < 2.0
    assert len(curve) <= CAPACITY
    assert curve.is_thinned
    assert (curve.values.max(), curve.steps[-1]) == (9.0, n - 1)
    assert np.all(np.diff(curve.steps) > 0)

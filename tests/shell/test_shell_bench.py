"""Benchmarks say what they measured, in what unit, on what machine; the numbers themselves are not tested."""

import json
import math

import pytest
import torch
from pytestqt.qtbot import QtBot

from attnscope.bench import tracing
from attnscope.bench.grid import measure_grid, random_grids
from attnscope.bench.groups import GROUPS
from attnscope.bench.report import Measurement, percentile, report, spread
from attnscope.bench.tracing import Subject, trace_ratios
from attnscope.cli.bench import NAMES
from attnscope.cli.terminal import json_text
from attnscope.nn.config import ModelConfig
from attnscope.nn.transformer import build_transformer


def test_that_every_group_of_the_command_line_exists() -> None:
    assert set(NAMES) == set(GROUPS)


def test_that_a_measurement_is_judged_by_its_target_only() -> None:
    plain = Measurement(name="lag", value=3.0, unit="ms")
    assert plain.is_met is None
    assert Measurement(name="lag", value=3.0, unit="ms", target=3.0).is_met
    late = Measurement(name="lag", value=3.1, unit="ms", target=3.0)
    assert late.is_met is False
    assert "TOO HIGH" in late.sentence


def test_that_percentiles_of_nothing_are_not_a_number() -> None:
    assert math.isnan(percentile([], 50))
    assert [one.value for one in spread("x", [1.0, 2.0, 3.0], "ms", percentiles=(0, 50, 100))] == [
        1.0,
        2.0,
        3.0,
    ]


def test_that_a_report_is_json_with_units_and_the_machine() -> None:
    told = json.loads(json_text(report({"lag": spread("x", [], "ms", targets={95: 8.0})})))
    assert told["groups"]["lag"][0] | {"value": 0} == {
        "name": "x p50",
        "value": 0,
        "unit": "ms",
        "target": None,
        "is_met": None,
        "n_samples": 0,
        "note": "",
    }
    assert told["groups"]["lag"][1]["value"] is None
    assert told["machine"]["n_cores"] >= 1


@pytest.mark.qt
def test_that_the_grid_is_painted_panned_zoomed_and_filled(qtbot: QtBot) -> None:
    names = [one.name for one in measure_grid(n_frames=3)]
    for what in ("repaint", "pan", "zoom", "new data"):
        assert f"grid of 144 heads, {what} p95" in names


def test_that_the_benchmarked_grid_is_causal() -> None:
    levels = random_grids(0)[0].levels
    assert levels[0, 0, 1] == 0
    assert levels[0, 5, 5] > 0


def test_that_tracing_is_compared_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(form="decoder", vocab_size=16, d_model=16, n_layers=1, n_heads=2, d_ff=16)
    model = build_transformer(config, seed=0).eval()
    subject = Subject(name="tiny", module=model, device=torch.device("cpu"))
    monkeypatch.setattr(tracing, "VOCAB_SIZE", 16)
    ratios, plain_ms = trace_ratios(subject, 8, n_rounds=4)
    assert len(ratios) == len(plain_ms) == 4
    assert min(ratios) > 0

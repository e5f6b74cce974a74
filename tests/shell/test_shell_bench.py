"""Benchmarks say what they measured, in what unit, on what machine; the numbers themselves are not tested."""

import json
import math
import mmap

import numpy as np
import pytest
import torch
from pytestqt.qtbot import QtBot

from attnscope.cli.main import main
from attnscope.cli.terminal import json_text
from attnscope.errors import UserError
from attnscope.nn import ModelConfig, build_transformer
from bench import tracing
from bench.child import told_by
from bench.curves import measure_curves
from bench.exports import measure_exports
from bench.grid import measure_grid, random_grids
from bench.groups import GROUPS
from bench.lines import measure_lines
from bench.report import Measurement, NotRun, median_of, percentile, report, worst_of
from bench.resident import MemoryWatch, own_bytes, resident_bytes
from bench.tracing import Subject, trace_ratios


def test_that_every_group_of_the_command_line_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert f"Expected: {', '.join(GROUPS)}." in capsys.readouterr().err
    assert all(group.about for group in GROUPS.values())


def test_that_a_measurement_is_judged_by_its_target_only() -> None:
    plain = Measurement(name="lag", value=3.0, unit="ms")
    assert plain.is_met is None
    assert Measurement(name="lag", value=3.0, unit="ms", target=3.0).is_met
    late = Measurement(name="lag", value=3.1, unit="ms", target=3.0)
    assert late.is_met is False
    assert "TOO HIGH" in late.sentence


def test_that_percentiles_of_nothing_are_not_a_number() -> None:
    assert math.isnan(percentile([], 50))
    assert worst_of("x", [], "ms", target=8.0).is_met is False
    assert [percentile([1.0, 2.0, 3.0], q) for q in (0, 50, 100)] == [1.0, 2.0, 3.0]


def test_that_a_median_tells_its_spread() -> None:
    row = median_of("x", [float(n) for n in range(11)], "×", target=5.0)
    assert (row.value, row.low, row.high, row.n_samples, row.is_met) == (5.0, 1.0, 9.0, 11, True)
    assert "5 × (1 to 9)" in row.sentence


def test_that_a_report_is_json_with_units_and_the_machine() -> None:
    absent = NotRun(name="y", reason="y is not installed")
    told = json.loads(json_text(report({"lag": [worst_of("x", [], "ms", target=8.0), absent]})))
    assert told["groups"]["lag"][0] == {
        "name": "x p95",
        "value": None,
        "unit": "ms",
        "target": 8.0,
        "is_met": False,
        "n_samples": 0,
        "note": "median nan, most nan ms",
        "low": None,
        "high": None,
    }
    assert told["groups"]["lag"][1]["value"] is None
    assert told["groups"]["lag"][1]["not_run"] == "y is not installed"
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
    subject = Subject(name="tiny", module=model, device=torch.device("cpu"), sites=model.sites())
    monkeypatch.setattr(tracing, "VOCAB_SIZE", 16)
    ratios, plain_ms = trace_ratios(subject, 8, n_rounds=3)  # fewer are never enough
    assert len(ratios) == len(plain_ms) == 3
    assert min(ratios) > 0


@pytest.mark.qt
def test_that_lines_are_painted_panned_zoomed_and_pointed_at(qtbot: QtBot) -> None:
    found = {one.name: one for one in measure_lines(n_frames=2, n_heads=2, n_tokens=12)}
    for what in ("repaint", "pan", "zoom", "pointing at a token", "new data"):
        assert found[f"lines of 2 heads, {what} p95"].note.startswith("processor time")
    assert found["lines of 2 heads, zoom p95"].target == 16.0


@pytest.mark.qt
def test_that_curves_are_drawn_by_every_axis(qtbot: QtBot) -> None:
    names = [one.name for one in measure_curves(n_frames=2, n_runs=2, n_steps=60)]
    for axis in ("step", "tokens read", "seconds of training"):
        assert f"2 runs of 60 steps drawn again, by {axis} p95" in names


@pytest.mark.qt
def test_that_figures_are_written_in_every_format_of_pictures() -> None:
    found = [*measure_exports(n_rounds=1)]
    assert [one.name.split(" as ")[1].split()[0] for one in found] == ["png", "svg", "pdf"]
    assert all(one.unit == "s" and one.target == 1.0 and one.note.endswith("MB") for one in found)


def test_that_memory_is_that_of_the_process() -> None:
    before = resident_bytes()
    if not before:
        pytest.skip("this system does not say what memory a process has")
    with MemoryWatch() as watch:
        held = np.frombuffer(mmap.mmap(-1, 64_000_000))  # pages that nobody had before
        held[:] = 1.0
        assert resident_bytes() - before > 50e6
    assert watch.peak_bytes - before > 50e6
    shared, own = own_bytes()
    assert held.nbytes < own <= shared <= resident_bytes() * 1.05


def test_that_a_process_that_tells_nothing_is_an_error() -> None:
    with pytest.raises(UserError, match="told nothing"):
        told_by("bench.report")


def test_that_a_process_that_does_not_end_is_an_error() -> None:
    with pytest.raises(UserError, match="did not end within 0 s"):
        told_by("http.server", "0", within_s=0.01)

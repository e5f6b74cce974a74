"""Curves of a run: order, smoothing, thinning."""

import numpy as np
import pytest

from attnscope.records import Evaluated, Finished, Saved, Started, Step
from attnscope.viewmodels.training import (
    CurveData,
    RunAxis,
    RunCurves,
    ShownRun,
    curves_of,
    decimated,
    extreme_indices,
    running_mean,
    sampled,
)


def ramp(n: int) -> np.ndarray:
    return np.sin(np.arange(n) * 0.37) + np.arange(n) * 0.01


def slow_running_mean(values: np.ndarray, factor: float) -> list[float]:
    """Kingma & Ba 2015, section 3, with loops; what is not finite is left out."""
    means, total, weight = [], 0.0, 0.0
    for value in values.tolist():
        is_finite = bool(np.isfinite(value))
        total = factor * total + (1 - factor) * (value if is_finite else 0.0)
        weight = factor * weight + (1 - factor) * is_finite
        means.append(total / weight if is_finite else float("nan"))
    return means


def step(number: int, loss: float = 1.0) -> Step:
    return Step(step=number, loss=loss, learning_rate=1e-3, gradient_norm=0.5, tokens_per_s=1000.0)


def started(number: int) -> Started:
    return Started(folder="run", step=number, n_steps=100, n_parameters=1, device="cpu")


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("n_points", [1, 63, 64, 65, 500])
def test_that_smoothing_equals_the_slow_formula(factor: float, n_points: int) -> None:
    values = ramp(n_points)
    values[n_points // 2] = np.nan
    fast, _ = running_mean(values, factor)
    slow = np.array(slow_running_mean(values, factor))
    assert np.allclose(fast, slow, rtol=1e-9, atol=1e-12, equal_nan=True), np.nanmax(abs(fast - slow))


def test_that_smoothing_in_pieces_equals_smoothing_at_once() -> None:
    curve = CurveData()
    values = ramp(700)
    for start in range(0, 700, 70):
        curve.extend(np.arange(start, start + 70, dtype=float), values[start : start + 70])
        curve.smoothed(0.9)
    whole, _ = running_mean(values, 0.9)
    assert np.allclose(curve.smoothed(0.9), whole, rtol=1e-9, atol=1e-12)


def test_that_the_first_smoothed_value_is_the_first_value() -> None:
    fast, _ = running_mean(np.array([7.0, 7.0, 7.0]), 0.99)
    assert fast == pytest.approx([7.0, 7.0, 7.0])


def test_that_thinning_keeps_the_extremes() -> None:
    values = ramp(10_000)
    values[4321], values[9_999], values[77] = 50.0, 40.0, -30.0
    kept = extreme_indices(values, 100)
    assert len(kept) <= 202
    assert {4321, 9_999, 77, 0} <= set(kept.tolist())


def test_that_thinning_sees_past_what_is_not_a_number() -> None:
    values = ramp(1000)
    values[500:520] = np.nan
    values[501] = 99.0
    values[700:800] = np.inf
    kept = set(extreme_indices(values, 50).tolist())
    assert 501 in kept
    assert any(not np.isfinite(values[i]) for i in kept if 700 <= i < 800)


def test_that_a_short_part_is_drawn_whole_with_one_point_beyond_each_end() -> None:
    xs = np.arange(100, dtype=float)
    shown, _ = decimated(xs, ramp(100), 10, 20, 50)
    assert shown.tolist() == list(range(9, 22))


def test_that_sampling_keeps_both_ends() -> None:
    xs = np.arange(1003, dtype=float)
    shown, values = sampled(xs, ramp(1003), 0, 2000, 100)
    assert shown[0] == 0
    assert shown[-1] == 1002
    assert len(shown) < 130
    assert len(values) == len(shown)


def test_that_a_full_curve_is_thinned_and_keeps_its_peak() -> None:
    curve = CurveData(capacity=1000)
    values = ramp(3000)
    values[1234] = 77.0
    for start in range(0, 3000, 100):
        curve.extend(np.arange(start, start + 100, dtype=float), values[start : start + 100])
    assert curve.is_thinned
    assert len(curve) <= 1000
    assert curve.values.max() == 77.0
    assert np.all(np.diff(curve.steps) > 0)
    assert curve.steps[0] == 0
    assert curve.steps[-1] == 2999


def test_that_a_later_value_of_a_step_wins_in_any_order() -> None:
    curve = CurveData()
    curve.extend(np.array([1.0, 2.0, 5.0]), np.array([1.0, 2.0, 5.0]))
    curve.extend(np.array([4.0, 2.0, 2.0]), np.array([4.0, 7.0, 8.0]))
    assert curve.steps.tolist() == [1, 2, 4, 5]
    assert curve.values.tolist() == [1, 8, 4, 5]


def test_that_a_resumed_run_never_runs_backwards() -> None:
    curves = RunCurves()
    first = [step(i, loss=float(i)) for i in range(1, 61)]
    again = [step(i, loss=1000.0 + i) for i in range(41, 81)]
    curves.add([started(0), *first, Evaluated(step=60, loss=2.0, accuracy=0.5), started(40), *again])
    assert curves.train_loss.steps.tolist() == list(range(1, 81))
    assert curves.train_loss.values[39] == 40.0
    assert curves.train_loss.values[40] == 1041.0
    assert len(curves.validation_loss) == 0
    assert curves.resumed_at == (40,)


def test_that_a_resumed_attempt_supersedes_later_steps_it_never_reached() -> None:
    curves = RunCurves()
    curves.add([started(0), *(step(i) for i in range(1, 61)), started(20), step(21, loss=9.0)])
    assert curves.train_loss.steps.tolist() == list(range(1, 22))


def test_that_events_without_numbers_leave_the_curves_alone() -> None:
    curves = RunCurves()
    version = curves.version
    curves.add([Saved(step=3, folder="x"), Finished(step=3, reason="done")])
    assert curves.version == version


def test_that_the_nearest_point_is_found() -> None:
    curve = CurveData()
    assert curve.nearest(3.0) is None
    curve.extend(np.array([1.0, 10.0, 20.0]), np.zeros(3))
    assert [curve.nearest(x) for x in (-5.0, 5.0, 6.0, 16.0, 99.0)] == [0, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("heads", "names"),
    [
        (("decoder L0H0", "decoder L1H1"), ["L0H0", "L1H1"]),
        (("encoder L0H0", "decoder L0H0"), ["encoder L0H0", "decoder L0H0"]),
    ],
)
def test_that_the_spans_of_one_stack_are_named_without_it(heads: tuple[str, ...], names: list[str]) -> None:
    curves = RunCurves()
    curves.spans.update({head: CurveData() for head in heads})
    run = ShownRun(folder="", name="", colour=0, curves=curves, axis=RunAxis(curves))
    assert [name for name, _, _ in curves_of(run, "spans")] == names

"""The power law through several runs, against numpy's line of least squares, and what does not count."""

import math

import numpy as np
import pytest

from attnscope.figures import scaling_charts
from attnscope.records import RunLines, RunSummary
from attnscope.viewmodels.training import (
    SCALES,
    PowerLaw,
    Scale,
    fit_power_law,
    published_law,
    scaling_points,
    without_shared_parts,
)


def _run(name: str, n_body: int, loss: float, **values: object) -> RunSummary:
    known: dict[str, object] = {
        "folder": name,
        "name": name,
        "end": "done",
        "step": 10,
        "n_steps": 10,
        "n_parameters": 2 * n_body,
        "n_body": n_body,
        "last_loss": loss,
        "best_loss": loss,
        "best_step": 10,
        "n_tokens": 1e4,
        "flops": 6e4 * n_body,
        "seconds": 1.0,
        "validation": RunLines(steps=np.array([5.0, 10.0]), values=np.array([1.2 * loss, loss])),
        "recipe": "",
    }
    return RunSummary(**{**known, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "r2", "weak"),
    [(5, 0.9, ""), (5, 0.89, " (weak fit)"), (4, 0.99, " (weak: 4 runs)"), (4, 0.1, " (weak: 4 runs)")],
)
def test_that_a_weak_law_is_called_weak(n: int, r2: float, weak: str) -> None:
    law = PowerLaw(a=2.0, b=-0.5, n=n, r2=r2)
    assert law.words("compute") == f"L = 2 · C⁰·⁵{weak}, R² {r2:.2f}"


def test_that_an_exact_law_is_found_exactly() -> None:
    xs = [1e3, 4e3, 1e5, 7e6]
    law = fit_power_law(xs, [12.5 * x**-0.076 for x in xs])
    assert law is not None
    assert (law.a, law.b, law.n, law.r2) == pytest.approx((12.5, 0.076, 4, 1.0), rel=1e-9)
    assert law.words("parameters") == "L = 12.5 · N⁻⁰·⁰⁷⁶ (weak: 4 runs), R² 1.00"
    np.testing.assert_allclose(law.at(np.array(xs)), [12.5 * x**-0.076 for x in xs])


def test_that_a_rough_law_is_that_of_least_squares_in_the_logarithms() -> None:
    xs, losses = [100.0, 300.0, 1000.0, 5000.0, 5000.0], [4.0, 3.1, 2.9, 2.0, 2.2]
    law = fit_power_law(xs, losses)
    slope, height = np.polyfit(np.log(xs), np.log(losses), 1)
    r2 = np.corrcoef(np.log(xs), np.log(losses))[0, 1] ** 2
    assert law is not None
    assert (law.b, law.a, law.r2) == pytest.approx((-slope, math.exp(height), r2), rel=1e-9)


@pytest.mark.parametrize(
    ("xs", "losses"),
    [
        ([1.0, 2.0], [1.0, 2.0]),
        ([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]),
        ([100.0, 110.0, 120.0], [3.0, 2.0, 1.0]),
        ([1.0, 10.0, 100.0], [1.0, math.nan, 2.0]),
        ([0.0, 10.0, 100.0], [1.0, 1.0, 2.0]),
        ([1.0, 10.0, 100.0], [3.1, 3.1, 3.1]),
        ([7.0, 130.0, 900.0, 5e4], [3.1, 3.1, 3.1 + 1e-12, 3.1]),
    ],
)
def test_that_too_little_gives_no_law(xs: list[float], losses: list[float]) -> None:
    assert fit_power_law(xs, losses) is None


def test_that_only_runs_that_made_all_their_steps_count() -> None:
    runs = [_run(f"r{n}", n, 10 * n**-0.2) for n in (4000, 1000, 16000)]
    others = [
        _run("cut", 500, 0.1, end="stopped"),
        _run("blind", 500, math.nan),
        _run("gone", 500, 0.1, end="diverged"),
    ]
    points = scaling_points([*others, *runs], "parameters")
    assert points.names == ("r1000", "r4000", "r16000")
    assert points.law is not None
    assert points.law.b == pytest.approx(0.2)
    assert points.note == "3 unfinished left out"
    assert scaling_points(runs, "data").note == "no line: the runs are too similar"
    assert scaling_points(runs[:2], "data").note == "no line: 2 of 3 runs that it needs"
    equal = [_run(f"r{n}", n, 3.1) for n in (4000, 1000, 16000)]
    assert scaling_points(equal, "parameters").note == "no line: the losses are all equal"


def test_that_charts_show_every_finished_run_by_name_and_the_law() -> None:
    runs = [_run(f"r{n}", n, 10 * n**-0.2) for n in (1000, 4000, 16000)]
    charts = scaling_charts(runs)
    assert [chart.title for chart in charts] == ["Size", "Data", "Compute"]
    assert all(chart.is_log_x and chart.is_log_y for chart in charts)
    points = charts[2].series[-1]
    assert points.labels == ("r1000", "r4000", "r16000")
    np.testing.assert_allclose(points.xs, [6e7, 2.4e8, 9.6e8])
    way = charts[2].series[0]
    np.testing.assert_allclose(way.xs, [3e7, 6e7])  # half the steps, half the operations
    assert "L = " in charts[0].y_label
    assert "too similar" in charts[1].y_label
    assert scaling_charts([_run("cut", 500, 0.1, end="stopped")]) == ()


def test_that_labels_leave_out_what_all_names_share_and_the_law_is_a_reference_that_is_in_view() -> None:
    runs = [_run(f"d={n},seed=0", n, loss) for n, loss in ((1000, 3.0), (4000, 3.1), (16000, 2.5))]
    chart = scaling_charts(runs)[0]
    law, points = chart.series
    assert points.labels == ("d=1000", "d=4000", "d=16000")
    assert law.is_reference
    assert law.ys.max() > points.ys[0]
    assert "weak: 3 runs" in chart.y_label


def test_that_names_stay_whole_where_nothing_would_be_left_or_two_would_be_one() -> None:
    assert without_shared_parts(["a", "a,b"]) == ("a", "a,b")
    assert without_shared_parts(["only"]) == ("only",)
    assert without_shared_parts(["w=1,s=0", "w=2,s=0"]) == ("w=1", "w=2")


@pytest.mark.parametrize(
    ("scale", "x", "loss"),
    [
        # (x_c / x)^α of Kaplan et al. 2020, equations 1.1 to 1.3, worked out by logarithms.
        ("parameters", 1e9, math.exp(0.076 * (math.log(8.8) + 4 * math.log(10)))),
        ("data", 2.3e10, math.exp(0.095 * (math.log(5.4e13) - math.log(2.3e10)))),
        ("compute", 8.64e19, math.exp(0.050 * (math.log(3.1) + 8 * math.log(10)))),
    ],
)
def test_that_the_published_laws_are_those_of_kaplan(scale: Scale, x: float, loss: float) -> None:
    np.testing.assert_allclose(published_law(scale).at(np.array([x])), [loss], rtol=1e-12)


def test_that_the_published_law_stands_beside_the_runs_only_when_it_is_asked_for() -> None:
    runs = [_run(f"r{n}", n, 10 * n**-0.2) for n in (1000, 4000, 16000)]
    plain, with_law = scaling_charts(runs), scaling_charts(runs, has_published=True)
    for scale, without, chart in zip(SCALES, plain, with_law, strict=True):
        added = [series for series in chart.series if series.name == "Kaplan 2020"]
        assert len(chart.series) == len(without.series) + 1
        assert len(added) == 1
        assert added[0].is_dashed
        assert added[0].xs[0] < chart.series[-1].xs.min() <= chart.series[-1].xs.max() < added[0].xs[-1]
        np.testing.assert_allclose(added[0].ys, published_law(scale).at(added[0].xs))
    alone = scaling_charts(runs[:1], has_published=True)[0]
    assert [series.name for series in alone.series] == ["Kaplan 2020", ""]
    assert scaling_charts([_run("cut", 500, 0.1, end="stopped")], has_published=True) == ()

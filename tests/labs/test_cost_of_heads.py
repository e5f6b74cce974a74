"""The lab on the cost of heads: attention and counts against a slow float64 version, intervals, the meter."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from attnscope.labs import LABS
from attnscope.labs.cost_of_heads import (
    HEADS,
    LENGTHS,
    N_RUNS,
    WIDTHS,
    HeadsPoint,
    attend_heads,
    count_products,
    interval_of,
    time_heads,
)

LAB = LABS["Cost of heads"]


def slow_attention(x: np.ndarray, matrices: np.ndarray, n_heads: int) -> tuple[np.ndarray, int, int]:
    """Output, products and exponentials, counted one by one."""
    n, d = x.shape
    width = d // n_heads
    counts = {"products": 0, "exponentials": 0}

    def dot(a, b) -> float:
        counts["products"] += len(a)
        return float(sum(float(p) * float(q) for p, q in zip(a, b, strict=True)))

    def times(a, b) -> np.ndarray:
        return np.array([[dot(row, column) for column in b.T] for row in a])

    def exp(value: float) -> float:
        counts["exponentials"] += 1
        return math.exp(value)

    q, k, v = (times(x, w) for w in matrices[:3])
    joined = np.zeros((n, d))
    for h in range(n_heads):
        cut = slice(h * width, (h + 1) * width)
        for i in range(n):
            raised = [exp(dot(q[i, cut], k[j, cut]) / math.sqrt(width)) for j in range(n)]
            weights = np.array(raised) / sum(raised)
            joined[i, cut] = [dot(weights, v[:, c]) for c in range(cut.start, cut.stop)]
    return times(joined, matrices[3]), counts["products"], counts["exponentials"]


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
def test_that_output_and_counts_equal_a_slow_version(n_heads: int) -> None:
    random = np.random.default_rng(n_heads)
    x = random.standard_normal((5, 8)).astype(np.float32)
    matrices = (random.standard_normal((4, 8, 8)) / 3).astype(np.float32)
    out, whole_s, products_s = attend_heads(x, matrices, n_heads)
    slow, n_products, n_exponentials = slow_attention(x, matrices, n_heads)
    np.testing.assert_allclose(out, slow, atol=1e-5)
    assert count_products(5, 8, n_heads) == n_products
    assert n_exponentials == n_heads * 5**2
    assert 0 < products_s < whole_s


@pytest.mark.parametrize("n_tokens", LENGTHS)
@pytest.mark.parametrize("d_model", WIDTHS)
def test_that_products_do_not_depend_on_the_heads_and_exponentials_do(n_tokens: int, d_model: int) -> None:
    shown = LAB.resolve(replace(LAB.example, n_tokens=n_tokens, d_model=d_model))
    assert set(shown.products) == {float(4 * n_tokens * d_model**2 + 2 * n_tokens**2 * d_model)}
    assert list(shown.exponentials) == [h * n_tokens**2 for h in HEADS]
    assert all(d_model % h == 0 for h in HEADS)


def test_that_the_interval_holds_the_median_in_96_percent_of_cases() -> None:
    outside = 2 * sum(math.comb(N_RUNS, k) for k in (0, 1)) / 2**N_RUNS
    assert 1 - outside == pytest.approx(0.961, abs=1e-3)
    assert interval_of(tuple(map(float, range(1, 10)))) == (2.0, 5.0, 8.0)


def quick(_sizes: tuple[int, int]) -> Iterator[HeadsPoint]:
    """A measurement by a formula."""
    for h in HEADS:
        whole, products = (tuple(base + k / 100 for k in range(N_RUNS)) for base in (1.0 + h / 10, 1.0))
        yield HeadsPoint(n_heads=h, whole_ms=whole, products_ms=products)


def test_that_measured_ratios_are_told_and_unmeasured_ones_are_not() -> None:
    choice = replace(LAB.example, n_heads=8)
    assert "0 of 6 numbers of heads" in LAB.resolve(choice).words.sentence
    told = LAB.resolve(replace(choice, points=tuple(quick(choice.sizes)))).words.sentence
    assert "products take 1.00 times as long as with one head, the whole pass 1.61 times" in told
    charts = LAB.charts(LAB.resolve(replace(choice, points=tuple(quick(choice.sizes)))))
    bars = [one for one in charts[0].series if one.style == "whiskers"]
    assert len(bars) == 2 * len(HEADS)
    assert list(bars[0].ys) == pytest.approx([1.11, 1.17])
    assert LAB.drag(choice, 11.0, 0.0, is_start=True).n_heads == 8


def test_that_every_number_of_heads_is_measured() -> None:
    points = list(time_heads((32, 64)))
    assert [point.n_heads for point in points] == list(HEADS)
    for point in points:
        assert len(point.whole_ms) == len(point.products_ms) == N_RUNS
        assert list(point.whole_ms) == sorted(point.whole_ms)
        assert min(point.products_ms) > 0


@pytest.mark.qt
def test_that_the_window_measures_in_a_thread_and_anew_for_other_sizes(qtbot) -> None:
    from attnscope.widgets.labs import CostMeter, make_heads_view

    asked: list[tuple[int, int]] = []

    def told(sizes: tuple[int, int]) -> Iterator[HeadsPoint]:
        asked.append(sizes)
        yield from quick(sizes)

    view = make_heads_view(LABS["Cost of heads"], told)
    qtbot.addWidget(view)
    view.show()
    meter = view.findChild(CostMeter)
    qtbot.waitUntil(lambda: not meter.is_busy and len(view.lab.choice.points) == len(HEADS), timeout=20_000)
    view.lab.choose(replace(view.lab.choice, n_tokens=32))
    qtbot.waitUntil(lambda: not meter.is_busy and len(view.lab.choice.points) == len(HEADS), timeout=20_000)
    view.lab.choose(replace(view.lab.choice, n_heads=2))
    assert asked == [(128, 256), (32, 256)]
    view.hide()

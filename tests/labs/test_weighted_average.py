"""A weighted average: weights, hull and linearity against slow versions; what is dragged."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from attnscope.errors import UserError
from attnscope.fields import with_texts
from attnscope.labs import LABS

LAB = LABS["A weighted average"]
LIMIT = 2.5
"""How far points may be out."""


def points_of(values: str) -> np.ndarray:
    return np.array([[float(x) for x in pair.split(",")] for pair in values.split()])


def hull_of(values: str) -> np.ndarray:
    """The corners of the hull as it is drawn."""
    hull = LAB.charts(LAB.resolve(replace(LAB.example, values=values)))[0].series[1]
    assert hull.name == "hull"
    return np.stack([hull.xs, hull.ys], axis=1)


def slow_output(query, keys, values, temperature):
    """f(v) by plain loops."""
    scores = [math.fsum(a * b for a, b in zip(query, key, strict=True)) / temperature for key in keys]
    raised = [math.exp(score - max(scores)) for score in scores]
    weights = [one / math.fsum(raised) for one in raised]
    return weights, [math.fsum(w * v[axis] for w, v in zip(weights, values, strict=True)) for axis in (0, 1)]


@pytest.mark.parametrize("keys", ["values", "fixed"])
@pytest.mark.parametrize("temperature", [0.02, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("values", [LAB.example.values, "0,0 1,1", "1,1 1,1 -2.5,2.5"])
def test_that_the_output_is_that_of_plain_loops(keys: str, temperature: float, values: str) -> None:
    choice = replace(LAB.example, values=values, keys=keys, temperature=temperature)  # type: ignore[arg-type]
    shown = LAB.resolve(choice)
    points = [tuple(map(float, pair.split(","))) for pair in values.split()]
    n = len(points)
    angles = [math.pi / 2 + 2 * math.pi * k / n for k in range(n)]
    own = points if keys == "values" else [(math.cos(a), math.sin(a)) for a in angles]
    weights, output = slow_output((-0.6, -0.9), own, points, temperature)
    np.testing.assert_allclose(shown.weights, weights, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(shown.output, output, atol=1e-12)


def test_that_temperature_goes_from_one_value_to_the_mean() -> None:
    cold, warm = (LAB.resolve(replace(LAB.example, temperature=t)) for t in (0.02, 50.0))
    scores = cold.values @ cold.query
    np.testing.assert_allclose(cold.output, cold.values[scores.argmax()], atol=1e-9)
    np.testing.assert_allclose(warm.output, warm.values.mean(axis=0), atol=0.05)
    assert "hard lookup" in cold.words.sentence
    assert "mean pooling" in warm.words.sentence
    assert "soft lookup" in LAB.resolve(LAB.example).words.sentence
    assert (np.diff(cold.largest) <= 1e-12).all()


def test_that_the_map_is_linear_with_fixed_keys_alone() -> None:
    linear = LAB.resolve(replace(LAB.example, keys="fixed"))
    assert linear.doubled < 1e-12
    assert linear.added < 1e-12
    assert "f is linear" in linear.words.sentence
    shown = LAB.resolve(LAB.example)
    values, query = shown.values, (-0.6, -0.9)

    def f(inputs):
        return np.array(slow_output(query, inputs, inputs, 1.0)[1])

    assert shown.doubled == pytest.approx(float(np.linalg.norm(f(2 * values) - 2 * f(values))), rel=1e-9)
    others = values[::-1]
    off = f(values + others) - f(values) - f(others)
    assert shown.added == pytest.approx(float(np.linalg.norm(off)), rel=1e-9)
    assert min(shown.doubled, shown.added) > 0.1
    assert "f is not linear" in shown.words.sentence


@pytest.mark.parametrize("seed", range(6))
def test_that_the_hull_has_every_point_on_one_side_of_each_edge_and_holds_the_outputs(seed: int) -> None:
    points = np.round(np.random.default_rng(seed).uniform(-LIMIT, LIMIT, (3 + seed, 2)), 1)
    values = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    corners = hull_of(values)
    assert (corners[0] == corners[-1]).all()
    slow = set()  # an edge: all other points lie on one side
    for i, j in itertools.permutations(range(len(points)), 2):
        a, b = points[i], points[j]
        sides = (b[0] - a[0]) * (points[:, 1] - a[1]) - (b[1] - a[1]) * (points[:, 0] - a[0])
        if (sides >= -1e-12).all() and (a != b).any():
            slow |= {tuple(a), tuple(b)}
    assert {tuple(corner) for corner in corners} == slow
    shown = LAB.resolve(replace(LAB.example, values=values))
    for a, b in itertools.pairwise(corners):
        sides = (b[0] - a[0]) * (shown.path[:, 1] - a[1]) - (b[1] - a[1]) * (shown.path[:, 0] - a[0])
        assert (sides >= -1e-9).all()


def test_that_points_on_a_line_and_equal_points_have_a_hull() -> None:
    assert len(hull_of("0,0 1,1 2,2")) == 3
    assert len(hull_of("1,1 1,1")) == 2
    assert LAB.charts(LAB.resolve(replace(LAB.example, values="1,1 1,1")))


def test_that_a_point_stays_in_the_hand_when_it_passes_over_another() -> None:
    first, second = points_of(LAB.example.values)[:2]
    held = LAB.drag(LAB.example, *(first + 0.05), is_start=True)
    held = LAB.drag(held, *second, is_start=False)
    held = LAB.drag(held, 0.3, 0.3, is_start=False)
    found = points_of(held.values)
    np.testing.assert_allclose(found[:2], [(0.3, 0.3), second])
    query = LAB.drag(held, -0.6, -0.9, is_start=True)
    moved = LAB.drag(query, 9.0, -9.0, is_start=False)
    assert (moved.query_x, moved.query_y) == (LIMIT, -LIMIT)
    assert moved.values == held.values
    assert LAB.allows(moved)


@pytest.mark.parametrize(
    "typed", ["", "1,2", "1,2 3", "1,2 3,4", "a,b 1,1", "nan,0 1,1", "0,0 " * 9, "1,2,3 1,2,3"]
)
def test_that_what_is_no_points_is_told(typed: str) -> None:
    with pytest.raises(UserError, match=r"Expected: 2 to 8 points x,y within ±2\.5"):
        with_texts(LAB.example, (f"values={typed}",))
    assert with_texts(LAB.example, ("values=0,0 −1,2.5",)).values == "0,0 −1,2.5"

"""Learning rates against the papers' formulas."""

import math

import numpy as np
import pytest

from attnscope.training import (
    Recipe,
    SchedulePart,
    drawn_rates,
    learning_rate_at,
    noam,
    parse_recipe,
    share_at,
)

SMALL = '[data]\nkind = "task"\ntask = "copy"\n[objective]\nkind = "translation"\n[training]\nn_steps = 100\n'


def test_that_noam_peaks_at_the_end_of_the_warm_up() -> None:
    rates = [noam(t, d_model=512, warmup_steps=4000) for t in range(1, 12_001)]
    assert rates.index(max(rates)) == 3999
    assert max(rates) == pytest.approx(1 / math.sqrt(512 * 4000))
    assert rates[0] == pytest.approx(512**-0.5 * 4000**-1.5)


def test_that_noam_without_warm_up_only_falls() -> None:
    assert noam(1, d_model=4, warmup_steps=0) == 0.5
    assert noam(4, d_model=4, warmup_steps=0) == 0.25


def test_that_the_noam_rate_is_scaled_by_its_factor_alone() -> None:
    overrides = {"schedule.kind": "noam", "schedule.factor": "2.0", "schedule.warmup_steps": "10"}
    recipe = parse_recipe(SMALL, overrides=overrides)
    assert learning_rate_at(10, recipe) == pytest.approx(2.0 * noam(10, d_model=128, warmup_steps=10))


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant", "trapezoid"])
def test_that_the_warm_up_rises_in_a_straight_line_to_the_full_rate(kind: str) -> None:
    schedule = SchedulePart(kind=kind, warmup_steps=10)
    assert [share_at(t, schedule, n_steps=100) for t in (1, 5, 10)] == [0.1, 0.5, 1.0]


@pytest.mark.parametrize(
    ("kind", "middle", "end"), [("linear", 0.5, 0.0), ("cosine", 0.5, 0.0), ("constant", 1.0, 1.0)]
)
def test_that_the_fall_is_half_way_in_the_middle_and_done_at_the_end(
    kind: str, middle: float, end: float
) -> None:
    schedule = SchedulePart(kind=kind, warmup_steps=0)
    assert share_at(50, schedule, n_steps=100) == pytest.approx(middle)
    assert share_at(100, schedule, n_steps=100) == pytest.approx(end)
    assert share_at(1000, schedule, n_steps=100) == pytest.approx(end)


def test_that_the_rate_ends_at_its_final_share() -> None:
    schedule = SchedulePart(kind="cosine", warmup_steps=3, final_share=0.1)
    assert share_at(40, schedule, n_steps=40) == pytest.approx(0.1)


def test_that_a_trapezoid_falls_in_a_straight_line_over_its_last_share_alone() -> None:
    schedule = SchedulePart(kind="trapezoid", warmup_steps=10, decay_share=0.25, final_share=0.2)
    shares = {t: share_at(t, schedule, n_steps=200) for t in (5, 10, 100, 150, 175, 200, 300)}
    expected = {5: 0.5, 10: 1.0, 100: 1.0, 150: 1.0, 175: 0.6, 200: 0.2, 300: 0.2}
    assert shares == pytest.approx(expected)


def test_that_a_run_of_warm_up_alone_has_a_rate_at_every_step() -> None:
    schedule = SchedulePart(kind="linear", warmup_steps=10)
    assert share_at(5, schedule, n_steps=5) == 0.5


@pytest.mark.parametrize("n_steps", [1, 2, 95, 96, 97, 5000])
@pytest.mark.parametrize("warmup_steps", [0, 1, 40, 4000])
@pytest.mark.parametrize("kind", ["constant", "linear", "cosine", "trapezoid", "noam"])
def test_that_the_drawn_rates_are_those_of_the_run_with_its_bends(
    kind: str, warmup_steps: int, n_steps: int
) -> None:
    recipe = _recipe(kind, warmup_steps, n_steps)
    rates = drawn_rates(recipe)
    steps = [step for step, _ in rates]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (1, n_steps)
    assert len(steps) <= 150
    assert all(rate == learning_rate_at(step, recipe) for step, rate in rates)
    every = [learning_rate_at(step, recipe) for step in range(1, n_steps + 1)]
    assert max(rate for _, rate in rates) == max(every)
    drawn = np.interp(np.arange(1, n_steps + 1), steps, [rate for _, rate in rates])
    assert np.abs(drawn - every).max() <= 0.02 * max(every) + 1e-12


def _recipe(kind: str, warmup_steps: int, n_steps: int) -> Recipe:
    changed = {"kind": kind, "warmup_steps": str(warmup_steps)}
    overrides = {f"schedule.{key}": value for key, value in changed.items()}
    return parse_recipe(SMALL, overrides={**overrides, "training.n_steps": str(n_steps)})

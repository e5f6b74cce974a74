"""Intervals over few and over many texts: how often they hold the truth, and how they are said."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tiny_models import tiny_model

import attnscope as at
from attnscope.analysis import RatioBootstrap, interval_of_sums, mean_interval
from attnscope.paths import resources_folder
from attnscope.records import Estimate, interval_kind, interval_said, intervals_said, student_t

N_TIMES = 4_000
N_BOOTSTRAPPED = 300


@pytest.mark.parametrize("shape", ["uniform", "beta"])
@pytest.mark.parametrize("n", [5, 8, 12, 29])
def test_that_intervals_of_few_texts_hold_the_truth_in_95_of_100_samples(n: int, shape: str) -> None:
    random = np.random.default_rng(n)
    # Each column is a sample of n texts; weights of a head are shares, the second kind is skewed.
    drawn = random.uniform(size=(n, N_TIMES)) if shape == "uniform" else random.beta(2, 5, (n, N_TIMES))
    truth = 0.5 if shape == "uniform" else 2 / 7
    bootstrap = RatioBootstrap(N_TIMES)
    bootstrap.add_means(range(n), drawn.astype(np.float32))
    found = bootstrap.intervals(limits=(0.0, 1.0))
    held = float(((found.low <= truth) & (truth <= found.high)).mean())
    assert 0.93 <= held <= 0.975
    error = np.std(drawn, axis=0, ddof=1) / math.sqrt(n)
    reach = np.minimum(found.values + student_t(n - 1) * error, 1.0)
    np.testing.assert_allclose(found.high, reach, rtol=1e-4)


@pytest.mark.parametrize(("n", "share"), [(5, 0.89), (8, 0.89), (30, 0.92), (100, 0.95)])
def test_that_help_says_how_often_intervals_of_skewed_numbers_hold_the_truth(n: int, share: float) -> None:
    n_times = N_TIMES if n < 30 else 1_000
    drawn = np.random.default_rng(n).exponential(1.0, (n, n_times))
    bootstrap = RatioBootstrap(n_times)
    bootstrap.add_means(range(n), drawn.astype(np.float32))
    found = bootstrap.intervals(limits=(0.0, np.inf))
    assert float(((found.low <= 1.0) & (found.high >= 1.0)).mean()) == pytest.approx(share, abs=0.02)
    told = (resources_folder() / "help" / "measures.md").read_text(encoding="utf-8")
    assert f"{100 * share:.0f} with" in told


def test_that_bootstrap_intervals_hold_the_truth_from_thirty_texts_on() -> None:
    drawn = np.random.default_rng(0).beta(2, 5, (30, N_BOOTSTRAPPED)).astype(np.float32)
    bootstrap = RatioBootstrap(N_BOOTSTRAPPED)
    bootstrap.add_means(range(30), drawn)
    found = bootstrap.intervals()
    assert 0.9 <= float(((found.low <= 2 / 7) & (2 / 7 <= found.high)).mean()) <= 0.98


@pytest.mark.parametrize("n", [6, 15])
def test_that_intervals_of_ratios_hold_the_truth(n: int) -> None:
    random = np.random.default_rng(n)
    arcs = random.integers(1, 8, (n, N_TIMES))
    hits = random.binomial(arcs, 0.6)
    bootstrap = RatioBootstrap(N_TIMES)
    bootstrap.add(range(n), hits.astype(np.float32), arcs)
    found = bootstrap.intervals(limits=(0.0, 1.0))
    assert 0.92 <= float(((found.low <= 0.6) & (0.6 <= found.high)).mean()) <= 0.975
    sums = np.stack([hits[:, 0], arcs[:, 0]], axis=1).astype(float)
    low, high = interval_of_sums(sums, lambda some: some[..., 0] / some[..., 1], limits=(0.0, 1.0))
    assert (low, high) == pytest.approx((found.low[0], found.high[0]), abs=0.1)


def test_that_bootstrap_intervals_are_those_of_texts_drawn_one_by_one() -> None:
    random = np.random.default_rng(1)
    below = random.integers(0, 5, 40)
    above = random.binomial(below, 0.3)
    drawn = [np.random.Generator(np.random.Philox(key=[0, k])).poisson(1.0, 1000) for k in range(40)]
    ratios = [sum(times * above) / sum(times * below) for times in np.array(drawn).T]
    bootstrap = RatioBootstrap(1)
    bootstrap.add(range(40), above[:, None].astype(np.float32), below[:, None])
    found = bootstrap.intervals()
    assert (found.low[0], found.high[0]) == pytest.approx(np.percentile(ratios, (2.5, 97.5)), abs=1e-5)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_that_fewer_than_five_texts_get_no_interval(n: int) -> None:
    value, low, high = mean_interval([0.25] * n)
    assert (value == 0.25) is bool(n)
    assert math.isnan(low)
    assert math.isnan(high)
    sums = np.full((n, 2), 3.0)
    assert all(map(math.isnan, interval_of_sums(sums, lambda sums: sums[..., 0])))
    assert interval_kind(n) == "none"


@pytest.mark.parametrize("n", [8, 29, 30, 200])
def test_that_texts_without_any_spread_tell_no_interval(n: int) -> None:
    bootstrap = RatioBootstrap(3)
    bootstrap.add_means(range(n), np.tile(np.array([[0.0, 0.7, 1.0]], np.float32), (n, 1)))
    found = bootstrap.intervals()
    assert found.values.tolist() == pytest.approx([0.0, 0.7, 1.0])
    assert np.isnan([found.low, found.high]).all()
    sums = np.tile([3.0, 4.0], (n, 1))
    assert all(map(math.isnan, interval_of_sums(sums, lambda some: some[..., 0] / some[..., 1])))


@pytest.mark.parametrize("n", [30, 100])
def test_that_what_holds_in_every_text_has_a_lower_end_by_the_number_of_texts(n: int) -> None:
    every = Estimate(value=1.0, low=math.nan, high=math.nan, n=n)
    assert every.least**n == pytest.approx(0.025)  # a smaller share would hold in all of them less often
    assert every.interval == ""
    assert Estimate(value=1.0, low=0.9, high=1.0, n=n).least == 0.9
    for unknown in (Estimate(value=0.7, low=math.nan, high=math.nan, n=n), replace(every, n=29)):
        assert math.isnan(unknown.least)


def test_that_intervals_stay_within_what_a_number_can_be() -> None:
    bootstrap = RatioBootstrap(1)
    bootstrap.add_means(range(5), np.array([[0.0], [0.01], [0.0], [0.9], [0.0]], np.float32))
    found = bootstrap.intervals(limits=(0.0, 1.0))
    assert found.low[0] == 0.0 < found.values[0] < found.high[0]


def test_that_students_t_equals_the_printed_tables() -> None:
    printed = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 7: 2.3646, 10: 2.2281, 28: 2.0484, 60: 2.0003}
    assert {n: round(student_t(n), 4) for n in printed} == printed
    assert round(student_t(9, 0.99), 4) == 3.2498


def test_that_words_say_which_interval_it_is_and_over_how_many() -> None:
    assert interval_said(3) == "no interval: 3 texts, and 5 are needed"
    assert interval_said(12) == "95 % t interval over 12 texts"
    assert interval_said(200, "pair") == "95 % bootstrap interval over 200 pairs"
    assert intervals_said(40) == "95 % bootstrap intervals over texts (t below 30, none below 5)"
    assert Estimate(value=0.5, low=0.4, high=0.6, n=12).interval == ", 95 % t interval 0.40–0.60"
    alone = Estimate(value=0.5, low=math.nan, high=math.nan, n=3)
    assert (alone.interval, alone.text) == ("", "0.50")


@pytest.mark.parametrize(("n", "kind"), [(1, "none"), (12, "t"), (33, "bootstrap")])
def test_that_rows_json_and_statement_name_the_same_interval(n: int, kind: str) -> None:
    texts = (["the cat sat on the mat", "a dog saw", "the bird saw the cat"] * n)[:n]
    found = at.measure_texts(tiny_model("decoder"), texts)
    row, listed = found.rows()[0], found.to_dict()
    told = listed["heads"][0]["measures"]  # type: ignore[index]
    assert row["entropy_interval"] == told["entropy"]["interval"] == kind
    assert (row["stripe_interval"], row["stripe_texts"]) == ("t", 8)
    assert intervals_said(n) in found.table.statement
    assert "induction scores: 95 % t interval over 8 random rows" in found.table.statement
    assert math.isnan(row["entropy_low"]) is (kind == "none")  # type: ignore[arg-type]

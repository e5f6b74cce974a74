"""Intervals of shares against printed examples and sums by hand."""

import math

import pytest

from attnscope.records import difference_of, share_over_seeds, wilson


def test_that_wilsons_interval_solves_his_equation() -> None:
    """Its ends are the shares from which what was seen is 1.96 standard errors away."""
    for n_right, n in ((8, 10), (1, 30), (50, 100)):
        for end in wilson(n_right, n):
            away = abs(n_right / n - end) / math.sqrt(end * (1 - end) / n)
            assert away == pytest.approx(1.959964, rel=1e-9)
    assert wilson(0, 10) == (0.0, pytest.approx(0.27754, abs=1e-5))
    assert wilson(10, 10) == (pytest.approx(0.72247, abs=1e-5), pytest.approx(1.0))


def test_that_a_difference_has_newcombes_interval() -> None:
    """Newcombe 1998, table II, example (a), method 10: 56 of 70 against 48 of 80."""
    found = difference_of([56], 70, [48], 80)
    assert found.value == pytest.approx(0.2)
    assert (found.low, found.high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


def test_that_seeds_which_disagree_widen_an_interval_and_those_that_agree_do_not_narrow_it() -> None:
    alike, apart = share_over_seeds([500, 500, 500], 1000), share_over_seeds([400, 500, 600], 1000)
    assert (alike.low, alike.high) == wilson(1500, 3000)
    assert apart.value == alike.value
    assert apart.high - apart.value == pytest.approx(4.30265 * 0.1 / math.sqrt(3))
    assert share_over_seeds([0, 1000, 1000], 1000).low == 0.0
    noise = difference_of([900, 300, 600], 1000, [500, 500, 500], 1000)
    assert noise.low < 0 < noise.value
    certain = difference_of([900, 910, 890], 1000, [100, 120, 80], 1000)
    assert certain.low > 0.7

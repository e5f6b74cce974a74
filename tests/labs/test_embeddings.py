"""Embeddings and dropout: norms, counts and variances against plain loops, presets and torch."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.labs import LABS
from attnscope.nn import PRESETS, count_parameters

LAB = LABS["Embeddings and dropout"]
SIZES = tuple(2**k for k in range(3, 13))
"""The widths that the lab tries."""
SHARES = tuple(k / 20 for k in range(19))
"""The shares that it drops."""
TIED = ("transformer-base", "transformer-big", "gpt-2-large", "gpt-2-xl", "gpt-3")


def test_that_a_position_is_as_long_as_plain_loops_say_and_an_embedding_about_1() -> None:
    shown = LAB.resolve(LAB.example)
    for at, d in enumerate(SIZES[:5]):
        norms = []
        for t in range(64):
            angles = [t / 10_000 ** (2 * k / d) for k in range(d // 2)]
            norms.append(math.sqrt(sum(math.sin(a) ** 2 + math.cos(a) ** 2 for a in angles)))
        assert shown.position_norms[at] == pytest.approx(sum(norms) / 64, rel=1e-12)
        # E of the norm of N(0, 1/d): √(2/d) Γ((d+1)/2) / Γ(d/2)
        mean = math.sqrt(2 / d) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
        assert shown.token_norms[at] == pytest.approx(mean, abs=4 / math.sqrt(2 * d * 64))
    assert shown.position_norms == pytest.approx(np.sqrt(np.array(SIZES) / 2), rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_that_scaled_embeddings_are_root_2_times_as_long_as_positions_at_any_width(seed: int) -> None:
    scaled, plain = (
        series.ys for series in LAB.charts(LAB.resolve(replace(LAB.example, seed=seed)))[1].series
    )
    np.testing.assert_allclose(scaled[3:], math.sqrt(2), rtol=0.02)
    np.testing.assert_allclose(plain[3:], np.sqrt(2 / np.array(SIZES[3:])), rtol=0.02)


@pytest.mark.parametrize("name", TIED)
def test_that_published_sizes_are_those_of_the_presets_tied_and_not(name: str) -> None:
    config = PRESETS[name]
    n_tied, n_table = count_parameters(config).total, config.vocab_size * config.d_model
    untied = count_parameters(replace(config, tie_embeddings=False)).total
    assert config.tie_embeddings
    drawn = LAB.charts(LAB.resolve(LAB.example))[2].series[TIED.index(name)]
    assert name.endswith(drawn.name)
    assert drawn.xs[0] == n_tied
    assert drawn.ys[0] == pytest.approx(n_table / (n_table + n_tied), rel=1e-12)
    # an output layer of its own may have a bias of a number for each piece besides
    assert untied - n_tied in (n_table, n_table + config.vocab_size)
    assert drawn.ys[0] == pytest.approx((untied - n_tied) / untied, rel=2e-3)


@pytest.mark.parametrize("p", [0.0, 0.05, 0.5, 0.9])
def test_that_the_variance_under_dropout_is_that_of_a_slow_count(p: float) -> None:
    rng, n = random.Random(3), 40_000
    found = []
    for _ in range(n):
        x = rng.gauss(0.5, 1.0)
        found.append(0.0 if rng.random() < p else x / (1 - p))
    mean = sum(found) / n
    variance = sum((y - mean) ** 2 for y in found) / n
    assert mean == pytest.approx(0.5, abs=5 * math.sqrt(variance / n))
    at, shown = SHARES.index(p), LAB.resolve(replace(LAB.example, dropout=p))
    theory = LAB.charts(shown)[4].series[0]
    assert (theory.name, theory.xs[at]) == ("theory", p)
    assert theory.ys[at] == pytest.approx(variance, rel=0.06)
    assert shown.rescaled.variance[at] == pytest.approx(variance, rel=0.08)
    assert shown.rescaled.mean[at] == pytest.approx(shown.kept.mean[at] / (1 - p), rel=1e-12)


@pytest.mark.parametrize("p", [0.05, 0.25, 0.9])
def test_that_what_is_kept_times_the_factor_is_as_torch_drops(p: float) -> None:
    """On the numbers that the lab draws, where those are kept that its chances keep."""
    drawn = np.random.default_rng(3)
    x = 0.5 + drawn.standard_normal(20_000)
    is_kept = drawn.random(20_000) >= p
    shown, at = LAB.resolve(replace(LAB.example, dropout=p, seed=3)), SHARES.index(p)
    given = torch.nn.functional.dropout(torch.from_numpy(x), p, training=True).numpy()
    np.testing.assert_allclose(given[given != 0], x[given != 0] / (1 - p), rtol=1e-12)  # torch's factor
    kept = np.where(is_kept, x, 0.0)
    for found, expected in ((shown.kept, kept), (shown.rescaled, kept / (1 - p))):
        assert found.mean[at] == pytest.approx(expected.mean(), rel=1e-12)
        assert found.variance[at] == pytest.approx(expected.var(), rel=1e-12)
    assert shown.rescaled.variance[at] == pytest.approx(given.var(), rel=0.15)


def test_that_the_sentence_says_which_of_both_is_longer() -> None:
    scaled = LAB.resolve(LAB.example).words
    plain = LAB.resolve(replace(LAB.example, is_scaled=False)).words
    assert "1.42 times as long" in scaled.sentence
    assert "positions drown the tokens" in plain.sentence
    assert plain.formula[0] == "x = E + PE"


def test_that_a_width_is_dragged_to_the_nearest() -> None:
    assert LAB.drag(LAB.example, 700.0, 1.0, is_start=True).d_model == 512
    assert LAB.drag(LAB.example, 1e9, 1.0, is_start=False).d_model == 4096

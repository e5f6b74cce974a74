"""Embeddings and dropout: norms, counts and variances against plain loops, presets and torch."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.labs.embeddings import (
    PUBLISHED,
    SHARES,
    SIZES,
    EmbeddingChoice,
    Embeddings,
    dropped,
    embed,
    expected_variance,
)
from attnscope.nn.config import count_parameters
from attnscope.nn.presets import PRESETS

LAB = Embeddings()


def test_that_a_position_is_as_long_as_plain_loops_say_and_an_embedding_about_1() -> None:
    shown = embed(EmbeddingChoice())
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
    scaled, plain = (series.ys for series in LAB.charts(embed(EmbeddingChoice(seed=seed)))[1].series)
    np.testing.assert_allclose(scaled[3:], math.sqrt(2), rtol=0.02)
    np.testing.assert_allclose(plain[3:], np.sqrt(2 / np.array(SIZES[3:])), rtol=0.02)


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.name)
def test_that_published_sizes_are_those_of_the_presets_tied_and_not(one) -> None:
    config = PRESETS[one.name]
    assert (config.vocab_size, config.d_model, config.tie_embeddings) == (one.vocab_size, one.d_model, True)
    assert count_parameters(config).total == one.n_tied
    untied = count_parameters(replace(config, tie_embeddings=False)).total
    at = PUBLISHED.index(one)
    drawn = LAB.charts(embed(EmbeddingChoice()))[2].series[at]
    # an output layer of its own may have a bias of a number for each piece besides
    assert untied - one.n_tied in (one.n_table, one.n_table + one.vocab_size)
    assert drawn.ys[0] == pytest.approx((untied - one.n_tied) / untied, rel=2e-3)


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
    assert float(expected_variance(np.array(p))) == pytest.approx(variance, rel=0.06)
    at, shown = SHARES.index(p), embed(EmbeddingChoice(dropout=p))
    assert shown.rescaled.variance[at] == pytest.approx(variance, rel=0.08)
    assert shown.rescaled.mean[at] == pytest.approx(shown.kept.mean[at] / (1 - p), rel=1e-12)


def test_that_what_is_kept_times_the_factor_is_what_torch_gives() -> None:
    x = torch.linspace(-2.0, 3.0, 1001, dtype=torch.float64)
    given = torch.nn.functional.dropout(x, 0.25, training=True)
    chance = torch.where(given == 0.0, 0.0, 1.0).numpy()  # as torch drew
    np.testing.assert_allclose(dropped(x.numpy(), chance, 0.25) / 0.75, given.numpy(), rtol=1e-12)


def test_that_the_sentence_says_which_of_both_is_longer() -> None:
    scaled = LAB.resolve(EmbeddingChoice()).words
    plain = LAB.resolve(EmbeddingChoice(is_scaled=False)).words
    assert "1.42 times as long" in scaled.sentence
    assert "positions drown the tokens" in plain.sentence
    assert plain.formula[0] == "x = E + PE"


def test_that_a_width_is_dragged_to_the_nearest() -> None:
    assert LAB.drag(EmbeddingChoice(), 700.0, 1.0, is_start=True).d_model == 512
    assert LAB.drag(EmbeddingChoice(), 1e9, 1.0, is_start=False).d_model == 4096

"""Drawing a token: the filters against an obvious slow version, the draw against exact probabilities."""

import math

import pytest
import torch

from attnscope.errors import UserError
from attnscope.models.writing import draw, draw_probabilities, keep_top_k, keep_top_p
from attnscope.records import WriteSettings

LOGITS = torch.tensor([1.2, -0.3, 0.4, 2.5, 0.4, -4.0, 2.5, 0.0])
"""Two pairs are equal, so that the order of equals shows."""


def softmax(values: list[float]) -> list[float]:
    largest = max(values)
    powers = [math.exp(value - largest) for value in values]
    return [power / sum(powers) for power in powers]


def slow(temperature: float, top_k: int, top_p: float) -> list[float]:
    p = softmax([float(x) / temperature for x in LOGITS.double()])
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))
    if top_k:
        order = order[:top_k]
    total = sum(p[i] for i in order)
    kept: list[int] = []
    for i in order:
        if kept and sum(p[j] for j in kept) / total >= top_p:
            break
        kept.append(i)
    total = sum(p[i] for i in kept)
    return [p[i] / total if i in kept else 0.0 for i in range(len(p))]


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("top_k", [0, 1, 2, 3, 8, 50])
@pytest.mark.parametrize("top_p", [1e-9, 0.3, 0.75, 0.95, 1.0])
def test_that_the_filters_are_those_of_the_slow_version(temperature, top_k, top_p):
    settings = WriteSettings(mode="sample", temperature=temperature, top_k=top_k, top_p=top_p)
    found = draw_probabilities(LOGITS, settings)
    expected = torch.tensor(slow(temperature, top_k, top_p), dtype=torch.float64)
    assert found.dtype == torch.float64
    assert torch.allclose(found, expected, atol=1e-12), (found, expected)


def test_that_of_equal_tokens_the_smaller_id_is_kept():
    p = torch.tensor([0.2, 0.4, 0.4], dtype=torch.float64)
    assert keep_top_k(p, 1).tolist() == [0, 1, 0]
    assert keep_top_p(p, 0.4).tolist() == [0, 1, 0]
    assert keep_top_p(p, 0.5).tolist() == [0, 0.5, 0.5]


@pytest.mark.slow
def test_that_drawn_tokens_follow_the_probabilities():
    settings = WriteSettings(mode="sample", temperature=1.5, top_k=6, top_p=0.97)
    p = draw_probabilities(LOGITS, settings)
    generator = torch.Generator().manual_seed(11)
    n = 20_000
    counts = torch.zeros(len(p), dtype=torch.float64)
    for _ in range(n):
        counts[draw(p, generator)] += 1
    kept = p > 0
    assert counts[~kept].sum() == 0
    chi_square = float(((counts - n * p)[kept] ** 2 / (n * p[kept])).sum())
    n_free = int(kept.sum()) - 1
    # 99.9 % of correct samples lie below n + 3.3·sqrt(2n) or so; the seed is fixed, so it never wavers.
    assert chi_square < n_free + 3.3 * math.sqrt(2 * n_free), chi_square


def test_that_a_draw_never_takes_a_token_without_probability():
    p = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    assert {draw(p, generator) for _ in range(200)} == {1, 3}
    assert draw(torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64), generator) == 1


def test_that_temperature_nought_is_greedy_and_small_ones_come_close():
    for temperature in (0.0, 1e-3):
        p = draw_probabilities(
            LOGITS + torch.arange(8) * 1e-2, WriteSettings(mode="sample", temperature=temperature)
        )
        assert int(p.argmax()) == 6
        assert float(p.max()) > 0.99


def test_that_the_global_random_numbers_are_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    draw(torch.tensor([0.5, 0.5], dtype=torch.float64), torch.Generator().manual_seed(1))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_p": 0.0}, "top-p is 0.0"),
        ({"top_k": -1}, "top-k is -1"),
        ({"n_beams": 0}, "number of beams is 0"),
        ({"max_tokens": 0}, "number of tokens is 0"),
        ({"mode": "loudest"}, "way to choose tokens is loudest"),
    ],
)
def test_that_impossible_settings_are_named(values, words):
    with pytest.raises(UserError, match=words):
        WriteSettings(**values).check()


def test_that_settings_read_as_a_sentence():
    assert WriteSettings().sentence == "greedy"
    assert WriteSettings(mode="beams").sentence == "4 beams, length penalty 0.6"
    drawn = WriteSettings(mode="sample", temperature=0.8, top_k=40, top_p=0.9, seed=3)
    assert drawn.sentence == "sampled, temperature 0.8, top-k 40, top-p 0.9, seed 3"

import math

import pytest
import torch

from attnscope.nn import ModelConfig, apply_rotary
from attnscope.schemes.positions import POSITIONS


def turns(n_tokens, d_head, base=10000.0):
    """Cosines and signed sines of a model whose heads are so wide."""
    config = ModelConfig(form="decoder", vocab_size=2, d_model=d_head, n_heads=1, rope_base=base)
    return POSITIONS["rotary"].turns(n_tokens, config)


@pytest.mark.parametrize(("n_tokens", "d_model"), [(1, 1), (7, 6), (5, 7), (2000, 8)])
def test_that_sinusoids_follow_the_paper(n_tokens, d_model):
    table = POSITIONS["sinusoidal"].table(n_tokens, d_model)
    assert table.dtype == torch.float32
    assert table.shape == (n_tokens, d_model)
    for position in {0, n_tokens // 2, n_tokens - 1}:
        for column in range(d_model):
            angle = position / 10000 ** (2 * (column // 2) / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert float(table[position, column]) == pytest.approx(expected, abs=1e-7)


def test_that_binary_positions_are_the_bits_lowest_first():
    table = POSITIONS["binary"].table(300, 70)
    for position in (0, 1, 2, 5, 255, 256, 299):
        bits = [(position >> j) & 1 for j in range(70)]
        assert table[position].tolist() == bits


@pytest.mark.parametrize("d_head", [2, 8, 64])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_that_rotation_turns_pairs_by_their_angle(d_head, base, ramp, assert_close):
    x = ramp(2, 3, 9, d_head)
    turned = apply_rotary(x, *turns(9, d_head, base))
    half = d_head // 2
    z = torch.complex(x[..., :half].double(), x[..., half:].double())
    place, pair = torch.arange(9.0, dtype=torch.float64)[:, None], torch.arange(0, d_head, 2)
    z = z * torch.polar(torch.ones(9, half, dtype=torch.float64), place * base ** (-pair.double() / d_head))
    assert_close(turned, torch.cat((z.real, z.imag), dim=-1), atol=1e-6)


def test_that_rotated_scores_depend_on_the_distance_alone(ramp, assert_close):
    q, k = ramp(8), ramp(8, start=1.0)
    cosines, sines = turns(40, 8)
    turned_q = apply_rotary(q.expand(40, 8), cosines, sines)
    turned_k = apply_rotary(k.expand(40, 8), cosines, sines)
    scores = turned_q @ turned_k.T
    for offset in range(-5, 6):
        diagonal = scores.diagonal(offset)
        assert_close(diagonal, diagonal[0].expand_as(diagonal), atol=5e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_that_rotation_keeps_the_type(dtype, ramp):
    assert apply_rotary(ramp(1, 1, 4, 8, dtype=dtype), *turns(4, 8)).dtype == dtype

"""Gradients, positions and residuals of the labs, written in numpy, against autograd and the engine."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from attnscope.analysis import residual_ratio as engine_ratio
from attnscope.counting import format_number
from attnscope.labs import LABS
from attnscope.nn import ModelConfig, apply_rotary
from attnscope.schemes.positions import POSITIONS

PAST_THE_TRAINED_LENGTH = LABS["Past the trained length"]

GRADIENT_BY_DISTANCE = LABS["Gradient by distance"]
RANK_COLLAPSE = LABS["Rank collapse"]
N, N_DRAWS, D_MODEL = 7, 8, 24
LONGEST = 256
"""Inputs are drawn for the longest text, and the first of them are read."""


def told(shown, name: str) -> str:
    """A number as the lab writes it."""
    return dict(shown.words.numbers)[name]


def size(gradient: torch.Tensor) -> float:
    return float(gradient.norm()) / D_MODEL**0.5


@pytest.mark.slow
def test_that_the_tanh_networks_gradient_is_autograds() -> None:
    shown = GRADIENT_BY_DISTANCE.resolve(
        replace(GRADIENT_BY_DISTANCE.example, n_tokens=N, radius=1.3, seed=5, distance=4)
    )
    random = np.random.default_rng((5, 1))
    drawn = random.standard_normal((N_DRAWS, D_MODEL, D_MODEL))
    largest = np.abs(np.linalg.eigvals(drawn)).max(axis=-1)
    matrices = torch.from_numpy(drawn * (1.3 / largest)[:, None, None])
    inputs = torch.from_numpy(0.1 * random.standard_normal((N_DRAWS, LONGEST, D_MODEL))[:, :N])
    assert torch.linalg.eigvals(matrices).abs().amax(dim=1).allclose(torch.tensor(1.3, dtype=torch.float64))
    logs = np.zeros(N)
    for matrix, rows in zip(matrices, inputs, strict=True):

        def last(states: torch.Tensor, first: int, matrix=matrix, rows=rows) -> torch.Tensor:
            for t in range(first, N):
                states = torch.tanh(matrix @ states + rows[t])
            return states

        states = [torch.zeros(D_MODEL, dtype=torch.float64)]
        for t in range(N):
            states.append(torch.tanh(matrix @ states[-1] + rows[t]))
        for k in range(N):  # k steps before the last state
            logs[k] += np.log(size(jacobian(lambda s, k=k, last=last: last(s, N - k), states[N - k])))
    sizes = np.exp(logs / N_DRAWS)
    np.testing.assert_allclose(shown.plain, sizes[1:] / sizes[1], rtol=1e-10)
    assert told(shown, "‖∂h_T/∂h_t‖, tanh network") == format_number(float(sizes[4]))


@pytest.mark.slow
def test_that_the_lstms_gradient_is_autograds() -> None:
    d, bias = D_MODEL, 1.5
    shown = GRADIENT_BY_DISTANCE.resolve(
        replace(GRADIENT_BY_DISTANCE.example, n_tokens=N, forget_bias=bias, seed=2, distance=4)
    )
    random = np.random.default_rng((2, 2))
    matrices = torch.from_numpy(random.standard_normal((N_DRAWS, 4, d, d)) / np.sqrt(3 * d))
    inputs = torch.from_numpy(0.1 * random.standard_normal((N_DRAWS, LONGEST, 4, d))[:, :N])
    logs = np.zeros(N)
    for matrix, rows in zip(matrices, inputs, strict=True):
        cell = torch.nn.LSTMCell(4 * d, d, dtype=torch.float64)  # gates there: in, forget, new, out
        with torch.no_grad():
            cell.weight_hh.copy_(torch.cat([matrix[0], matrix[1], matrix[3], matrix[2]]))
            eye = torch.eye(4 * d, dtype=torch.float64)
            cell.weight_ih.copy_(torch.cat([eye[:d], eye[d : 2 * d], eye[3 * d :], eye[2 * d : 3 * d]]))
            cell.bias_hh.zero_()
            cell.bias_ih.zero_()
            cell.bias_ih[d : 2 * d] = bias

        def last_cell(h: torch.Tensor, c: torch.Tensor, first: int, cell=cell, rows=rows) -> torch.Tensor:
            for t in range(first, N):
                h, c = cell(rows[t].flatten()[None], (h, c))
            return c

        states = [(torch.zeros(1, d, dtype=torch.float64), torch.zeros(1, d, dtype=torch.float64))]
        for t in range(N):
            states.append(tuple(s.detach() for s in cell(rows[t].flatten()[None], states[-1])))
        for k in range(N):
            h, c = states[N - k]
            found = jacobian(lambda c, h=h, k=k, run=last_cell: run(h, c, N - k), c)
            logs[k] += np.log(size(found.reshape(d, d)))
    sizes = np.exp(logs / N_DRAWS)
    np.testing.assert_allclose(shown.gated, sizes[1:] / sizes[1], rtol=1e-10)
    assert told(shown, "‖∂c_T/∂c_t‖, LSTM, h_t fixed") == format_number(float(sizes[4]))


def test_that_attentions_gradient_is_autograds() -> None:
    shown = GRADIENT_BY_DISTANCE.resolve(
        replace(GRADIENT_BY_DISTANCE.example, n_tokens=N, seed=3, distance=4)
    )
    random, n_heads = np.random.default_rng((3, 3)), 64
    maps = random.standard_normal((n_heads, 3, D_MODEL, D_MODEL)) / np.sqrt(D_MODEL)
    tokens = random.standard_normal((n_heads, N, D_MODEL))
    logs = np.zeros(N)
    for x, (to_query, to_key, to_value) in zip(torch.from_numpy(tokens), torch.from_numpy(maps), strict=True):

        def last_output(x: torch.Tensor, to_query=to_query, to_key=to_key, to_value=to_value) -> torch.Tensor:
            weights = torch.softmax(x @ to_key.T @ (to_query @ x[-1]) / D_MODEL**0.5, dim=0)
            return weights @ (x @ to_value.T)

        gradient = jacobian(last_output, x).permute(1, 0, 2)
        logs += [np.log(size(gradient[N - 1 - k])) for k in range(N)]
    sizes = np.exp(logs / n_heads)
    np.testing.assert_allclose(shown.attention, sizes[1:] / sizes[1], rtol=1e-10)
    assert told(shown, "‖∂o_T/∂x_t‖, attention") == format_number(float(sizes[4]))


@pytest.mark.parametrize("offset", [0, 1, 17, 90])
def test_that_likeness_by_offset_is_that_of_the_engines_tables(offset: int) -> None:
    shown = PAST_THE_TRAINED_LENGTH.resolve(
        replace(PAST_THE_TRAINED_LENGTH.example, base=500.0, d_model=32, n_trained=32)
    )
    table = POSITIONS["sinusoidal"].table(128, 32).double()
    cosine = torch.nn.functional.cosine_similarity(table[5], table[5 + offset], dim=0)
    assert shown.sinusoidal[offset] == pytest.approx(float(cosine), abs=1e-6)
    config = ModelConfig(
        form="decoder", vocab_size=2, d_model=8, n_heads=1, position="rotary", rope_base=500.0
    )
    turns = POSITIONS["rotary"].turns(128, config)
    turned = apply_rotary(torch.full((128, 8), 8**-0.5), *turns).double()
    assert shown.rotary[offset] == pytest.approx(float(turned[30] @ turned[30 + offset]), abs=1e-5)


def test_that_biases_are_the_engines_and_pairs_turn_as_the_table_says() -> None:
    config = ModelConfig(form="decoder", vocab_size=2, n_buckets=32, max_distance=128)
    ids = {"weight": torch.arange(32.0)[:, None]}
    (buckets,) = POSITIONS["t5"].bias(ids, -torch.arange(400), config, is_causal=True)
    example = replace(PAST_THE_TRAINED_LENGTH.example, n_trained=128)
    np.testing.assert_array_equal(PAST_THE_TRAINED_LENGTH.resolve(example).t5[:400], -0.25 * buckets.numpy())
    slopes = [-PAST_THE_TRAINED_LENGTH.resolve(replace(example, head=head)).alibi[1] for head in range(1, 9)]
    np.testing.assert_allclose(slopes, POSITIONS["alibi"].slopes(8))
    choice = replace(PAST_THE_TRAINED_LENGTH.example, place=9, offset=31)
    table = POSITIONS["sinusoidal"].table(64, choice.d_model)
    for pair in PAST_THE_TRAINED_LENGTH.resolve(choice).pairs:
        for place, angle in ((9, pair.before), (40, pair.after)):
            expected = table[place, 2 * pair.pair : 2 * pair.pair + 2].numpy()
            np.testing.assert_allclose([np.sin(angle), np.cos(angle)], expected, atol=1e-5)


def test_that_the_residual_is_the_engines() -> None:
    for layer in (0, 1, 3):
        shown = RANK_COLLAPSE.resolve(replace(RANK_COLLAPSE.example, layer=layer))
        ours = float(shown.ratios[False, False][layer])
        assert ours == pytest.approx(engine_ratio(torch.from_numpy(shown.stream)), rel=1e-12)

"""Gradients, positions and residuals of the labs, written in numpy, against autograd and the engine."""

import numpy as np
import pytest
import torch
from torch.autograd.functional import jacobian

from attnscope.analysis.rank_collapse import residual_ratio as engine_ratio
from attnscope.labs import gradient_reach as reach
from attnscope.labs import position_offsets as offsets
from attnscope.labs import rank_collapse as rank
from attnscope.nn.scores import apply_rotary
from attnscope.schemes.positions.alibi import alibi_slopes
from attnscope.schemes.positions.rotary import rotary_tables
from attnscope.schemes.positions.sinusoidal import sinusoidal_table
from attnscope.schemes.positions.t5 import relative_buckets

N = 7


def size(gradient: torch.Tensor) -> float:
    return float(gradient.norm()) / reach.D_MODEL**0.5


@pytest.mark.slow
def test_that_the_tanh_networks_gradient_is_autograds() -> None:
    matrices, inputs = (torch.from_numpy(a.copy()) for a in reach.draw_plain(N, 1.3, 5))
    assert torch.linalg.eigvals(matrices).abs().amax(dim=1).allclose(torch.tensor(1.3, dtype=torch.float64))
    logs = np.zeros(N)
    for matrix, rows in zip(matrices, inputs, strict=True):

        def last(states: torch.Tensor, first: int, matrix=matrix, rows=rows) -> torch.Tensor:
            for t in range(first, N):
                states = torch.tanh(matrix @ states + rows[t])
            return states

        states = [torch.zeros(reach.D_MODEL, dtype=torch.float64)]
        for t in range(N):
            states.append(torch.tanh(matrix @ states[-1] + rows[t]))
        for k in range(N):  # k steps before the last state
            logs[k] += np.log(size(jacobian(lambda s, k=k, last=last: last(s, N - k), states[N - k])))
    np.testing.assert_allclose(reach.plain_sizes(N, 1.3, 5), np.exp(logs / reach.N_DRAWS), rtol=1e-10)


@pytest.mark.slow
def test_that_the_lstms_gradient_is_autograds() -> None:
    matrices, inputs = (torch.from_numpy(a.copy()) for a in reach.draw_gated(N, 2))
    d, bias = reach.D_MODEL, 1.5
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
    np.testing.assert_allclose(reach.gated_sizes(N, bias, 2), np.exp(logs / reach.N_DRAWS), rtol=1e-10)


def test_that_attentions_gradient_is_autograds() -> None:
    tokens, maps = reach.draw_attention(N, 3)
    to_query, to_key, to_value = torch.from_numpy(maps[0])

    def last_output(x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(x @ to_key.T @ (to_query @ x[-1]) / reach.D_MODEL**0.5, dim=0)
        return weights @ (x @ to_value.T)

    expected = jacobian(last_output, torch.from_numpy(tokens[0])).permute(1, 0, 2)
    np.testing.assert_allclose(reach.attention_gradient(tokens[0], maps[0]), expected, atol=1e-12)


@pytest.mark.parametrize("offset", [0, 1, 17, 90])
def test_that_likeness_by_offset_is_that_of_the_engines_tables(offset: int) -> None:
    shown = offsets.look_past(offsets.OffsetChoice(base=500.0, d_model=32, n_trained=32))
    table = sinusoidal_table(128, 32).double()
    cosine = torch.nn.functional.cosine_similarity(table[5], table[5 + offset], dim=0)
    assert shown.sinusoidal[offset] == pytest.approx(float(cosine), abs=1e-6)
    turned = apply_rotary(torch.full((128, 8), 8**-0.5), *rotary_tables(128, 8, 500.0)).double()
    assert shown.rotary[offset] == pytest.approx(float(turned[30] @ turned[30 + offset]), abs=1e-5)


def test_that_biases_are_the_engines_and_pairs_turn_as_the_table_says() -> None:
    places = np.arange(400.0)
    engines = relative_buckets(-torch.arange(400), n_buckets=32, max_distance=128, is_causal=True)
    np.testing.assert_array_equal(offsets._buckets(places), engines.numpy())
    slopes = [offsets.slope(head) for head in range(1, offsets.N_HEADS + 1)]
    np.testing.assert_allclose(slopes, alibi_slopes(offsets.N_HEADS))
    choice = offsets.OffsetChoice(place=9, offset=31)
    table = sinusoidal_table(64, choice.d_model)
    for pair in offsets.look_past(choice).pairs:
        for place, angle in ((9, pair.before), (40, pair.after)):
            expected = table[place, 2 * pair.pair : 2 * pair.pair + 2].numpy()
            np.testing.assert_allclose([np.sin(angle), np.cos(angle)], expected, atol=1e-5)


def test_that_the_residual_is_the_engines() -> None:
    stream = np.random.default_rng(0).standard_normal((5, 8)) + 2.0
    ours = float(rank.residual_ratios(stream))
    assert ours == pytest.approx(engine_ratio(torch.from_numpy(stream)), rel=1e-12)

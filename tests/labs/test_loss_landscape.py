"""The loss landscape: loss and gradients against torch, the plane against single networks, its claim."""

import math

import numpy as np
import pytest
import torch

from attnscope.labs.loss_landscape import (
    CHANCE,
    GRID,
    N_STEPS,
    LandscapeChoice,
    below_chance,
    direction,
    drawn_parameters,
    loss_and_gradients,
    losses_around,
    n_minima,
    spirals,
    survey,
    trained,
)


def torch_loss(parameters, has_skips: bool) -> torch.Tensor:
    """The network once more, by the library."""
    n = len(parameters) // 2
    points, signs = (torch.from_numpy(one) for one in spirals())
    h = torch.relu(points @ parameters[0] + parameters[n])
    for k in range(1, n - 1):
        z = torch.relu(h @ parameters[k] + parameters[n + k])
        h = h + z if has_skips else z
    output = (h @ parameters[n - 1] + parameters[-1])[:, 0]
    return torch.nn.functional.softplus(-signs * output, threshold=1000).mean()


@pytest.mark.parametrize("has_skips", [True, False])
@pytest.mark.parametrize("n_layers", [2, 4])
def test_that_loss_and_gradients_are_those_of_torch(n_layers: int, has_skips: bool) -> None:
    parameters = drawn_parameters(n_layers, has_skips, 3)
    leaves = [torch.from_numpy(p.copy()).requires_grad_() for p in parameters]
    expected = torch_loss(leaves, has_skips)
    expected.backward()
    loss, gradients = loss_and_gradients(parameters, has_skips)
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    for found, leaf in zip(gradients, leaves, strict=True):
        np.testing.assert_allclose(found, leaf.grad.numpy(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("has_skips", [True, False])
def test_that_every_place_of_the_plane_is_a_network_of_its_own(has_skips: bool) -> None:
    parameters, losses = trained(4, has_skips, 0)
    n = len(parameters) // 2
    one, other = (direction(parameters, (0, k), is_normalised=True) for k in range(2))
    plane = losses_around(parameters, (one, other), 0.5, has_skips)
    places = np.linspace(-0.5, 0.5, GRID)
    for row, column in ((0, 0), (3, 20), (GRID // 2, GRID // 2), (24, 1)):
        moved = [
            torch.from_numpy(w + places[column] * d + places[row] * e)
            for w, d, e in zip(parameters[:n], one, other, strict=True)
        ]
        biases = [torch.from_numpy(b) for b in parameters[n:]]
        assert plane[row, column] == pytest.approx(torch_loss([*moved, *biases], has_skips).item(), rel=1e-9)
    assert plane[GRID // 2, GRID // 2] < losses[-1] * 1.01 < 0.05 < losses[0]
    assert len(losses) == N_STEPS


def test_that_each_filter_of_a_direction_is_as_long_as_that_of_the_weights() -> None:
    parameters = drawn_parameters(2, True, 0)
    weights = parameters[: len(parameters) // 2]
    for found, own in zip(direction(parameters, (5, 0), is_normalised=True), weights, strict=True):
        for j in range(own.shape[1]):
            assert math.hypot(*found[:, j]) == pytest.approx(math.hypot(*own[:, j]), rel=1e-12)
    whole = direction(parameters, (5, 0), is_normalised=False)
    sizes = [math.sqrt(sum(float((one**2).sum()) for one in every)) for every in (whole, weights)]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-12)


def test_that_minima_are_counted_as_loops_count_them() -> None:
    plane = np.random.default_rng(0).standard_normal((9, 11))
    slow = 0
    for i in range(1, 8):
        for j in range(1, 10):
            around = [plane[a, b] for a in (i - 1, i, i + 1) for b in (j - 1, j, j + 1) if (a, b) != (i, j)]
            slow += plane[i, j] < min(around)
    assert n_minima(plane) == slow > 3
    assert below_chance(np.array([[0.0, CHANCE], [1.0, 0.5]])) == 0.5


def test_that_skips_keep_the_surroundings_of_a_deep_network_low() -> None:
    shown = survey(LandscapeChoice())
    assert below_chance(shown.planes[True]) > 1.5 * below_chance(shown.planes[False])
    assert np.median(shown.planes[True]) < np.median(shown.planes[False])
    assert max(float(steps[-1]) for steps in shown.steps.values()) < 0.05
    assert "there the loss rises steeply" in shown.words.sentence
    assert "switch it on" in survey(LandscapeChoice(is_normalised=False)).words.sentence

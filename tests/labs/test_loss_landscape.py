"""The loss landscape: training and plane against torch's own networks and gradients, counts, its claim."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.labs import LABS

LAB = LABS["Loss landscape"]
WIDTH, N_POINTS, N_STEPS, GRID = 12, 96, 200, 25
CHANCE = math.log(2)


def spirals() -> tuple[torch.Tensor, torch.Tensor]:
    """The points of both spirals and their signs, as the lab draws them."""
    n, random = N_POINTS // 2, np.random.default_rng(7)
    angle = 1.65 * np.pi * np.sqrt(np.linspace(0.05, 1, n))
    one = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1) / 4
    points = np.concatenate([one, -one]) + 0.04 * random.standard_normal((N_POINTS, 2))
    return torch.from_numpy(points), torch.tensor([1.0] * n + [-1.0] * n, dtype=torch.float64)


def drawn_parameters(n_layers: int, has_skips: bool, seed: int) -> list[torch.Tensor]:
    """First weights (He et al. 2015), divided by √n_layers where there are skips, then biases."""
    random = np.random.default_rng(seed)
    scale = math.sqrt(2 / WIDTH) / (math.sqrt(n_layers) if has_skips else 1.0)
    inner = [scale * random.standard_normal((WIDTH, WIDTH)) for _ in range(n_layers)]
    ends = random.standard_normal((2, WIDTH)), random.standard_normal((WIDTH, 1)) / math.sqrt(WIDTH)
    biases = [0.3 * random.standard_normal(WIDTH), *(np.zeros(WIDTH) for _ in range(n_layers)), np.zeros(1)]
    return [torch.from_numpy(one) for one in (ends[0], *inner, ends[1], *biases)]


def torch_loss(parameters: list[torch.Tensor], has_skips: bool) -> torch.Tensor:
    """The network once more, by the library."""
    n = len(parameters) // 2
    points, signs = spirals()
    h = torch.relu(points @ parameters[0] + parameters[n])
    for k in range(1, n - 1):
        z = torch.relu(h @ parameters[k] + parameters[n + k])
        h = h + z if has_skips else z
    output = (h @ parameters[n - 1] + parameters[-1])[:, 0]
    return torch.nn.functional.softplus(-signs * output, threshold=1000).mean()


def torch_trained(n_layers: int, has_skips: bool, seed: int) -> tuple[list[torch.Tensor], list[float]]:
    """The parameters after Adam of the library, with its gradients, and the loss before each step."""
    parameters = [p.clone().requires_grad_() for p in drawn_parameters(n_layers, has_skips, seed)]
    adam = torch.optim.Adam(parameters, betas=(0.9, 0.99), eps=1e-8)
    losses = []
    for step in range(1, N_STEPS + 1):
        adam.zero_grad()
        loss = torch_loss(parameters, has_skips)
        loss.backward()
        losses.append(loss.item())
        adam.param_groups[0]["lr"] = 0.01 * (1 - 0.9 * step / N_STEPS)
        adam.step()
    return [p.detach() for p in parameters], losses


def direction(weights: list[torch.Tensor], seed: tuple[int, int], is_normalised: bool) -> list[np.ndarray]:
    """A random direction, filter by filter, or as a whole, as long as the weights."""
    random = np.random.default_rng(seed)
    drawn = [random.standard_normal(w.shape) for w in weights]
    if not is_normalised:
        sizes = [math.sqrt(sum(float((one**2).sum()) for one in every)) for every in (drawn, weights)]
        return [one * sizes[1] / sizes[0] for one in drawn]
    for found, own in zip(drawn, weights, strict=True):
        for j in range(own.shape[1]):
            found[:, j] *= math.hypot(*own[:, j].tolist()) / math.hypot(*found[:, j])
    return drawn


@pytest.mark.parametrize("has_skips", [True, False])
@pytest.mark.parametrize("n_layers", [2, 4])
def test_that_the_networks_are_trained_as_torch_trains_them(n_layers: int, has_skips: bool) -> None:
    shown = LAB.resolve(replace(LAB.example, n_layers=n_layers, seed=3))
    _, losses = torch_trained(n_layers, has_skips, 3)
    np.testing.assert_allclose(shown.steps[has_skips][:3], losses[:3], rtol=1e-11)
    np.testing.assert_allclose(shown.steps[has_skips], losses, rtol=1e-5)
    drawn = {series.name: series for series in LAB.charts(shown)[1].series}
    curve = drawn["with skips" if has_skips else "without skips"]
    np.testing.assert_array_equal(curve.ys, np.maximum(shown.steps[has_skips], 1e-6))
    assert curve.xs.tolist() == [*range(1, N_STEPS + 1)]


@pytest.mark.parametrize("has_skips", [True, False])
@pytest.mark.parametrize("is_normalised", [True, False])
def test_that_every_place_of_the_plane_is_a_network_of_its_own(has_skips: bool, is_normalised: bool) -> None:
    shown = LAB.resolve(replace(LAB.example, n_layers=4, extent=0.5, is_normalised=is_normalised, plane=5))
    parameters, losses = torch_trained(4, has_skips, LAB.example.seed)
    n = len(parameters) // 2
    one, other = (direction(parameters[:n], (5, k), is_normalised) for k in range(2))
    plane, places = shown.planes[has_skips], np.linspace(-0.5, 0.5, GRID)
    np.testing.assert_array_equal(shown.places, places)
    for row, column in ((0, 0), (3, 20), (GRID // 2, GRID // 2), (24, 1)):
        moved = [
            w + places[column] * torch.from_numpy(d) + places[row] * torch.from_numpy(e)
            for w, d, e in zip(parameters[:n], one, other, strict=True)
        ]
        expected = torch_loss([*moved, *parameters[n:]], has_skips).item()
        assert plane[row, column] == pytest.approx(expected, rel=1e-4)
    assert plane[GRID // 2, GRID // 2] < losses[-1] * 1.01 < 0.05 < losses[0]
    cells = LAB.cells(shown)[0 if has_skips else 1]
    np.testing.assert_array_equal(cells.values, plane[::-1])


def test_that_minima_and_places_below_a_guess_are_counted_as_loops_count_them() -> None:
    shown = LAB.resolve(replace(LAB.example, is_normalised=False, extent=2.0, n_layers=16))
    minima, shares = [], []
    for plane in shown.planes.values():
        slow = 0
        for i in range(1, GRID - 1):
            for j in range(1, GRID - 1):
                around = [
                    plane[a, b] for a in (i - 1, i, i + 1) for b in (j - 1, j, j + 1) if (a, b) != (i, j)
                ]
                slow += plane[i, j] < min(around)
        minima.append(slow)
        shares.append(sum(loss < CHANCE for loss in plane.ravel().tolist()) / GRID**2)
    told = dict(shown.words.numbers)
    assert sum(minima) > 3
    assert told["local minima in the plane"] == " · ".join(map(str, minima))
    assert told["share below a guess, ln 2"] == " · ".join(f"{share:.0%}" for share in shares)


def test_that_skips_keep_the_surroundings_of_a_deep_network_low() -> None:
    shown = LAB.resolve(LAB.example)
    below = {one: float((plane < CHANCE).mean()) for one, plane in shown.planes.items()}
    assert below[True] > 1.5 * below[False]
    assert np.median(shown.planes[True]) < np.median(shown.planes[False])
    assert max(float(steps[-1]) for steps in shown.steps.values()) < 0.05
    assert "there the loss rises steeply" in shown.words.sentence
    other = LAB.resolve(replace(LAB.example, is_normalised=False))
    assert "switch it on" in other.words.sentence

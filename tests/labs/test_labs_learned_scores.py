"""Scores that a lab learns: gradients by differences, sums by loops, and what is claimed of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.counting import format_number
from attnscope.labs import LABS

LAB = LABS["Kernel regression"]

SCORES = ("general", "additive")


def first_parameters(score: str, d: int) -> tuple[torch.Tensor, ...]:
    """Where the lab begins: the plain product of the general score, or random tanh units."""
    if score == "general":
        return (torch.eye(d, dtype=torch.float64),)
    random = np.random.default_rng(0)
    shapes, scales = ((8, d), (8, d), (8,), (8,)), (2 / np.sqrt(d), 2 / np.sqrt(d), 1.0, 0.1)
    drawn = [scale * random.standard_normal(shape) for scale, shape in zip(scales, shapes, strict=True)]
    return tuple(map(torch.from_numpy, drawn))


def torch_scores(queries: torch.Tensor, keys: torch.Tensor, parameters) -> torch.Tensor:
    """Every query with every key, one at a time."""
    if len(parameters) == 1:
        return torch.stack([torch.stack([q @ parameters[0] @ k for k in keys]) for q in queries])
    of_query, of_key, bias, v = parameters
    rows = [[v @ torch.tanh(of_query @ q + of_key @ k + bias) for k in keys] for q in queries]
    return torch.stack([torch.stack(row) for row in rows])


def torch_error(parameters, features: torch.Tensor, values: torch.Tensor, temperature: float) -> torch.Tensor:
    """The mean squared error of guessing each sample from the others."""
    total = 0.0
    for i in range(len(values)):
        others = [j for j in range(len(values)) if j != i]
        weights = (torch_scores(features[i : i + 1], features[others], parameters)[0] / temperature).softmax(
            0
        )
        total = total + (weights @ values[others] - values[i]) ** 2
    return total / len(values)


def features_of(places: np.ndarray, features: str) -> torch.Tensor:
    if features == "place":
        return torch.from_numpy(places[:, None].copy())
    waves = np.arange(1, 9) / 4.0
    angles = places[:, None] * waves
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1) / np.sqrt((waves**2).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("features", ["place", "waves"])
@pytest.mark.parametrize("score", SCORES)
def test_that_what_is_learned_is_what_torch_learns_with_its_own_gradients(score: str, features: str) -> None:
    own = "-2:1,-1:0.5,0.5:-1,2:1.5"
    shown = LAB.resolve(
        replace(LAB.example, own=own, score=score, features=features, sigma=0.5, own_query=0.25)
    )
    seen, values = features_of(shown.keys, features), torch.from_numpy(shown.values.copy())
    parameters = [p.requires_grad_() for p in first_parameters(score, seen.shape[1])]
    adam = torch.optim.Adam(parameters, lr=0.05, betas=(0.9, 0.99), eps=1e-8)
    errors = []
    for _ in range(201):
        adam.zero_grad()
        error = torch_error(parameters, seen, values, 0.35**2)
        errors.append(error.item())
        if len(errors) <= 200:
            error.backward()
            adam.step()
    with torch.no_grad():
        at = shown.places[::40]
        scores = torch_scores(features_of(at, features), seen, parameters) / 0.5**2
        fitted = (scores.softmax(dim=1) @ values).numpy()
        here = (torch_scores(features_of(np.array([0.25]), features), seen, parameters) / 0.5**2).softmax(1)
    np.testing.assert_allclose(shown.fitted[::40], fitted, atol=1e-6)
    np.testing.assert_allclose(shown.weights, here[0].numpy(), atol=1e-6)
    told = dict(shown.words.numbers)["error before → after learning"]
    assert told == f"{format_number(errors[0], 2)} → {format_number(errors[-1], 2)}"


def off(choice: object) -> float:
    shown = LAB.resolve(choice)
    return float(np.sqrt(np.mean((shown.fitted - shown.truth) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_that_of_plain_places_the_additive_score_learns_a_kernel_and_the_general_one_cannot(seed) -> None:
    additive, general, gaussian = (
        off(replace(LAB.example, score=score, seed=seed)) for score in ("additive", "general", "gaussian")
    )
    assert additive < 2.2 * gaussian
    assert additive < 0.6 * general


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (replace(LAB.example, score="additive"), "two tanh make a bump"),
        (replace(LAB.example, score="additive", features="waves"), "it needs no product"),
        (replace(LAB.example, score="general"), "no scaled product of two positions knows how near"),
        (
            replace(LAB.example, score="general", features="waves"),
            "W has 256 numbers: from 28 samples",
        ),
    ],
)
def test_that_what_was_learned_is_said_with_its_error(choice: object, words: str) -> None:
    told = LAB.resolve(choice).words
    assert words in told.sentence
    before, after = dict(told.numbers)["error before → after learning"].split(" → ")
    assert float(after) < float(before)

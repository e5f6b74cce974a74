"""Scores that a lab learns: gradients by differences, sums by loops, and what is claimed of them."""

import math

import numpy as np
import pytest

from attnscope.labs.kernel_regression import (
    RegressionChoice,
    error_and_gradients,
    first_parameters,
    raw_scores,
    regress,
)

SCORES = ("general", "additive")


def ramp(*shape: int) -> np.ndarray:
    return np.sin(1.3 * np.arange(math.prod(shape), dtype=np.float64).reshape(shape) + 0.4)


def slow_score(query: np.ndarray, key: np.ndarray, parameters: tuple[np.ndarray, ...]) -> float:
    d = len(query)
    if len(parameters) == 1:
        return sum(query[a] * parameters[0][a, b] * key[b] for a in range(d) for b in range(d))
    of_query, of_key, bias, v = parameters
    return sum(
        v[h] * math.tanh(sum(of_query[h, a] * query[a] + of_key[h, a] * key[a] for a in range(d)) + bias[h])
        for h in range(len(v))
    )


def slow_error(parameters, features, values, temperature) -> float:
    total = 0.0
    for i in range(len(values)):
        others = [j for j in range(len(values)) if j != i]
        raised = [math.exp(slow_score(features[i], features[j], parameters) / temperature) for j in others]
        guess = sum(w * values[j] for w, j in zip(raised, others, strict=True)) / sum(raised)
        total += (guess - values[i]) ** 2
    return total / len(values)


@pytest.mark.parametrize("score", SCORES)
def test_that_the_error_is_that_of_loops_and_its_gradients_those_of_differences(score) -> None:
    features, values, temperature = ramp(5, 3), ramp(5) * 2, 0.7
    parameters = tuple(0.5 * p + 0.1 * ramp(*p.shape) for p in first_parameters(score, 3))
    queries = ramp(2, 3)
    expected = [[slow_score(q, k, parameters) for k in features] for q in queries]
    np.testing.assert_allclose(raw_scores(queries, features, parameters), expected, atol=1e-13)
    error, gradients = error_and_gradients(parameters, features, values, temperature)
    assert error == pytest.approx(slow_error(parameters, features, values, temperature), abs=1e-13)
    for k, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            moved = []
            for step in (1e-5, -1e-5):
                other = [p.copy() for p in parameters]
                other[k][place] += step
                moved.append(slow_error(tuple(other), features, values, temperature))
            assert gradient[place] == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-8)


def off(choice: RegressionChoice) -> float:
    shown = regress(choice)
    return float(np.sqrt(np.mean((shown.fitted - shown.truth) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_that_of_plain_places_the_additive_score_learns_a_kernel_and_the_general_one_cannot(seed) -> None:
    additive, general, gaussian = (
        off(RegressionChoice(score=score, seed=seed)) for score in ("additive", "general", "gaussian")
    )
    assert additive < 2.2 * gaussian
    assert additive < 0.6 * general


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (RegressionChoice(score="additive"), "two tanh make a bump"),
        (RegressionChoice(score="additive", features="waves"), "it needs no product"),
        (RegressionChoice(score="general"), "learning cannot help"),
        (
            RegressionChoice(score="general", features="waves"),
            "W has 256 numbers: from 28 samples",
        ),
    ],
)
def test_that_what_was_learned_is_said_with_its_error(choice: RegressionChoice, words: str) -> None:
    told = regress(choice).words
    assert words in told.sentence
    before, after = dict(told.numbers)["error before → after learning"].split(" → ")
    assert float(after) < float(before)

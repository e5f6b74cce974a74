"""Scores that have to be learned, fitted to samples: the bilinear one and the additive one.

    symbol   meaning                                                   shape
    q, k     features of every sample, as query and as key             [n, d]
    W        of the general score s = q·W k (Luong 2015)               [d, d]
    W, U, b  of the additive score s = v·tanh(W q + U k + b)           [h, d], [h, d], [h]
    v        its weights of the h units (Bahdanau 2014)                [h]
    w        softmax of s / T along the keys but the query's own       [n, n]

What is made small is the mean of (y_i − Σ_j w_ij y_j)², each sample guessed from the others, by Adam (Kingma
and Ba 2015) with gradients written out here: ∂/∂s_ij = 2/n · (ŷ_i − y_i) · w_ij (y_j − ŷ_i) / T.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
N_UNITS, N_STEPS, MAX_FITTED = 8, 200, 28
"""More samples than `MAX_FITTED` are not looked at: a fit takes a few hundredths of a second."""
_RATE, _MEAN, _SQUARE = 0.05, 0.9, 0.99


@dataclass(frozen=True, slots=True)
class Learned:
    """The parameters of a score, and the error of guessing each sample from the others, before and after."""

    parameters: tuple[Numbers, ...]
    error_before: float
    error_after: float


def raw_scores(first: Numbers, second: Numbers, parameters: tuple[Numbers, ...]) -> Numbers:
    """The score of every query [m, d] against every key [n, d], not yet divided by T: [m, n]."""
    if len(parameters) == 1:
        return np.asarray(first @ parameters[0] @ second.T)
    return np.asarray(_units(first, second, parameters) @ parameters[3])


def learn_score(score: str, features: Numbers, values: Numbers, temperature: float) -> Learned:
    """Fit a score to samples: features [n, d], values [n]. The same samples give the same parameters."""
    parameters = first_parameters(score, features.shape[1])
    chosen = np.random.default_rng(0).permutation(len(values))[:MAX_FITTED]
    features, values = features[chosen], values[chosen]
    means, squares = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    before, _ = error_and_gradients(parameters, features, values, temperature)
    for step in range(1, N_STEPS + 1):
        _, gradients = error_and_gradients(parameters, features, values, temperature)
        means = [_MEAN * m + (1 - _MEAN) * g for m, g in zip(means, gradients, strict=True)]
        squares = [_SQUARE * s + (1 - _SQUARE) * g**2 for s, g in zip(squares, gradients, strict=True)]
        parameters = tuple(
            p - _RATE * (m / (1 - _MEAN**step)) / (np.sqrt(s / (1 - _SQUARE**step)) + 1e-8)
            for p, m, s in zip(parameters, means, squares, strict=True)
        )
    after, _ = error_and_gradients(parameters, features, values, temperature)
    return Learned(parameters, before, after)


def first_parameters(score: str, d: int) -> tuple[Numbers, ...]:
    """Where learning begins: the plain product of the general score, or random tanh units."""
    if score == "general":
        return (np.eye(d),)
    random = np.random.default_rng(0)
    shapes = ((N_UNITS, d), (N_UNITS, d), (N_UNITS,), (N_UNITS,))
    scales = (2 / np.sqrt(d), 2 / np.sqrt(d), 1.0, 0.1)
    return tuple(scale * random.standard_normal(shape) for scale, shape in zip(scales, shapes, strict=True))


def error_and_gradients(
    parameters: tuple[Numbers, ...], features: Numbers, values: Numbers, temperature: float
) -> tuple[float, tuple[Numbers, ...]]:
    """The mean squared error of guessing each sample from the others, and its gradients."""
    n, is_product = len(values), len(parameters) == 1
    units = None if is_product else _units(features, features, parameters)
    raw = raw_scores(features, features, parameters) if units is None else units @ parameters[3]
    found = raw / temperature
    found[np.diag_indices(n)] = -np.inf
    raised = np.exp(found - found.max(axis=1, keepdims=True))
    weights = raised / raised.sum(axis=1, keepdims=True)
    guessed = weights @ values
    off = guessed - values
    by_score = 2 / n * off[:, None] * weights * (values[None] - guessed[:, None]) / temperature
    if units is None:
        return float(np.mean(off**2)), (features.T @ by_score @ features,)
    return float(np.mean(off**2)), _by_parameter(by_score, features, units, parameters[3])


def _by_parameter(by_score: Numbers, features: Numbers, units: Numbers, v: Numbers) -> tuple[Numbers, ...]:
    """The gradients of W, U, b and v from those of the scores [n, n], with the tanh units [n, n, h]."""
    inner = by_score[:, :, None] * ((1 - units**2) * v)
    of_queries, of_keys = inner.sum(axis=1), inner.sum(axis=0)
    by_weight = by_score.ravel() @ units.reshape(-1, len(v))
    return of_queries.T @ features, of_keys.T @ features, of_queries.sum(axis=0), by_weight


def _units(first: Numbers, second: Numbers, parameters: tuple[Numbers, ...]) -> Numbers:
    of_queries, of_keys, bias, _ = parameters
    return np.asarray(np.tanh((first @ of_queries.T + bias)[:, None] + (second @ of_keys.T)[None]))

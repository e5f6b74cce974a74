"""Attention as kernel regression: noisy samples are keys and values, the query can be anywhere.

    symbol   meaning                                                     shape
    k, v     place and height of each sample                             [n]
    q        place of a query                                            [m]
    φ        features of a place: the place itself, or sines and cosines [.., d]
    s        scores, already divided by the temperature σ²               [m, n]
    w        softmax of s along the keys                                 [m, n]

With s = −‖q−k‖²/2σ² the weights are those of Nadaraya (1964) and Watson (1964): K(q−k) / Σ K(q−k) with a
Gaussian kernel K. The general and the additive score have parameters, which are fitted to the samples at
σ = `LEARNED_AT`:

    W        of the general score s = q·W k (Luong 2015)                 [d, d]
    W, U, b  of the additive score s = v·tanh(W q + U k + b)             [h, d], [h, d], [h]
    v        its weights of the h units (Bahdanau 2014)                  [h]

What is made small is the mean of (y_i − Σ_j w_ij y_j)², each sample guessed from the others (w without the
query's own), by Adam (Kingma and Ba 2015) with gradients written out here: ∂/∂s_ij = 2/n · (ŷ_i − y_i) ·
w_ij (y_j − ŷ_i) / T.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import fixed, format_number
from attnscope.fields import line, number, one_of, redraw
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.records.charts import Chart, Series
from attnscope.schemes.scores import SCORES

Numbers = NDArray[np.float64]
N_UNITS, N_STEPS, MAX_FITTED = 8, 200, 28
"""More samples than `MAX_FITTED` are not looked at: a fit takes a few hundredths of a second."""
_RATE, _MEAN, _SQUARE = 0.05, 0.9, 0.99


@dataclass(frozen=True, slots=True)
class Learned:
    """The parameters of a score, and its error on left-out samples, before and after."""

    parameters: tuple[Numbers, ...]
    error_before: float
    error_after: float


def raw_scores(first: Numbers, second: Numbers, parameters: tuple[Numbers, ...]) -> Numbers:
    """The score of every query [m, d] against every key [n, d], not yet divided by T: [m, n]."""
    if len(parameters) == 1:
        return np.asarray(first @ parameters[0] @ second.T)
    return np.asarray(_units(first, second, parameters) @ parameters[3])


def learn_score(score: str, features: Numbers, values: Numbers, temperature: float) -> Learned:
    """Fit a score to samples: features [n, d], values [n]. Deterministic for the same samples."""
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
    """Initial parameters: the plain product of the general score, or random tanh units."""
    if score == "general":
        return (np.eye(d),)
    random = np.random.default_rng(0)
    shapes = ((N_UNITS, d), (N_UNITS, d), (N_UNITS,), (N_UNITS,))
    scales = (2 / np.sqrt(d), 2 / np.sqrt(d), 1.0, 0.1)
    return tuple(scale * random.standard_normal(shape) for scale, shape in zip(scales, shapes, strict=True))


def error_and_gradients(
    parameters: tuple[Numbers, ...], features: Numbers, values: Numbers, temperature: float
) -> tuple[float, tuple[Numbers, ...]]:
    """The mean squared error of predicting each sample from the others, and its gradients."""
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


Features = Literal["place", "waves"]

LEARNED_AT = 0.35
FEATURES: dict[Features, str] = {"place": "position, d = 1", "waves": "waves, d = 16"}
ENDS = (-3.0, 3.0)
_WAVES = np.arange(1, 9) / 4.0
_N_CURVE = 241
_MOST_OWN, _LARGEST_OWN = 20, 1000.0


def pairs_of(text: str) -> tuple[tuple[float, float], ...]:
    """Samples typed as position:value, separated by commas; raises ValueError for others."""
    pairs = []
    for pair in filter(str.strip, text.replace("−", "-").split(",")):
        place, _, value = pair.partition(":")
        pairs.append((float(place), float(value)))
    if (
        len(pairs) == 1
        or len(pairs) > _MOST_OWN
        or not all(abs(one) <= _LARGEST_OWN for pair in pairs for one in pair)
    ):
        raise ValueError(f"not 2 to {_MOST_OWN} pairs of numbers up to {_LARGEST_OWN:g}")
    return tuple(sorted(pairs))


def _are_pairs(text: str) -> bool:
    try:
        pairs_of(text)
    except ValueError:
        return False
    return True


def _is_drawn(choice: "RegressionChoice") -> bool:
    return not pairs_of(choice.own)


def scores_offered() -> dict[str, str]:
    """Every score by name: first the Gaussian, whose weights are the regression's, and learned ones last."""
    shown = [score for score in SCORES.values() if score.samples_formula]
    shown.sort(key=lambda score: (bool(score.learned), score.name != "gaussian"))
    return {one.name: f"{one.title}, learned" if one.learned else one.title for one in shown}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionChoice:
    """The settings; `sigma` is the width of the Gaussian, σ² the temperature of the other scores."""

    score: str = one_of("gaussian", scores_offered(), title="score", tip="How a query scores a key")
    features: Features = one_of(
        "place",
        FEATURES,
        title="features",
        tip="What a query and a key consist of: the position itself, or sines and cosines of it",
    )
    sigma: float = number(
        0.35,
        tuple(float(v) for v in np.geomspace(0.05, 3.0, 60)),
        title="σ",
        tip="Width of the Gaussian; σ² is the temperature of the other scores",
        text=format_number,
    )
    query: float = number(
        0.6,
        tuple(float(v) for v in np.linspace(*ENDS, 121)),
        title="query",
        tip="The position of the query; drag it in the plot",
        text=fixed,
        is_used=_is_drawn,
    )
    n_samples: int = number(
        40,
        (5, 10, 20, 40, 60, 100, 150, 200),
        title="samples",
        tip="The number of keys and values",
        is_used=_is_drawn,
    )
    noise: float = number(
        0.3,
        tuple(k / 20 for k in range(21)),
        title="noise",
        tip="Standard deviation of the values around the true curve",
        text=fixed,
        is_used=_is_drawn,
    )
    seed: int = redraw(title="Other samples", tip="Draw other samples from the same curve", is_used=_is_drawn)
    own: str = line(
        "",
        title="yours",
        tip="Your own samples, as 1:2, 2:2.5, 4:1, 5:3; empty: samples drawn from a curve",
        is_text=_are_pairs,
        form=f"2 to {_MOST_OWN} pairs of numbers, position:value, separated by commas,",
        example="1:2, 2:2.5, 4:1, 5:3",
        most=300,
    )
    own_query: float = number(
        4.25,
        tuple(float(v) for v in np.linspace(-10.0, 10.0, 401)),
        title="own query",
        tip="The position of the query among your own samples; drag it in the plot",
        text=fixed,
        is_used=lambda c: not _is_drawn(c),
    )

    def __post_init__(self) -> None:
        if self.sigma <= 0 or self.n_samples < 1 or self.noise < 0:
            raise ValueError(f"no regression with σ {self.sigma}, {self.n_samples} samples")
        if self.score not in scores_offered():
            raise ValueError(f"no regression with the score {self.score}")
        pairs_of(self.own)

    @property
    def place(self) -> float:
        return self.query if _is_drawn(self) else self.own_query


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """The samples, their weights for the query [n], and the curves [m] over `places`.

    `n_effective` is the exponential of the weights' entropy; `difference` the largest one between the
    fitted curve and Nadaraya–Watson with the same σ on the same features.
    """

    choice: RegressionChoice
    keys: Numbers
    values: Numbers
    weights: Numbers
    places: Numbers
    truth: Numbers
    fitted: Numbers
    estimate: float
    n_effective: float
    difference: float
    words: LabWords


def regress(choice: RegressionChoice) -> Regression:
    """Fit the samples of a choice, and describe the result."""
    keys, values = samples(choice)
    places = np.linspace(*ends_of(choice), _N_CURVE)
    fitted = attention_weights(places, keys, choice) @ values
    weights = attention_weights(np.array([choice.place]), keys, choice)[0]
    estimate = float(weights @ values)
    reference = nadaraya_watson(places, keys, values, choice)
    n_effective = float(np.exp(-np.sum(weights * np.log(np.where(weights > 0, weights, 1.0)))))
    apart = np.abs(fitted - reference)[~np.isnan(reference)]
    difference = float(apart.max()) if len(apart) else math.nan
    return Regression(
        choice=choice,
        keys=keys,
        values=values,
        weights=weights,
        places=places,
        truth=true_curve(places) if _is_drawn(choice) else np.full(len(places), np.nan),
        fitted=fitted,
        estimate=estimate,
        n_effective=n_effective,
        difference=difference,
        words=_words(choice, weights, estimate, n_effective, difference),
    )


def true_curve(places: Numbers) -> Numbers:
    return np.asarray(np.sin(1.6 * places) + 0.25 * places)


def ends_of(choice: RegressionChoice) -> tuple[float, float]:
    """Ends of the axis of positions: around your own samples and their query."""
    if _is_drawn(choice):
        return ENDS
    places = [choice.own_query, *(place for place, _ in pairs_of(choice.own))]
    room = max(0.1 * (max(places) - min(places)), 0.5)
    return min(places) - room, max(places) + room


def samples(choice: RegressionChoice) -> tuple[Numbers, Numbers]:
    """Keys in ascending order and values: your own, or drawn from the seed, with noise that only scales."""
    own = np.array(pairs_of(choice.own), np.float64)
    if len(own):
        return own[:, 0], own[:, 1]
    random = np.random.default_rng(choice.seed)
    keys = np.sort(random.uniform(*ENDS, choice.n_samples))
    return keys, true_curve(keys) + choice.noise * random.standard_normal(choice.n_samples)


def features_of(places: Numbers, features: Features) -> Numbers:
    """φ of each position, [m, d]; waves are scaled so that nearby positions keep their distance."""
    if features == "place":
        return places[:, None]
    angles = places[:, None] * _WAVES
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return np.asarray(waves / np.sqrt(np.sum(_WAVES**2)))


def kernel_scores(queries: Numbers, keys: Numbers, choice: RegressionChoice) -> Numbers:
    """Scores of every query against every key, [m, n]."""
    first, second = features_of(queries, choice.features), features_of(keys, choice.features)
    temperature = choice.sigma**2
    learned = learned_of(choice)
    if learned is not None:
        return raw_scores(first, second, learned.parameters) / temperature
    return SCORES[choice.score].on_samples(first, second) / temperature


def learned_of(choice: RegressionChoice) -> Learned | None:
    """Parameters learned by a choice's score from its samples; None for a score without parameters."""
    if not SCORES[choice.score].learned:
        return None
    drawn = replace(choice, sigma=LEARNED_AT, query=0.0, own_query=0.0)
    return _learn(drawn)


@lru_cache(maxsize=16)
def _learn(choice: RegressionChoice) -> Learned:
    keys, values = samples(choice)
    return learn_score(choice.score, features_of(keys, choice.features), values, LEARNED_AT**2)


def attention_weights(queries: Numbers, keys: Numbers, choice: RegressionChoice) -> Numbers:
    """Softmax of the scores along the keys, [m, n]."""
    found = kernel_scores(queries, keys, choice)
    raised = np.exp(found - found.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def nadaraya_watson(queries: Numbers, keys: Numbers, values: Numbers, choice: RegressionChoice) -> Numbers:
    """Kernel regression by its own formula, without a softmax; NaN where every kernel is 0."""
    first, second = features_of(queries, choice.features), features_of(keys, choice.features)
    kernels = np.exp(-0.5 * _squared_distance(first, second) / choice.sigma**2)
    sums = kernels.sum(axis=1)
    return np.asarray(np.divide(kernels @ values, sums, out=np.full(len(sums), np.nan), where=sums > 0))


def _squared_distance(first: Numbers, second: Numbers) -> Numbers:
    return np.asarray(np.sum((first[:, None] - second[None, :]) ** 2, axis=2))


def _words(
    choice: RegressionChoice, weights: Numbers, estimate: float, n_effective: float, difference: float
) -> LabWords:
    learned, n_samples = learned_of(choice), len(samples(choice)[0])
    error = (
        ""
        if learned is None
        else f"{format_number(learned.error_before, 2)} → {format_number(learned.error_after, 2)}"
    )
    numbers = (
        ("query q", format_number(choice.place)),
        ("estimate ŷ", format_number(estimate)),
        ("Σ w", format_number(float(weights.sum()))),
        ("largest w", format_number(float(weights.max()))),
        ("effective samples, exp(entropy)", f"{format_number(n_effective)} of {n_samples}"),
        ("|ŷ − kernel regression|", format_number(difference, 2)),
        *((("error before → after learning", error),) if error else ()),
    )
    return LabWords(
        formula=(SCORES[choice.score].samples_formula, "w = softmax(s)", "ŷ(q) = Σ w v"),
        numbers=numbers,
        sentence=_sentence(choice, n_effective, difference),
    )


def _sentence(choice: RegressionChoice, n_effective: float, difference: float) -> str:
    if choice.score == "gaussian":
        same = "With this score attention is kernel regression: near samples count, far ones do not. "
        n_samples = len(samples(choice)[0])
        if n_effective < min(2.5, 0.75 * n_samples):
            return same + "σ is so small that the curve follows the noise of single samples."
        if n_effective > 0.55 * n_samples + 0.7:
            return (
                same + "σ is so large that nearly all samples count equally: the curve flattens to the mean."
            )
        return same + "Drag the query; a larger σ lets more samples vote and smooths the curve."
    if SCORES[choice.score].learned:
        return _learned_sentence(choice)
    if choice.features == "waves":
        if difference < 1e-9:
            return (
                "All keys have the same norm here, so the dot product ranks them as the distance does: "
                "the curve is that of the Gaussian score, to rounding."
            )
        return (
            "With sines and cosines as features the product is largest for near positions, so it works as "
            "a kernel; only the temperature differs from the Gaussian's. Try a smaller σ."
        )
    return SCORES[choice.score].on_a_line


def _learned_sentence(choice: RegressionChoice) -> str:
    sharper = f" It was learned at σ = {LEARNED_AT}: another σ only makes the weights sharper or flatter."
    if choice.score == "additive":
        bump = "two tanh make a bump, so plain positions are enough, where no product of positions is."
        waves = "it needs no product, however a position is represented."
        told = f"A network of {N_UNITS} tanh units learned from the samples who is near: "
        return told + (bump if choice.features == "place" else waves) + sharper
    if choice.features == "place":
        return (
            "W is one number here, and no scaled product of two positions knows how near they are: learning "
            "can only make the weights more alike. Choose sines and cosines as features."
        )
    fitted, numbers = min(len(samples(choice)[0]), MAX_FITTED), (2 * len(_WAVES)) ** 2
    noise = f"W has {numbers} numbers: from {fitted} samples it learned who is near, and some of their noise."
    return noise + sharper


def regression_charts(shown: Regression) -> tuple[Chart, ...]:
    """The samples with their curves, and below them the weight of each sample for the query."""
    query = shown.choice.place
    curves = Chart(
        title="Values",
        x_label="",
        y_label="samples, the curve they come from, and the one attention gives",
        series=(
            Series(name="true curve", xs=shown.places, ys=shown.truth, colour=GREEN, is_quiet=True),
            Series(name="attention ŷ", xs=shown.places, ys=shown.fitted, colour=BLUE),
            Series(name="", xs=shown.keys, ys=shown.values, colour=ORANGE, style="points"),
            Series(name="", xs=np.array([query]), ys=np.array([shown.estimate]), colour=BLUE, style="points"),
        ),
        marks=((query, "query"),),
    )
    weights = Chart(
        title="Weights",
        x_label="position of the key",
        y_label="of each sample for this query, together 1",
        series=(
            Series(name="", xs=shown.places[[0, -1]], ys=np.array([np.nan, np.nan]), is_quiet=True),
            Series(name="weight w", xs=shown.keys, ys=shown.weights, colour=ORANGE, style="stems"),
        ),
        y_range=(0.0, max(0.1, 1.08 * float(shown.weights.max()))),
        marks=((query, ""),),
    )
    return (curves, weights)


class KernelRegression(Lab[RegressionChoice, Regression]):
    name = "Kernel regression"
    group = "Scores"
    order = 1
    shows = "Attention is kernel regression: a movable query, the weight of each sample, the fitted curve"
    source = "Nadaraya 1964, Watson 1964"
    search = ("score functions", "bilinear score", "general score", "dot product", "cosine", "additive")
    help = """With a Gaussian score attention is Nadaraya–Watson regression: $ŷ(q) = Σ w v$, $w =
    softmax(−(q − k)² / 2σ²)$. Drag the query along the axis. A wide kernel averages everything, a narrow
    one copies the nearest sample. For comparison there are other scores: dot, scaled dot and cosine, and
    the two that must be learned, general (Luong 2015) and additive (Bahdanau 2014), whose parameters are
    fitted by predicting each sample from the others. Under *yours*, type samples of your own, such as
    `1:2, 2:2.5, 4:1, 5:3`, and read off what they say at 4.25.
    """

    example = RegressionChoice()
    dragged = (0, 1)
    stretches = (5, 2)

    resolve = staticmethod(regress)
    charts = staticmethod(regression_charts)

    def drag(self, choice: RegressionChoice, x: float, y: float, *, is_start: bool) -> RegressionChoice:
        if _is_drawn(choice):
            return replace(choice, query=min(max(x, ENDS[0]), ENDS[1]))
        return replace(choice, own_query=min(max(x, -10.0), 10.0))

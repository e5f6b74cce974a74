"""Why scores are divided by √d_k: without it the softmax saturates (Vaswani et al. 2017, section 3.2.1).

    symbol   meaning                                                   shape
    q, k     random queries and keys, each entry from N(0, 1)          [n_queries, d], [n_queries, n_keys, d]
    s        scores q·k of the first d dimensions, variance d          [n_sizes, n_queries, n_keys]
    p        softmax of s, or of s / √d                                [.., n_keys]
    J        gradient of the softmax, diag(p) − p pᵀ                   [n_keys, n_keys]

‖J‖² = Σ p² − 2 Σ p³ + (Σ p²)² (Frobenius): 0 when one key has all the weight.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number, redraw
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.records.charts import Chart, Series

Numbers = NDArray[np.float64]
SIZES: tuple[int, ...] = tuple(2**k for k in range(11))
"""The widths d_k that are tried, 1 to 1024."""
MAX_KEYS = 64
_N_QUERIES = 100
_AS_LARGE = 0.95
"""A gradient of at least this share of the scaled one's counts as no smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationChoice:
    """The selected width (one of SIZES), the number of keys, and the seed."""

    d_k: int = number(
        256, SIZES, title="d", tip="Width of queries and keys, d_k; click or drag in the lower pictures"
    )
    n_keys: int = number(
        16, (2, 4, 8, 12, 16, 24, 32, 48, 64), title="keys", tip="How many keys a query chooses from"
    )
    seed: int = redraw(
        title="Other vectors", tip="Draw other random queries and keys: 100 queries, entries from N(0, 1)"
    )

    def __post_init__(self) -> None:
        if self.d_k not in SIZES or not 2 <= self.n_keys <= MAX_KEYS:
            raise ValueError(f"no lab for d_k {self.d_k} and {self.n_keys} keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Softness:
    """Means over all queries for each of SIZES: sharpness and steepness of the softmax."""

    variance: Numbers
    largest: Numbers
    entropy: Numbers
    gradient: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """Both methods for every width; scores of the chosen width [n], and one query's weights in descending
    order.
    """

    choice: SaturationChoice
    plain: Softness
    scaled: Softness
    scores: Numbers
    plain_weights: Numbers
    scaled_weights: Numbers
    words: LabWords


def saturate(choice: SaturationChoice) -> Saturation:
    """Measure both methods of scoring at every width."""
    scores = _scores(choice.seed)[:, :, : choice.n_keys]
    roots = np.sqrt(np.array(SIZES, np.float64))[:, None, None]
    at = SIZES.index(choice.d_k)
    plain, scaled = measure_softness(scores), measure_softness(scores / roots)
    weights = [np.sort(softmax(s[at, 0]))[::-1] for s in (scores, scores / roots)]
    return Saturation(
        choice=choice,
        plain=plain,
        scaled=scaled,
        scores=scores[at].ravel(),
        plain_weights=weights[0],
        scaled_weights=weights[1],
        words=_words(choice, at, plain, scaled),
    )


def softmax(scores: Numbers) -> Numbers:
    """Along the last axis."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def gradient_norm(weights: Numbers) -> Numbers:
    """‖diag(p) − p pᵀ‖ of each row of weights."""
    squares, cubes = np.sum(weights**2, axis=-1), np.sum(weights**3, axis=-1)
    return np.asarray(np.sqrt(np.maximum(squares - 2 * cubes + squares**2, 0.0)))


def measure_softness(scores: Numbers) -> Softness:
    """The softmax of scores [n_sizes, n_queries, n_keys]; entropy as a share of its largest value ln n."""
    weights = softmax(scores)
    logs = np.log(np.where(weights > 0, weights, 1.0))
    entropy = -np.sum(weights * logs, axis=-1) / np.log(scores.shape[-1])
    return Softness(
        variance=scores.var(axis=(1, 2)),
        largest=weights.max(axis=-1).mean(axis=1),
        entropy=entropy.mean(axis=1),
        gradient=gradient_norm(weights).mean(axis=1),
    )


@lru_cache(maxsize=2)
def _scores(seed: int) -> Numbers:
    """q·k of the first 1, 2, 4 … dimensions, [n_sizes, n_queries, MAX_KEYS]."""
    random = np.random.default_rng(seed)
    starts = [0, *SIZES[:-1]]
    found = np.empty((len(SIZES), _N_QUERIES, MAX_KEYS))
    for i in range(_N_QUERIES):
        query = random.standard_normal(SIZES[-1], dtype=np.float32)
        keys = random.standard_normal((MAX_KEYS, SIZES[-1]), dtype=np.float32)
        found[:, i] = np.add.reduceat(keys * query, starts, axis=1, dtype=np.float64).cumsum(axis=1).T
    return found


def _words(choice: SaturationChoice, at: int, plain: Softness, scaled: Softness) -> LabWords:
    root = float(np.sqrt(choice.d_k))
    numbers = (
        ("√d", format_number(root)),
        ("variance of q·k, theory d", format_number(choice.d_k)),
        ("variance of q·k, measured", format_number(float(plain.variance[at]))),
        ("variance of q·k / √d", format_number(float(scaled.variance[at]))),
        ("largest weight", _both(plain.largest, scaled.largest, at)),
        ("entropy / ln n", _both(plain.entropy, scaled.entropy, at)),
        ("‖∂softmax‖", _both(plain.gradient, scaled.gradient, at)),
    )
    return LabWords(
        formula=("p = softmax(q·k / √d)", "not p = softmax(q·k)", "var(q·k) = d", "∂p/∂s = diag(p) − p pᵀ"),
        numbers=numbers,
        sentence=_sentence(choice.d_k, at, plain, scaled),
    )


def _both(plain: Numbers, scaled: Numbers, at: int) -> str:
    return f"{format_number(float(plain[at]))} → {format_number(float(scaled[at]))}"


def _sentence(d_k: int, at: int, plain: Softness, scaled: Softness) -> str:
    wider = "Drag to the right: the wider the vectors, the further unscaled scores spread."
    if d_k == 1:
        return f"At d = 1 both versions are the same. {wider}"
    share, soft = float(plain.largest[at]), float(scaled.largest[at])
    left = float(plain.gradient[at] / max(float(scaled.gradient[at]), 1e-12))
    if left >= _AS_LARGE:
        return (
            f"At d = {d_k} plain scores give one key {share:.0%} of the weight, scaled ones {soft:.0%}, and "
            f"leave as much of the gradient. {wider}"
        )
    return (
        f"At d = {d_k} plain scores give one key {share:.0%} of the weight and leave {left:.0%} of "
        f"the gradient. Divided by √d = {format_number(float(np.sqrt(d_k)))} their variance is 1 "
        "again, the largest "
        f"weight {soft:.0%}: there is something to learn from."
    )


def saturation_charts(shown: Saturation) -> tuple[Chart, ...]:
    """Scores and weights at the chosen width, and four measures against the width."""
    sizes = np.array(SIZES, np.float64)
    mark = ((float(shown.choice.d_k), ""),)
    plain, scaled = shown.plain, shown.scaled

    def against(title: str, unit: str, first: Numbers, second: Numbers, *more: Series, log: bool) -> Chart:
        return Chart(
            title=title,
            x_label="d",
            y_label=unit,
            series=(
                *more,
                Series(name="q·k", xs=sizes, ys=first, colour=ORANGE, has_points=True),
                Series(name="q·k / √d", xs=sizes, ys=second, colour=BLUE, has_points=True),
            ),
            is_log_x=True,
            is_log_y=log,
            y_range=None if log else (0.0, 1.02),
            marks=mark,
        )

    theory = Series(name="theory", xs=sizes, ys=sizes, colour=GREEN, is_quiet=True)
    return (
        _score_chart(shown),
        _weight_chart(shown),
        against("Variance", "of scores", plain.variance, scaled.variance, theory, log=True),
        against("Largest weight", "mean", plain.largest, scaled.largest, log=False),
        against("Entropy", "share of ln n", plain.entropy, scaled.entropy, log=False),
        against("Gradient", "‖∂softmax‖", plain.gradient, scaled.gradient, log=True),
    )


def _score_chart(shown: Saturation) -> Chart:
    """Spread of scores, as the outlines of two histograms of unit area."""
    root = float(np.sqrt(shown.choice.d_k))
    series = []
    for name, values, colour in (
        ("q·k", shown.scores, ORANGE),
        ("q·k / √d", shown.scores / root, BLUE),
    ):
        end = 3.5 * max(float(values.std()), 1e-9)
        heights, edges = np.histogram(values, bins=36, range=(-end, end), density=True)
        xs = np.repeat(edges, 2)
        ys = np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
        series.append(Series(name=name, xs=xs, ys=ys, colour=colour))
    unit = f"density at d = {shown.choice.d_k}"
    return Chart(title="Scores", x_label="score", y_label=unit, series=tuple(series))


def _weight_chart(shown: Saturation) -> Chart:
    """The weights of one query, largest first."""
    xs = np.arange(1.0, len(shown.plain_weights) + 1)
    return Chart(
        title="One query",
        x_label="keys, strongest first",
        y_label="its weights",
        series=(
            Series(name="q·k", xs=xs, ys=shown.plain_weights, colour=ORANGE, has_points=True),
            Series(name="q·k / √d", xs=xs, ys=shown.scaled_weights, colour=BLUE, has_points=True),
        ),
        y_range=(0.0, 1.02),
    )


class Scaling(Lab[SaturationChoice, Saturation]):
    name = "Scaling by √d"
    group = "Scores"
    order = 2
    shows = "Why scores are divided by √d: without it the softmax saturates and nothing is learned"
    source = "Vaswani et al. 2017, section 3.2.1"
    search = ("scaled dot-product attention", "scaling factor", "sqrt(d_k)", "sqrt d", "variance of q·k")
    help = """The variance of q · k grows as d. Without $1 / √d$ the softmax saturates: one weight goes to
    1, and the gradient ‖∂softmax‖ to 0. The lab plots both for any d.
    """

    example = SaturationChoice()
    dragged = (2, 3, 4, 5)
    names_px = 60
    figure_mm = (220.0, 130.0)

    resolve = staticmethod(saturate)
    charts = staticmethod(saturation_charts)

    def drag(self, choice: SaturationChoice, x: float, y: float, *, is_start: bool) -> SaturationChoice:
        """The width nearest to the one dragged to, on a logarithmic scale."""
        return replace(choice, d_k=min(SIZES, key=lambda d: max(d / x, x / d)))

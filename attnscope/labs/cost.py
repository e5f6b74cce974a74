"""The cost of a longer text: attention against a recurrent network, on paper and by the clock.

    symbol   meaning
    T, d     tokens of the text, width of the vectors

Attention multiplies [T, d] by [d, T] and [T, T] by [T, d]: 4·T²·d operations, all of them side by side. A
recurrent layer multiplies a vector by two [d, d] matrices for each token: 4·T·d², one token after the other
(Vaswani et al. 2017, table 1). They are equal at T = d. Projections are left out on both sides.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import bytes_text, format_number
from attnscope.fields import number
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.records.charts import Chart, Series

Numbers = NDArray[np.float64]
LENGTHS: tuple[int, ...] = tuple(2**k for k in range(4, 14))
MEASURED: tuple[int, ...] = tuple(2**k for k in range(4, 12))
"""The lengths that are drawn, and those that are measured: longer ones would take too long."""
WIDTHS: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
_BYTES = 4
_REPEATS = 3
_MAX_REPEAT_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPoint:
    """Milliseconds for one length, the best of a few, and the peak memory in bytes."""

    n_tokens: int
    d_model: int
    attention_ms: float
    recurrent_ms: float
    attention_bytes: float = float("nan")
    recurrent_bytes: float = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChoice:
    """The width, the selected length, and the measurements so far at this width."""

    d_model: int = number(64, WIDTHS, title="width d", tip="Width of the vectors", text=lambda v: f"{v:.0f}")
    n_tokens: int = number(
        1024,
        LENGTHS,
        title="tokens T",
        tip="The length shown; click or drag in the plots",
        text=lambda v: f"{v:,.0f}",
    )
    points: tuple[CostPoint, ...] = ()

    def __post_init__(self) -> None:
        if self.d_model < 1 or self.n_tokens < 1:
            raise ValueError(f"no cost of {self.n_tokens} tokens of width {self.d_model}")

    @property
    def sizes(self) -> int:
        """The size on which a measurement depends: the width."""
        return self.d_model


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthCosts:
    """Operations and bytes for LENGTHS; `fused` never stores the T×T weights.

    `crossing` is the measured length at which attention becomes the slower one, None where it does not.
    """

    choice: CostChoice
    lengths: Numbers
    attention_flops: Numbers
    recurrent_flops: Numbers
    attention_bytes: Numbers
    fused_bytes: Numbers
    recurrent_bytes: Numbers
    crossing: float | None
    words: LabWords


def costs_by_length(choice: CostChoice) -> LengthCosts:
    """The curves of a width, and the crossing of the measured ones."""
    lengths, d = np.array(LENGTHS, np.float64), choice.d_model
    crossing = find_crossing(choice.points)
    return LengthCosts(
        choice=choice,
        lengths=lengths,
        attention_flops=attention_flops(lengths, d),
        recurrent_flops=recurrent_flops(lengths, d),
        attention_bytes=_BYTES * (lengths**2 + lengths * d),
        fused_bytes=_BYTES * (lengths + lengths * d),
        recurrent_bytes=_BYTES * lengths * d,
        crossing=crossing,
        words=_words(choice, crossing),
    )


def attention_flops(lengths: Numbers, d_model: int) -> Numbers:
    """4·T²·d: the scores and the weighted sums."""
    return np.asarray(4.0 * lengths**2 * d_model)


def recurrent_flops(lengths: Numbers, d_model: int) -> Numbers:
    """4·T·d²: two products with a matrix for each token."""
    return np.asarray(4.0 * lengths * d_model**2)


def measure_costs(d_model: int, lengths: tuple[int, ...] = MEASURED) -> Iterator[CostPoint]:
    """Time both in numpy and record their memory, by length; a thread may stop in between."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((2, d_model, d_model), dtype=np.float32) / np.float32(np.sqrt(d_model))
    for n_tokens in lengths:
        rows = random.standard_normal((n_tokens, d_model), dtype=np.float32)
        yield CostPoint(
            n_tokens=n_tokens,
            d_model=d_model,
            attention_ms=_best_ms(partial(attend_plainly, rows)),
            recurrent_ms=_best_ms(partial(recur_elman, rows, weights)),
            attention_bytes=most_bytes(partial(attend_plainly, rows)),
            recurrent_bytes=most_bytes(partial(recur_elman, rows, weights)),
        )


def most_bytes(run: Callable[[], object]) -> float:
    """Peak bytes allocated by `run`, according to Python's own accounting.

    NaN while somebody else keeps such books.
    """
    if tracemalloc.is_tracing():
        return float("nan")
    tracemalloc.start()
    try:
        run()
        return float(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


def attend_plainly(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Self-attention without projections: softmax(x xᵀ / √d) x."""
    scores = rows @ rows.T
    scores *= np.float32(1 / np.sqrt(rows.shape[1]))
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return np.asarray(scores @ rows)


def recur_elman(rows: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """A simple recurrent layer (Elman 1990): h ← tanh(W x + U h), token by token."""
    state = np.zeros(rows.shape[1], dtype=np.float32)
    states = np.empty_like(rows)
    for i, row in enumerate(rows):
        state = np.tanh(weights[0] @ row + weights[1] @ state)
        states[i] = state
    return states


def find_crossing(points: tuple[CostPoint, ...]) -> float | None:
    """The length at which the two measured curves last cross, on logarithmic axes."""
    known = sorted(points, key=lambda p: p.n_tokens)
    ratios = [float(np.log(p.attention_ms / p.recurrent_ms)) for p in known]
    for k in range(len(known) - 2, -1, -1):
        if ratios[k] < 0 <= ratios[k + 1]:
            share = -ratios[k] / (ratios[k + 1] - ratios[k])
            first, second = np.log(known[k].n_tokens), np.log(known[k + 1].n_tokens)
            return float(np.exp(first + share * (second - first)))
    return None


def _best_ms(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        taken = time.perf_counter() - start
        best = min(best, taken)
        if taken > _MAX_REPEAT_S:
            break
    return best * 1e3


def _words(choice: CostChoice, crossing: float | None) -> LabWords:
    length, d = np.array([float(choice.n_tokens)]), choice.d_model
    first, second = float(attention_flops(length, d)[0]), float(recurrent_flops(length, d)[0])
    at = next((p for p in choice.points if p.n_tokens == choice.n_tokens), None)
    numbers = (
        ("attention, operations", f"{first / 1e6:,.1f} M"),
        ("recurrent, operations", f"{second / 1e6:,.1f} M"),
        ("T / d", format_number(choice.n_tokens / d)),
        ("weights T²", bytes_text(_BYTES * choice.n_tokens**2)),
        ("attention held, measured", bytes_text(at.attention_bytes) if at else "–"),
        ("recurrent held, measured", bytes_text(at.recurrent_bytes) if at else "–"),
        ("attention, measured", f"{format_number(at.attention_ms)} ms" if at else "–"),
        ("recurrent, measured", f"{format_number(at.recurrent_ms)} ms" if at else "–"),
        ("crossing in theory, T = d", str(d)),
        ("crossing measured", f"T ≈ {format_number(crossing, 2)}" if crossing else "–"),
    )
    return LabWords(
        formula=("attention  4·T²·d", "recurrent  4·T·d²", "weights kept  T²"),
        numbers=numbers,
        sentence=_sentence(choice, crossing),
    )


def _sentence(choice: CostChoice, crossing: float | None) -> str:
    paper = (
        f"Twice the length costs four times the attention but twice the recurrence; in theory they cost "
        f"the same at T = d = {choice.d_model}. "
    )
    if len(choice.points) < len(MEASURED):
        return paper + f"Measuring on this computer: {len(choice.points)} of {len(MEASURED)} lengths…"
    longest = max(choice.points, key=lambda p: p.n_tokens)
    if crossing is None and longest.attention_ms > longest.recurrent_ms:
        return paper + "Measured here, attention is slower from the shortest text on."
    if crossing is None:
        return (
            paper + "Measured here, attention stays ahead: its operations run in parallel, the others wait."
        )
    return paper + (
        f"Measured here, attention stays ahead until T ≈ {format_number(crossing, 2)}: its operations run "
        f"in parallel, a recurrence waits for each token."
    )


def cost_charts(shown: LengthCosts) -> tuple[Chart, ...]:
    """Time, operations and memory against the length, each on logarithmic axes."""
    points = sorted(shown.choice.points, key=lambda p: p.n_tokens)
    measured = np.array([float(p.n_tokens) for p in points])
    everywhere = np.full(len(shown.lengths), np.nan)
    crossing = ((shown.crossing, f"T ≈ {shown.crossing:,.0f}"),) if shown.crossing else ()
    at = ((float(shown.choice.n_tokens), ""),)

    def chart(title: str, unit: str, *series: Series, marks: tuple[tuple[float, str], ...]) -> Chart:
        return Chart(
            title=title,
            x_label="tokens T",
            y_label=unit,
            series=series,
            is_log_x=True,
            is_log_y=True,
            marks=marks,
        )

    def line(name: str, ys: Numbers, colour: int, *, is_quiet: bool = False) -> Series:
        return Series(name=name, xs=shown.lengths, ys=ys, colour=colour, is_quiet=is_quiet)

    def clock(name: str, values: list[float], colour: int) -> Series:
        return Series(name=name, xs=measured, ys=np.array(values), colour=colour, has_points=True)

    def held(name: str, values: list[float], colour: int) -> Series:
        ys = np.array(values, np.float64)
        is_known = np.isfinite(ys)  # points that are all unknown would end the drawing library
        xs, ys = measured[is_known], ys[is_known]
        return Series(name=name, xs=xs, ys=ys, colour=colour, style="points", has_label=False)

    return (
        chart(
            "Time",
            "ms, measured on this computer in numpy",
            line("", everywhere, ORANGE),
            clock("attention", [p.attention_ms for p in points], ORANGE),
            clock("recurrent", [p.recurrent_ms for p in points], BLUE),
            marks=(*at, *crossing),
        ),
        chart(
            "Operations",
            "on paper",
            line("4·T²·d", shown.attention_flops, ORANGE),
            line("4·T·d²", shown.recurrent_flops, BLUE),
            marks=(*at, (float(shown.choice.d_model), f"T = d = {shown.choice.d_model}")),
        ),
        chart(
            "Memory",
            "bytes; lines on paper, points measured",
            line("attention", shown.attention_bytes, ORANGE),
            line("recurrent", shown.recurrent_bytes, BLUE),
            held("attention, measured", [p.attention_bytes for p in points], ORANGE),
            held("recurrent, measured", [p.recurrent_bytes for p in points], BLUE),
            line("fused", shown.fused_bytes, GREEN, is_quiet=True),
            marks=at,
        ),
    )


class CostByLength(Lab[CostChoice, LengthCosts]):
    name = "Cost by length"
    group = "Attention or recurrence"
    order = 3
    shows = "Time and memory against the length of the text, measured here and on paper"
    source = "Vaswani et al. 2017, table 1"
    search = ("O(n²)", "O(n^2)", "O(T²)", "quadratic", "complexity", "FlashAttention")
    help = """Time and memory against the length: $T² · d$ for attention, $T · d²$ for a recurrent network,
    on paper and measured on this computer: time by the clock, memory as the most bytes held at a time.
    """

    example = CostChoice()
    dragged = (0, 1, 2)
    stretches = (5, 4)
    names_px = 72
    figure_mm = (180.0, 150.0)

    resolve = staticmethod(costs_by_length)
    charts = staticmethod(cost_charts)

    def drag(self, choice: CostChoice, x: float, y: float, *, is_start: bool) -> CostChoice:
        """The length nearest to the one dragged to, on a logarithmic scale."""
        return replace(choice, n_tokens=min(LENGTHS, key=lambda n: max(n / x, x / n)))

    def completed(self, choice: CostChoice) -> CostChoice:
        return replace(choice, points=tuple(measure_costs(choice.d_model)))

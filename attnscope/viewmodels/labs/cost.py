"""What a longer text costs: attention against a recurrent network, on paper and by the clock.

    symbol   meaning
    T, d     tokens of the text, width of the vectors

Attention multiplies [T, d] by [d, T] and [T, T] by [T, d]: 4·T²·d operations, all of them side by side. A
recurrent layer multiplies a vector by two [d, d] matrices for each token: 4·T·d², one token after the other
(Vaswani et al. 2017, table 1). They are equal at T = d. Projections are left out on both sides.
"""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import bytes_text, format_number
from attnscope.viewmodels.labs.lab import LabWords

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
    """Milliseconds that one length took, the best of a few, and the most bytes it held at a time."""

    n_tokens: int
    d_model: int
    attention_ms: float
    recurrent_ms: float
    attention_bytes: float = float("nan")
    recurrent_bytes: float = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostChoice:
    """The width, the length looked at, and what was measured so far at this width."""

    d_model: int = 64
    n_tokens: int = 1024
    points: tuple[CostPoint, ...] = ()

    def __post_init__(self) -> None:
        if self.d_model < 1 or self.n_tokens < 1:
            raise ValueError(f"no cost of {self.n_tokens} tokens of width {self.d_model}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Operations and bytes against LENGTHS; `fused` never keeps the T×T weights.

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


def cost_of(choice: CostChoice) -> Cost:
    """The curves of a width, and where the measured ones cross."""
    lengths, d = np.array(LENGTHS, np.float64), choice.d_model
    crossing = find_crossing(choice.points)
    return Cost(
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
    """Time both in numpy and note their memory, one length after the other; a thread may stop between two."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((2, d_model, d_model), dtype=np.float32) / np.float32(np.sqrt(d_model))
    for n_tokens in lengths:
        rows = random.standard_normal((n_tokens, d_model), dtype=np.float32)
        yield CostPoint(
            n_tokens=n_tokens,
            d_model=d_model,
            attention_ms=_best_ms(partial(attend, rows)),
            recurrent_ms=_best_ms(partial(recur, rows, weights)),
            attention_bytes=most_bytes(partial(attend, rows)),
            recurrent_bytes=most_bytes(partial(recur, rows, weights)),
        )


def most_bytes(run: Callable[[], object]) -> float:
    """The most bytes that `run` holds at a time beyond what was there, as Python's own book-keeping has it.

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


def attend(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Self-attention without projections: softmax(x xᵀ / √d) x."""
    scores = rows @ rows.T
    scores *= np.float32(1 / np.sqrt(rows.shape[1]))
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return np.asarray(scores @ rows)


def recur(rows: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """A simple recurrent layer (Elman 1990): h ← tanh(W x + U h), token by token."""
    state = np.zeros(rows.shape[1], dtype=np.float32)
    states = np.empty_like(rows)
    for i, row in enumerate(rows):
        state = np.tanh(weights[0] @ row + weights[1] @ state)
        states[i] = state
    return states


def find_crossing(points: tuple[CostPoint, ...]) -> float | None:
    """The length at which the two measured curves cross for the last time, on logarithmic axes."""
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
        return paper + f"Measuring on this machine: {len(choice.points)} of {len(MEASURED)} lengths…"
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

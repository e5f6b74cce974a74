"""The cost of more heads: h heads of width d/h against one of width d, counted and by the clock.

    symbol   meaning                                                              shape
    T, d     tokens of the text, width of the model
    h        heads, each of width d/h
    q, k, v  x W_Q, x W_K, x W_V, cut into heads                                  [h, T, d/h]
    w        softmax of q·k / √(d/h) along the keys                               [h, T, T]
    o        (w v of all heads, side by side) W_O                                 [T, d]

Products: 4·T·d² for the four matrices, T²·d for the scores of all heads together and T²·d for the sums: none
depends on h (Vaswani et al. 2017, section 3.2.2). Exponentials, and numbers of w to be kept, are h·T².
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords
from attnscope.records.charts import Chart, Series

Numbers = NDArray[np.float64]
Matrix = NDArray[np.float32]
HEADS: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
LENGTHS: tuple[int, ...] = (32, 64, 128, 256, 512)
WIDTHS: tuple[int, ...] = (64, 128, 256, 512)
N_RUNS = 9
"""Runs of each; the second smallest and second largest of nine times hold the median in 96 % of cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsPoint:
    """Milliseconds of N_RUNS passes with so many heads, ascending: of whole passes, and of their products."""

    n_heads: int
    whole_ms: tuple[float, ...]
    products_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsChoice:
    """The sizes, the selected number of heads, and the measurements so far."""

    n_tokens: int = number(128, LENGTHS, title="tokens T", tip="Tokens of the text")
    d_model: int = number(256, WIDTHS, title="width d", tip="Width of all heads together")
    n_heads: int = number(8, HEADS, title="heads h", tip="The number shown; click or drag in the plots")
    points: tuple[HeadsPoint, ...] = ()

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes on which a measurement depends: tokens and width."""
        return self.n_tokens, self.d_model


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsCost:
    """Products and exponentials of one pass for each of HEADS; the measured points by their heads."""

    choice: HeadsChoice
    products: Numbers
    exponentials: Numbers
    points: tuple[HeadsPoint, ...]
    words: LabWords


def cost_heads(choice: HeadsChoice) -> HeadsCost:
    """The counts, and the times known so far."""
    points = tuple(sorted(choice.points, key=lambda p: p.n_heads))
    return HeadsCost(
        choice=choice,
        products=np.array([float(count_products(*choice.sizes, h)) for h in HEADS]),
        exponentials=np.array([float(h * choice.n_tokens**2) for h in HEADS]),
        points=points,
        words=_words(choice, points),
    )


def count_products(n_tokens: int, d_model: int, n_heads: int) -> int:
    """Multiplications of one pass: projections, scores head by head, sums head by head."""
    d_head = d_model // n_heads
    return 4 * n_tokens * d_model**2 + n_heads * 2 * n_tokens**2 * d_head


def time_heads(sizes: tuple[int, int]) -> Iterator[HeadsPoint]:
    """Time every number of heads in numpy, one after the other; a thread may stop between two."""
    n_tokens, d_model = sizes
    random = np.random.default_rng(0)
    x = random.standard_normal((n_tokens, d_model), dtype=np.float32)
    matrices = random.standard_normal((4, d_model, d_model), dtype=np.float32) / np.float32(d_model**0.5)
    for n_heads in HEADS:
        runs = [attend_heads(x, matrices, n_heads)[1:] for _ in range(N_RUNS + 1)][1:]  # the first warms up
        whole, products = (tuple(sorted(1e3 * run[k] for run in runs)) for k in (0, 1))
        yield HeadsPoint(n_heads=n_heads, whole_ms=whole, products_ms=products)


def attend_heads(x: Matrix, matrices: Matrix, n_heads: int) -> tuple[Matrix, float, float]:
    """Multi-head self-attention [T, d], its time in seconds, and that of its products alone."""
    n, d = x.shape
    started = time.perf_counter()
    q, k, v = ((x @ w).reshape(n, n_heads, -1).swapaxes(0, 1) for w in matrices[:3])
    scores = q @ k.swapaxes(1, 2)
    paused = time.perf_counter()
    scores *= np.float32((d / n_heads) ** -0.5)
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    resumed = time.perf_counter()
    out = (scores @ v).swapaxes(0, 1).reshape(n, d) @ matrices[3]
    ended = time.perf_counter()
    return np.asarray(out), ended - started, ended - started - (resumed - paused)


def interval_of(times: tuple[float, ...]) -> tuple[float, float, float]:
    """Least and largest plausible median, and the median between them, of N_RUNS ascending times."""
    return times[1], times[len(times) // 2], times[-2]


def _told(times: tuple[float, ...]) -> str:
    low, middle, high = interval_of(times)
    return f"{format_number(middle, 2)} ms ({format_number(low, 2)}–{format_number(high, 2)})"


def _words(choice: HeadsChoice, points: tuple[HeadsPoint, ...]) -> LabWords:
    known = {point.n_heads: point for point in points}
    one, here = known.get(1), known.get(choice.n_heads)
    h = choice.n_heads
    numbers = (
        ("width of a head, d/h", str(choice.d_model // h)),
        ("products", f"{count_products(*choice.sizes, h) / 1e6:,.1f} M"),
        ("products, one head", f"{count_products(*choice.sizes, 1) / 1e6:,.1f} M"),
        ("exponentials, h·T²", f"{h * choice.n_tokens**2 / 1e6:,.2f} M"),
        ("products, measured", _told(here.products_ms) if here else "–"),
        ("whole, measured", _told(here.whole_ms) if here else "–"),
        ("whole, one head", _told(one.whole_ms) if one else "–"),
    )
    return LabWords(
        formula=("4·T·d² + h·2·T²·(d/h)", "= 4·T·d² + 2·T²·d", "exponentials h·T²"),
        numbers=numbers,
        sentence=_sentence(choice, one, here, len(points)),
    )


def _sentence(choice: HeadsChoice, one: HeadsPoint | None, here: HeadsPoint | None, n_known: int) -> str:
    h = choice.n_heads
    paper = (
        f"{h} heads of d/{h} need as many products as one of d. " if h > 1 else "One head is as wide as d. "
    )
    if n_known < len(HEADS) or one is None or here is None:
        return paper + f"Measuring on this computer: {n_known} of {len(HEADS)} numbers of heads…"
    products, whole = (
        interval_of(a)[1] / interval_of(b)[1]
        for a, b in ((here.products_ms, one.products_ms), (here.whole_ms, one.whole_ms))
    )
    return paper + (
        f"Measured here, the products take {products:.2f} times as long as with one head, the whole pass "
        f"{whole:.2f} times: each head has a softmax of its own, T² exponentials, and smaller products."
    )


def heads_charts(shown: HeadsCost) -> tuple[Chart, ...]:
    """Times with their intervals, and operation counts, by the number of heads."""
    heads = np.array(HEADS, np.float64)
    measured = np.array([float(p.n_heads) for p in shown.points])
    nothing = np.full(len(heads), np.nan)
    at = ((float(shown.choice.n_heads), ""),)

    def clock(name: str, times: list[tuple[float, ...]], colour: int) -> tuple[Series, ...]:
        found = np.array([interval_of(one) for one in times]).reshape(-1, 3)
        bars = tuple(
            Series(name="", xs=np.full(2, x), ys=row[[0, 2]], colour=colour, style="whiskers")
            for x, row in zip(measured, found, strict=True)
        )
        return (*bars, Series(name=name, xs=measured, ys=found[:, 1], colour=colour, has_points=True))

    return (
        Chart(
            title="Time",
            x_label="heads h",
            y_label="ms, median of nine and its 96 % interval, in numpy on this computer",
            series=(
                Series(name="", xs=heads, ys=nothing),
                *clock("whole", [p.whole_ms for p in shown.points], ORANGE),
                *clock("products", [p.products_ms for p in shown.points], BLUE),
            ),
            is_log_x=True,
            marks=at,
        ),
        Chart(
            title="Counted",
            x_label="heads h",
            y_label="operations of one pass",
            series=(
                Series(name="products", xs=heads, ys=shown.products, colour=BLUE, has_points=True),
                Series(name="exponentials", xs=heads, ys=shown.exponentials, colour=GREEN, has_points=True),
            ),
            is_log_x=True,
            is_log_y=True,
            marks=at,
        ),
    )


class CostOfHeads(Lab[HeadsChoice, HeadsCost]):
    name = "Cost of heads"
    group = "Attention or recurrence"
    order = 4
    shows = "h heads of width d/h cost what one of width d costs: counted, and measured on this computer"
    source = "Vaswani et al. 2017, section 3.2.2"
    help = """Multi-head attention with its four matrices, for 1 to 32 heads of the same width together. The
    number of products does not depend on the heads; exponentials and the weights to be kept grow with them.
    By the clock, in numpy: the median of nine passes with its 96 % interval, for the whole pass and for the
    products alone. Many small products use a processor less well than one large one, so that some
    cost remains where it does not on paper.
    """

    example = HeadsChoice()
    dragged = (0, 1)
    stretches = (5, 4)
    names_px = 84
    figure_mm = (180.0, 110.0)

    resolve = staticmethod(cost_heads)
    charts = staticmethod(heads_charts)

    def drag(self, choice: HeadsChoice, x: float, y: float, *, is_start: bool) -> HeadsChoice:
        """The number of heads nearest to the one dragged to, on a logarithmic scale."""
        return replace(choice, n_heads=min(HEADS, key=lambda h: max(h / x, x / h)))

    def completed(self, choice: HeadsChoice) -> HeadsChoice:
        return replace(choice, points=tuple(time_heads(choice.sizes)))

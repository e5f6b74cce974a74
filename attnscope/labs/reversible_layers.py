"""Reversible layers: what training stores for its gradients, and what it recomputes (Kitaev et al. 2020).

    symbol   meaning                                                          shape
    kept     bytes kept for the backward pass, by depth                       [n_depths]
    most     bytes kept at its worst moment, by depth                         [n_depths]
    error    of what a layer read, found again from what it gave, by layer    [n_layers]

The numbers are the worker's, which runs a decoder of each depth forwards and backwards.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import bytes_text, format_number
from attnscope.fields import number, redraw
from attnscope.labs.lab import BLUE, GREEN, ORANGE, Lab, LabWords, asked, claimed, measured_before
from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import (
    KEEPINGS,
    NO_ANSWER,
    ExperimentAnswer,
    Keeping,
    StoreFinding,
    StoreQuestion,
    StoreRow,
)

Numbers = NDArray[np.float64]
NAMES: dict[Keeping, str] = {"plain": "plain", "reversible": "reversible"}
_COLOURS: dict[Keeping, int] = {"plain": ORANGE, "reversible": BLUE}
CLAIM = "Reversible layers keep the last two streams alone, and work back from them layer by layer."


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChoice:
    """The decoders to run."""

    n_layers: int = number(12, (4, 8, 12, 16, 24), title="layers", tip="Layers of the deepest decoder")
    d_model: int = number(64, (32, 64, 128), title="width d", tip="Numbers of a token in each stream")
    n_tokens: int = number(64, (16, 32, 64, 128, 256), title="tokens", tip="Length of the eight texts")
    dropout: float = number(
        0.0, (0.0, 0.1, 0.3), title="dropout", tip="Share dropped; the same places are dropped again"
    )
    seed: int = redraw(title="Other weights", tip="Draw other weights and texts")
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The rows of each method as far as known, and the errors in float32 and float64."""

    rows: dict[Keeping, tuple[StoreRow, ...]]
    errors: Numbers
    wide_errors: Numbers
    words: LabWords


def compare_stores(choice: StoreChoice) -> Stores:
    found = choice.answer.of(StoreFinding)
    rows: dict[Keeping, tuple[StoreRow, ...]] = {
        keeping: tuple(row for row in (found.rows if found else ()) if row.keeping == keeping)
        for keeping in KEEPINGS
    }
    errors = np.array((found.errors if found else ()) or (np.nan,))
    return Stores(
        rows=rows,
        errors=errors,
        wide_errors=np.array((found.wide_errors if found else ()) or (np.nan,)),
        words=LabWords(
            formula=(
                "y₁ = x₁ + Attention(x₂)",
                "y₂ = x₂ + FeedForward(y₁)",
                "x₂ = y₂ − FeedForward(y₁)",
                "x₁ = y₁ − Attention(x₂)",
            ),
            numbers=_numbers(rows, errors),
            sentence=_sentence(choice.answer, rows),
        ),
    )


def _numbers(rows: dict[Keeping, tuple[StoreRow, ...]], errors: Numbers) -> tuple[tuple[str, str], ...]:
    def last(keeping: Keeping, name: str) -> str:
        if not rows[keeping]:
            return "–"
        value = getattr(rows[keeping][-1], name)
        return f"{format_number(value)} ms" if name == "step_ms" else bytes_text(value)

    depth = max((row.n_layers for own in rows.values() for row in own), default=0)
    return (
        ("layers", str(depth or "–")),
        *((f"kept, {name}", last(keeping, "kept_bytes")) for keeping, name in NAMES.items()),
        *((f"most at once, {name}", last(keeping, "most_bytes")) for keeping, name in NAMES.items()),
        *((f"time of a step, {name}", last(keeping, "step_ms")) for keeping, name in NAMES.items()),
        ("largest error, float32", "–" if np.isnan(errors).all() else format_number(float(errors.max()))),
    )


def _sentence(answer: ExperimentAnswer, rows: dict[Keeping, tuple[StoreRow, ...]]) -> str:
    if not answer.is_exact or not rows["plain"] or len(rows["plain"]) != len(rows["reversible"]):
        return claimed(CLAIM, answer)
    plain, again = rows["plain"][-1], rows["reversible"][-1]
    return (
        f"Of {plain.n_layers} layers the plain decoder keeps {bytes_text(plain.kept_bytes)}, the reversible "
        f"one {bytes_text(again.kept_bytes)}, and {bytes_text(again.most_bytes)} at its worst moment, for "
        f"{format_number(again.step_ms / plain.step_ms, 2)} times the time.{measured_before(answer)}"
    )


def store_charts(shown: Stores) -> tuple[Chart, ...]:
    """Bytes and time by depth, and the error by layer."""
    layers = np.arange(float(len(shown.errors)))
    exact = (("float32", shown.errors, GREEN), ("float64", shown.wide_errors, BLUE))
    kept = _lines(shown, "kept_bytes", 1e6) + _lines(shown, "most_bytes", 1e6, "at worst, ")
    return (
        Chart(title="Kept for the backward pass", x_label="layers", y_label="MB", series=kept),
        Chart(
            title="Time of a step",
            x_label="layers",
            y_label="ms, forward and backward",
            series=_lines(shown, "step_ms", 1.0),
        ),
        Chart(
            title="What is found again",
            x_label="layer whose input it is",
            y_label="largest error, as a share",
            series=tuple(
                Series(name=name, xs=layers, ys=errors, colour=colour, has_points=True)
                for name, errors, colour in exact
            ),
            is_log_y=True,
        ),
    )


def _lines(shown: Stores, name: str, unit: float, prefix: str = "") -> tuple[Series, ...]:
    return tuple(
        Series(
            name=f"{prefix}{NAMES[keeping]}",
            xs=np.array([float(row.n_layers) for row in rows] or [np.nan]),
            ys=np.array([getattr(row, name) / unit for row in rows] or [np.nan]),
            colour=_COLOURS[keeping],
            has_points=not prefix,
            is_dashed=bool(prefix),
        )
        for keeping, rows in shown.rows.items()
    )


class ReversibleLayers(Lab[StoreChoice, Stores]):
    name = "Reversible layers"
    group = "Depth and training"
    order = 8
    shows = "Bytes that training keeps, and time, against depth: plain layers and reversible ones"
    source = "Gomez et al. 2017; Kitaev et al. 2020"
    help = """Training keeps what every operation read until its gradient is known, so that memory grows with
    depth. A reversible layer has two streams (RevNet, Gomez 2017; Reformer, Kitaev 2020): what it read
    follows from what it gave, and nothing between is kept; each part is computed once more on the way back.
    Decoders of growing depth are run here on eight texts: bytes that autograd holds when the loss is known
    and at the worst moment of the backward pass, weights left out, and the median time of three steps
    (of the example on another computer, of other choices on this one). The third chart works back from the
    last layer and compares what is found with what was read: only rounding differs. In a
    [recipe](help:recipes#model), `residual = "reversible"`.
    """

    example = StoreChoice()
    asks = StoreQuestion
    stretches = (5, 4)
    names_px = 128
    figure_mm = (200.0, 150.0)

    resolve = staticmethod(compare_stores)
    charts = staticmethod(store_charts)

    def question(self, choice: StoreChoice, opened: object) -> StoreQuestion:
        return asked(StoreQuestion, choice)

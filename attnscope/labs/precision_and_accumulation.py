"""One step of training by several methods: the batch at once or in parts, blocks computed twice, bfloat16.

    symbol   meaning                                                      shape
    ℓ        loss before each step, nats a token                          [n_steps]
    g, g₆₄   gradient of the first step, and the same in float64          [n_weights]
    k        parts of a batch (`n_parts`), whose gradients are added up   number

The numbers of the ways are the worker's (`workers/experiments/stepping.py`).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number, redraw
from attnscope.labs.lab import BLUE, GREEN, ORANGE, SKY, Lab, LabWords, claimed, measured_before
from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import (
    NO_ANSWER,
    STEP_WAYS,
    ExperimentAnswer,
    StepsFinding,
    StepsQuestion,
    StepsRow,
    StepWay,
)

Numbers = NDArray[np.float64]
NAMES: dict[StepWay, str] = {
    "whole": "at once",
    "parts": "accumulated",
    "checkpointed": "checkpointed",
    "bfloat16": "bfloat16",
}
_SHORT = ("at once", "parts", "ckpt", "bf16")
_COLOURS: dict[StepWay, int] = {"whole": ORANGE, "parts": BLUE, "checkpointed": GREEN, "bfloat16": SKY}
CLAIM = "Gradients of k parts add up to that of the batch, for the memory of one part."
ROUNDED = (1.0, 1.0625)
"""Where the rounding of bfloat16 is drawn: its numbers from 1 to 2 are 2⁻⁷ apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsChoice:
    """The decoder to train, and its batches."""

    n_parts: int = number(4, (2, 4, 8, 16), title="parts k", tip="The batch is read in so many parts")
    batch: int = number(32, (16, 32, 64), title="batch", tip="Texts of a step")
    n_tokens: int = number(64, (16, 32, 64, 128), title="tokens", tip="Length of a text")
    d_model: int = number(64, (32, 64, 128), title="width d", tip="Numbers of a token")
    n_layers: int = number(4, (2, 4, 8), title="layers", tip="Layers of the decoder")
    seed: int = redraw(title="Other weights", tip="Draw other weights and texts")
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The methods, as far as known."""

    rows: dict[StepWay, StepsRow]
    words: LabWords


def compare_steps(choice: StepsChoice) -> Steps:
    found = choice.answer.of(StepsFinding)
    rows = {row.way: row for row in (found.rows if found else ())}
    return Steps(
        rows=rows,
        words=LabWords(
            formula=(
                "g = Σ_k g_k",
                "g_k = ∇ Σ ℓ / N of part k",
                "N: tokens of the batch",
                "bfloat16: 8 binary digits",
            ),
            numbers=_numbers(rows),
            sentence=_sentence(choice, rows),
        ),
    )


def bfloat16(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest bfloat16, ties to even: the upper 16 bits of float32, rounded."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    odd = (bits >> 16) & 1
    rounded: NDArray[np.uint32] = (bits + 0x7FFF + odd) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def _numbers(rows: dict[StepWay, StepsRow]) -> tuple[tuple[str, str], ...]:
    def told(way: StepWay) -> str:
        return format_number(rows[way].gradient_error) if way in rows else "–"

    return (
        *((f"error of g, {name}", told(way)) for way, name in NAMES.items()),
        ("largest |Δℓ|, accumulated", _largest(rows, "parts")),
        ("largest |Δℓ|, checkpointed", _largest(rows, "checkpointed")),
        ("largest |Δℓ|, bfloat16", _largest(rows, "bfloat16")),
    )


def _largest(rows: dict[StepWay, StepsRow], way: StepWay) -> str:
    apart = _apart(rows, way)
    return format_number(float(apart.max())) if len(apart) else "–"


def _apart(rows: dict[StepWay, StepsRow], way: StepWay) -> Numbers:
    """Difference of each step's loss from that of the batch at once."""
    if way not in rows or "whole" not in rows:
        return np.array([])
    apart: Numbers = np.abs(np.array(rows[way].losses) - np.array(rows["whole"].losses))
    return apart


def _sentence(choice: StepsChoice, rows: dict[StepWay, StepsRow]) -> str:
    if not choice.answer.is_exact or len(rows) < len(STEP_WAYS):
        return claimed(CLAIM, choice.answer)
    whole, parts, twice, coarse = (rows[way] for way in STEP_WAYS)
    same = "the very same losses" if not _apart(rows, "checkpointed").any() else "nearly the same losses"
    memory, time = _shares_of(parts, whole)
    return (
        f"{choice.n_parts} parts give the batch's gradient for {memory} of its memory and {time} of its "
        f"time, checkpointing {same} for {_shares(twice, whole)}, bfloat16 a gradient "
        f"{100 * coarse.gradient_error:.1f} % off for {_shares(coarse, whole)}."
        f"{measured_before(choice.answer)}"
    )


def _shares_of(row: StepsRow, whole: StepsRow) -> tuple[str, str]:
    """Memory and time as shares of those of the batch at once."""
    memory, time = row.most_bytes / whole.most_bytes, row.step_ms / whole.step_ms
    return format_number(memory, 2), format_number(time, 2)


def _shares(row: StepsRow, whole: StepsRow) -> str:
    return " and ".join(_shares_of(row, whole))


def steps_charts(shown: Steps) -> tuple[Chart, ...]:
    """Charts of the losses' differences, the losses, memory and time, and the numbers of bfloat16."""
    n = max((len(row.losses) for row in shown.rows.values()), default=1)
    steps = np.arange(1.0, n + 1)
    return (
        Chart(
            title="Loss against the batch at once",
            x_label="step",
            y_label="|Δℓ|, nats",
            series=tuple(
                replace(
                    _line(way, steps, np.where((apart := _apart(shown.rows, way)) > 0, apart, np.nan)),
                    has_points=True,
                )
                for way in STEP_WAYS[1:]
            ),
            is_log_y=True,
        ),
        Chart(
            title="Loss",
            x_label="step",
            y_label="nats a token",
            series=tuple(
                _line(way, steps, np.array(shown.rows[way].losses if way in shown.rows else ()))
                for way in STEP_WAYS
            ),
        ),
        _costs(shown),
        _rounding(),
    )


def _line(way: StepWay, steps: Numbers, ys: Numbers) -> Series:
    known = ys if len(ys) else np.full(len(steps), np.nan)
    return Series(name=NAMES[way], xs=steps, ys=known, colour=_COLOURS[way])


def _costs(shown: Steps) -> Chart:
    """Memory and time of each method, as shares of those of the batch at once."""
    places = np.arange(1.0, len(STEP_WAYS) + 1)
    memory, time = (np.full(len(STEP_WAYS), np.nan) for _ in range(2))
    for at, way in enumerate(STEP_WAYS):
        if way in shown.rows:
            whole, row = shown.rows["whole"], shown.rows[way]
            memory[at] = row.most_bytes / whole.most_bytes
            time[at] = row.step_ms / whole.step_ms
    return Chart(
        title="Memory and time of a step",
        x_label="",
        y_label="at once: 1",
        series=(
            Series(name="memory", xs=places, ys=memory, colour=BLUE, has_points=True),
            Series(name="time", xs=places, ys=time, colour=ORANGE, has_points=True),
        ),
        x_names=_SHORT,
    )


def _rounding() -> Chart:
    xs = np.linspace(*ROUNDED, 513)
    ys = bfloat16(xs.astype(np.float32)).astype(np.float64)
    return Chart(
        title="Numbers of bfloat16",
        x_label="x",
        y_label="x rounded",
        series=(
            Series(name="float32", xs=xs, ys=xs, colour=ORANGE, is_dashed=True),
            Series(name="bfloat16", xs=xs, ys=ys, colour=SKY),
        ),
    )


class PrecisionAndAccumulation(Lab[StepsChoice, Steps]):
    name = "Precision and accumulation"
    group = "Depth and training"
    order = 9
    shows = "A step of training: its batch at once or in accumulated parts, checkpointing, bfloat16"
    source = "Chen et al. 2016; Micikevicius et al. 2018"
    help = """Four times the same decoder learns from the same batches, from the same first weights. In
    parts: each part goes forwards and backwards by itself and its gradient is added to that of the others
    (gradient accumulation), so that only one part is in memory; divided by the tokens of the whole batch, the
    sum is the batch's gradient. Checkpointed: blocks keep what they read and are computed again for their
    gradients (Chen 2016). bfloat16: products have 8 binary digits, weights and sums those of float32 (mixed
    precision, Micikevicius 2018). The error of g is its distance from the gradient in float64, as a share.
    Memory counts every tensor of a step until nothing needs it, gradients too and weights not; time is the
    median of twenty steps; the example was measured on another computer, other choices are measured on
    this one: where nothing multiplies bfloat16 in hardware, it costs time.
    In a [recipe](help:recipes#training): `accumulate`, `checkpointing`, `precision`.
    """

    example = StepsChoice()
    asks = StepsQuestion
    stretches = (5, 4)
    names_px = 100
    figure_mm = (220.0, 150.0)

    resolve = staticmethod(compare_steps)
    charts = staticmethod(steps_charts)

"""Quality by length, measured: models with and without attention that generate rows of tokens.

    symbol   meaning                                                          shape
    L        longest row of training, in tokens                               one number
    exact    share of rows that are written right to the end, by length       [n_lengths]
    tokens   share of tokens that are right at their places, by length        [n_lengths]

The numbers are the worker's, which really trains every model when the lab is looked at. What is claimed of
one model against another holds only where their 95 % intervals over rows (Wilson 1927) do not meet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, percent
from attnscope.fields import number, one_of, redraw
from attnscope.labs.lab import BLUE, GREEN, ORANGE, PURPLE, Lab, LabWords, asked, said_trained, where_trained
from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import (
    NO_ANSWER,
    WRITERS,
    ExperimentAnswer,
    Writer,
    WritingCurve,
    WritingFinding,
    WritingQuestion,
    WritingTask,
)
from attnscope.records.measures import wilson

Numbers = NDArray[np.float64]
LENGTHS: tuple[int, ...] = (8, 12, 16)
STEPS: tuple[int, ...] = (200, 600, 1000, 2000)
WIDTHS: tuple[int, ...] = (16, 32, 64)
TASK_NAMES: dict[WritingTask, str] = {"reverse": "backwards", "copy": "again"}
WRITER_NAMES: dict[Writer, str] = {
    "none": "GRU, one vector",
    "additive": "GRU, Bahdanau",
    "dot": "GRU, Luong",
    "transformer": "Transformer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityChoice:
    """The task of the models, and how they are trained."""

    task: WritingTask = one_of(
        "reverse",
        TASK_NAMES,
        title="write",
        tip="In which order the models write the tokens they read",
    )
    n_trained: int = number(
        12,
        LENGTHS,
        title="trained L",
        tip="Tokens of the longest rows that the models are trained on; rows of up to 1.5·L are read",
    )
    d_model: int = number(
        32,
        WIDTHS,
        title="width d",
        tip="Numbers in a state, and so in the single vector that a GRU without attention passes on",
    )
    n_steps: int = number(
        2000, STEPS, title="steps", tip="Steps of training of each model; a step reads 32 rows"
    )
    seed: int = redraw(title="Other models", tip="Train models with other first weights, on other rows")
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """By model, as far as trained: `exact` and `tokens` at `lengths`, and its loss at `steps`."""

    choice: QualityChoice
    n_trained: int
    lengths: Numbers
    exact: dict[Writer, Numbers]
    tokens: dict[Writer, Numbers]
    steps: dict[Writer, Numbers]
    losses: dict[Writer, Numbers]
    words: LabWords


def judge_lengths(choice: QualityChoice) -> Quality:
    found = choice.answer.of(WritingFinding)
    question = found.question if found is not None else asked(WritingQuestion, choice)
    curves = {curve.writer: curve for curve in found.curves} if found is not None else {}
    lengths = np.array(found.lengths if found is not None else (3, question.n_trained), np.float64)
    missing = np.full(len(lengths), np.nan)
    every = found.read_every if found is not None else 1
    n_rows = found.n_rows if found is not None else 1
    return Quality(
        choice=choice,
        n_trained=question.n_trained,
        lengths=lengths,
        exact={w: np.array(curves[w].n_exact) / n_rows if w in curves else missing for w in WRITERS},
        tokens={w: np.array(curves[w].token_shares) if w in curves else missing for w in WRITERS},
        steps={w: _steps(curves.get(w), every, question.n_steps) for w in WRITERS},
        losses={w: np.array(curves[w].losses if w in curves else (np.nan,)) for w in WRITERS},
        words=LabWords(
            formula=_formula(question),
            numbers=_numbers(question, found, choice.answer),
            sentence=_sentence(choice, found),
        ),
    )


def _steps(curve: WritingCurve | None, every: int, n_steps: int) -> Numbers:
    n = len(curve.losses) if curve is not None else 1
    return np.array([min(k * every, n_steps) for k in range(1, n + 1)], np.float64)


def _formula(question: WritingQuestion) -> tuple[str, ...]:
    order = "x_T … x₁" if question.task == "reverse" else "x₁ … x_T"
    return (f"x₁ … x_T → {order}, greedily", f"trained on T = 3 to {question.n_trained}")


def _numbers(
    question: WritingQuestion, found: WritingFinding | None, answer: ExperimentAnswer
) -> tuple[tuple[str, str], ...]:
    curves = {curve.writer: curve for curve in found.curves} if found is not None else {}
    rows = tuple(
        (WRITER_NAMES[w], _three(curves[w], found) if w in curves and found is not None else "–")
        for w in WRITERS
    )
    last = found.lengths[-1] if found is not None else int(1.5 * question.n_trained)
    sizes = [curve.n_parameters for curve in curves.values()]
    return (
        (f"rows right: T = 3, {question.n_trained}, {last}", "%"),
        *rows,
        ("rows read of each length", str(found.n_rows) if found is not None else "–"),
        (where_trained(answer), f"{question.n_steps} × 32 rows"),
        ("parameters of each", f"{min(sizes):,} to {max(sizes):,}" if sizes else "–"),
    )


def _three(curve: WritingCurve, found: WritingFinding) -> str:
    at = (0, found.lengths.index(found.question.n_trained), len(found.lengths) - 1)
    return " → ".join(format_number(100 * curve.n_exact[k] / found.n_rows) for k in at)


def _sentence(choice: QualityChoice, found: WritingFinding | None) -> str:
    answer = choice.answer
    if answer.error:
        return answer.error
    if not answer.is_exact:
        told = f": {answer.n_done:,} of {answer.n_total:,} steps" if answer.n_total else ""
        return (
            f"Four small models learn to write rows of tokens {TASK_NAMES[choice.task]}{told}… "
            "Watch the curves: how far to the right does each stay high?"
        )
    if found is None:
        return ""
    return f"{_of_vector(found)} {_of_attention(found)}{said_trained(answer, found.question.n_steps)}"


def _of_vector(found: WritingFinding) -> str:
    none, at = _curve(found, "none"), found.lengths.index(found.question.n_trained)
    short, long = _range(none, found, 0), _range(none, found, at)
    if long[1] < short[0]:
        return (
            f"Through one vector of {found.question.d_model} numbers {_share(none, found, 0)} of the rows of "
            f"3 tokens are right, {_share(none, found, at)} of those of {found.question.n_trained}."
        )
    return (
        f"One vector of {found.question.d_model} numbers does about as well on short rows as on long ones: "
        f"{_share(none, found, 0)} and {_share(none, found, at)} right."
    )


def _of_attention(found: WritingFinding) -> str:
    at = found.lengths.index(found.question.n_trained)
    none = _range(_curve(found, "none"), found, at)
    better = [w for w in WRITERS if w != "none" and _range(_curve(found, w), found, at)[0] > none[1]]
    if not better:
        return f"At {found.question.n_trained} tokens no model with attention is better beyond chance yet."
    told = ", ".join(f"{WRITER_NAMES[w]} {_share(_curve(found, w), found, at)}" for w in better)
    return f"With attention of those of {found.question.n_trained}: {told}."


def _curve(found: WritingFinding, writer: Writer) -> WritingCurve:
    return next(curve for curve in found.curves if curve.writer == writer)


def _range(curve: WritingCurve, found: WritingFinding, k: int) -> tuple[float, float]:
    return wilson(curve.n_exact[k], found.n_rows)


def _share(curve: WritingCurve, found: WritingFinding, k: int) -> str:
    return percent(curve.n_exact[k] / found.n_rows)


OF_WRITER: dict[Writer, int] = {"none": ORANGE, "additive": BLUE, "dot": GREEN, "transformer": PURPLE}


def quality_charts(shown: Quality) -> tuple[Chart, ...]:
    """Rows right to the end and single tokens by length, and the loss during training."""
    lengths = dict.fromkeys(WRITER_NAMES, shown.lengths)
    marks = ((float(shown.n_trained), f"trained: {shown.n_trained}"),)
    return (
        Chart(
            title="Whole rows",
            x_label="tokens of the row",
            y_label="share of rows right to the end",
            series=_lines(lengths, shown.exact),
            y_range=(0.0, 1.08),
            marks=marks,
        ),
        Chart(
            title="Tokens",
            x_label="tokens of the row",
            y_label="share right at their positions, end included",
            series=_lines(lengths, shown.tokens),
            y_range=(0.0, 1.08),
            marks=marks,
        ),
        Chart(
            title="Loss",
            x_label="step",
            y_label="nats a token",
            series=_lines(shown.steps, shown.losses),
        ),
    )


def _lines(xs: Mapping[Writer, Numbers], ys: Mapping[Writer, Numbers]) -> tuple[Series, ...]:
    return tuple(
        Series(name=name, xs=xs[w], ys=ys[w], colour=OF_WRITER[w], has_points=True)
        for w, name in WRITER_NAMES.items()
    )


class QualityByLength(Lab[QualityChoice, Quality]):
    name = "Quality by length"
    group = "Attention or recurrence"
    order = 2
    shows = "How well longer rows are written with one vector, and with attention: trained and read here"
    source = "Bahdanau et al. 2014, figure 2"
    search = (
        "fixed-length vector",
        "bottleneck",
        "seq2seq",
        "long sentences",
        "RNN translation",
        "encoder-decoder",
    )
    help = """A recurrent encoder without attention passes a single vector to the decoder, and the longer
    the row, the more is lost on the way; with attention the decoder reads every state of the encoder
    (Bahdanau 2014, figure 2). Four small models are trained, all on the same rows of 3 to L tokens, and
    write rows of 3 to 1.5·L tokens greedily. A row counts only if it is right to the end. The example was
    trained in advance, so its curves appear at once; *Other models*, or any other choice, trains here, and
    the curves grow as the models learn. With a wider vector or longer training the model without attention
    gets further, but still falls. Rows longer than L were never seen in training, and no model can be
    expected to get them right.
    """

    example = QualityChoice()
    asks = WritingQuestion
    stretches = (5, 4)
    names_px = 112
    figure_mm = (200.0, 150.0)

    resolve = staticmethod(judge_lengths)
    charts = staticmethod(quality_charts)

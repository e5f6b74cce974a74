"""Quality by length, measured: models with and without attention that write rows of tokens.

    symbol   meaning                                                          shape
    L        longest row of training, in tokens                               one number
    exact    share of rows that are written right to the end, by length       [n_lengths]
    tokens   share of tokens that are right at their places, by length        [n_lengths]

The numbers are the worker's, which really trains every model when the lab is looked at. What is claimed of
one model against another holds only where their 95 % intervals over rows (Wilson 1927) do not meet.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.records.experiments import (
    NO_ANSWER,
    WRITERS,
    Answer,
    Writer,
    WritingCurve,
    WritingFinding,
    WritingQuestion,
    WritingTask,
)
from attnscope.records.intervals import wilson
from attnscope.viewmodels.labs.lab import LabWords, said_trained, where_trained

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
    """What the models write, and how they are trained."""

    task: WritingTask = "reverse"
    n_trained: int = 12
    d_model: int = 32
    n_steps: int = 2000
    seed: int = 0
    answer: Answer = NO_ANSWER

    @property
    def question(self) -> WritingQuestion:
        """What the worker is asked."""
        return WritingQuestion(
            task=self.task,
            n_trained=self.n_trained,
            d_model=self.d_model,
            n_steps=self.n_steps,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """By model, as far as they are trained: `exact` and `tokens` at `lengths`, and its loss at `steps`."""

    choice: QualityChoice
    n_trained: int
    lengths: Numbers
    exact: dict[Writer, Numbers]
    tokens: dict[Writer, Numbers]
    steps: dict[Writer, Numbers]
    losses: dict[Writer, Numbers]
    words: LabWords


def judge_lengths(choice: QualityChoice) -> Quality:
    """What is known so far."""
    found = choice.answer.finding if isinstance(choice.answer.finding, WritingFinding) else None
    question = found.question if found is not None else choice.question
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
    question: WritingQuestion, found: WritingFinding | None, answer: Answer
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
        f"One vector of {found.question.d_model} numbers does not yet distinguish short rows from long ones."
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
    return f"{100 * curve.n_exact[k] / found.n_rows:.0f} %"

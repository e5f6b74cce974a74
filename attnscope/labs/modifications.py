"""Modifications of the Transformer: which ones help, here and in a published comparison (Narang et al. 2021).

    symbol   meaning                                                                shape
    values   of one measure, for each seed: losses in nats a token, or BLEU         [n_seeds]
    mean     its mean, with the 95 % interval by Student's t over the seeds         one number
    Δ        the difference to the unmodified model of the same seed, so that both
             began with the same numbers and read the same batches                  [n_seeds]

A modification is told to help, or to harm, where the interval of Δ leaves out 0. The numbers are the worker's
(`attnscope/workers/experiments/modifying.py`); what is compared, and what was published, is a list:
`attnscope/records/modifications.py`. Two modifications that differ in a paper need not differ at a toy's
size; their order is what can be compared.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, listed, plural
from attnscope.fields import number, one_of, redraw
from attnscope.labs.lab import BLUE, OLIVE, ORANGE, PURPLE, Lab, LabWords, claimed, where_trained
from attnscope.records.charts import Chart, Series, whiskers
from attnscope.records.experiments import (
    NO_ANSWER,
    ExperimentAnswer,
    ModifyFinding,
    ModifyQuestion,
    ModifyRow,
    Question,
)
from attnscope.records.measures import student_t
from attnscope.records.modifications import BASE, NARANG, VASWANI, Group, Modification, of_group

Numbers = NDArray[np.float64]
Measure = Literal["final", "early", "bleu"]
GROUP_NAMES: dict[Group, str] = {
    "activation": "activations",
    "norm": "norms",
    "position": "positions",
    "sharing": "sharing",
}
MEASURES: dict[Measure, str] = {"final": "final loss", "early": "early loss", "bleu": "BLEU"}
STEPS: tuple[int, ...] = (100, 250, 500, 1000)
SEEDS: tuple[int, ...] = (2, 3, 5)
CLAIM = (
    "Each of these was published as an improvement; trained alike, side by side, few help: in Narang et al. "
    "gated activations and RMS norm do, and shared blocks harm."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyChoice:
    """The modification, the charts to draw, and how the models are trained."""

    group: Group = one_of("activation", GROUP_NAMES, title="modified", tip="Which part of the model differs")
    measure: Measure = one_of(
        "final",
        MEASURES,
        title="measure",
        tip="Loss on held-out sentences at the end, or after a quarter of the steps; BLEU of translations",
    )
    n_steps: int = number(500, STEPS, title="steps", tip="Steps of training of each model, 32 sentences each")
    n_seeds: int = number(
        3, SEEDS, title="seeds", tip="How often each model is trained; bars: 95 % intervals"
    )
    seed: int = redraw(title="Other models", tip="Train with other first weights and batches", step=10)
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Modified:
    """For each row: mean, low and high of the measure here, and the published number; NaN: none.

    `gains` are the low and high ends of Δ, [n_rows, 2], positive where the modification is better.
    """

    choice: ModifyChoice
    rows: tuple[Modification, ...]
    means: Numbers
    ends: Numbers
    gains: Numbers
    published: Numbers
    words: LabWords


def compare(choice: ModifyChoice) -> Modified:
    found = choice.answer.of(ModifyFinding)
    if found is not None and found.question.group != choice.group:
        found = None
    rows = of_group(choice.group)
    known = {row.name: row for row in found.rows} if found is not None else {}
    values = [_values(known.get(row.name), choice.measure) for row in rows]
    stats = np.array([mean_and_ends(one) for one in values])  # [n_rows, 3]
    gains = np.array([gain_ends(one, values[0], is_loss=choice.measure != "bleu") for one in values])
    published = np.array([_published(row, choice.measure) for row in rows])
    return Modified(
        choice=choice,
        rows=rows,
        means=stats[:, 0],
        ends=stats[:, 1:],
        gains=gains,
        published=published,
        words=_words(choice, rows, stats, gains, published, tuple(known.values())),
    )


def _values(row: ModifyRow | None, measure: Measure) -> Numbers:
    if row is None:
        return np.zeros(0)
    found = {"final": row.finals, "early": row.earlies, "bleu": row.bleus}[measure]
    return np.array(found, np.float64)


def _published(row: Modification, measure: Measure) -> float:
    found = getattr(row.published, measure) if row.published is not None else None
    return np.nan if found is None else float(found)


def mean_and_ends(values: Numbers) -> tuple[float, float, float]:
    """The mean over seeds and the ends of its 95 % interval; no interval with fewer than two."""
    if not len(values):
        return np.nan, np.nan, np.nan
    mean = float(values.mean())
    n = len(values)
    reach = student_t(n - 1) * float(values.std(ddof=1)) / np.sqrt(n) if n > 1 else np.nan
    return mean, mean - reach, mean + reach


def gain_ends(values: Numbers, base: Numbers, *, is_loss: bool) -> tuple[float, float]:
    """The 95 % interval of the gain over the unmodified model, over the seeds that both have."""
    n = min(len(values), len(base))
    if n < 2:
        return np.nan, np.nan
    differences = base[:n] - values[:n] if is_loss else values[:n] - base[:n]
    _, low, high = mean_and_ends(differences)
    return low, high


def rank_correlation(first: Numbers, second: Numbers) -> float:
    """Spearman's ρ of the rows that both have; NaN for fewer than three, or if all of one are equal."""
    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < 3:
        return float("nan")
    ranks = [_ranks(values[both]) for values in (first, second)]
    if any(np.ptp(one) == 0 for one in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1]).item(0, 1))


def _ranks(values: Numbers) -> Numbers:
    """Ranks from 1 in ascending order; equal values share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which])


def _words(
    choice: ModifyChoice,
    rows: tuple[Modification, ...],
    stats: Numbers,
    gains: Numbers,
    published: Numbers,
    known: tuple[ModifyRow, ...],
) -> LabWords:
    digits = 3
    shown = tuple(
        (
            row.title,
            f"{_with_interval(stats[k], digits)} · "
            f"{f'{published[k]:.4g}' if np.isfinite(published[k]) else '–'}",
        )
        for k, row in enumerate(rows)
    )
    seconds = [row.seconds for row in known]
    sizes = [row.n_parameters for row in known]
    is_narang = np.array([row.published is not None and row.published.source == NARANG for row in rows])
    agreement = rank_correlation(stats[:, 0], np.where(is_narang, published, np.nan))
    sources = dict.fromkeys(row.published.source for row in rows if row.published is not None)
    numbers = (
        (MEASURES[choice.measure], "here · published"),
        *shown,
        ("rank correlation ρ", format_number(agreement, 2) if np.isfinite(agreement) else "–"),
        (where_trained(choice.answer), f"{choice.n_steps} × 32 sentences"),
        ("processor seconds a model", _span(seconds)),
        ("parameters", _span(sizes)),
    )
    return LabWords(
        formula=("English → French, 2 + 2 layers of width 48", *sources),
        numbers=numbers,
        sentence=_sentence(choice, rows, stats, gains),
    )


def _with_interval(row: Numbers, digits: int) -> str:
    mean, low, high = row.tolist()
    if not np.isfinite(mean):
        return "–"
    if not np.isfinite(low):
        return format_number(mean, digits)
    return f"{format_number(mean, digits)} ± {format_number((high - low) / 2, 2)}"


def _span(values: list[float] | list[int]) -> str:
    if not values:
        return "–"
    ends = dict.fromkeys(format_number(float(one), 2) for one in (min(values), max(values)))
    if isinstance(values[0], int):
        ends = dict.fromkeys(f"{one:,}" for one in (min(values), max(values)))
    return " to ".join(ends)


def _sentence(choice: ModifyChoice, rows: tuple[Modification, ...], stats: Numbers, gains: Numbers) -> str:
    if choice.answer.progress or not np.isfinite(stats[:, 0]).all():
        return claimed(CLAIM, choice.answer)
    better = [row.title for row, (low, _) in zip(rows, gains, strict=True) if low > 0]
    worse = [row.title for row, (_, high) in zip(rows, gains, strict=True) if high < 0]
    n_other = len(rows) - 1 - len(better) - len(worse)
    parts = []
    if better:
        parts.append(
            f"{listed(better)} {'is' if len(better) == 1 else 'are'} better than the unmodified model"
        )
    if worse:
        parts.append(f"{listed(worse)} {'is' if len(worse) == 1 else 'are'} worse")
    if n_other:
        whom = plural(n_other, "other") if parts else plural(n_other, "modification")
        parts.append(f"{whom} cannot be told from the unmodified model")
    told = "; ".join(parts)
    kept = ", trained in advance" if choice.answer.is_kept else ""
    return (
        f"{told[0].upper()}{told[1:]} ({plural(choice.n_seeds, 'seed')}, {choice.n_steps} steps each{kept}). "
        "A toy says little about large models: compare the order."
    )


def modify_charts(shown: Modified) -> tuple[Chart, ...]:
    """The rows here, with intervals, and as published; each beside the line of the unmodified model."""
    choice, names = shown.choice, tuple(row.title for row in shown.rows)
    xs = np.arange(1.0, len(names) + 1)
    base = next(k for k, row in enumerate(shown.rows) if row.name == BASE)
    unit = "BLEU, 0–100" if choice.measure == "bleu" else f"{MEASURES[choice.measure]}, nats a token"

    def level(value: float) -> Series:
        ys = np.full(2, value)
        return Series(
            name="unmodified", xs=xs[[0, -1]], ys=ys, colour=OLIVE, is_reference=True, has_label=False
        )

    ends = np.clip(shown.ends, 0.0, 100.0 if choice.measure == "bleu" else np.inf)
    here = (
        level(shown.means[base]),
        whiskers(xs, ends, BLUE),
        Series(name="here", xs=xs, ys=shown.means, colour=BLUE, style="points", has_label=False),
    )
    sources = [row.published.source if row.published is not None else "" for row in shown.rows]
    told = tuple(
        Series(
            name=source.partition(",")[0],
            xs=xs,
            ys=np.where([one == source for one in sources], shown.published, np.nan),
            colour=colour,
            style="points",
        )
        for source, colour in ((NARANG, ORANGE), (VASWANI, PURPLE))
    )
    if not np.isfinite(told[1].ys).any():
        told = (level(shown.published[base]), replace(told[0], has_label=False))
    paper = (
        "BLEU, English to German"
        if choice.measure == "bleu"
        else f"{MEASURES[choice.measure]}, log perplexity ({NARANG.partition(',')[0]})"
    )
    return (
        Chart(title="Here", x_label="", y_label=f"{unit}; bars: 95 % intervals", series=here, x_names=names),
        Chart(title="Published", x_label="", y_label=paper, series=told, x_names=names),
    )


class Modifications(Lab[ModifyChoice, Modified]):
    name = "Modifications"
    group = "Depth and training"
    order = 6
    shows = "Activations, norms, positions and sharing trained alike, side by side, beside published numbers"
    source = "Narang et al. 2021, Vaswani et al. 2017"
    help = """Small encoder–decoders that differ in one modification are trained alike, with several seeds,
    and each stands beside its published number. Bars are 95 % intervals over the seeds; a modification is
    called better or worse only where the interval of its difference to the unmodified model of the same
    seed leaves out 0. Published are the losses and BLEU of models of 223 million parameters (Narang 2021,
    table 1), and for learned against sinusoidal positions the BLEU of Vaswani 2017 (table 3), 25.7 and 25.8:
    points of different papers in one chart are not comparable with each other. The unmodified model has
    norms before, ReLU and T5's relative positions, as theirs has. Gated feed-forwards are narrower by a
    third, so that all have as many weights (Shazeer 2020). The task is a small artificial one and the models
    are tiny, so only the order of the rows can be compared. What 500 steps of three seeds give was trained
    in advance; other settings are trained on your machine, some ten seconds of processor time for each
    model.
    """

    example = ModifyChoice()
    asks = ModifyQuestion
    names_px = 24
    figure_mm = (180.0, 150.0)

    resolve = staticmethod(compare)
    charts = staticmethod(modify_charts)

    def asks_it(self, question: Question) -> bool:
        return isinstance(question, ModifyQuestion) and not question.only

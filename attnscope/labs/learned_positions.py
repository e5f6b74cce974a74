"""Learned against sinusoidal positions: row E of an often-cited table, repeated on a small scale.

    symbol   meaning                                                                     shape
    s, l     the measure of each seed, with sinusoidal and with learned positions        [n_seeds]
    Δ        l − s of the same seed: both began with the same numbers and read the same
             batches                                                                     [n_seeds]

Vaswani et al. 2017 (table 3) trained their base model with sinusoidal positions and, in row E, with learned
ones: BLEU 25.8 and 25.7, perplexity 4.92 for both, of one run each on newstest2013. The numbers here are the
worker's, of the same small models as the lab *Modifications* compares, with the 95 % interval of Δ by
Student's t over the seeds.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, plural
from attnscope.fields import number, one_of, redraw
from attnscope.labs.lab import BLUE, ORANGE, Lab, LabWords, asked, claimed, in_advance, where_trained
from attnscope.labs.modifications import MEASURES, STEPS, Measure, mean_and_ends
from attnscope.records.charts import Chart, Series, whiskers
from attnscope.records.experiments import (
    NO_ANSWER,
    ExperimentAnswer,
    ModifyFinding,
    ModifyQuestion,
    ModifyRow,
    OpenModel,
    Question,
)
from attnscope.records.modifications import MODIFICATIONS

Numbers = NDArray[np.float64]
NAMES = ("sinusoidal", "learned")
SEEDS: tuple[int, ...] = (3, 5, 10)
PERPLEXITY = (4.92, 4.92)
"""Published beside the BLEU, of the same two models."""
CLAIM = "Positions that are learned and positions that are computed give nearly the same quality."


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedChoice:
    """The measurement, and how the models are trained."""

    measure: Measure = one_of(
        "bleu",
        MEASURES,
        title="measure",
        tip="BLEU of translations; or the loss on held-out sentences, at the end or after a quarter",
    )
    n_steps: int = number(500, STEPS, title="steps", tip="Steps of training of each model, 32 sentences each")
    n_seeds: int = number(10, SEEDS, title="seeds", tip="How often each model is trained")
    seed: int = redraw(title="Other models", tip="Train with other first weights and batches", step=10)
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Both rows: the measure of each seed, [n_seeds], and the published value; NaN: none.

    `stats` [2, 3] are the mean and the ends of its interval, `difference` [3] those of Δ.
    """

    choice: LearnedChoice
    values: tuple[Numbers, Numbers]
    stats: Numbers
    difference: Numbers
    published: tuple[float, float]
    words: LabWords


def compare_positions(choice: LearnedChoice) -> Learned:
    found = choice.answer.of(ModifyFinding)
    known = {row.name: row for row in found.rows if found.question.only == NAMES} if found else {}
    sinusoidal, learned = (_values(known.get(name), choice.measure) for name in NAMES)
    n = min(len(sinusoidal), len(learned))
    stats = np.array([mean_and_ends(one) for one in (sinusoidal, learned)])
    difference = np.array(mean_and_ends(learned[:n] - sinusoidal[:n]))
    published = _published(choice.measure)
    return Learned(
        choice=choice,
        values=(sinusoidal, learned),
        stats=stats,
        difference=difference,
        published=published,
        words=LabWords(
            formula=("PE(t, 2i) = sin(t / 10000^(2i/d))", "or a row of a table, learned"),
            numbers=_numbers(choice, stats, difference, published, known),
            sentence=_sentence(choice, known),
        ),
    )


def _values(row: ModifyRow | None, measure: Measure) -> Numbers:
    if row is None:
        return np.zeros(0)
    return np.array({"final": row.finals, "early": row.earlies, "bleu": row.bleus}[measure], np.float64)


def _published(measure: Measure) -> tuple[float, float]:
    if measure == "early":
        return np.nan, np.nan
    if measure == "final":
        sinusoidal, learned = PERPLEXITY
        return float(np.log(sinusoidal)), float(np.log(learned))
    found = [MODIFICATIONS[name].published for name in NAMES]
    sinusoidal, learned = (np.nan if one is None or one.bleu is None else one.bleu for one in found)
    return sinusoidal, learned


def _numbers(
    choice: LearnedChoice,
    stats: Numbers,
    difference: Numbers,
    published: tuple[float, float],
    known: dict[str, ModifyRow],
) -> tuple[tuple[str, str], ...]:
    told = tuple((name, f"{_mean(stats[k])} · {_plain(published[k])}") for k, name in enumerate(NAMES))
    gap = published[1] - published[0]
    return (
        (f"{MEASURES[choice.measure]}, mean", "here · published"),
        *told,
        ("learned − sinusoidal", f"{_mean(difference)} · {_plain(gap)}"),
        ("95 % interval of it, here", _ends(difference)),
        ("seeds", str(min((len(row.finals) for row in known.values()), default=0)) if known else "–"),
        (where_trained(choice.answer), f"{choice.n_steps} × 32 sentences"),
        *(
            (f"parameters, {name}", f"{known[name].n_parameters:,}" if name in known else "–")
            for name in NAMES
        ),
    )


def _plain(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if np.isfinite(value) else "–"


def _mean(row: Numbers) -> str:
    return format_number(float(row[0]), 3) if np.isfinite(row[0]) else "–"


def _ends(row: Numbers) -> str:
    if not np.isfinite(row[1]):
        return "–"
    return " to ".join(format_number(float(end), 2) for end in row[1:])


def _sentence(choice: LearnedChoice, known: dict[str, ModifyRow]) -> str:
    n = min((len(known[name].finals) for name in NAMES if name in known), default=0)
    if choice.answer.progress or n < 2 or len(known) < len(NAMES):
        return claimed(CLAIM, choice.answer)
    of_bleu, of_loss = (_told(known, measure) for measure in ("bleu", "final"))
    return (
        f"Here, over {plural(n, 'seed')} of {choice.n_steps} steps, learned positions are {of_bleu}, and "
        f"{of_loss}. Published: BLEU 25.7 against 25.8, perplexity 4.92 for both."
        f"{in_advance(choice.answer)}"
    )


def _told(known: dict[str, ModifyRow], measure: Measure) -> str:
    """The better of the two in a measure, if the interval of the difference excludes 0."""
    sinusoidal, learned = (_values(known[name], measure) for name in NAMES)
    n = min(len(sinusoidal), len(learned))
    difference = np.array(mean_and_ends(learned[:n] - sinusoidal[:n]))
    mean, low, high = difference.tolist()
    if low <= 0 <= high:
        how = "not told apart from sinusoidal ones"
    else:
        how = "better" if (mean > 0) == (measure == "bleu") else "worse"
    unit = "BLEU" if measure == "bleu" else "loss"
    return f"{how} in {unit} (Δ {_ends(difference)})"


def learned_charts(shown: Learned) -> tuple[Chart, ...]:
    """Both here, a line for each seed, and both as published."""
    xs, measure = np.array([1.0, 2.0]), shown.choice.measure
    is_bleu = measure == "bleu"
    unit = "BLEU, 0–100" if is_bleu else f"{MEASURES[measure]}, nats a token"
    room = Series(name="", xs=np.array([0.5, 2.5]), ys=np.full(2, np.nan), has_label=False)
    seeds = [
        Series(name=f"seed {k}", xs=xs, ys=np.array(pair), colour=BLUE, is_quiet=True, has_label=False)
        for k, pair in enumerate(zip(*shown.values, strict=False), start=1)
    ]
    ends = np.clip(shown.stats[:, 1:], 0.0, 100.0 if is_bleu else np.inf)
    published = np.array(shown.published)
    return (
        Chart(
            title="Here",
            x_label="",
            y_label=f"{unit}; dashed: each seed; bars: 95 % intervals",
            series=(
                room,
                *seeds,
                whiskers(xs, ends, BLUE),
                _means("mean", shown.stats[:, 0], BLUE),
            ),
            notes=_notes(shown.stats[:, 0], 3),
            x_names=NAMES,
        ),
        Chart(
            title="Published",
            x_label="",
            y_label=f"{'BLEU, English–German' if is_bleu else 'log perplexity, nats a token'}, newstest2013",
            series=(room, _means("base, row E", published, ORANGE)),
            y_range=(20.0, 30.0) if is_bleu else (0.0, 3.0),
            notes=_notes(published, 4),
            x_names=NAMES,
        ),
    )


def _means(name: str, ys: Numbers, colour: int) -> Series:
    xs = np.array([1.0, 2.0])
    return Series(name=name, xs=xs, ys=ys, colour=colour, has_points=True, has_label=False)


def _notes(values: Numbers, digits: int) -> tuple[tuple[float, float, str], ...]:
    places = zip((0.92, 2.08), values.tolist(), strict=True)
    return tuple((x, y, f"{y:.{digits}g}") for x, y in places if np.isfinite(y))


class LearnedPositions(Lab[LearnedChoice, Learned]):
    name = "Learned positions, row E"
    group = "Positions"
    order = 7
    shows = "Learned against sinusoidal positions: BLEU here, and 25.7 against 25.8 of table 3 (Vaswani 2017)"
    source = "Vaswani et al. 2017, table 3, row E"
    help = """Sinusoidal vs learned positions (positional embedding instead of sinusoids: row E of table 3,
    Vaswani 2017): BLEU 25.8 and 25.7, perplexity 4.92 for both, on newstest2013. Here small encoder–decoders
    are trained in both ways, with the same first weights and batches for each seed: a dashed line each.
    Only where the interval of the difference leaves out 0 is one called better. After 500 steps learned
    positions are worse, in loss and BLEU: a table has to be learned first, and the paper's models had 100,000
    steps. What 500 steps of ten seeds give was trained in advance; other settings are trained on your
    machine, some ten seconds of processor time for each model. [Modifications](lab:modifications) has more
    ways beside them, [Past the trained length](lab:past-the-trained-length) longer texts.
    """

    example = LearnedChoice()
    asks = ModifyQuestion
    other_page = ("Look at both encodings", "positions")
    names_px = 24
    figure_mm = (180.0, 130.0)

    resolve = staticmethod(compare_positions)
    charts = staticmethod(learned_charts)

    def asks_it(self, question: Question) -> bool:
        return isinstance(question, ModifyQuestion) and question.only == NAMES

    def question(self, choice: LearnedChoice, opened: OpenModel | None) -> ModifyQuestion:
        wish = asked(ModifyQuestion, choice)
        return replace(wish, group="position", only=NAMES)

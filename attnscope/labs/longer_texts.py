"""Loss past the trained length, measured: tiny models that differ only in their positions.

    symbol   meaning                                                     shape
    L        trained length in tokens                                    one number
    loss     nats a token at each place of texts of 4·L tokens           [4·L]

The numbers are the worker's, which really trains each model when the lab is looked at; the task is to say
again the token that stood k positions before. A guess costs ln 16 = 2.77 nats.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number, listed
from attnscope.fields import number, redraw
from attnscope.labs.lab import (
    BLUE,
    GREEN,
    OCHRE,
    OLIVE,
    ORANGE,
    PURPLE,
    SKY,
    Lab,
    LabWords,
    asked,
    claimed,
    said_trained,
    where_trained,
)
from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import NO_ANSWER, SCHEMES, ExperimentAnswer, ReachFinding, ReachQuestion
from attnscope.schemes.positions import POSITIONS

Numbers = NDArray[np.float64]
LENGTHS: tuple[int, ...] = (8, 16, 24, 32)
STEPS: tuple[int, ...] = (100, 200, 300, 600, 1000)
LOOK_BACKS: tuple[int, ...] = (1, 2, 3, 4)
FURTHER = 4
CLAIM = (
    "Past the trained length everything depends on the kind of positions: a learned table ends, others lose "
    "track, and only those that use nothing but the distance back to a token keep working."
)
SCHEME_NAMES: dict[str, str] = {name: POSITIONS[name].title for name in SCHEMES}


@dataclass(frozen=True, slots=True, kw_only=True)
class LongerChoice:
    """How the models are trained."""

    n_trained: int = number(
        16,
        LENGTHS,
        title="trained L",
        tip="Tokens of the texts that the models are trained on; texts of 4·L are read",
    )
    look_back: int = number(
        1,
        LOOK_BACKS,
        title="positions k",
        tip="Which token is to be repeated: the one k positions back",
    )
    n_steps: int = number(1000, STEPS, title="steps", tip="Steps of training of each model")
    seed: int = redraw(title="Other models", tip="Train models with other first weights, on other texts")
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Longer:
    """By scheme: the loss at each of `places`, and its mean `within` the trained places and `past` them."""

    choice: LongerChoice
    n_trained: int
    places: Numbers
    losses: dict[str, Numbers]
    within: dict[str, float]
    past: dict[str, float]
    chance: float
    words: LabWords


def read_longer(choice: LongerChoice) -> Longer:
    finding = choice.answer.of(ReachFinding)
    n_trained = finding.question.n_trained if finding is not None else choice.n_trained
    n_read = finding.n_read if finding is not None else FURTHER * choice.n_trained
    curves = {curve.scheme: np.array(curve.losses) for curve in finding.curves} if finding is not None else {}
    losses = {scheme: curves.get(scheme, np.full(n_read, np.nan)) for scheme in SCHEMES}
    chance = finding.chance if finding is not None else float(np.log(16))
    within = {s: _mean(values[:n_trained]) for s, values in losses.items()}
    past = {s: _mean(values[n_trained:]) for s, values in losses.items()}
    return Longer(
        choice=choice,
        n_trained=n_trained,
        places=np.arange(float(n_read)),
        losses=losses,
        within=within,
        past=past,
        chance=chance,
        words=_words(choice, finding, within, past),
    )


def _mean(values: Numbers) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _words(
    choice: LongerChoice, finding: ReachFinding | None, within: dict[str, float], past: dict[str, float]
) -> LabWords:
    is_known = {curve.scheme for curve in finding.curves} if finding is not None else set()
    rows = tuple((SCHEME_NAMES[s], _both(within[s], past[s]) if s in is_known else "–") for s in SCHEMES)
    question = finding.question if finding is not None else asked(ReachQuestion, choice)
    numbers = (
        ("mean loss, trained → past", "nats"),
        *rows,
        ("loss of a guess, ln 16", format_number(float(np.log(16)))),
        (where_trained(choice.answer), f"{question.n_steps} × 16 texts"),
        ("layers, width, heads", "2, 32, 4"),
        ("parameters", f"{finding.n_parameters:,}" if finding is not None else "–"),
    )
    back = "the token before" if choice.look_back == 1 else f"the token {choice.look_back} positions back"
    return LabWords(
        formula=(f"repeat {back}", "loss = −ln p(right), nats", f"trained on {choice.n_trained} tokens"),
        numbers=numbers,
        sentence=_sentence(choice, question.n_steps, within, past, len(is_known)),
    )


def _both(within: float, past: float) -> str:
    return f"{format_number(within, 2)} → {format_number(past, 2) if np.isfinite(past) else 'nothing'}"


def _sentence(
    choice: LongerChoice,
    n_steps: int,
    within: dict[str, float],
    past: dict[str, float],
    n_known: int,
) -> str:
    if choice.answer.error:
        return choice.answer.error
    if n_known < len(SCHEMES) and not choice.answer.is_exact:
        return claimed(CLAIM, choice.answer)
    able = [s for s in SCHEMES if within[s] < 0.5 and not POSITIONS[s].learns_table]
    named = SCHEME_NAMES | {"none": "no positions"}
    keep = [named[s] for s in able if past[s] < 3 * max(within[s], 0.15)]
    lose = [named[s] for s in able if named[s] not in keep]
    learned = f"Every model learned on {choice.n_trained} tokens. A learned table ends there; of the others"
    if not able:
        return f"{learned} none can do the task yet.{said_trained(choice.answer, n_steps)}"
    kept = (
        f"{listed(keep)} {'keeps' if len(keep) == 1 else 'keep'} it on longer texts"
        if keep
        else "none keep it"
    )
    lost = f"; {listed(lose)} {'loses' if len(lose) == 1 else 'lose'} it past the end" if lose else ""
    return f"{learned} that can do the task, {kept}{lost}.{said_trained(choice.answer, n_steps)}"


_OF_SCHEME = dict(zip(SCHEMES, (BLUE, GREEN, ORANGE, OCHRE, PURPLE, SKY), strict=False))


def longer_charts(shown: Longer) -> tuple[Chart, ...]:
    guess = np.full(len(shown.places), shown.chance)
    return (
        Chart(
            title="Loss",
            x_label="position in the text",
            y_label="nats a token, mean of 64 new texts",
            series=(
                Series(name="a guess", xs=shown.places, ys=guess, colour=OLIVE, is_quiet=True),
                *(
                    Series(name=SCHEME_NAMES[s], xs=shown.places, ys=ys, colour=_OF_SCHEME.get(s, OLIVE))
                    for s, ys in shown.losses.items()
                ),
            ),
            marks=((float(shown.n_trained), f"trained: {shown.n_trained}"),),
        ),
    )


class LongerTexts(Lab[LongerChoice, Longer]):
    name = "Longer texts"
    group = "Positions"
    order = 3
    shows = "Tiny models trained here, one for each kind of positions, read past the trained length"
    source = "Press et al. 2022"
    search = ("length generalisation", "length extrapolation")
    help = """Tiny models, one for each kind of positions, are trained and then read texts longer than any
    they were trained on. The curves are measured, not derived: those of the example were measured in
    advance and appear at once; all others are measured on your machine. *Other models* trains them while
    you watch.
    """

    example = LongerChoice()
    asks = ReachQuestion
    figure_mm = (180.0, 110.0)
    other_page = ("Matrices and similarities →", "positions")

    resolve = staticmethod(read_longer)
    charts = staticmethod(longer_charts)

"""The lines of one or several runs on shared axes: which are drawn, how strongly, cut to display size.

One run alone is drawn in full: training and validation in two colours, raw values pale behind the smoothed.
Several have a colour each: validation strong with its points, training thin, the chosen run on top.

Pure numpy; must not import Qt.
"""

import math
from dataclasses import dataclass
from typing import Literal

from attnscope.records.runs import loss_unit
from attnscope.viewmodels.training.recipe_text import told_apart
from attnscope.viewmodels.training.run_curves import (
    UNKNOWN_SCALE,
    Axis,
    CurveData,
    Numbers1D,
    RunAxis,
    RunCurves,
    RunScale,
    decimated,
    sampled,
)

Quantity = Literal["loss", "rate", "norm", "speed", "accuracy", "heads", "spans", "pairs", "sizes"]
Losses = Literal["both", "training", "validation"]
Window = tuple[float, float, int]
"""The places at both ends of the picture, and how many pairs of extremes across are worth drawing."""
WHOLE: Window = (-math.inf, math.inf, 500)
NEVER_SMOOTHED = ("validation", "rate", "accuracy", "open heads", "pairs", "texts", "tokens")
_MAX_NAME = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """One run to be drawn; `colour` is its place among the series' colours.

    `objective` is that of its recipe, where the curves themselves do not say it.
    """

    folder: str
    name: str
    colour: int
    curves: RunCurves
    axis: RunAxis
    scale: RunScale = UNKNOWN_SCALE
    is_strong: bool = True
    objective: str = ""

    @property
    def version(self) -> tuple[str, int, int, bool]:
        """Changes with everything that is seen of it."""
        return (self.folder, self.colour, self.curves.version, self.is_strong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What the person chose of how curves are drawn: `smoothing` is the factor of the running mean."""

    axis: Axis = "step"
    smoothing: float = 0.0
    losses: Losses = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveLine:
    """One line at display size; `name` stands at its end, empty stands nowhere.

    `kind` is what it shows of which `run`: train, validation, rate, norm or speed.
    """

    name: str
    xs: Numbers1D
    ys: Numbers1D
    colour: int
    is_pale: bool = False
    is_strong: bool = False
    has_points: bool = False
    kind: str = ""
    run: str = ""


def lines_of(
    shown: tuple[ShownRun, ...], quantity: Quantity, drawing: Drawing, window: Window = WHOLE
) -> tuple[CurveLine, ...]:
    """The lines of a quantity for the runs, in the order in which they are drawn."""
    if len(shown) == 1:
        return _alone(shown[0], quantity, drawing, window)
    names = names_at_lines(shown)
    return tuple(line for run in shown for line in _among(run, names[run], quantity, drawing, window))


def unit_of_losses(shown: tuple[ShownRun, ...]) -> str:
    """What the losses of the runs are in, such as `nats per token`."""
    return loss_unit(run.curves.objective or run.objective for run in shown)


def curves_of(run: ShownRun, quantity: Quantity) -> tuple[tuple[str, CurveData, int], ...]:
    """Name, data and colour of the curves of a quantity for one run alone."""
    curves = run.curves
    match quantity:
        case "loss":
            return (("train", curves.train_loss, 0), ("validation", curves.validation_loss, 1))
        case "rate":
            return (("rate", curves.learning_rate, 2),)
        case "norm":
            return (("norm", curves.gradient_norm, 3),)
        case "speed":
            return (("speed", curves.tokens_per_s, 4),)
        case "accuracy":
            return (("accuracy", curves.accuracy, 1),)
        case "heads":
            return (("open heads", curves.open_heads, 5),)
        case "spans":
            is_one_stack = len({head.partition(" ")[0] for head in curves.spans}) == 1
            return tuple(
                (head.partition(" ")[2] if is_one_stack else head, curve, k)
                for k, (head, curve) in enumerate(curves.spans.items())
            )
        case "pairs":
            return (("pairs", curves.next_sentence, 6),)
        case "sizes":
            return (("texts", curves.batch_texts, 5), ("tokens", curves.text_tokens, 6))


def end_of(shown: tuple[ShownRun, ...], axis: Axis) -> float:
    """The last place of any run on an axis, 0 when there is none."""
    ends = []
    for run in shown:
        for curve in (run.curves.train_loss, run.curves.validation_loss):
            places = run.axis.places(curve, axis, run.scale)
            if places is not None and len(places):
                ends.append(float(places[-1]))
    return max(ends, default=0.0)


def value_at(run: ShownRun, curve: CurveData, axis: Axis, place: float) -> float | None:
    """The value of a curve nearest to a place, None where it has none."""
    places = run.axis.places(curve, axis, run.scale)
    if places is None or not len(places):
        return None
    return float(curve.values[_nearest(places, place)])


def nearest_place(shown: tuple[ShownRun, ...], place: float, axis: Axis) -> float | None:
    """The step nearest to a place, for one run; the place itself among several, None for none."""
    if len(shown) != 1:
        return place if shown else None
    run = shown[0]
    places = run.axis.places(run.curves.train_loss, axis, run.scale)
    return float(places[_nearest(places, place)]) if places is not None and len(places) else None


def _nearest(places: Numbers1D, place: float) -> int:
    """The index of the nearest of ascending places, the first of two as near, the last one for infinity."""
    after = min(int(places.searchsorted(place)), len(places) - 1)
    before = max(0, after - 1)
    return before if place - places[before] <= places[after] - place else after


def _alone(run: ShownRun, quantity: Quantity, drawing: Drawing, window: Window) -> tuple[CurveLine, ...]:
    found: list[CurveLine] = []
    for name, curve, colour in curves_of(run, quantity):
        if not _is_wanted(name, drawing):
            continue
        places = run.axis.places(curve, drawing.axis, run.scale)
        if places is None:
            continue
        xs, ys = decimated(places, curve.values, *window)
        label = name if quantity in ("loss", "spans") else ""
        if name in NEVER_SMOOTHED or quantity == "spans" or not drawing.smoothing:
            is_validation = name == "validation"
            found.append(
                CurveLine(name=label, xs=xs, ys=ys, colour=colour, has_points=is_validation, kind=name)
            )
            continue
        found.append(CurveLine(name="", xs=xs, ys=ys, colour=colour, is_pale=True, kind=name))
        xs, ys = sampled(places, curve.smoothed(drawing.smoothing), *window)
        found.append(CurveLine(name=label, xs=xs, ys=ys, colour=colour, kind=name))
    return tuple(found)


def _among(
    run: ShownRun, label: str, quantity: Quantity, drawing: Drawing, window: Window
) -> tuple[CurveLine, ...]:
    found: list[CurveLine] = []
    sources = [s for s in curves_of(run, quantity) if _is_wanted(s[0], drawing) and len(s[1])]
    for name, curve, _ in sources:
        places = run.axis.places(curve, drawing.axis, run.scale)
        if places is None:
            continue
        is_smooth = name not in NEVER_SMOOTHED and quantity != "spans" and drawing.smoothing > 0
        cut = sampled if is_smooth else decimated
        values = curve.smoothed(drawing.smoothing) if is_smooth else curve.values
        xs, ys = cut(places, values, *window)
        is_main = name != "train" or len(sources) == 1
        found.append(
            CurveLine(
                name=label if is_main and quantity == "loss" else "",
                xs=xs,
                ys=ys,
                colour=run.colour,
                is_pale=not is_main,
                is_strong=is_main and run.is_strong,
                has_points=name == "validation",
                kind=name,
                run=run.name,
            )
        )
    return tuple(found)


def _is_wanted(name: str, drawing: Drawing) -> bool:
    if name not in ("train", "validation") or drawing.losses == "both":
        return True
    return (name == "train") == (drawing.losses == "training")


def names_at_lines(shown: tuple[ShownRun, ...]) -> dict[ShownRun, str]:
    """What stands at the lines of each run: what tells its name apart from the others', cut where long."""
    names = told_apart([run.name for run in shown])
    return {run: short(name) for run, name in zip(shown, names, strict=True)}


def short(name: str) -> str:
    """A name as it stands at a line, its middle left out where it is long."""
    if len(name) <= _MAX_NAME:
        return name
    half = (_MAX_NAME - 1) // 2
    return f"{name[:half]}…{name[-half:]}"

"""Several runs on shared axes: their curves, and loss against size, data and compute."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.codec import Caps, Codec
from attnscope.counting import raised
from attnscope.errors import LoadError
from attnscope.outside import as_object, read_json
from attnscope.paths import resources_folder
from attnscope.records import freeze
from attnscope.records.runs import RunSummary, loss_unit
from attnscope.viewmodels.training.recipe_text import without_shared_parts
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
    """One run to draw; `colour` is its index in the series' colours.

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
        """Changes with everything visible of it."""
        return (self.folder, self.colour, self.curves.version, self.is_strong)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The user's choice of how curves are drawn: `smoothing` is the factor of the running mean."""

    axis: Axis = "step"
    smoothing: float = 0.0
    losses: Losses = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveLine:
    """One line at display size; `name` is shown at its end, unless empty.

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
    """The lines of a quantity for the runs, in drawing order."""
    if len(shown) == 1:
        return _alone(shown[0], quantity, drawing, window)
    names = names_at_lines(shown)
    return tuple(line for run in shown for line in _among(run, names[run], quantity, drawing, window))


def unit_of_losses(shown: tuple[ShownRun, ...]) -> str:
    """Unit of the runs' losses, such as `nats per token`."""
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
    """The last position of any run on an axis, 0 if there is none."""
    ends = []
    for run in shown:
        for curve in (run.curves.train_loss, run.curves.validation_loss):
            places = run.axis.places(curve, axis, run.scale)
            if places is not None and len(places):
                ends.append(float(places[-1]))
    return max(ends, default=0.0)


def value_at(run: ShownRun, curve: CurveData, axis: Axis, place: float) -> float | None:
    """The value of a curve nearest to a position, None if it has none."""
    places = run.axis.places(curve, axis, run.scale)
    if places is None or not len(places):
        return None
    return float(curve.values[_nearest(places, place)])


def nearest_place(shown: tuple[ShownRun, ...], place: float, axis: Axis) -> float | None:
    """The step nearest to a position, for one run; the position itself among several, None for none."""
    if len(shown) != 1:
        return place if shown else None
    run = shown[0]
    places = run.axis.places(run.curves.train_loss, axis, run.scale)
    return float(places[_nearest(places, place)]) if places is not None and len(places) else None


def _nearest(places: Numbers1D, place: float) -> int:
    """The index of the nearest of ascending positions, the first in a tie, the last one for infinity."""
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
    """Labels at the runs' lines: the distinguishing part of each name, shortened if long."""
    names = without_shared_parts([run.name for run in shown])
    return {run: short(name) for run, name in zip(shown, names, strict=True)}


def short(name: str) -> str:
    """A name as shown at a line, its middle left out if it is long."""
    if len(name) <= _MAX_NAME:
        return name
    half = (_MAX_NAME - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


KEPT_SWEEP = "shakespeare-sizes"
"""The recipe it is of."""
SWEEPS = Codec(is_strict=True, is_sparse=True, odd="texts", caps=Caps(whole=2**53, number=math.inf))


def kept_sweep_path() -> Path:
    return resources_folder() / "sweeps" / f"{KEPT_SWEEP}.json"


def kept_sweep() -> tuple[RunSummary, ...]:
    """Its runs, the smallest first; none if the file is missing or unreadable."""
    try:
        runs = as_object(read_json(kept_sweep_path()), what="the kept sweep")["runs"]
        return SWEEPS.read(tuple[RunSummary, ...], runs)
    except (LoadError, ValueError, KeyError):
        return ()


Scale = Literal["parameters", "data", "compute"]
SCALES: tuple[Scale, ...] = ("parameters", "data", "compute")
MIN_POINTS = 3
MIN_SPREAD = 1.5
"""A line through sizes that differ by less than this factor says nothing."""
_TRUSTED_POINTS, _TRUSTED_R2 = 5, 0.9
"""With fewer points, or explaining less, a line is called weak."""
_LETTERS: dict[Scale, str] = {"parameters": "N", "data": "D", "compute": "C"}
UNITS: dict[Scale, str] = {
    "parameters": "parameters without embeddings",
    "data": "tokens read in training",
    "compute": "operations of the training (estimated)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLaw:
    """L = a · x^(−b), fitted to `n` points; `r2` is the share of the variance of log L that it explains."""

    a: float
    b: float
    n: int
    r2: float

    def at(self, xs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The predicted loss at some sizes."""
        losses: NDArray[np.float64] = self.a * xs**-self.b
        return losses

    def words(self, scale: Scale) -> str:
        """`L = 12.3 · N⁻⁰·⁰⁷⁶, R² 0.98`, and whether that is weak."""
        formula = f"L = {self.a:.3g} · {_LETTERS[scale]}{raised(f'{-self.b:.3g}')}"
        weak = f" (weak: {self.n} runs)" if self.n < _TRUSTED_POINTS else " (weak fit)"
        return f"{formula}{'' if self.is_trusted else weak}, R² {self.r2:.2f}"

    @property
    def is_trusted(self) -> bool:
        """Whether there are enough points near the line; else it is only a hint."""
        return self.n >= _TRUSTED_POINTS and self.r2 >= _TRUSTED_R2


PUBLISHED_BY = "Kaplan 2020"
PUBLISHED_WORDS = (
    f"{PUBLISHED_BY}, equations 1.1–1.3: causal models on WebText2, nats per token of its 50,257 "
    "pieces. Other texts and tokens than here: the slopes compare, the heights do not."
)
_FLOPS_OF_A_PETAFLOP_DAY = 1e15 * 24 * 3600
_PUBLISHED: dict[Scale, tuple[float, float]] = {
    "parameters": (8.8e13, 0.076),
    "data": (5.4e13, 0.095),
    "compute": (3.1e8 * _FLOPS_OF_A_PETAFLOP_DAY, 0.050),
}
"""x_c and α of L = (x_c / x)^α; the third for the least compute that reaches a loss."""


def published_law(scale: Scale) -> PowerLaw:
    """The law published by Kaplan et al. 2020 for one scale, as L = a · x^(−b)."""
    critical, exponent = _PUBLISHED[scale]
    return PowerLaw(a=critical**exponent, b=exponent, n=0, r2=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoints:
    """The converged runs on one scale: `xs` ascending, `losses`, and the law if there is one.

    `note` says why there is no law, or which runs do not count.
    """

    scale: Scale
    names: tuple[str, ...]
    xs: NDArray[np.float64]
    losses: NDArray[np.float64]
    law: PowerLaw | None
    note: str = ""

    def __post_init__(self) -> None:
        freeze(self, "xs", "losses", dtype=np.float64, rank=1)


def fit_power_law(xs: Sequence[float], losses: Sequence[float]) -> PowerLaw | None:
    """The line of least squares through the logarithms; None for too few points or too little spread.

    Equal losses have no law: each exponent but 0 is wrong, and no share of their variance can be explained.
    """
    points = [(x, y) for x, y in zip(xs, losses, strict=True) if x > 0 and y > 0 and math.isfinite(x * y)]
    sizes = {x for x, _ in points}
    if len(points) < MIN_POINTS or len(sizes) < MIN_POINTS or max(sizes) < MIN_SPREAD * min(sizes):
        return None
    if _are_equal([y for _, y in points]):
        return None
    log_x, log_y = np.log(np.array(points, np.float64)).T
    centred_x, centred_y = log_x - log_x.mean(), log_y - log_y.mean()
    slope = float(centred_x @ centred_y / (centred_x @ centred_x))
    rest = centred_y - slope * centred_x
    variance = float(centred_y @ centred_y)
    r2 = 1.0 - float(rest @ rest) / variance
    return PowerLaw(a=math.exp(log_y.mean() - slope * log_x.mean()), b=-slope, n=len(points), r2=r2)


def _are_equal(losses: Sequence[float]) -> bool:
    """Whether losses differ only by rounding."""
    return max(losses) <= min(losses) * (1 + 1e-9)


def scaling_points(runs: Sequence[RunSummary], scale: Scale) -> ScalingPoints:
    """The converged runs on one scale, and the law through them."""
    counted = [(_size(run, scale), run) for run in runs if run.is_converged]
    counted = [(x, run) for x, run in counted if math.isfinite(x) and x > 0]
    counted.sort(key=lambda pair: (pair[0], pair[1].name))
    xs, losses = [x for x, _ in counted], [run.best_loss for _, run in counted]
    law = fit_power_law(xs, losses)
    return ScalingPoints(
        scale=scale,
        names=tuple(run.name for _, run in counted),
        xs=np.array(xs, np.float64),
        losses=np.array(losses, np.float64),
        law=law,
        note=_note(xs, losses, law, len(runs) - len(counted)),
    )


def _size(run: RunSummary, scale: Scale) -> float:
    match scale:
        case "parameters":
            return float(run.n_body or run.n_parameters)
        case "data":
            return run.n_tokens
        case "compute":
            return run.flops


def _note(xs: Sequence[float], losses: Sequence[float], law: PowerLaw | None, n_left_out: int) -> str:
    parts = []
    if law is None and len(xs) < MIN_POINTS:
        parts.append(f"no line: {len(xs)} of {MIN_POINTS} runs that it needs")
    elif law is None:
        alike = "the losses are all equal" if _are_equal(losses) else "the runs are too similar"
        parts.append(f"no line: {alike}")
    if n_left_out:
        parts.append(f"{n_left_out} unfinished left out")
    return "; ".join(parts)

"""Loss against size, data and compute over several runs, and the power law through them.

    symbol   meaning
    x        parameters, tokens read, or floating-point operations
    L        held-out loss in nats, per token or per text
    a, b     L ≈ a · x^(−b), a straight line on two logarithmic axes (Kaplan et al. 2020, equations 1.1–1.3)

The line is fitted by least squares to log L over log x. Only runs that made all of their steps count: the
loss of one that was cut off says nothing about its size. Must not import Qt.
"""

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
from attnscope.paths import resources_folder
from attnscope.records.arrays import frozen_array
from attnscope.records.runs import RunSummary
from attnscope.strict_json import as_object, read_json

KEPT_SWEEP = "shakespeare-sizes"
"""The recipe it is of."""
SWEEPS = Codec(is_strict=True, is_sparse=True, odd="texts", caps=Caps(whole=2**53, number=math.inf))


def kept_sweep_path() -> Path:
    """Where it is kept."""
    return resources_folder() / "sweeps" / f"{KEPT_SWEEP}.json"


def kept_sweep() -> tuple[RunSummary, ...]:
    """Its runs, the smallest first; none where the file is missing or cannot be read."""
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
    """L = a · x^(−b), from `n` points; `r2` is the share of the variance of log L that it explains."""

    a: float
    b: float
    n: int
    r2: float

    def at(self, xs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The loss it gives at some sizes."""
        losses: NDArray[np.float64] = self.a * xs**-self.b
        return losses

    def words(self, scale: Scale) -> str:
        """`L = 12.3 · N⁻⁰·⁰⁷⁶, R² 0.98`, and whether that is weak."""
        formula = f"L = {self.a:.3g} · {_LETTERS[scale]}{raised(f'{-self.b:.3g}')}"
        weak = f" (weak: {self.n} runs)" if self.n < _TRUSTED_POINTS else " (weak fit)"
        return f"{formula}{'' if self.is_trusted else weak}, R² {self.r2:.2f}"

    @property
    def is_trusted(self) -> bool:
        """Whether there are points enough and they lie near the line; else it is no more than a hint."""
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
    """The law that Kaplan et al. 2020 published for one scale, as L = a · x^(−b)."""
    critical, exponent = _PUBLISHED[scale]
    return PowerLaw(a=critical**exponent, b=exponent, n=0, r2=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoints:
    """The converged runs on one scale: `xs` ascending, `losses`, and the law when there is one.

    `note` says why there is no law, or which runs do not count.
    """

    scale: Scale
    names: tuple[str, ...]
    xs: NDArray[np.float64]
    losses: NDArray[np.float64]
    law: PowerLaw | None
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("xs", "losses"):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=1, name=name)
            object.__setattr__(self, name, array)


def fit_power_law(xs: Sequence[float], losses: Sequence[float]) -> PowerLaw | None:
    """The line of least squares through the logarithms; None for too few points or too little spread."""
    points = [(x, y) for x, y in zip(xs, losses, strict=True) if x > 0 and y > 0 and math.isfinite(x * y)]
    sizes = {x for x, _ in points}
    if len(points) < MIN_POINTS or len(sizes) < MIN_POINTS or max(sizes) < MIN_SPREAD * min(sizes):
        return None
    log_x, log_y = np.log(np.array(points, np.float64)).T
    centred_x, centred_y = log_x - log_x.mean(), log_y - log_y.mean()
    slope = float(centred_x @ centred_y / (centred_x @ centred_x))
    rest = centred_y - slope * centred_x
    variance = float(centred_y @ centred_y)
    r2 = 1.0 - float(rest @ rest) / variance if variance > 0 else 1.0
    return PowerLaw(a=math.exp(log_y.mean() - slope * log_x.mean()), b=-slope, n=len(points), r2=r2)


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
        note=_note(xs, law, len(runs) - len(counted)),
    )


def _size(run: RunSummary, scale: Scale) -> float:
    match scale:
        case "parameters":
            return float(run.n_body or run.n_parameters)
        case "data":
            return run.n_tokens
        case "compute":
            return run.flops


def _note(xs: Sequence[float], law: PowerLaw | None, n_left_out: int) -> str:
    parts = []
    if law is None and len(xs) < MIN_POINTS:
        parts.append(f"no line: {len(xs)} of {MIN_POINTS} runs that it needs")
    elif law is None:
        parts.append("no line: the runs are too similar")
    if n_left_out:
        parts.append(f"{n_left_out} unfinished left out")
    return "; ".join(parts)

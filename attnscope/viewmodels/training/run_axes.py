"""What a run's curves are drawn against: steps, tokens read, seconds of training, or operations.

    tokens(step)   Σ tokens of each step; where they were not told, step · mean
    time(step)     Σ tokens of each step / tokens a second: the time of the steps alone
    compute(step)  tokens(step) · operations a token

Pure numpy; must not import Qt.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnscope.viewmodels.heads.curve_data import CurveData, Numbers1D
from attnscope.viewmodels.training.run_curves import RunCurves

Axis = Literal["step", "tokens", "time", "compute"]
AXES: dict[Axis, str] = {
    "step": "step",
    "tokens": "tokens read",
    "time": "seconds of training",
    "compute": "operations",
}
"""Each axis with what stands at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScale:
    """What is known of a run as a whole, NaN where it is not: for one step, and operations for one token."""

    tokens_a_step: float = math.nan
    seconds_a_step: float = math.nan
    flops_a_token: float = math.nan


UNKNOWN_SCALE = RunScale()


class RunAxis:
    """Places of a run's steps on an axis, worked out once for each change of the run.

    They are asked for curves of the run itself, which live as long as it does.
    """

    def __init__(self, curves: RunCurves) -> None:
        self.curves = curves
        self._made: tuple[object, ...] = ()
        self._steps = np.empty(0)
        self._places = np.empty(0)
        self._found: dict[int, tuple[int, Numbers1D]] = {}

    def places(self, curve: CurveData, axis: Axis, scale: RunScale = UNKNOWN_SCALE) -> Numbers1D | None:
        """Where the points of `curve` stand, ascending; None where the axis is not known for this run."""
        if axis == "step":
            return curve.steps
        made = (axis, scale, self.curves.step_tokens.version, self.curves.tokens_per_s.version)
        if made != self._made:
            self._made = made
            self._steps, self._places = self._work_out(axis, scale)
            self._found.clear()
        if not len(self._steps):
            return None
        version, places = self._found.get(id(curve), (-1, self._places))
        if version != curve.version:
            places = self._places_at(curve.steps)
            self._found[id(curve)] = (curve.version, places)
        return places

    def _places_at(self, steps: Numbers1D) -> Numbers1D:
        if steps.shape == self._steps.shape and np.array_equal(steps, self._steps):
            return self._places
        places: Numbers1D = np.interp(steps, np.append(0.0, self._steps), np.append(0.0, self._places))
        return places

    def _work_out(self, axis: Axis, scale: RunScale) -> tuple[Numbers1D, Numbers1D]:
        told, speed = self.curves.step_tokens, self.curves.tokens_per_s
        steps, tokens = told.steps.copy(), told.values
        has_all = len(told) > 0 and not told.is_thinned and bool(np.all(tokens > 0))
        match axis:
            case "time" if has_all and len(speed) == len(told) and bool(np.all(speed.values > 0)):
                return steps, np.cumsum(tokens / speed.values)
            case "time":
                return _linear(steps, scale.seconds_a_step)
            case "compute" if not math.isfinite(scale.flops_a_token):
                return _linear(steps, math.nan)
            case _:
                factor = scale.flops_a_token if axis == "compute" else 1.0
                if has_all and steps[0] <= 1:
                    return steps, np.cumsum(tokens) * factor
                mean = float(tokens.mean()) if has_all else scale.tokens_a_step
                return _linear(steps, mean * factor)


def _linear(steps: Numbers1D, a_step: float) -> tuple[Numbers1D, Numbers1D]:
    """The same for every step; nothing where that is not known."""
    if not math.isfinite(a_step) or a_step <= 0:
        return np.empty(0), np.empty(0)
    return steps, steps * a_step

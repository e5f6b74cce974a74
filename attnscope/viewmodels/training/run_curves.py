"""The curves of one training run, filled from its events: kept in order, thinned, smoothed, on any axis."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal

from attnscope.records.messages import Failed
from attnscope.records.requests import Reply
from attnscope.records.runs import (
    UPDATE_BINS,
    Evaluated,
    InspectionHistory,
    InspectionsShown,
    Numbers,
    ShowInspections,
    Started,
    Step,
    TrainingEvent,
)
from attnscope.viewmodels.query import Requests

Numbers1D = NDArray[np.float64]

CAPACITY = 2**20
"""Points kept for one curve; beyond that the whole curve is thinned, its extremes kept."""
_BLOCK = 64
_THINNED = 4


class CurveData:
    """The values of one quantity by step; later values replace earlier ones of the same step.

    Steps may come in any order and may repeat (a resumed run): what is kept is always strictly
    increasing, so a line through it never runs backwards.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = max(2 * _THINNED, capacity)
        self._steps = np.empty(0, dtype=np.float64)
        self._values = np.empty(0, dtype=np.float64)
        self._count = 0
        self._smooth = _Smoothing()
        self.version = 0
        self.is_thinned = False

    def __len__(self) -> int:
        return self._count

    @property
    def steps(self) -> Numbers1D:
        """The steps, increasing; a read-only view."""
        return self._steps[: self._count]

    @property
    def values(self) -> Numbers1D:
        """The values of the steps; a read-only view."""
        return self._values[: self._count]

    def extend(self, steps: Numbers1D, values: Numbers1D) -> None:
        """Add points; the last value for a step wins."""
        if not len(steps):
            return
        is_increasing = bool(np.all(np.diff(steps) > 0))
        if not is_increasing or (self._count and steps[0] <= self._steps[self._count - 1]):
            self._merge(steps, values)
        else:
            self._append(steps, values)
        if self._count > self._capacity:
            self._thin()
        self.version += 1

    def restart_after(self, step: float) -> None:
        """Drop the points after `step`: a new attempt continues from there."""
        kept = int(np.searchsorted(self.steps, step, side="right"))
        if kept < self._count:
            self._count = kept
            self._smooth.reset()
            self.version += 1

    def clear(self) -> None:
        """Forget everything."""
        self._count = 0
        self.is_thinned = False
        self._smooth.reset()
        self.version += 1

    def smoothed(self, factor: float) -> Numbers1D:
        """The bias-corrected running mean of the values; each call computes only what is new."""
        return self._smooth.of(self.values, factor)

    def nearest(self, step: float) -> int | None:
        """The index of the point nearest to `step`, None if there is no point."""
        if not self._count:
            return None
        after = int(np.searchsorted(self.steps, step))
        before = max(0, after - 1)
        after = min(after, self._count - 1)
        steps = self.steps
        return before if abs(steps[before] - step) <= abs(steps[after] - step) else after

    def _append(self, steps: Numbers1D, values: Numbers1D) -> None:
        wanted = self._count + len(steps)
        if wanted > len(self._steps):
            room = max(1024, 2 * wanted)
            self._steps = np.concatenate([self.steps, np.empty(room - self._count)])
            self._values = np.concatenate([self.values, np.empty(room - self._count)])
        self._steps[self._count : wanted] = steps
        self._values[self._count : wanted] = values
        self._count = wanted

    def _merge(self, steps: Numbers1D, values: Numbers1D) -> None:
        both = np.concatenate([self.steps, steps])
        order = np.argsort(both, kind="stable")
        both = both[order]
        is_last = np.append(np.diff(both) > 0, True)
        self._replace(both[is_last], np.concatenate([self.values, values])[order][is_last])

    def _thin(self) -> None:
        kept = extreme_indices(self.values, self._count // _THINNED)
        self._replace(self.steps[kept], self.values[kept])
        self.is_thinned = True

    def _replace(self, steps: Numbers1D, values: Numbers1D) -> None:
        self._count = 0
        self._append(steps.copy(), values.copy())
        self._smooth.reset()


class _Smoothing:
    """The smoothed values so far, and the two sums needed to continue."""

    def __init__(self) -> None:
        self._factor = -1.0
        self._done = np.empty(0, dtype=np.float64)
        self._count = 0
        self._sums = (0.0, 0.0)

    def reset(self) -> None:
        self._count = 0
        self._sums = (0.0, 0.0)

    def of(self, values: Numbers1D, factor: float) -> Numbers1D:
        if factor != self._factor:
            self._factor = factor
            self.reset()
        if len(values) > self._count:
            new, self._sums = running_mean(values[self._count :], factor, self._sums)
            if len(values) > len(self._done):
                self._done = np.concatenate(
                    [self._done[: self._count], np.empty(2 * len(values) - self._count)]
                )
            self._done[self._count : len(values)] = new
            self._count = len(values)
        return self._done[: self._count]


def running_mean(
    values: Numbers1D, factor: float, sums: tuple[float, float] = (0.0, 0.0)
) -> tuple[Numbers1D, tuple[float, float]]:
    """The running mean `Σ f^(t-j) x_j / Σ f^(t-j)` over j ≤ t, and the sums to continue from.

    The division by the sum of the factors is the bias correction of Kingma & Ba 2015, section 3. `factor`
    lies in 0…1; 0 returns the values. Values that are not finite are left out of both sums and stay NaN.
    """
    is_finite = np.isfinite(values)
    known = np.where(is_finite, values, 0.0)
    total, last_total = _decayed_sum(known, factor, sums[0])
    weight, last_weight = _decayed_sum(is_finite.astype(np.float64), factor, sums[1])
    means = np.full(len(values), np.nan)
    np.divide(total, weight, out=means, where=is_finite & (weight > 0))
    return means, (last_total, last_weight)


def _decayed_sum(values: Numbers1D, factor: float, start: float) -> tuple[Numbers1D, float]:
    """`s_t = factor·s_{t-1} + x_t` in blocks, so that a million points take milliseconds."""
    n_blocks = -(-len(values) // _BLOCK)
    padded = np.zeros(n_blocks * _BLOCK)
    padded[: len(values)] = values
    powers = factor ** np.arange(_BLOCK + 1, dtype=np.float64)
    ages = np.arange(_BLOCK)[:, None] - np.arange(_BLOCK)[None, :]
    decay = np.where(ages >= 0, powers[np.maximum(ages, 0)], 0.0)
    inside = padded.reshape(n_blocks, _BLOCK) @ decay.T
    carried = np.empty(n_blocks)
    carry = start
    for i, end in enumerate(inside[:, -1].tolist()):
        carried[i] = carry
        carry = end + float(powers[-1]) * carry
    sums = (inside + carried[:, None] * powers[1:]).ravel()[: len(values)]
    return sums, float(sums[-1]) if len(sums) else start


def extreme_indices(values: Numbers1D, n_buckets: int) -> NDArray[np.intp]:
    """The indices of the smallest and largest finite value of each of `n_buckets` runs, and both ends.

    A run without any finite value keeps its first index, so that a gap stays a gap.
    """
    n_points = len(values)
    size = max(1, -(-n_points // max(1, n_buckets)))
    n_full = n_points // size
    rows = values[: n_full * size].reshape(n_full, size)
    starts = np.arange(n_full) * size
    lows = highs = rows
    if not np.isfinite(np.sum(rows)):
        is_finite = np.isfinite(rows)
        lows, highs = np.where(is_finite, rows, np.inf), np.where(is_finite, rows, -np.inf)
    lowest = starts + np.argmin(lows, axis=1)
    highest = starts + np.argmax(highs, axis=1)
    is_kept = np.zeros(n_points, dtype=np.bool_)  # marking sorts: unique() hashes, five times as slow
    is_kept[lowest], is_kept[highest], is_kept[n_full * size :] = True, True, True
    is_kept[:1], is_kept[-1:] = True, True
    return np.flatnonzero(is_kept)


def decimated(
    steps: Numbers1D, values: Numbers1D, first: float, last: float, n_buckets: int
) -> tuple[Numbers1D, Numbers1D]:
    """The points to draw between two steps: all of them, or the extremes of each bucket.

    One point beyond each end is kept, so that lines run to the edge of the picture.
    """
    start = max(0, int(np.searchsorted(steps, first)) - 1)
    stop = min(len(steps), int(np.searchsorted(steps, last, side="right")) + 1)
    shown_steps, shown = steps[start:stop], values[start:stop]
    if len(shown) <= 4 * n_buckets:
        return shown_steps, shown
    kept = extreme_indices(shown, n_buckets)
    return shown_steps[kept], shown[kept]


def sampled(
    steps: Numbers1D, values: Numbers1D, first: float, last: float, n_points: int
) -> tuple[Numbers1D, Numbers1D]:
    """At most about `n_points` evenly picked points between two steps, the last always among them.

    For smoothed curves, whose neighbours are alike; use `decimated` where extremes matter.
    """
    start = max(0, int(np.searchsorted(steps, first)) - 1)
    stop = min(len(steps), int(np.searchsorted(steps, last, side="right")) + 1)
    stride = max(1, (stop - start) // max(1, n_points))
    picked = np.arange(stop - 1, start - 1, -stride)[::-1]
    if len(picked) and picked[0] != start:
        picked = np.concatenate([[start], picked])
    return steps[picked], values[picked]


class RunCurves:
    """The curves of a run so far, one for each quantity.

    Events are taken in the order of their attempts: a Started event opens an attempt, and what earlier
    attempts said about later steps is superseded by it.
    """

    def __init__(self) -> None:
        self.train_loss = CurveData()
        self.validation_loss = CurveData()
        self.accuracy = CurveData()
        self.learning_rate = CurveData()
        self.gradient_norm = CurveData()
        self.tokens_per_s = CurveData()
        self.step_tokens = CurveData()
        self.open_heads = CurveData()
        self.batch_texts = CurveData()
        self.text_tokens = CurveData()
        self.next_sentence = CurveData()
        self.spans: dict[str, CurveData] = {}
        self.resumed_at: tuple[int, ...] = ()
        self.objective = ""

    @property
    def all(self) -> tuple[CurveData, ...]:
        return (
            self.train_loss,
            self.validation_loss,
            self.accuracy,
            self.learning_rate,
            self.gradient_norm,
            self.tokens_per_s,
            self.step_tokens,
            self.open_heads,
            self.batch_texts,
            self.text_tokens,
            self.next_sentence,
            *self.spans.values(),
        )

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return sum(curve.version for curve in self.all)

    @property
    def last_step(self) -> int:
        """The largest step so far, 0 before the first."""
        lasts = [curve.steps[-1] for curve in (self.train_loss, self.validation_loss) if len(curve)]
        return int(max(lasts, default=0))

    @property
    def last_accuracy(self) -> float:
        """The newest on held-out data, NaN before the first."""
        return float(self.accuracy.values[-1]) if len(self.accuracy) else math.nan

    def clear(self) -> None:
        """Forget the run."""
        for curve in self.all:
            curve.clear()
        self.resumed_at, self.objective = (), ""

    def add(self, events: Iterable[TrainingEvent]) -> None:
        """Add events, in batches between the starts of attempts."""
        steps: list[Step] = []
        looks: list[Evaluated] = []
        for event in events:
            match event:
                case Step():
                    steps.append(event)
                case Evaluated():
                    looks.append(event)
                case Started():
                    self._flush(steps, looks)
                    steps, looks = [], []
                    self._begin_attempt(event)
                case _:
                    pass
        self._flush(steps, looks)

    def _begin_attempt(self, event: Started) -> None:
        self.objective = event.objective or self.objective
        is_resumed = event.step > 0 or self.last_step > 0
        for curve in self.all:
            curve.restart_after(event.step)
        kept = tuple(step for step in self.resumed_at if step < event.step)
        self.resumed_at = (*kept, event.step) if is_resumed and event.step > 0 else kept

    def _flush(self, steps: list[Step], looks: list[Evaluated]) -> None:
        if steps:
            table = np.array(
                [
                    (s.step, s.loss, s.learning_rate, s.gradient_norm, s.tokens_per_s, s.n_tokens)
                    for s in steps
                ],
                dtype=np.float64,
            )
            curves = (
                self.train_loss,
                self.learning_rate,
                self.gradient_norm,
                self.tokens_per_s,
                self.step_tokens,
            )
            for curve, column in zip(curves, table.T[1:], strict=True):
                curve.extend(table[:, 0], column)
        if looks:
            table = np.array([(look.step, look.loss, look.accuracy) for look in looks], dtype=np.float64)
            self.validation_loss.extend(table[:, 0], table[:, 1])
            self.accuracy.extend(table[:, 0], table[:, 2])
        heads = [(s.step, s.open_heads) for s in steps if s.open_heads is not None]
        pairs = [
            (look.step, look.next_sentence_accuracy)
            for look in looks
            if look.next_sentence_accuracy is not None
        ]
        for look in looks:
            for head, z in look.spans or ():
                self.spans.setdefault(head, CurveData()).extend(np.array([float(look.step)]), np.array([z]))
        sizes = [(s.step, s.n_texts) for s in steps if s.n_texts is not None]
        lengths = [(s.step, s.text_tokens) for s in steps if s.text_tokens is not None]
        for curve, told in (
            (self.open_heads, heads),
            (self.next_sentence, pairs),
            (self.batch_texts, sizes),
            (self.text_tokens, lengths),
        ):
            if told:
                table = np.array(told, dtype=np.float64)
                curve.extend(table[:, 0], table[:, 1])


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
    """Properties of a whole run, NaN if unknown: time of one step, and operations for one token."""

    tokens_a_step: float = math.nan
    seconds_a_step: float = math.nan
    flops_a_token: float = math.nan


UNKNOWN_SCALE = RunScale()


class RunAxis:
    """Positions of a run's steps on an axis, computed once for each change of the run.

    They are asked for curves of the run itself, which live as long as it does.
    """

    def __init__(self, curves: RunCurves) -> None:
        self.curves = curves
        self._made: tuple[object, ...] = ()
        self._steps = np.empty(0)
        self._places = np.empty(0)
        self._found: dict[int, tuple[int, Numbers1D]] = {}

    def places(self, curve: CurveData, axis: Axis, scale: RunScale = UNKNOWN_SCALE) -> Numbers1D | None:
        """Positions of the points of `curve`, ascending; None if the axis is unknown for this run."""
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
    """The same for every step; empty if unknown."""
    if not math.isfinite(a_step) or a_step <= 0:
        return np.empty(0), np.empty(0)
    return steps, steps * a_step


LIVE_EVERY_S, QUIET_EVERY_S = 0.7, 10.0
_PATIENCE_S = 30.0


class InspectionsState:
    """`history` is None if the run has none; `changed`: there is another."""

    changed = Signal()

    def __init__(
        self,
        requests: Requests,
        clock: Callable[[], float],
    ) -> None:
        self._requests, self._clock = requests, clock
        self.folder = ""
        self.history: InspectionHistory | None = None
        self._version = 0
        self._number = 0
        self._was_live = self._has_ended = False
        self._asked_at = self._answered_at = -math.inf

    def want(self, folder: str, *, is_live: bool) -> None:
        """Show this run, and check for more from time to time; called several times a second."""
        now = self._clock()
        if folder != self.folder:
            self.folder, self._number, self._answered_at = folder, 0, -math.inf
            self._was_live = self._has_ended = False
            self._show(0, None)
        self._has_ended = self._has_ended or (self._was_live and not is_live)
        self._was_live = is_live
        is_waiting = self._number != 0 and now - self._asked_at < _PATIENCE_S
        is_due = now - self._answered_at >= (LIVE_EVERY_S if is_live else QUIET_EVERY_S)
        if folder and (is_due or self._has_ended) and not is_waiting:
            self._has_ended = False
            self._number, self._asked_at = self._requests.next(), now
            self._requests.post(ShowInspections(number=self._number, folder=folder, seen=self._version))

    def handle(self, reply: Reply) -> bool:
        """Handle the reply to the last request; True if it was that."""
        match reply:
            case InspectionsShown() if reply.number and reply.number == self._number:
                if reply.history is not None or reply.version == 0:
                    self._show(reply.version, reply.history)
            case Failed() if reply.number and reply.number == self._number:
                pass
            case _:
                return False
        self._number, self._answered_at = 0, self._clock()
        return True

    def _show(self, version: int, history: InspectionHistory | None) -> None:
        if history is not self.history or version != self._version:
            self._version, self.history = version, history
            self.changed.emit()


def typical_updates(history: InspectionHistory) -> Numbers:
    """The median size of the updates at each step, [n_steps]; NaN if no weight changed.

    Within a bin sizes are taken as spread evenly by their logarithms; weights that stood still are left out.
    """
    counts = history.update_counts  # [n_bins, n_steps]
    below = np.cumsum(counts, axis=0)
    half = below[-1] / 2
    medians = np.full(len(history.steps), np.nan)
    for i in np.flatnonzero(half > 0).tolist():
        k = int(np.searchsorted(below[:, i], half[i]))
        share = (half[i] - (below[k - 1, i] if k else 0.0)) / counts[k, i]
        medians[i] = 10.0 ** (UPDATE_BINS[k] + share * (UPDATE_BINS[k + 1] - UPDATE_BINS[k]))
    return medians


def still_shares(history: InspectionHistory) -> Numbers:
    """The share of the weights in training that a step left unchanged, [n_steps]."""
    whole = history.update_counts.sum(axis=0) + history.n_still
    return np.asarray(history.n_still / np.maximum(whole, 1.0), dtype=np.float64)


def nearest_step(history: InspectionHistory, step: float) -> int:
    """The index of the nearest of the steps."""
    return int(np.argmin(np.abs(history.steps - step)))

"""What was looked at inside the steps of the chosen run: gradients by layer and sizes of updates.

Must not import Qt. Requests go out through `requests`; replies come in through `handle`.
"""

import math
from collections.abc import Callable

import numpy as np
from psygnal import Signal

from attnscope.records.messages import Failed
from attnscope.records.requests import Reply
from attnscope.records.runs import (
    UPDATE_BINS,
    InspectionHistory,
    InspectionsShown,
    Numbers,
    ShowInspections,
)
from attnscope.viewmodels.query import Requests

LIVE_EVERY_S, QUIET_EVERY_S = 0.7, 10.0
_PATIENCE_S = 30.0


class InspectionsState:
    """`history` is None where the run has none; `changed`: there is another."""

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
        """Show this run, and look for more of it from time to time; called some times a second."""
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
        """Take the answer to what was asked last; True when it was that."""
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
    """The median size of the updates at each step, [n_steps]; NaN where no weight moved.

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
    """The share of the weights in training that a step did not change at all, [n_steps]."""
    whole = history.update_counts.sum(axis=0) + history.n_still
    return np.asarray(history.n_still / np.maximum(whole, 1.0), dtype=np.float64)


def nearest_step(history: InspectionHistory, step: float) -> int:
    """The place among the steps that lies nearest to a step."""
    return int(np.argmin(np.abs(history.steps - step)))

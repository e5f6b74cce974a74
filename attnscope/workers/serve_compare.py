"""Comparing the newest traces of two views, head by head, and what both models say. No Qt.

| symbol | meaning                                              | shape                    |
|--------|------------------------------------------------------|--------------------------|
| log_p  | log-probabilities at the shown positions, after gates | [n_positions, n_answers] |
"""

import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from attnscope.errors import UserError
from attnscope.last_made import LastMade
from attnscope.models import Model
from attnscope.models.outputs import kl_nats
from attnscope.records.compare import (
    CompareTraces,
    DifferenceGrid,
    StackAlignment,
    TracesCompared,
    difference,
    levels_of,
    mean_abs_of,
    moved_of,
    on_slots,
    peak_of,
    pooled_difference,
)
from attnscope.records.messages import Progress
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef, Site
from attnscope.trace import Trace
from attnscope.workers.desk import Desk, serves

_NEWS_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewAnswer:
    """What a model said for one view, over its whole vocabulary."""

    number: int
    model: Model
    log_p: Tensor | None


class Answers:
    """The newest answer for each view that compares."""

    def __init__(self) -> None:
        self._answers: dict[str, ViewAnswer] = {}
        self._one_vocabulary: LastMade[bool] = LastMade()

    def keep(self, view: str, answer: ViewAnswer) -> None:
        """Make `answer` the newest of `view`."""
        self._answers[view] = answer

    def find(self, view: str, number: int) -> ViewAnswer | None:
        """The answer that the request `number` made, unless a newer one has taken its place."""
        found = self._answers.get(view)
        return found if found is not None and found.number == number else None

    def have_one_vocabulary(self, first: ViewAnswer, second: ViewAnswer) -> bool:
        """Whether a column means the same token, or the same label, to both models."""
        if first.log_p is None or second.log_p is None or first.log_p.shape[1] != second.log_p.shape[1]:
            return False
        if first.model is second.model:
            return True
        columns = range(first.log_p.shape[1])
        own, other = first.model.network.answer, second.model.network.answer
        return self._one_vocabulary.of(
            (weakref.ref(first.model), weakref.ref(second.model)),
            lambda: all(own(column).piece == other(column).piece for column in columns),
        )


@serves(CompareTraces)
def compare_traces(request: CompareTraces, desk: Desk) -> Iterator[Reply]:
    """Δ of every head that both traces have, with exact means; raises UserError when a trace is gone."""
    first = desk.views.find(request.first, request.first_trace)
    second = desk.views.find(request.second, request.second_trace)
    if first is None or second is None:
        raise UserError("One of the two traces is no longer available.", action="Compare them again.")
    stacks = {aligned.stack: aligned for aligned in request.stacks}
    others = {site.key: site for site in second.sites}
    keys = {s.key: (stacks[s.stack].second_stack, s.layer) for s in first.sites if s.stack in stacks}
    pairs = [(s, others[keys[s.key]]) for s in first.sites if keys.get(s.key) in others]
    grids: list[DifferenceGrid] = []
    too_long: list[HeadRef] = []
    told_s = time.monotonic()
    for k, (site, other) in enumerate(pairs):
        if time.monotonic() - told_s > _NEWS_EVERY_S:
            told_s = time.monotonic()
            yield Progress(number=request.number, what="Comparing heads", fraction=k / len(pairs))
        if first.is_long(site) or second.is_long(other):
            too_long += site.heads
            continue
        aligned = stacks[site.stack]
        grids.append(compare_site(first, second, (site, other), aligned, request.thumbnail_px))
    kl, has_one_vocabulary = _compare_answers(request, desk.kept(Answers))
    own = {head for site, other in pairs for head in site.heads[: other.n_heads]}
    known = {head for site, other in pairs for head in other.heads[: site.n_heads]}
    yield TracesCompared(
        number=request.number,
        grids=tuple(grids),
        only_first=tuple(h for site in first.sites for h in site.heads if h not in own),
        only_second=tuple(h for site in second.sites for h in site.heads if h not in known),
        kl_nats=kl,
        has_one_vocabulary=has_one_vocabulary,
        too_long=tuple(too_long),
    )


def compare_site(
    first: Trace, second: Trace, sites: tuple[Site, Site], aligned: StackAlignment, thumbnail_px: int
) -> DifferenceGrid:
    """Δ of the heads that both sites have, one head in memory at a time."""
    n_heads = min(site.n_heads for site in sites)
    thumbnails, peaks, means, moves = [], [], [], []
    for head in range(n_heads):
        delta, _ = difference(
            on_slots(first.weights(sites[0], head), aligned.queries, aligned.keys, "A"),
            on_slots(second.weights(sites[1], head), aligned.queries, aligned.keys, "B"),
        )
        peak = peak_of(delta)
        thumbnails.append(levels_of(pooled_difference(delta, (thumbnail_px, thumbnail_px)), peak))
        peaks.append(peak)
        means.append(mean_abs_of(delta))
        moves.append(moved_of(delta))
    return DifferenceGrid(
        heads=sites[0].heads[:n_heads],
        n_queries=len(aligned.queries),
        n_keys=len(aligned.keys),
        levels=np.stack(thumbnails),
        peaks=np.array(peaks),
        mean_abs=np.array(means),
        moved=np.array(moves),
    )


def _compare_answers(request: CompareTraces, answers: Answers) -> tuple[tuple[float, ...], bool]:
    """KL(A ‖ B) of each pair of answers, and whether both speak one vocabulary."""
    first = answers.find(request.first, request.first_trace)
    second = answers.find(request.second, request.second_trace)
    if first is None or second is None or not answers.have_one_vocabulary(first, second):
        return (), False
    if first.log_p is None or second.log_p is None:
        return (), False
    rows = [[pair[side] for pair in request.answers] for side in (0, 1)]
    if not request.answers:
        return (), True
    return kl_nats(first.log_p[rows[0]].cpu(), second.log_p[rows[1]].cpu()), True

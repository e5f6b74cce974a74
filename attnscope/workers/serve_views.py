"""Handles requests of the views: traces, heads in full, inside for one query and by their weights, position
tables, pictures. No Qt.

Two views are compared by their newest traces, head by head, and by what both models say.

| symbol | meaning                                              | shape                    |
|--------|------------------------------------------------------|--------------------------|
| log_p  | log-probabilities at the shown positions, after gates | [n_positions, n_answers] |
"""

import math
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from attnscope.analysis.measures import measure, measured_grids
from attnscope.analysis.one_head import look_inside, read_head_weights
from attnscope.analysis.positions import position_checks, position_tables
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.last_made import LastMade
from attnscope.models.inputs import joined_text, picture, picture_of_tokens, picture_under
from attnscope.models.model import N_CONTINUE, Look, Model
from attnscope.models.network import kl_nats
from attnscope.nn import stop_if_unwanted, tell
from attnscope.nn.long_work import is_heard
from attnscope.records.importance import PartsDone
from attnscope.records.interventions import Interventions, UseMask
from attnscope.records.maps import (
    CompareTraces,
    DifferenceGrid,
    InsideShown,
    PictureShown,
    ShowInside,
    ShowPicture,
    SiteGrid,
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
from attnscope.records.measures import ShowWeights, WeightsNews, WeightsShown
from attnscope.records.messages import (
    OPEN_MODEL,
    TRAINING_MODEL,
    PositionsShown,
    Progress,
    ShowHeads,
    ShowPositions,
    Traced,
    TraceText,
)
from attnscope.records.outputs import Comparison, Output, OutputWritten
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef, Site, SiteKey, check_heads, tokens_of_site
from attnscope.trace import Trace, load_traces
from attnscope.workers.engine import Desk, OpenModels, serves, works
from attnscope.workers.views import Views, head_maps, show_heads

_COMPARING_NEWS_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewAnswer:
    """A model's output for one view, over its whole vocabulary."""

    number: int
    model: Model
    log_p: Tensor | None


class Answers:
    """The newest answer for each view that compares."""

    def __init__(self) -> None:
        self._answers: dict[str, ViewAnswer] = {}
        self._one_vocabulary: LastMade[bool] = LastMade()

    def keep(self, view: str, answer: ViewAnswer) -> None:
        """Set the newest answer of `view`."""
        self._answers[view] = answer

    def find(self, view: str, number: int) -> ViewAnswer | None:
        """The answer of the request `number`, unless a newer one has replaced it."""
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
    """Δ of every head that both traces have, with exact means; raises UserError if a trace is gone."""
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
        if time.monotonic() - told_s > _COMPARING_NEWS_EVERY_S:
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
    """KL(A ‖ B) of each pair of answers, and whether both share one vocabulary."""
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


MAX_CONTINUED = 16_000
"""Longer texts (in characters) are not continued: each token would cost most of another pass."""


@serves(TraceText)
def trace_text(request: TraceText, desk: Desk) -> Iterator[Reply]:
    """Trace one text with and without gates and send what the window needs; then the generated text."""
    if request.model.endswith(".safetensors") and not request.view:
        yield from show_kept(request, desk.models)
        return
    models, views = desk.models, desk.views
    if request.view and not models.has(request.model):
        yield Progress(number=request.number, what=f"Opening {Path(request.model).name}")
    begin_s = time.perf_counter()
    model = models.get(request.model)
    check_heads(request.heads, model.sites)
    check_heads((head for head, _ in request.gates.values), model.sites)
    step = models.step(request.model)
    is_long = len(request.text) > MAX_CONTINUED
    if is_long:  # a place to give up before the long pass, and another one after it
        yield Progress(number=request.number, what=f"Reading {plural(len(request.text), 'character')}")
    is_shown = request.place == OPEN_MODEL and is_heard()  # in the window, as it comes
    is_target_read = not request.view or model.info.takes_target
    interventions = request.interventions if request.view else _fitting(request, model)
    look = model.look(
        request.text,
        request.target if is_target_read else None,
        request.gates,
        interventions=interventions,
        top=request.n_candidates,
        past_trained=request.past_trained and model.info.can_read_past,
        n_continue=0 if is_long else N_CONTINUE,
        keep_output=bool(request.view),
        is_writing_later=True,
        hear=LayersComing(request, model, views).hear if is_long and is_shown else None,
        hear_target=TargetComing(request, begin_s).hear if is_shown else None,
    )
    trace = look.trace
    if is_long:
        yield Progress(number=request.number, what="Measuring")
    grids, measures = measured_grids(trace, request.thumbnail_px)
    traced = _traced(
        request,
        trace,
        begin_s,
        grids=grids,
        maps=head_maps(trace, request.heads),
        measures=measures,
        comparison=look.comparison,
        step=step,
        view=request.view,
        info=model.info if request.view else None,
        picture=None if request.model == OPEN_MODEL else picture_under(model, request.text),
    )
    stop_if_unwanted()  # a trace that was given up is not to take the place of the one that is shown
    is_checkpoint = not request.view and request.model not in (OPEN_MODEL, TRAINING_MODEL)
    views.keep(request.place, trace, request.number, is_checkpoint=is_checkpoint)
    if request.view:
        desk.kept(Answers).keep(
            request.view, ViewAnswer(number=request.number, model=model, log_p=look.log_p)
        )
    yield traced
    if look.write is not None:
        yield OutputWritten(number=request.number, comparison=look.write())


def show_kept(request: TraceText, models: OpenModels) -> Iterator[Reply]:
    """Show a run's records of a watched sentence, without the model of that time."""
    begin_s = time.perf_counter()
    for trace in load_traces(request.model):
        if _is_of(trace, request):
            break
    else:
        raise UserError(
            f"{Path(request.model).name} does not have this sentence.",
            expected="a sentence that the run watched",
            action="Choose a checkpoint, which reads any sentence.",
        )
    check_heads(request.heads, trace.sites)
    said = trace.said or Output(kind="nothing", predictions=())
    yield _traced(
        request,
        trace,
        begin_s,
        grids=trace.grids(request.thumbnail_px),
        maps=head_maps(trace, request.heads),
        measures=measure(trace),
        comparison=Comparison(before=said, after=said, kl_nats=()),
        step=models.step(request.model),
        picture=picture_of_tokens(trace.source),
    )


def _traced(request: TraceText, trace: Trace, begin_s: float, **found: Any) -> Traced:
    """The answer to a request, as far as it follows from the trace, and anything else `found`."""
    return Traced(
        number=request.number,
        model=request.model,
        text=request.text,
        source=trace.source,
        target=trace.target,
        gates=trace.gates,
        interventions=trace.interventions,
        check=trace.check(),
        duration_ms=(time.perf_counter() - begin_s) * 1e3,
        **found,
    )


def _is_of(trace: Trace, request: TraceText) -> bool:
    """Whether a kept trace is of the requested texts, even two that are read as one."""
    if trace.target is None and request.target:
        return trace.source.text == joined_text(request.text, request.target)
    given = "" if trace.target is None else trace.target.text
    return trace.source.text == request.text and request.target in (None, given)


def _fitting(request: TraceText, model: Model) -> Interventions:
    """Drop a mask drawn for another number of tokens: the text has changed since."""
    masks = [change for change in request.interventions if isinstance(change, UseMask)]
    if not masks:
        return request.interventions
    past_trained = request.past_trained and model.info.can_read_past
    n_tokens = len(model.encode(request.text, request.target, past_trained=past_trained).source)
    return tuple(c for c in request.interventions if c not in masks or c.n_tokens == n_tokens)


@serves(ShowPositions)
def show_positions(request: ShowPositions, desk: Desk) -> Iterator[Reply]:
    """Compute position tables, including the open model's own if requested."""
    model = desk.model if "model" in request.names else None
    tables = position_tables(request.names, request.n_positions, request.d_model, model)
    checks = position_checks() if request.has_checks else ()
    yield PositionsShown(number=request.number, tables=tables, checks=checks)


_NEWS_EVERY_S = 1.0


class LayersComing:
    """Takes the results after each layer of a pass, keeps them for tiles, and reports them."""

    def __init__(self, request: TraceText, model: Model, views: Views) -> None:
        self._request, self._model, self._views = request, model, views
        self._begin_s, self._told_s = time.perf_counter(), -math.inf
        self._grids: dict[SiteKey, SiteGrid] = {}

    def hear(self, trace: Trace) -> None:
        """Handle another layer; `trace` holds those known."""
        n_known, n_all, now_s = len(trace.sites), len(self._model.sites), time.perf_counter()
        is_last = n_known >= n_all  # the maps of all layers come before heads are measured
        left_s = (now_s - self._begin_s) / n_known * (n_all - n_known)
        what = "Measuring" if is_last else f"layer {n_known} of {n_all}, about {max(1, round(left_s))} s left"
        tell(Progress(number=self._request.number, what=what, fraction=n_known / n_all))
        if is_last or now_s - self._told_s >= _NEWS_EVERY_S:
            self._told_s = now_s
            self._views.keep_part(self._request.place, trace, self._request.number)
            tell(self._traced(trace))

    def _traced(self, trace: Trace) -> Traced:
        request, model = self._request, self._model
        for site in trace.sites:
            if site.key not in self._grids:
                self._grids[site.key] = trace.grid_at_once(site, request.thumbnail_px)
        silent = Output(kind=model.network.output_kind, predictions=())
        return _traced(
            request,
            trace,
            self._begin_s,
            grids=tuple(self._grids.get(s.key) or self._empty_grid(s, trace) for s in model.sites),
            maps=(),
            measures=(),
            comparison=Comparison(before=silent, after=silent, kl_nats=(), is_writing=True),
            known=frozenset(site.key for site in trace.sites),
        )

    def _empty_grid(self, site: Site, trace: Trace) -> SiteGrid:
        n_queries, n_keys = (len(tokens) for tokens in tokens_of_site(site, trace.source, trace.target))
        most = self._request.thumbnail_px
        levels = np.zeros((site.n_heads, min(n_queries, most), min(n_keys, most)), np.uint8)
        peaks = np.zeros(site.n_heads, np.float32)
        return SiteGrid(site=site, n_queries=n_queries, n_keys=n_keys, levels=levels, peaks=peaks)


_PART_AFTER_S, _NEXT_PART_AFTER_S = 0.03, 0.5
"""Quicker translations come at once, whole; each part shown costs as much as some of its tokens."""


class TargetComing:
    """Shows the part of its own target that a model has generated, if that takes long, in the window."""

    def __init__(self, request: TraceText, begin_s: float) -> None:
        self._request, self._begin_s = request, begin_s
        self._due_s = begin_s + _PART_AFTER_S

    def hear(self, look: Callable[[], Look]) -> None:
        """Handle more of the target; `look` shows it."""
        if time.perf_counter() < self._due_s:
            return
        part = look()
        if not any(part.trace.is_long(site) for site in part.trace.sites):  # tiles are of whole traces
            traced = self._traced(part)
            stop_if_unwanted()
            tell(traced)
        self._due_s = time.perf_counter() + _NEXT_PART_AFTER_S

    def _traced(self, part: Look) -> Traced:
        request, trace = self._request, part.trace
        return _traced(
            request,
            trace,
            self._begin_s,
            grids=trace.grids(request.thumbnail_px),
            maps=head_maps(trace, request.heads),
            measures=(),
            comparison=part.comparison,
            is_target_whole=False,
        )


@serves(ShowPicture)
def show_picture(request: ShowPicture, desk: Desk) -> Iterator[Reply]:
    seen = picture(desk.model, request.text)
    yield PictureShown(number=request.number, picture=seen)


@serves(ShowHeads)
def show_heads_here(request: ShowHeads, desk: Desk) -> Iterator[Reply]:
    """Show heads of the newest trace in full."""
    return show_heads(request, desk.views)


class LastInside:
    """The trace of the site last inspected; it does not keep a closed model alive."""

    def __init__(self) -> None:
        self._trace: LastMade[Trace] = LastMade()

    def trace(self, model: Model, request: ShowInside) -> Trace:
        """The site's trace with its values, from a new pass only if something else is requested."""
        asked = (
            request.head.site_key,
            request.text,
            request.target,
            request.gates,
            request.interventions,
            request.past_trained,
        )
        return self._trace.of(
            (weakref.ref(model), asked),
            lambda: model.trace_site(
                request.head.site_key,
                request.text,
                request.target,
                request.gates,
                interventions=request.interventions,
                past_trained=request.past_trained and model.info.can_read_past,
            ),
        )


@serves(ShowInside)
def show_inside(request: ShowInside, desk: Desk) -> Iterator[Reply]:
    """Show one head on one query, number by number."""
    trace = desk.kept(LastInside).trace(desk.model, request)
    yield InsideShown(number=request.number, inside=look_inside(trace, request.head, request.query))


@works(ShowWeights)
def show_weights(request: ShowWeights, desk: Desk) -> Generator[Reply, None, None]:
    """Show one head: the singular values of both products, then the token pairs of each."""
    model = desk.model
    yield WeightsNews(number=request.number, n_done=0, n_total=0)
    for found in read_head_weights(model, request.head, request.top):
        if isinstance(found, PartsDone):
            yield WeightsNews(
                number=request.number, n_done=found.n_done, n_total=found.n_total, about=found.about
            )
        else:
            yield WeightsShown(number=request.number, found=found)

"""Answering what the window looks at: traces, heads, position tables. No Qt."""

import time
from collections.abc import Iterator

from attnscope.analysis.measures import measure
from attnscope.analysis.positions import position_tables
from attnscope.records.messages import (
    OPEN_MODEL,
    HeadsShown,
    PositionsShown,
    Reply,
    ShowHeads,
    ShowPositions,
    Traced,
    TraceText,
)
from attnscope.records.sites import check_heads
from attnscope.workers.serve_models import OpenModels
from attnscope.workers.views import Views, head_maps


def trace_text(request: TraceText, models: OpenModels, views: Views) -> Iterator[Reply]:
    """Trace one text with and without gates and show what the window needs of it."""
    begin_s = time.perf_counter()
    model = models.get(request.model)
    check_heads(request.heads, model.sites)
    check_heads((head for head, _ in request.gates.values), model.sites)
    step = models.step(request.model)
    look = model.look(request.text, request.target, request.gates, request.n_candidates)
    trace = look.trace
    grids = tuple(trace.grid(site, request.thumbnail_px) for site in trace.sites)
    traced = Traced(
        number=request.number,
        model=request.model,
        text=request.text,
        source=trace.source,
        target=trace.target,
        gates=request.gates,
        grids=grids,
        maps=head_maps(trace, request.heads),
        measures=measure(trace),
        comparison=look.comparison,
        check=trace.check(),
        duration_ms=(time.perf_counter() - begin_s) * 1e3,
        step=step,
    )
    views.keep(request.model, trace)
    yield traced


def show_heads(request: ShowHeads, views: Views) -> Iterator[Reply]:
    """Show heads of the newest trace in full."""
    maps = views.head_maps(request.model, request.heads)
    yield HeadsShown(number=request.number, model=request.model, maps=maps)


def show_positions(request: ShowPositions, models: OpenModels) -> Iterator[Reply]:
    """Compute position tables, the open model's own among them when it is asked for."""
    model = models.get(OPEN_MODEL) if "model" in request.names else None
    tables = position_tables(request.names, request.n_positions, request.d_model, model)
    yield PositionsShown(number=request.number, tables=tables)

"""Letting the open model write, token by token, and showing the whole of it. No Qt."""

import time
from collections.abc import Iterator

from attnscope.analysis.measures import measure
from attnscope.models import Model
from attnscope.models.writing.written import Written, compare_written
from attnscope.records.messages import Traced
from attnscope.records.outputs import WRITTEN_TRACE, TextWritten, WriteText, WritingNews
from attnscope.records.requests import Reply
from attnscope.records.sites import check_heads
from attnscope.workers.desk import Desk, serves
from attnscope.workers.mailbox import MAX_PER_S, RateLimit
from attnscope.workers.views import head_maps

THUMBNAIL_PX = 96


@serves(WriteText)
def answer_writing(request: WriteText, desk: Desk) -> Iterator[Reply]:
    """Write and tell the news; at the end trace and text. It can be given up every 50 ms, or every token."""
    model = desk.model
    check_heads(request.heads, model.sites)
    check_heads((head for head, _ in request.gates.values), model.sites)
    limit = RateLimit(MAX_PER_S)
    steps = model.writing(request.text, request.settings, request.gates, prefix=request.prefix)
    n_most = request.settings.max_tokens
    while True:
        try:
            so_far = next(steps)
        except StopIteration as stop:
            written: Written = stop.value
            break
        if limit.take():
            yield WritingNews(
                number=request.number, tokens=so_far.tokens, whole=so_far.whole(), n_most=n_most
            )
    traced = _traced(request, model, written)
    desk.views.keep(WRITTEN_TRACE, written.trace, request.number)
    yield traced
    yield TextWritten(number=request.number, written=written.text, gates=request.gates)


def _traced(request: WriteText, model: Model, written: Written) -> Traced:
    begin_s = time.perf_counter()
    trace = written.trace
    return Traced(
        number=request.number,
        model=WRITTEN_TRACE,
        text=(trace.source if trace.target is None else trace.target).text,
        source=trace.source,
        target=trace.target,
        gates=request.gates,
        grids=tuple(trace.grid(site, THUMBNAIL_PX) for site in trace.sites),
        maps=head_maps(trace, request.heads),
        measures=measure(trace),
        comparison=compare_written(model.network, written),
        check=trace.check(),
        duration_ms=(time.perf_counter() - begin_s) * 1e3,
    )

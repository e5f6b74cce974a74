"""Answering what single heads do: shown in full, inside for one query, and by their weights. No Qt."""

import weakref
from collections.abc import Generator, Iterator

from attnscope.analysis.inside import look_inside
from attnscope.analysis.weight_parts import read_head_weights
from attnscope.last_made import LastMade
from attnscope.models import Model
from attnscope.records.importance import PartsDone
from attnscope.records.inside import InsideShown, ShowInside
from attnscope.records.messages import ShowHeads
from attnscope.records.redundancy import ShowWeights, WeightsNews, WeightsShown
from attnscope.records.requests import Reply
from attnscope.trace.trace import Trace
from attnscope.workers.desk import Desk, serves, works
from attnscope.workers.views import show_heads


@serves(ShowHeads)
def show_heads_here(request: ShowHeads, desk: Desk) -> Iterator[Reply]:
    """Show heads of the newest trace in full."""
    return show_heads(request, desk.views)


class LastInside:
    """The trace of the site that was looked into last; a model that is gone is not held by it."""

    def __init__(self) -> None:
        self._trace: LastMade[Trace] = LastMade()

    def trace(self, model: Model, request: ShowInside) -> Trace:
        """The site's trace with its values, from a new pass only when something else is asked for."""
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
    """One head on one query, number by number."""
    trace = desk.kept(LastInside).trace(desk.model, request)
    yield InsideShown(number=request.number, inside=look_inside(trace, request.head, request.query))


@works(ShowWeights)
def show_weights(request: ShowWeights, desk: Desk) -> Generator[Reply, None, None]:
    """One head: the singular values of both products, then the token pairs of each."""
    return _read(request, desk.model)


def _read(request: ShowWeights, model: Model) -> Generator[Reply, None, None]:
    yield WeightsNews(number=request.number, n_done=0, n_total=0)
    for found in read_head_weights(model, request.head, request.top):
        if isinstance(found, PartsDone):
            yield WeightsNews(
                number=request.number, n_done=found.n_done, n_total=found.n_total, about=found.about
            )
        else:
            yield WeightsShown(number=request.number, found=found)

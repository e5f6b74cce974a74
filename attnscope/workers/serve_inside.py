"""Answering what one head does inside, for one query. No Qt.

Walking from query to query asks for one site again and again: the last pass is kept, values and all, and
nothing else of it.
"""

import weakref
from collections.abc import Iterator

from attnscope.analysis.inside import look_inside
from attnscope.models import Model
from attnscope.records.inside import InsideShown, ShowInside
from attnscope.records.requests import Reply
from attnscope.trace.trace import Trace
from attnscope.workers.desk import Desk, serves


class LastInside:
    """The trace of the site that was looked into last; a model that is gone is not held by it."""

    def __init__(self) -> None:
        self._model: weakref.ref[Model] | None = None
        self._asked: object = None
        self._trace: Trace | None = None

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
        is_same = self._model is not None and self._model() is model and asked == self._asked
        if self._trace is None or not is_same:
            self._trace = None  # two at a time are not needed
            self._trace = model.trace_site(
                request.head.site_key,
                request.text,
                request.target,
                request.gates,
                interventions=request.interventions,
                past_trained=request.past_trained and model.info.can_read_past,
            )
            self._model, self._asked = weakref.ref(model), asked
        return self._trace


@serves(ShowInside)
def show_inside(request: ShowInside, desk: Desk) -> Iterator[Reply]:
    """One head on one query, number by number."""
    trace = desk.kept(LastInside).trace(desk.model, request)
    yield InsideShown(number=request.number, inside=look_inside(trace, request.head, request.query))

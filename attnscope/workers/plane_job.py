"""Laying heads out by how alike they attend, in the background. No Qt."""

import time
from collections.abc import Callable, Generator

from attnscope.analysis.redundancy import HeadDivergences, head_plane, plane_of
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records.importance import Progress
from attnscope.records.messages import OPEN_MODEL
from attnscope.records.redundancy import CompareHeads, ComparingNews, HeadsCompared
from attnscope.workers.curves_job import read_samples
from attnscope.workers.mailbox import MAX_PER_S, RateLimit
from attnscope.workers.views import Views

MAX_SHOWN = 512
"""Most tokens of a text that is compared alone: all maps of a stack are held at once."""
MIN_HEADS = 3


class PlaneJob:
    """One pass over texts, or over the trace that is shown."""

    def __init__(
        self,
        request: CompareHeads,
        model: Model,
        views: Views,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = request.number
        self.is_active = True
        self._model, self._views = model, views
        self._limit = RateLimit(MAX_PER_S, clock)
        self._steps = self._run(request)

    def advance(self) -> ComparingNews | HeadsCompared | None:
        """Do one piece of work; returns what is to be told now. What the pass raises ends the job."""
        try:
            news = next(self._steps, None)
        except BaseException:
            self.is_active = False
            raise
        if not isinstance(news, ComparingNews):
            self.is_active = False
            return news
        return news if self._limit.take() else None

    def stop(self) -> None:
        """Give the pass up."""
        self._steps.close()
        self.is_active = False

    def _run(self, request: CompareHeads) -> Generator[ComparingNews | HeadsCompared, None, None]:
        yield ComparingNews(number=self.number, n_done=0, n_total=0)
        if request.source == "shown":
            yield self._shown(request)
            return
        samples, name = read_samples(self._model, request.source, request.path, request.max_texts)
        for found in head_plane(self._model, samples, request.stack):
            if isinstance(found, Progress):
                yield ComparingNews(number=self.number, n_done=found.n_done, n_total=found.n_total)
            else:
                yield HeadsCompared(number=self.number, plane=found, texts=name)

    def _shown(self, request: CompareHeads) -> HeadsCompared:
        trace = self._views.find(OPEN_MODEL, request.trace)
        if trace is None:
            raise UserError("The text has changed meanwhile.", action="Compare again.")
        sites = [site for site in trace.sites if site.stack == request.stack]
        heads = [head for site in sites for head in site.heads]
        longest = max((len(part) for site in sites for part in trace.tokens(site)), default=0)
        if len(heads) < MIN_HEADS or longest > MAX_SHOWN:
            raise UserError(
                f"These are {len(heads)} heads on {longest} tokens.",
                expected=f"at least {MIN_HEADS} heads and at most {MAX_SHOWN} tokens",
                action="Choose another stack, or several shorter texts.",
            )
        sums = HeadDivergences(heads)
        sums.add(trace, request.stack)
        return HeadsCompared(
            number=self.number, plane=plane_of(sums, request.stack), texts="the text that is shown"
        )

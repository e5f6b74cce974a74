"""Showing the layers of a long text as they come, while its pass goes on. No Qt."""

import math
import time

import numpy as np

from attnscope.models import Model
from attnscope.nn.telling import tell
from attnscope.records.axes import tokens_of_site
from attnscope.records.maps import SiteGrid
from attnscope.records.messages import Progress, Traced, TraceText
from attnscope.records.outputs import Comparison, Output
from attnscope.records.sites import Site, SiteKey
from attnscope.trace.trace import Trace
from attnscope.workers.views import Views

_NEWS_EVERY_S = 1.0


class LayersComing:
    """Takes what is known after each layer of one pass, keeps it for tiles, and tells the window."""

    def __init__(self, request: TraceText, model: Model, views: Views) -> None:
        self._request, self._model, self._views = request, model, views
        self._begin_s, self._told_s = time.monotonic(), -math.inf
        self._grids: dict[SiteKey, SiteGrid] = {}

    def hear(self, trace: Trace) -> None:
        """One layer more is known; `trace` holds those that are."""
        n_known, n_all, now_s = len(trace.sites), len(self._model.sites), time.monotonic()
        if n_known >= n_all:
            tell(Progress(number=self._request.number, what="Measuring", fraction=1.0))
            return
        left_s = (now_s - self._begin_s) / n_known * (n_all - n_known)
        what = f"layer {n_known} of {n_all}, about {max(1, round(left_s))} s left"
        tell(Progress(number=self._request.number, what=what, fraction=n_known / n_all))
        if now_s - self._told_s >= _NEWS_EVERY_S:
            self._told_s = now_s
            self._views.keep_part(self._request.place, trace, self._request.number)
            tell(self._traced(trace))

    def _traced(self, trace: Trace) -> Traced:
        request, model = self._request, self._model
        for site in trace.sites:
            if site.key not in self._grids:
                self._grids[site.key] = trace.grid_at_once(site, request.thumbnail_px)
        silent = Output(kind=model.network.output_kind, predictions=())
        return Traced(
            number=request.number,
            model=request.model,
            text=request.text,
            source=trace.source,
            target=trace.target,
            gates=request.gates,
            grids=tuple(self._grids.get(s.key) or self._empty_grid(s, trace) for s in model.sites),
            maps=(),
            measures=(),
            comparison=Comparison(before=silent, after=silent, kl_nats=(), is_writing=True),
            check=trace.check(),
            duration_ms=(time.monotonic() - self._begin_s) * 1e3,
            interventions=trace.interventions,
            known=frozenset(site.key for site in trace.sites),
        )

    def _empty_grid(self, site: Site, trace: Trace) -> SiteGrid:
        n_queries, n_keys = (len(tokens) for tokens in tokens_of_site(site, trace.source, trace.target))
        most = self._request.thumbnail_px
        levels = np.zeros((site.n_heads, min(n_queries, most), min(n_keys, most)), np.uint8)
        peaks = np.zeros(site.n_heads, np.float32)
        return SiteGrid(site=site, n_queries=n_queries, n_keys=n_keys, levels=levels, peaks=peaks)

"""What a tour's numbers are read from: the states, and the tokens its step names. Must not import Qt."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attnscope.records.inside import HeadInside
from attnscope.records.maps import HeadMap, HeadMeasures
from attnscope.viewmodels.tours.states import TourStates, token_place


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The states, and the tokens that the step looks at by name."""

    states: TourStates
    query: str | None = None
    key: str | None = None

    @property
    def map(self) -> HeadMap | None:
        """The head shown large."""
        return self.states.shown_map

    @property
    def inside(self) -> HeadInside | None:
        """The numbers inside the head, while they are looked at and of the head that is selected."""
        state = self.states.inside
        found = state.inside
        is_of_head = found is not None and found.head == self.states.session.primary
        return found if is_of_head and not state.is_busy and self.states.view.view == "inside" else None

    @property
    def n_heads(self) -> int:
        """The heads beside the one shown large, with it; 0 while there is none."""
        model, head = self.states.session.model, self.states.session.primary
        sites = model.sites if model is not None and head is not None else ()
        return next((site.n_heads for site in sites if head is not None and site.key == head.site_key), 0)

    @property
    def row(self) -> int | None:
        """The query: the one looked into, or the one the step names."""
        if self.inside is not None:
            return self.inside.query
        return token_place(self.map.queries, self.query) if self.map else None

    @property
    def column(self) -> int | None:
        """The key: the one pointed at inside the head, the one the step names, or the strongest."""
        if self.inside is not None:
            row = self.states.inside.row
            return self.inside.keys[row] if row is not None else None
        if self.map is None:
            return None
        return token_place(self.map.keys, self.key) if self.key else self.strongest

    @property
    def weights(self) -> "np.ndarray[tuple[int], np.dtype[np.float32]] | None":
        """The weights of the query, NaN where the mask forbids."""
        return None if self.map is None or self.row is None else self.map.weights[self.row]

    @property
    def strongest(self) -> int | None:
        """The key that gets most of the query's weight, among those that are shown."""
        weights = self.weights
        seen = np.where(np.isfinite(weights), weights, -1.0) if weights is not None else np.empty(0)
        return int(seen.argmax()) if seen.size else None

    @property
    def measures(self) -> HeadMeasures | None:
        """What the head shown large did on this text."""
        session = self.states.session
        found = (m for m in session.measures if m.head == session.primary)
        return None if session.is_stale else next(found, None)


Read = Callable[[Spot], str | None]
"""Gives a number in words; None while it is not there."""

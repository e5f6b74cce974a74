"""The maps and thumbnails of the newest trace as the aspect shows them, each made once; which those are."""

import dataclasses
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.messages import HeadsShown, ShowHeads, Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import HeadRef, Site, tokens_of_site
from attnscope.records.tiles import is_long
from attnscope.records.tokens import Token, Tokens
from attnscope.viewmodels.maps.aspect import (
    MAX_BLENDED_CELLS,
    Aspect,
    blended_heads,
    grid_through,
    map_through,
    words_of_tokens,
)
from attnscope.viewmodels.query import Requests

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session

_N_KEPT = 64


class HeadMaps:
    """Fetches the maps of heads and keeps what was made of them, so that none is made twice.

    `raw` are the maps as the worker sent them.
    """

    raw: tuple[HeadMap, ...] = ()
    number: int = 0
    """Of the request for the maps that were asked for last."""

    def __init__(self, session: "Session", requests: Requests) -> None:
        self._session, self._requests = session, requests
        self._made: OrderedDict[Hashable, tuple[object, object]] = OrderedDict()

    @property
    def blended(self) -> tuple[HeadRef, ...]:
        """The heads of the shown map: the one selected last, or those the aspect makes one of."""
        now = self._session
        return heads_to_blend(now.aspect, now.selection, now.model, now.traced, now.text)

    @property
    def wanted(self) -> tuple[HeadRef, ...]:
        """The heads to be sent in full: the selected ones, and all of a blend."""
        return tuple(dict.fromkeys((*self._session.selection, *self.blended)))

    @property
    def shown(self) -> tuple[HeadMap, ...]:
        """The maps of the selected heads through the aspect; a blend of them once."""
        return distinct(map(self.of, self._session.selection))

    def of(self, head: HeadRef | None) -> HeadMap | None:
        """The map of `head` through the aspect; a blend of heads stands for each of them.

        None while one of the maps it is made of has not come.
        """
        aspect, heads = self._session.aspect, self.blended
        found = {m.head: m for m in self.raw}
        own = found.get(head) if head else None
        is_called_anew = own is not None and own.following is not None and aspect.rows == "written"
        if own is None or not (aspect.changes_maps or is_called_anew):
            return own
        is_blend = aspect.blend != "none" and len(heads) > 1 and own.head in heads
        names = (*(h for h in heads if h != heads[-1]), heads[-1]) if is_blend else (own.head,)
        if any(name not in found for name in names):
            return None
        sources = tuple(found[name] for name in names)
        way = aspect if is_blend else dataclasses.replace(aspect, blend="none")
        key = ("map", way, tuple(map(id, sources)))
        if key not in self._made:
            self._keep(key, sources, map_through(way, sources))
        made = self._made[key][1]
        return made if isinstance(made, HeadMap) else None

    def grid(self, grid: SiteGrid) -> SiteGrid:
        """The thumbnails of a site of the trace that is shown through the aspect."""
        aspect, traced = self._session.aspect, self._session.traced
        if traced is None or not aspect.leaves_out:
            return grid
        key = ("grid", aspect.hidden, aspect.block, aspect.is_renormalised, id(grid))
        if key not in self._made:
            self._keep(key, grid, grid_through(aspect, grid, *sides_of_site(grid.site, traced)))
        made = self._made[key][1]
        return made if isinstance(made, SiteGrid) else grid

    def take_all(self, maps: tuple[HeadMap, ...]) -> None:
        """The maps of another trace, or none."""
        self.raw = maps
        self._made.clear()

    def fetch(self) -> None:
        """Ask for what is wanted and not there."""
        traced, wanted = self._session.traced, self.wanted
        if traced and not {m.head for m in self.raw}.issuperset(wanted):
            self.number = self._requests.send(
                ShowHeads(heads=wanted, model=traced.model, trace=traced.number)
            )

    def take(self, reply: HeadsShown, traced: Traced | None) -> None:
        """Take maps that were asked for; those of an older trace than `traced` change nothing."""
        if reply.number != self.number or traced is None or reply.trace not in (0, traced.number):
            return  # the last: from a thread that did not know yet
        kept = tuple(m for m in self.raw if m.head not in {new.head for new in reply.maps})
        self.raw = kept + reply.maps
        self._session.changed.heads.emit()

    def _keep(self, key: Hashable, sources: object, made: object) -> None:
        self._made[key] = (sources, made)
        while len(self._made) > _N_KEPT:
            self._made.popitem(last=False)


def heads_to_blend(
    aspect: Aspect, selection: tuple[HeadRef, ...], model: ModelInfo | None, traced: Traced | None, text: str
) -> tuple[HeadRef, ...]:
    """The heads of the shown blend; only the head selected last where the maps would be too large."""
    heads = blended_heads(aspect, selection, model.sites if model else ())
    if traced and traced.text == text:
        n_tokens = max(len(traced.source), len(traced.target or ()))
    else:
        n_tokens = min(len(text) + 2, model.max_tokens if model else 0)  # at most, while nobody has counted
    is_small = len(heads) * n_tokens**2 <= MAX_BLENDED_CELLS and not is_long(n_tokens, n_tokens)
    return heads if is_small else selection[-1:]


def distinct(maps: Iterable[HeadMap | None]) -> tuple[HeadMap, ...]:
    """The maps there are, each once: a blend stands for several heads."""
    found: list[HeadMap] = []
    for head_map in maps:
        if head_map is not None and not any(head_map is other for other in found):
            found.append(head_map)
    return tuple(found)


def sides_of_site(site: Site, traced: Traced) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """The tokens at the rows and at the columns of a site."""
    return tokens_of_site(site, traced.source, traced.target)


def site_keys(site: Site, traced: Traced) -> tuple[Token, ...]:
    """The tokens at the columns of a site."""
    return sides_of_site(site, traced)[1]


def shown_tokens(tokens: Tokens, aspect: Aspect) -> tuple[Token, ...]:
    """The tokens as the maps name them: words, or pieces; the maps of long texts have pieces."""
    is_by_word = aspect.is_by_word and not is_long(len(tokens), len(tokens))
    return words_of_tokens(tokens.tokens) if is_by_word else tokens.tokens


def with_room(grid: SiteGrid, n_queries: int, n_keys: int) -> SiteGrid:
    """The thumbnails of a target that is still being written, with no data where rows are to come.

    Of decoder self-attention the columns come with the rows. Thumbnails of fewer cells than their map stay.
    """
    more_rows = max(0, n_queries - grid.n_queries)
    more_columns = max(0, n_keys - grid.n_keys) if grid.site.stack == "decoder" else 0
    if grid.is_pooled or grid.site.stack == "encoder" or not (more_rows or more_columns):
        return grid
    room = ((0, 0), (0, more_rows), (0, more_columns))
    return replace(
        grid,
        n_queries=grid.n_queries + more_rows,
        n_keys=grid.n_keys + more_columns,
        levels=np.pad(grid.levels, room),
        left_out=None if grid.left_out is None else np.pad(grid.left_out, room),
    )


def with_grid(traced: Traced, grid: SiteGrid) -> Traced:
    """The same trace with better thumbnails of one site."""
    grids = tuple(grid if old.site == grid.site else old for old in traced.grids)
    return replace(traced, grids=grids)

"""The maps and thumbnails of the newest trace as the aspect shows them, each made once."""

import dataclasses
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import replace

import numpy as np

from attnscope.records.axes import tokens_of_site
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import HeadRef, Site
from attnscope.records.tiles import is_long
from attnscope.records.tokens import Token, Tokens
from attnscope.viewmodels.maps.aggregation import MAX_BLENDED_CELLS, grid_through, map_through
from attnscope.viewmodels.maps.aspect import Aspect, blended_heads
from attnscope.viewmodels.maps.word_map import words_of_tokens

_N_KEPT = 64


class ShownMaps:
    """Keeps what was made of the maps that came, and the maps themselves, so that none is made twice."""

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, tuple[object, object]] = OrderedDict()

    def map_of(
        self, head: HeadRef | None, maps: Iterable[HeadMap], aspect: Aspect, heads: tuple[HeadRef, ...]
    ) -> HeadMap | None:
        """The map of `head` through `aspect`; a blend of `heads` stands for each of them.

        None while one of the maps it is made of has not come.
        """
        found = {m.head: m for m in maps}
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

    def grid(
        self, grid: SiteGrid, aspect: Aspect, sides: tuple[tuple[Token, ...], tuple[Token, ...]]
    ) -> SiteGrid:
        """The thumbnails of a site through `aspect`."""
        if not aspect.leaves_out:
            return grid
        key = ("grid", aspect.hidden, aspect.block, aspect.is_renormalised, id(grid))
        if key not in self._made:
            self._keep(key, grid, grid_through(aspect, grid, *sides))
        made = self._made[key][1]
        return made if isinstance(made, SiteGrid) else grid

    def clear(self) -> None:
        """Forget everything: other maps have come."""
        self._made.clear()

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

"""What is wanted of a trace to draw it, and the maps and thumbnails that it gives."""

from dataclasses import dataclass, field
from typing import Protocol

from attnscope.errors import UserError
from attnscope.figures.paint_tiles import MapPart
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.sites import Gates, HeadName, HeadRef, Rows, Site, Stack, row_labels, written_after
from attnscope.records.tiles import MapTile, is_long
from attnscope.records.tokens import Token, Tokens
from attnscope.viewmodels.maps.aggregation import grid_through, map_through
from attnscope.viewmodels.maps.alignment import Way
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect, blended_heads


class DrawnTrace(Protocol):
    """What a trace must offer to be drawn."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of the model, in order."""

    @property
    def target(self) -> Tokens | None:
        """The second text, where there is one."""

    @property
    def gates(self) -> Gates:
        """The gates the trace was made with."""

    @property
    def interventions(self) -> Interventions:
        """The changes of single heads it was made with."""

    def tokens(self, site: Site) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The query tokens and the key tokens of a site."""

    def grid(self, site: Site, max_px: int = 96) -> SiteGrid:
        """All heads of a site as thumbnails."""

    def head_map(self, head: HeadRef) -> HeadMap:
        """One head in full."""

    def head_tile(self, head: HeadRef) -> MapTile:
        """The whole map of one head of any length, in blocks of cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSide:
    """What a head is compared with: `head` of another trace, None the same one; `names` are of both sides."""

    trace: DrawnTrace | None = None
    head: HeadName | None = None
    names: tuple[str, str] = ("A", "B")
    align: Way = "pairs"
    delta_end: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of a trace is to be drawn: `heads` or a `stack`, through an aspect.

    `also` are panels beside those of heads, in `columns`. What is `from_file` may have more panels than are
    put on a page otherwise.
    """

    trace: DrawnTrace
    heads: tuple[HeadRef, ...] = ()
    stack: Stack | None = None
    aspect: Aspect = PLAIN
    also: tuple[str, ...] = ()
    columns: int = 0
    from_file: bool = False
    other: OtherSide = field(default_factory=OtherSide)

    @property
    def head(self) -> HeadRef:
        """The first head that is wanted, or that there is."""
        return (self.heads or self.sites(self.stack)[0].heads)[0]

    def sites(self, stack: Stack | None) -> tuple[Site, ...]:
        """The sites of a stack, of all without one; raises UserError where there is no such stack."""
        sites = tuple(site for site in self.trace.sites if stack is None or site.stack == stack)
        if not sites:
            known = ", ".join(dict.fromkeys(site.stack for site in self.trace.sites))
            raise UserError(
                f"The model has no stack '{stack}'.", expected=known, action="Choose one of these stacks."
            )
        return sites

    def maps(self) -> tuple[HeadMap, ...]:
        """The maps of the heads as the aspect shows them: one when they are blended."""
        heads = self.heads or self.sites(self.stack)[0].heads[:1]
        aspect, trace = self.aspect, self.trace
        if aspect.blend == "none":
            shown = (map_through(aspect, (trace.head_map(head),)) for head in heads)
            return tuple(m for m in shown if m is not None)
        of_heads = tuple(trace.head_map(h) for h in blended_heads(aspect, heads, trace.sites))
        blend = map_through(aspect, of_heads)
        return (blend,) if blend is not None else ()

    def grids(self, stack: Stack) -> tuple[SiteGrid, ...]:
        """The thumbnails of a stack as the aspect shows them."""
        return tuple(self._grid(site) for site in self.sites(stack))

    def axes(self, site: Site) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of a site's rows, as the aspect names them, and of its columns."""
        queries, keys = self.trace.tokens(site)
        return row_labels(queries, written_after(site.stack, self.trace.target), self.rows), keys

    def _grid(self, site: Site) -> SiteGrid:
        trace, aspect = self.trace, self.aspect
        grid = trace.grid(site)
        if not aspect.leaves_out or grid.is_pooled:
            return grid
        exact = tuple(trace.head_map(head).weights for head in site.heads)
        return grid_through(aspect, grid, *trace.tokens(site), exact)

    def long_part(self) -> MapPart | None:
        """The whole of the first head's map where it is too long to be held cell by cell."""
        trace, head = self.trace, self.head
        site = next(site for site in trace.sites if site.key == head.site_key)
        queries, keys = self.axes(site)
        if not is_long(len(queries), len(keys)):
            return None
        return MapPart(tile=trace.head_tile(head), queries=queries, keys=keys)

    @property
    def rows(self) -> Rows:
        """What the rows of cross-attention are named after."""
        return self.aspect.rows

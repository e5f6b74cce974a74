"""The maps of a figure, whatever its view: what is wanted of a trace, each map once, all on one scale."""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import UserError
from attnscope.figures.paint_tiles import MapPart
from attnscope.figures.spec import FigureSpec, FigureT
from attnscope.records.findings import GoldCell
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.sites import Gates, HeadName, HeadRef, Rows, Site, Stack, row_labels, written_after
from attnscope.records.tiles import MapTile, is_long
from attnscope.records.tokens import Token, Tokens
from attnscope.viewmodels.compare.difference import Way
from attnscope.viewmodels.maps.aspect import (
    PLAIN,
    Aspect,
    blended_heads,
    exact_grid,
    grid_through,
    map_through,
)


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

    def exact(self, grids: tuple[SiteGrid, ...]) -> tuple[NDArray[np.float32], ...]:
        """The weights behind thumbnails, [n_heads, n_queries, n_keys]; none where one pools cells."""
        if any(grid.is_pooled for grid in grids):
            return ()
        return tuple(exact_grid(self.aspect, g.site, self.trace.tokens(g.site), self._weights) for g in grids)

    def _weights(self, head: HeadRef) -> NDArray[np.float32]:
        return self.trace.head_map(head).weights

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


def map_key(head_map: HeadMap) -> tuple[object, ...]:
    """What two maps share only when they are the same one: head, tokens and weights."""
    return (
        head_map.head, head_map.name, head_map.queries, head_map.keys, head_map.weights.tobytes()
    )  # fmt: skip


def shown_maps(spec: FigureSpec) -> tuple[HeadMap, ...]:
    """Every map of a figure once, in order: its own, or those of its panels."""
    return tuple(head_map for _, _, head_map in lettered_maps(spec))


def lettered_maps(spec: FigureSpec) -> tuple[tuple[str, str, HeadMap], ...]:
    """Every map of a figure once, with letter and title of the first panel that shows it.

    The letter is empty where heads alone tell the maps apart.
    """
    found: dict[tuple[object, ...], tuple[str, str, HeadMap]] = {}
    for letter, title, head_map in spec.titled_maps():
        found.setdefault(map_key(head_map), (letter, title, head_map))
    are_told_apart = len({(m.head, m.name) for _, _, m in found.values()}) == len(found)
    return tuple(("" if are_told_apart else letter, title, m) for letter, title, m in found.values())


def common_peak(spec: FigureSpec) -> float:
    """The weight that the end of the colours stands for in every panel; never 0."""
    maps = shown_maps(spec)
    if spec.style.scale != "head":
        return max((m.full for m in maps), default=1.0)
    peaks = [float(m.weights[np.isfinite(m.weights)].max(initial=0.0)) for m in maps]
    return max((*peaks, *spec.thumbnail_peaks()), default=1.0) or 1.0


def as_drawn(spec: FigureT) -> FigureT:
    """The figure as its style asks for it: its maps with special tokens, or without."""
    return spec if spec.style.has_special else spec.without_special()


def without_special_links(shown: HeadMap, gold: tuple[GoldCell, ...]) -> tuple[GoldCell, ...]:
    """The word links on a map, on what is left of it."""
    places = _kept(shown.queries), _kept(shown.keys)
    return tuple(cell for cell in (_moved(one, *places) for one in gold) if cell is not None)


def _kept(tokens: tuple[Token, ...]) -> NDArray[np.intp]:
    """The places of what is no special token; all of them where there is nothing else."""
    places = np.array([i for i, token in enumerate(tokens) if not token.is_special], dtype=np.intp)
    return places if len(places) else np.arange(len(tokens))


def without_special(shown: HeadMap) -> HeadMap:
    """The map without the rows and columns of special tokens, its note saying what they took."""
    rows, cols = _kept(shown.queries), _kept(shown.keys)
    if (len(rows), len(cols)) == shown.weights.shape:
        return shown
    of_rows = np.where(np.isfinite(shown.weights[rows]), shown.weights[rows], 0.0)
    total = float(of_rows.sum())
    share = 1 - float(of_rows[:, cols].sum()) / total if total else 0.0
    left_out = f"without special tokens, which take {share:.0%} of the weight"
    return replace(
        shown,
        queries=tuple(shown.queries[i] for i in rows),
        keys=tuple(shown.keys[j] for j in cols),
        weights=shown.weights[np.ix_(rows, cols)],
        note=" · ".join(filter(None, (shown.note, left_out))),
    )


def _moved(cell: GoldCell, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> GoldCell | None:
    """A link on what is left of the map; None where nothing of it is."""
    ends = [np.searchsorted(places, part).tolist() for places, part in ((rows, cell.rows), (cols, cell.cols))]
    if any(first == end for first, end in ends):
        return None
    return replace(cell, rows=tuple(ends[0]), cols=tuple(ends[1]))

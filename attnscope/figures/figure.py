"""`attnscope.figure(trace, …)`: any picture the window can make, without a window."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from PySide6.QtGui import QGuiApplication

from attnscope.errors import UserError, of_wrong_kind
from attnscope.figures import export
from attnscope.figures.colours import ColourMap
from attnscope.figures.figure_checks import check_about, check_look
from attnscope.figures.figure_file import ALSO
from attnscope.figures.file_names import Format
from attnscope.figures.fitting import page_of, sized
from attnscope.figures.panels import panels_figure
from attnscope.figures.presets import PresetName
from attnscope.figures.spec import (
    Caption,
    FigureOrigin,
    FigureSpec,
    MapPart,
    PicturePart,
    View,
    check_spec,
)
from attnscope.figures.style import MapStyle, Scale, Turn
from attnscope.records.axes import Rows, row_labels, written_after
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.pictures import Picture
from attnscope.records.sites import Gates, HeadName, HeadRef, Site, Stack, check_heads, head_named
from attnscope.records.tiles import MapTile, is_long
from attnscope.records.tokens import Token, Tokens
from attnscope.viewmodels.compare.difference import ComparedMaps, compare_maps
from attnscope.viewmodels.maps.aggregation import grid_through, labelled, map_through
from attnscope.viewmodels.maps.alignment import WAYS, Way, align_tokens
from attnscope.viewmodels.maps.aspect import Aspect, Blend, Block, Hidden, Over, blended_heads

_application: list[QGuiApplication] = []


class Traced(Protocol):
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


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that can be saved, or shown by a notebook."""

    spec: FigureSpec

    def __repr__(self) -> str:
        """What it shows and its size, in one line; notebooks draw it instead."""
        return f"Figure: {self.spec.view}, {self.spec.width_mm:g} × {self.spec.height_mm:g} mm"

    def save(self, path: str | Path) -> Path:
        """Write SVG, PDF, PNG, CSV, NPZ, an HTML page or a figure file, by the ending; returns the path."""
        ensure_gui()
        return export.save(self.spec, path)

    def render(self, format: Format) -> bytes:
        """The bytes of a file in this format."""
        ensure_gui()
        return export.render(self.spec, format)

    def on_picture(self, picture: Picture, query: int = 0) -> "Figure":
        """The same head laid over what `attnscope.picture` gave: where one token of it looks.

        Raises UserError for another view than `head`, a map of other tokens, or a query that is not there.
        """
        maps, n_tokens = self.spec.maps, picture.n_tokens
        if self.spec.view != "head" or not maps or maps[0].weights.shape != (n_tokens, n_tokens):
            raise UserError(
                "This map is not between single patches of one picture.",
                expected="one head of the encoder, patch by patch",
                action="Use the view head, without words or blocks.",
            )
        if not 0 <= query < n_tokens:
            raise UserError(f"The picture has no token {query}.", expected=f"0 to {n_tokens - 1}")
        part = PicturePart(picture=picture, query=query)
        spec = replace(self.spec, view="picture", picture=part, origin=None)
        return Figure(sized(spec) if page_of(self.spec) == page_of(sized(self.spec)) else spec)

    def _repr_svg_(self) -> str:
        return self.render("svg").decode()


_TRACE_IT = "Of a model give what it did on a text: figure(model.trace(text))."


def figure(
    trace: Traced,
    view: View = "grid",
    *,
    head: HeadName | None = None,
    heads: Sequence[HeadName] = (),
    other: Traced | None = None,
    other_head: HeadName | None = None,
    names: tuple[str, str] = ("A", "B"),
    align: Way = "pairs",
    delta_end: float = 0.0,
    stack: Stack | None = None,
    colour_map: ColourMap = "viridis",
    scale: Scale = "fixed",
    show_values: bool = False,
    blend: Blend = "none",
    over: Over = "selection",
    hidden: Hidden = "nothing",
    renormalised: bool = False,
    by_word: bool = False,
    block: Block = "all",
    rows: Rows = "written",
    least_weight: float = 0.0,
    n_strongest: int = 0,
    also: tuple[str, ...] = (),
    turn: Turn | None = None,
    label_every: int = 0,
    has_bar: bool = True,
    plain: bool = False,
    badge: bool = False,
    special_tokens: bool = True,
    key_name: str = "",
    query_name: str = "",
    font: str = "",
    title: str = "",
    caption: Caption | None = None,
    columns: int = 0,
    size: PresetName | None = None,
    width_mm: float | None = None,
    height_mm: float | None = None,
    font_pt: float | None = None,
    dpi: int = 300,
    origin: FigureOrigin | None = None,
) -> Figure:
    """A figure of a trace: the `grid` of a stack, one `head`, or the `lines` of several `heads`.

    `panels` shows the `heads` beside each other on one scale, and `also` their `lines` and the `grid`, up to
    26 in all, in `columns` (0: as many as suit the page). `attnscope.panels` puts figures of several texts
    and models together.

    `difference` shows one head of this trace (A), of `other` (B), and B − A with the tokens aligned; `names`
    say what they are. `other_head` is B's where it is another one, `align` how tokens are aligned (`pairs`,
    `pieces`, `position`), `delta_end` the |Δ| at the ends of the colours, 0 for the largest.

    Without `stack` the grid shows the first one; without a head, `head` and `lines` show the first.
    `blend` makes one map of heads (`mean`, `max`, `sum`), `over` the given ones (`selection`), those of the
    `layer` or of the `stack`; `hidden` leaves out keys (`first`, `special`, `both`) and `renormalised` lets
    what is left of a row sum to 1; `by_word` shows words; of two texts read as one, `block` `ab` shows
    queries of A and keys of B, or another of the four. `rows` of cross-attention are called after the token
    that is `written` there, as in Bahdanau et al. 2015, or after the one `read` last, the query.
    Lines: none under `least_weight`, the `n_strongest` of each query. Token labels `turn` by 0, 45 or 90
    degrees and stand at every `label_every`-th token; without either, as there is room. The page is that of
    `size` (`single`, `double`, … column of a journal), without one that which suits the view, as high as the
    figure; lengths that are given come first. `plain` leaves out the head's name and the self-check, and
    `badge` tells of one that found nothing wrong too. `special_tokens=False` leaves their rows and columns
    out. The axes are called `key_name` and `query_name`, such as "Key (English)", and all type is of the
    family `font`. With `origin` a figure file reads the text anew, without one it holds the numbers.
    A head is named by its record, as (stack, layer, head), as (site, head) like `trace.weights` has it, or as
    "L0H1" or "cross:L0H1".
    Raises UserError for a head or stack the model does not have, and for a choice that there is not.
    """
    if not hasattr(trace, "head_map"):
        raise of_wrong_kind(trace, "what to draw", "a trace", _TRACE_IT)
    if not isinstance(heads, Iterable):
        raise of_wrong_kind(heads, "heads", 'several heads, such as ("L0H0", "L1H3")', "Give one as head=.")
    check_about(size, title, caption, origin)
    if view not in ("grid", "head", "lines", "panels", "difference"):
        raise UserError(
            f"A trace has no view '{view}'.",
            expected="grid, head, lines, panels or difference",
            action="Choose one of these.",
        )
    named = (*((head,) if head is not None else ()), *((heads,) if isinstance(heads, str) else heads))
    wanted = tuple(head_named(h, trace.sites) for h in named)
    style = MapStyle(
        colour_map=colour_map,
        scale=scale,
        show_values=show_values,
        least_weight=least_weight,
        n_strongest=n_strongest,
        turn=turn,
        label_every=label_every,
        has_bar=has_bar,
        is_plain=plain,
        has_badge=badge,
        has_special=special_tokens,
        key_name=key_name,
        query_name=query_name,
        font=font,
    )
    check_look(style)
    aspect = Aspect(
        blend=blend,
        over=over,
        hidden=hidden,
        is_renormalised=renormalised,
        is_by_word=by_word,
        block=block,
        rows=rows,
    )
    grids: tuple[SiteGrid, ...] = ()
    maps: tuple[HeadMap, ...] = ()
    part: MapPart | None = None
    compared: ComparedMaps | None = None
    if view == "difference":
        own = _first_head(trace, stack, wanted)
        pair = own, own if other_head is None or other is None else head_named(other_head, other.sites)
        compared = _compared(trace, other, pair, names=names, align=align, delta_end=delta_end, rows=rows)
    elif view == "grid":
        chosen = stack or (wanted[0].stack if wanted else trace.sites[0].stack)
        grids = tuple(_grid(trace, s, aspect) for s in _sites_of(trace, chosen))
    elif view == "head" and _is_long(trace, _first_head(trace, stack, wanted)):
        part = _part(trace, _first_head(trace, stack, wanted), rows)
    else:
        maps = _maps(trace, wanted or _sites_of(trace, stack)[0].heads[:1], aspect)
    spec = FigureSpec(
        view=view,
        grids=grids,
        maps=maps,
        part=part,
        compared=compared,
        gates=trace.gates,
        interventions=trace.interventions,
        selection=wanted if view == "grid" else (),
        style=style,
        title=title,
        caption=caption,
        dpi=dpi,
        origin=origin,
    )
    if view == "panels":
        spec = replace(_panels(trace, spec, also, aspect, stack), columns=columns)
    ensure_gui()
    made = sized(spec, preset=size, width_mm=width_mm, height_mm=height_mm, font_pt=font_pt)
    check_spec(made)
    return Figure(made)


def _compared(
    trace: Traced,
    other: Traced | None,
    heads: tuple[HeadRef, HeadRef],
    *,
    names: tuple[str, str],
    align: Way,
    delta_end: float,
    rows: Rows,
) -> ComparedMaps:
    """One head of each trace on shared axes; raises UserError when the second has no such head."""
    if other is None:
        raise UserError(
            "A difference needs two traces.", expected="a second trace", action="Give it as `other`."
        )
    if align not in WAYS or not 0.0 <= delta_end < float("inf"):
        raise UserError(
            f"A difference cannot be drawn with align '{align}' and delta_end {delta_end}.",
            expected=f"{', '.join(WAYS)}; and a number from 0",
            action="Choose one of these.",
        )
    check_heads(heads[1:], other.sites)
    sides = trace.head_map(heads[0]), other.head_map(heads[1])
    first, second = (labelled(one, rows) for one in sides)
    axes = (
        align_tokens(first.queries, second.queries, align),
        align_tokens(first.keys, second.keys, align),
    )
    return compare_maps(first, second, *axes, names=names, limit=delta_end, row_names=rows)


def _panels(
    trace: Traced, spec: FigureSpec, also: tuple[str, ...], aspect: Aspect, stack: Stack | None
) -> FigureSpec:
    """The maps of `spec` as panels of one page, with what else is asked for."""
    if not set(also) <= set(ALSO):
        raise UserError(
            f"There is no panel '{', '.join(also)}'.", expected=" or ".join(ALSO), action="Choose of these."
        )
    sites = _sites_of(trace, stack or spec.maps[0].head.stack) if "grid" in also else ()
    grids = tuple(_grid(trace, site, aspect) for site in sites)
    return panels_figure(spec, spec.maps, has_lines="lines" in also, grids=grids)


def _first_head(trace: Traced, stack: Stack | None, wanted: tuple[HeadRef, ...]) -> HeadRef:
    return (wanted or _sites_of(trace, stack)[0].heads)[0]


def _is_long(trace: Traced, head: HeadRef) -> bool:
    queries, keys = trace.tokens(_site_of(trace, head))
    return is_long(len(queries), len(keys))


def _site_of(trace: Traced, head: HeadRef) -> Site:
    return next(site for site in trace.sites if site.key == head.site_key)


def _part(trace: Traced, head: HeadRef, rows: Rows) -> MapPart:
    """The whole of a map that is too long to be held cell by cell."""
    queries, keys = trace.tokens(_site_of(trace, head))
    queries = row_labels(queries, written_after(head.stack, trace.target), rows)
    return MapPart(tile=trace.head_tile(head), queries=queries, keys=keys)


def _maps(trace: Traced, heads: tuple[HeadRef, ...], aspect: Aspect) -> tuple[HeadMap, ...]:
    """The maps of `heads` as the aspect shows them: one when they are blended."""
    if aspect.blend == "none":
        shown = (map_through(aspect, (trace.head_map(head),)) for head in heads)
        return tuple(m for m in shown if m is not None)
    blend = map_through(aspect, tuple(trace.head_map(h) for h in blended_heads(aspect, heads, trace.sites)))
    return (blend,) if blend is not None else ()


def _grid(trace: Traced, site: Site, aspect: Aspect) -> SiteGrid:
    grid = trace.grid(site)
    if not aspect.leaves_out or grid.is_pooled:
        return grid
    exact = tuple(trace.head_map(head).weights for head in site.heads)
    return grid_through(aspect, grid, *trace.tokens(site), exact)


def ensure_gui() -> None:
    """Start Qt for painting when nobody has; on Linux it needs no display."""
    if QGuiApplication.instance() is None:
        platform = ["-platform", "offscreen"] if sys.platform.startswith("linux") else []
        _application.append(QGuiApplication(["attnscope", *platform]))


def _sites_of(trace: Traced, stack: Stack | None) -> tuple[Site, ...]:
    sites = tuple(site for site in trace.sites if stack is None or site.stack == stack)
    if not sites:
        known = ", ".join(dict.fromkeys(site.stack for site in trace.sites))
        raise UserError(
            f"The model has no stack '{stack}'.", expected=known, action="Choose one of these stacks."
        )
    return sites

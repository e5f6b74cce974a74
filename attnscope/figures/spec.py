"""Shared by all figures: look, words, page, and maps, each made once; and the interface of a view."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.codec import At, Once
from attnscope.counting import percent
from attnscope.errors import UserError
from attnscope.figures.colours import Palette
from attnscope.figures.style import MapStyle
from attnscope.figures.tiles_painting import MapPart
from attnscope.records.findings import GoldCell
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, PositionCheck, PositionTable, SelfCheck, SiteGrid
from attnscope.records.models import Source
from attnscope.records.sites import (
    NO_GATES,
    Gates,
    HeadName,
    HeadRef,
    Rows,
    Site,
    Stack,
    row_labels,
    written_after,
)
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

MIN_MM, MAX_MM = 20.0, 1200.0
MIN_DPI, MAX_DPI = 36, 2400
MAX_PIXELS = 100_000_000
MAX_SIDE_PX = 32_000
MM_PER_INCH = 25.4
LAYOUT_DPI = 96.0
BASE_PT = 8.25
"""Small type in points where a layout pixel is 1/96 inch: 11 pixels."""
PAGE_MM, PAGE_PT = (174.0, 130.0), 8.0
"""The page and type of a figure that asks for no other: two columns of a journal."""
MIN_PT, MAX_PT = 4.0, 48.0
FigureT = TypeVar("FigureT", bound="FigureSpec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """The caption below a picture; empty parts are omitted.

    `model` is the model's name and `sha256` the checksum of its weights, `text` and `target` what it read,
    `step` the training step, `note` a sentence of your own, `role` what the head was measured to do. Head,
    mask, scale, gates and the program's version are added from the figure itself.
    """

    model: str = ""
    sha256: str = ""
    text: str = ""
    target: str | None = None
    step: int | None = None
    note: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureOrigin:
    """The origin of a figure of a text, enough to draw it again: see `figure_file`.

    `source` is what opens the model, `model` its name and `sha256` the checksum of its weights; `text` and
    `target` are what it read, `past_trained` whether at positions it was not trained on; `heads` the
    selection that was blended, if any was, and `aspect` what was left out of the maps.
    """

    source: Annotated[Source, At("model.source")]
    model: Annotated[str, At("model.name")] = ""
    sha256: Annotated[str, At("model.sha256")] = ""
    text: str = ""
    target: str | None = None
    past_trained: bool = False
    heads: tuple[HeadRef, ...] = ()
    aspect: Annotated[Aspect, Once({})] = PLAIN


Choice = Literal["colours", "scale", "values", "bar", "turn", "every", "plain", "badge", "special", "axes"]
"""Settings of the look that some figures have and others ignore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRequest:
    """The data needed from a trace to draw a figure again; `also` are the panels beside the heads'."""

    heads: tuple[HeadRef, ...] = ()
    stack: Stack | None = None
    also: tuple[str, ...] = ()
    gold: tuple[GoldCell, ...] = ()
    columns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec(ABC):
    """A picture with its numbers: its look, words and page. Its view adds the content.

    A view is a class below this one in a file of `attnscope.figures.views`: fields for what it shows, and
    what is asked of it here. `dpi` matters for PNG and the clipboard only. `font_pt` is the size of token
    labels and the caption; titles, margins and lines grow with it. `caption` None leaves it out; `origin` is
    for a figure file.
    """

    view: ClassVar[str] = ""
    """The name of the view: on the command line, in Python, in files."""
    words: ClassVar[str] = ""
    """Its name in the export dialog."""
    search: ClassVar[str] = ""
    """Further words of lectures that find it."""
    order: ClassVar[int] = 0
    """Its place among the views."""
    least_px: ClassVar[float] = 0.0
    """The least width at which it can be read, without its colour bar, in layout pixels; 0: any."""
    follows_width: ClassVar[bool] = True
    """Whether its height follows from its width."""
    choices: ClassVar[frozenset[Choice]] = frozenset()
    has_cells: ClassVar[bool] = False
    """Whether weights may be written in its cells."""
    tells_evenness: ClassVar[bool] = False
    """Whether to warn of maps in a uniform colour."""
    shows: ClassVar[Literal["one head", "heads", "all heads"]] = "heads"
    """Which heads of a trace it draws: one, those that are named, or all of a stack if none is named."""
    reads_trace: ClassVar[bool] = False
    """Whether it is drawn from a trace: see `of_trace`."""
    needs_other: ClassVar[bool] = False
    """Whether it is drawn from a second trace too: `Wanted.other`."""
    reads_positions: ClassVar[bool] = False
    """Whether it is drawn from tables of positional encodings: see `of_positions`."""
    reads_checks: ClassVar[bool] = False
    """Whether it shows what was measured of every position scheme as well."""
    asks: ClassVar[str] = ""
    """What a person may choose of those tables, in a word; empty where all of them is shown."""
    options: ClassVar[frozenset[str]] = frozenset()
    """The options of the command that it reads and not every view does, by their names in its arguments."""
    is_asked: ClassVar[bool] = False
    """Whether a file of it holds the question to the model where it can: see `asked`."""
    text_name: ClassVar[str] = "Text"
    """Name of the model's input, in the caption."""

    gates: Gates = NO_GATES
    interventions: Interventions = ()
    style: MapStyle = field(default_factory=MapStyle)
    title: str = ""
    caption: Caption | None = None
    width_mm: float = PAGE_MM[0]
    height_mm: float = PAGE_MM[1]
    dpi: int = 300
    font_pt: float = PAGE_PT
    origin: FigureOrigin | None = None

    @classmethod
    def of_trace(cls, wanted: "Wanted", **page: Any) -> "FigureSpec":
        """The figure of the wanted part of a trace; `page` is what every figure has."""
        raise NotImplementedError(f"The view {cls.view} is not drawn from a trace.")

    @classmethod
    def of_positions(
        cls,
        tables: tuple[PositionTable, ...],
        only: str = "",
        checks: tuple[PositionCheck, ...] = (),
        **page: Any,
    ) -> "FigureSpec":
        """The figure of positional encodings; `only` is the choice from what it `asks`, as typed."""
        raise NotImplementedError(f"The view {cls.view} is not drawn from positional encodings.")

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it is empty."""

    @abstractmethod
    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        """Draw it between title and caption, in layout pixels."""

    @abstractmethod
    def rows(self) -> Iterator[Iterable[str]]:
        """Its numbers as a table, the header first."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Its numbers as named arrays."""

    def natural_height(self, width: float) -> float | None:
        """Preferred height at a width, in layout pixels: nothing cut, no blank space; None: any."""
        return None

    def shown_words(self) -> list[str]:
        """The caption's account of what is shown."""
        return []

    def name_parts(self) -> list[str]:
        """The part of its suggested file name after model and view."""
        return []

    def faults(self) -> Iterator[UserError]:
        """Inconsistencies in its own numbers."""
        return iter(())

    def parts(self) -> "tuple[FigureSpec, ...]":
        """The figures that share its page, if there are several."""
        return ()

    def fits_together(self) -> bool:
        """Whether the data in a file is consistent, so that it can be painted."""
        return True

    def heads(self) -> Iterator[HeadRef]:
        """The heads that are named in it."""
        return (head_map.head for head_map in self.held_maps())

    def held_maps(self) -> tuple[HeadMap, ...]:
        """The heads' maps that it holds itself."""
        return ()

    def titled_maps(self) -> Iterator[tuple[str, str, HeadMap]]:
        """The maps drawn, each with letter and title of its part."""
        return (("a", "", head_map) for head_map in self.held_maps())

    def site_checks(self) -> tuple[SelfCheck, ...]:
        """Results of the self-check for the sites drawn."""
        return tuple(head_map.check for head_map in shown_maps(self) if head_map.check is not None)

    def row_tokens(self) -> tuple[Token, ...]:
        """Row labels; of panels, those of the first."""
        return next((head_map.queries for _, _, head_map in self.titled_maps()), ())

    def thumbnail_peaks(self) -> tuple[float, ...]:
        """The largest weight of each thumbnail that shares its scale with maps."""
        return ()

    def mapped(self, change: Callable[[HeadMap], HeadMap]) -> Self:
        """The figure with other maps in place of its own."""
        return self

    def without_special(self) -> Self:
        """The figure without the rows and columns of special tokens."""
        return self

    def with_style(self, style: MapStyle) -> Self:
        """The figure in another look."""
        return replace(self, style=style)

    def word_links(self) -> tuple[GoldCell, ...]:
        """The word links that are marked on its map."""
        return ()

    def has_colour_bar(self) -> bool:
        """Whether it has a colour bar of its own."""
        return self.style.has_bar and "bar" in self.choices

    def suits_column(self) -> bool:
        """Whether it fits into one column of a journal."""
        return False

    def hint(self) -> str:
        """Hint that would make it more informative; mostly empty."""
        return ""

    def cell_px(self, body: QRectF) -> float | None:
        """The shorter side of a cell, in layout pixels; None for a figure without cells."""
        return None

    def widest_value(self) -> str:
        """The widest text in a cell."""
        return ""

    def asked(self) -> FigureRequest | None:
        """The request to a trace that draws it again; None if only its numbers determine it."""
        return None

    def as_view(self, kind: type[FigureT], **shown: object) -> FigureT:
        """Look, words and page of this figure with the content of another view."""
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(FigureSpec)}
        return kind(**{**values, **shown})

    @property
    def width_px(self) -> float:
        """Width in layout pixels, 96 to the inch."""
        return self.width_mm / MM_PER_INCH * LAYOUT_DPI

    @property
    def height_px(self) -> float:
        """Height in layout pixels, 96 to the inch."""
        return self.height_mm / MM_PER_INCH * LAYOUT_DPI

    @property
    def type_scale(self) -> float:
        """Size of type relative to `BASE_PT`."""
        return self.font_pt / BASE_PT

    @property
    def size_in_dots(self) -> tuple[int, int]:
        """Width and height of the PNG in pixels."""
        scale = self.dpi / MM_PER_INCH
        return round(self.width_mm * scale), round(self.height_mm * scale)


def check_spec(spec: FigureSpec) -> None:
    """Raise UserError if the figure is empty or has an impossible size."""
    if spec.is_empty:
        raise UserError(
            f"The figure '{spec.view}' has nothing to show.",
            expected="at least one map, table or curve",
            action="Trace a text or open a run first.",
        )
    if not MIN_DPI <= spec.dpi <= MAX_DPI:
        raise UserError(
            f"The resolution is {spec.dpi} dots per inch.",
            expected=f"{MIN_DPI} to {MAX_DPI}",
            action="300 suits print, 150 a screen.",
        )
    if not MIN_PT <= spec.font_pt <= MAX_PT:
        raise UserError(
            f"The type size is {spec.font_pt:g} pt.",
            expected=f"{MIN_PT:g} to {MAX_PT:g} pt",
            action="8 suits a journal, 14 a slide.",
        )
    for fault in spec.faults():
        raise fault
    for name, value in (("wide", spec.width_mm), ("high", spec.height_mm)):
        if not MIN_MM <= value <= MAX_MM:
            raise UserError(
                f"The figure is {value:g} mm {name}.",
                expected=f"{MIN_MM:g} to {MAX_MM:g} mm",
                action="Choose a size within that range.",
            )


def check_dots(spec: FigureSpec) -> None:
    """Raise UserError if the figure has too many pixels for an image."""
    width, height = spec.size_in_dots
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise UserError(
            f"The image would have {width:,} × {height:,} pixels.",
            expected=f"at most {MAX_PIXELS // 1_000_000} million, and {MAX_SIDE_PX:,} a side",
            action="Choose fewer dots per inch, a smaller size, or SVG or PDF, which have no pixels.",
        )


class DrawnTrace(Protocol):
    """The interface of a trace that can be drawn."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of the model, in order."""

    @property
    def source(self) -> Tokens:
        """The text, or the first of two."""

    @property
    def target(self) -> Tokens | None:
        """The second text, if there is one."""

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
    """The other side of a comparison: `head` of another trace, or of the same if None; `names` are of both
    sides.

    Without names they are told apart by what differs.
    """

    trace: DrawnTrace | None = None
    head: HeadName | None = None
    names: tuple[str, str] = ("", "")
    align: Way = "pairs"
    delta_end: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wanted part of a trace: `heads` or a `stack`, under an aspect.

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
        """The first wanted head, or the first of all."""
        return (self.heads or self.sites(self.stack)[0].heads)[0]

    def sites(self, stack: Stack | None) -> tuple[Site, ...]:
        """The sites of a stack, or all; raises UserError for a missing stack."""
        sites = tuple(site for site in self.trace.sites if stack is None or site.stack == stack)
        if not sites:
            known = ", ".join(dict.fromkeys(site.stack for site in self.trace.sites))
            raise UserError(
                f"The model has no stack '{stack}'.", expected=known, action="Choose one of these stacks."
            )
        return sites

    def maps(self) -> tuple[HeadMap, ...]:
        """The maps of the heads under the aspect: one if they are blended."""
        heads = self.heads or self.sites(self.stack)[0].heads[:1]
        aspect, trace = self.aspect, self.trace
        if aspect.blend == "none":
            shown = (map_through(aspect, (trace.head_map(head),)) for head in heads)
            return tuple(m for m in shown if m is not None)
        of_heads = tuple(trace.head_map(h) for h in blended_heads(aspect, heads, trace.sites))
        blend = map_through(aspect, of_heads)
        return (blend,) if blend is not None else ()

    def grids(self, stack: Stack) -> tuple[SiteGrid, ...]:
        """The thumbnails of a stack under the aspect."""
        return tuple(self._grid(site) for site in self.sites(stack))

    def exact(self, grids: tuple[SiteGrid, ...]) -> tuple[NDArray[np.float32], ...]:
        """The weights behind thumbnails, [n_heads, n_queries, n_keys]; none if cells are pooled."""
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
        """The whole map of the first head if it is too long to be held cell by cell."""
        trace, head = self.trace, self.head
        site = next(site for site in trace.sites if site.key == head.site_key)
        queries, keys = self.axes(site)
        if not is_long(len(queries), len(keys)):
            return None
        return MapPart(tile=trace.head_tile(head), queries=queries, keys=keys)

    @property
    def rows(self) -> Rows:
        """Row labels of cross-attention."""
        return self.aspect.rows


def map_key(head_map: HeadMap) -> tuple[object, ...]:
    """Key that identifies a map: head, tokens and weights."""
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
    """The weight at the end of the colours in every panel; never 0."""
    maps = shown_maps(spec)
    if spec.style.scale != "head":
        return max((m.full for m in maps), default=1.0)
    peaks = [float(m.weights[np.isfinite(m.weights)].max(initial=0.0)) for m in maps]
    return max((*peaks, *spec.thumbnail_peaks()), default=1.0) or 1.0


def as_drawn(spec: FigureT) -> FigureT:
    """The figure according to its style: its maps with special tokens, or without."""
    return spec if spec.style.has_special else spec.without_special()


def without_special_links(shown: HeadMap, gold: tuple[GoldCell, ...]) -> tuple[GoldCell, ...]:
    """The word links on the rest of a map."""
    places = _kept(shown.queries), _kept(shown.keys)
    return tuple(cell for cell in (_moved(one, *places) for one in gold) if cell is not None)


def _kept(tokens: tuple[Token, ...]) -> NDArray[np.intp]:
    """Indices of the non-special tokens; all if there are no others."""
    places = np.array([i for i, token in enumerate(tokens) if not token.is_mark], dtype=np.intp)
    return places if len(places) else np.arange(len(tokens))


def without_special(shown: HeadMap) -> HeadMap:
    """The map without the rows and columns of special tokens, with a note on their share."""
    rows, cols = _kept(shown.queries), _kept(shown.keys)
    if (len(rows), len(cols)) == shown.weights.shape:
        return shown
    of_rows = np.where(np.isfinite(shown.weights[rows]), shown.weights[rows], 0.0)
    total = float(of_rows.sum())
    share = 1 - float(of_rows[:, cols].sum()) / total if total else 0.0
    left_out = f"without special tokens, which take {percent(share)} of the weight"
    return replace(
        shown,
        queries=tuple(shown.queries[i] for i in rows),
        keys=tuple(shown.keys[j] for j in cols),
        weights=shown.weights[np.ix_(rows, cols)],
        note=" · ".join(filter(None, (shown.note, left_out))),
    )


def _moved(cell: GoldCell, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> GoldCell | None:
    """A link on the rest of the map; None if it is gone."""
    ends = [np.searchsorted(places, part).tolist() for places, part in ((rows, cell.rows), (cols, cell.cols))]
    if any(first == end for first, end in ends):
        return None
    return replace(cell, rows=tuple(ends[0]), cols=tuple(ends[1]))

"""What a figure shows, as one frozen record: everything needed to paint it again, and its caption."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import UserError
from attnscope.figures.cell_map import CellMap
from attnscope.figures.style import MapStyle
from attnscope.records.alignment import GoldCell
from attnscope.records.arrays import frozen_array
from attnscope.records.attention_graph import AttentionGraph
from attnscope.records.inside import HeadInside
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.pictures import Picture
from attnscope.records.positions import PositionTable
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.records.tiles import MapTile
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.inside_words import Step
from attnscope.viewmodels.compare.difference import ComparedMaps
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect

View = Literal[
    "grid",
    "head",
    "lines",
    "picture",
    "inside",
    "graph",
    "panels",
    "difference",
    "positions",
    "curves",
    "lab",
]
VIEWS: tuple[View, ...] = get_args(View)
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
MAX_COLUMNS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve: `xs` ascending and `ys` [n]; NaN breaks the line. `colour` indexes the palette.

    `style` points draws no line, stems a line from 0 up to each point, whiskers an upright line between the
    two `ys` that share an x. `labels` stand beside points, one for
    each or none at all. Without `has_label` the name is not drawn, and stands in tables only. A reference,
    such as a fit, is dashed, in no series' colour, and labels keep clear of it. What would hide another curve
    `is_dashed`, in its colour.
    """

    name: str
    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    colour: int = 0
    is_quiet: bool = False
    has_points: bool = False
    style: Literal["line", "points", "stems", "whiskers"] = "line"
    has_label: bool = True
    labels: tuple[str, ...] = ()
    is_reference: bool = False
    is_dashed: bool = False

    def __post_init__(self) -> None:
        for name in ("xs", "ys"):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=1, name=name)
            object.__setattr__(self, name, array)
        if self.xs.shape != self.ys.shape:
            raise ValueError(f"{len(self.xs)} x values for {len(self.ys)} y values")
        if self.labels and len(self.labels) != len(self.xs):
            raise ValueError(f"{len(self.labels)} labels for {len(self.xs)} points")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartField:
    """Counts behind the curves of a chart: `values` [n_bins, n_columns], coloured by their logarithms.

    `xs` [n_columns] ascending are the places of the columns, `edges` [n_bins + 1] ascending those of the
    bins on the y axis, in its unit. What is 0 is not coloured; `unit` says what is counted.
    """

    xs: NDArray[np.float64]
    edges: NDArray[np.float64]
    values: NDArray[np.float64]
    unit: str

    def __post_init__(self) -> None:
        for name, rank in (("xs", 1), ("edges", 1), ("values", 2)):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=rank, name=name)
            object.__setattr__(self, name, array)
        if self.values.shape != (len(self.edges) - 1, len(self.xs)):
            raise ValueError(f"{self.values.shape} for {len(self.edges)} edges and {len(self.xs)} columns")

    @property
    def shown_edges(self) -> NDArray[np.float64]:
        """The edges of the bins from the first to the last that holds anything."""
        used = np.flatnonzero(self.values.any(axis=1))
        return self.edges[used[0] : used[-1] + 2] if len(used) else self.edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curves on shared axes; `y_range` fixes the y axis, None fits it to the data.

    `marks` are upright dashed lines, each at an x and with a word beside it. `is_geometric`: both axes have
    one scale, and no numbers, as a drawing has. `notes` are words around an x and a y.
    `x_names` are what stands at x = 1, 2, …, in the place of numbers.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    is_log_y: bool = False
    y_range: tuple[float, float] | None = None
    is_log_x: bool = False
    marks: tuple[tuple[float, str], ...] = ()
    is_geometric: bool = False
    field: ChartField | None = None
    notes: tuple[tuple[float, float, str], ...] = ()
    x_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """What a figure carries beside its picture; empty parts are left out.

    Head, mask, scale, gates and the program's version are added from the figure itself. `role` is what the
    head was measured to do.
    """

    model: str = ""
    sha256: str = ""
    text: str = ""
    target: str | None = None
    step: int | None = None
    note: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPart:
    """A part of a map too long to be held whole: its tile, and the tokens of the whole map."""

    tile: MapTile
    queries: tuple[Token, ...]
    keys: tuple[Token, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the part is the whole map."""
        return self.tile.rows == (0, len(self.queries)) and self.tile.cols == (0, len(self.keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class InsidePart:
    """The inside of one head: which step is marked, and the row of the key whose numbers are written out."""

    inside: HeadInside
    step: Step = "softmax"
    row: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturePart:
    """A picture that a vision model reads, and the token whose weights are laid over it."""

    picture: Picture
    query: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureOrigin:
    """What a figure of a text was made from, enough to make it again: see `figure_file`.

    `source` is what opens the model, `model` its name; `heads` the selection that was blended, if any was.
    """

    source: str
    model: str = ""
    sha256: str = ""
    text: str = ""
    target: str | None = None
    past_trained: bool = False
    heads: tuple[HeadRef, ...] = ()
    aspect: Aspect = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec:
    """One figure: its view, the records it shows, how, and at what size in millimetres.

    `grid` needs `grids`; `head` and `lines` need `maps` (`head` of a long map: `part`); `positions`
    needs `positions`; `curves` needs `charts`; `difference` needs `compared`; `lab` needs `charts` or
    `cells`; `inside` needs `inside`; `graph` needs `graph`; `picture` needs `picture` and one of `maps`;
    `panels` needs `panels`: charts that share one page, one scale and one colour bar, in `columns` beside
    each other (0: as many as let them be largest). `dpi` matters for PNG and the clipboard only. `font_pt` is
    the size of token labels and the caption; titles, margins and lines grow with it. `caption` None leaves it
    out; `origin` is for a figure file. `gold` are word links marked on the map of `head`.
    """

    view: View
    inside: InsidePart | None = None
    picture: PicturePart | None = None
    grids: tuple[SiteGrid, ...] = ()
    maps: tuple[HeadMap, ...] = ()
    part: MapPart | None = None
    positions: tuple[PositionTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    cells: tuple[CellMap, ...] = ()
    compared: ComparedMaps | None = None
    graph: AttentionGraph | None = None
    gates: Gates = NO_GATES
    selection: tuple[HeadRef, ...] = ()
    interventions: Interventions = ()
    style: MapStyle = field(default_factory=MapStyle)
    title: str = ""
    caption: Caption | None = None
    width_mm: float = PAGE_MM[0]
    height_mm: float = PAGE_MM[1]
    dpi: int = 300
    font_pt: float = PAGE_PT
    panels: tuple["FigureSpec", ...] = ()
    columns: int = 0
    origin: FigureOrigin | None = None
    gold: tuple[GoldCell, ...] = ()

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
        """How much larger type is than at `BASE_PT`."""
        return self.font_pt / BASE_PT

    @property
    def size_in_dots(self) -> tuple[int, int]:
        """Width and height of the PNG in pixels."""
        scale = self.dpi / MM_PER_INCH
        return round(self.width_mm * scale), round(self.height_mm * scale)


def check_spec(spec: FigureSpec) -> None:
    """Raise UserError when the figure has nothing to show or an impossible size."""
    shown = {
        "grid": spec.grids,
        "head": spec.maps or spec.part,
        "lines": spec.maps,
        "picture": spec.maps and spec.picture,
        "inside": spec.inside,
        "graph": spec.graph,
        "panels": spec.panels,
        "difference": spec.compared,
        "positions": spec.positions,
        "curves": spec.charts,
        "lab": spec.charts or spec.cells,
    }
    if spec.view not in shown:
        raise UserError(
            f"There is no view '{spec.view}'.", expected=", ".join(VIEWS), action="Choose one of these."
        )
    if not shown[spec.view]:
        raise UserError(
            f"The figure '{spec.view}' has nothing to show.",
            expected="at least one map, table or curve",
            action="Trace a text or open a run first.",
        )
    if not MIN_DPI <= spec.dpi <= MAX_DPI:
        raise UserError(
            f"The figure is to have {spec.dpi} dots per inch.",
            expected=f"{MIN_DPI} to {MAX_DPI}",
            action="300 suits print, 150 a screen.",
        )
    if not MIN_PT <= spec.font_pt <= MAX_PT:
        raise UserError(
            f"The type is to be {spec.font_pt:g} points large.",
            expected=f"{MIN_PT:g} to {MAX_PT:g} pt",
            action="8 suits a journal, 14 a slide.",
        )
    if not 0 <= spec.columns <= MAX_COLUMNS:
        raise UserError(
            f"The panels are to stand in {spec.columns} columns.",
            expected=f"1 to {MAX_COLUMNS}, or 0 for as many as suit the page",
            action="Choose a number within that range.",
        )
    for name, value in (("wide", spec.width_mm), ("high", spec.height_mm)):
        if not MIN_MM <= value <= MAX_MM:
            raise UserError(
                f"The figure is to be {value:g} mm {name}.",
                expected=f"{MIN_MM:g} to {MAX_MM:g} mm",
                action="Choose a size within that range.",
            )


def check_dots(spec: FigureSpec) -> None:
    """Raise UserError when the figure has too many pixels for an image."""
    width, height = spec.size_in_dots
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise UserError(
            f"The image would have {width:,} × {height:,} pixels.",
            expected=f"at most {MAX_PIXELS // 1_000_000} million, and {MAX_SIDE_PX:,} a side",
            action="Choose fewer dots per inch, a smaller size, or SVG or PDF, which have no pixels.",
        )

"""What a figure shows, as one frozen record: everything needed to paint it again, and its caption."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import UserError
from attnscope.figures.style import MapStyle
from attnscope.records.arrays import frozen_array
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.positions import PositionTable
from attnscope.records.sites import NO_GATES, Gates, HeadRef

View = Literal["grid", "head", "lines", "positions", "curves"]
VIEWS: tuple[View, ...] = ("grid", "head", "lines", "positions", "curves")
MIN_MM, MAX_MM = 20.0, 1200.0
MIN_DPI, MAX_DPI = 36, 2400
MAX_PIXELS = 100_000_000
MAX_SIDE_PX = 32_000
MM_PER_INCH = 25.4
LAYOUT_DPI = 96.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve: `xs` ascending and `ys` [n]; NaN breaks the line. `colour` indexes the palette."""

    name: str
    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    colour: int = 0
    is_quiet: bool = False
    has_points: bool = False

    def __post_init__(self) -> None:
        for name in ("xs", "ys"):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=1, name=name)
            object.__setattr__(self, name, array)
        if self.xs.shape != self.ys.shape:
            raise ValueError(f"{len(self.xs)} x values for {len(self.ys)} y values")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curves on shared axes; `y_range` fixes the y axis, None fits it to the data."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    is_log_y: bool = False
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """What a figure carries beside its picture; empty parts are left out.

    Head, mask, scale, gates and the program's version are added from the figure itself.
    """

    model: str = ""
    sha256: str = ""
    text: str = ""
    target: str | None = None
    step: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec:
    """One figure: its view, the records it shows, how, and at what size in millimetres.

    `grid` needs `grids`; `head` and `lines` need `maps`; `positions` needs `positions`; `curves`
    needs `charts`. `dpi` matters for PNG and the clipboard only. `caption` None leaves it out.
    """

    view: View
    grids: tuple[SiteGrid, ...] = ()
    maps: tuple[HeadMap, ...] = ()
    positions: tuple[PositionTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    gates: Gates = NO_GATES
    selection: tuple[HeadRef, ...] = ()
    style: MapStyle = field(default_factory=MapStyle)
    title: str = ""
    caption: Caption | None = None
    width_mm: float = 160.0
    height_mm: float = 130.0
    dpi: int = 300

    @property
    def width_px(self) -> float:
        """Width in layout pixels, 96 to the inch."""
        return self.width_mm / MM_PER_INCH * LAYOUT_DPI

    @property
    def height_px(self) -> float:
        """Height in layout pixels, 96 to the inch."""
        return self.height_mm / MM_PER_INCH * LAYOUT_DPI

    @property
    def size_in_dots(self) -> tuple[int, int]:
        """Width and height of the PNG in pixels."""
        scale = self.dpi / MM_PER_INCH
        return round(self.width_mm * scale), round(self.height_mm * scale)


def check_spec(spec: FigureSpec) -> None:
    """Raise UserError when the figure has nothing to show or an impossible size."""
    shown = {
        "grid": spec.grids,
        "head": spec.maps,
        "lines": spec.maps,
        "positions": spec.positions,
        "curves": spec.charts,
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
    for name, value in (("wide", spec.width_mm), ("high", spec.height_mm)):
        if not MIN_MM <= value <= MAX_MM:
            raise UserError(
                f"The figure is to be {value:g} mm {name}.",
                expected=f"{MIN_MM:g} to {MAX_MM:g} mm",
                action="Choose a size within that range.",
            )


def check_dots(spec: FigureSpec) -> None:
    """Raise UserError when the figure has too many pixels for an image."""
    if not MIN_DPI <= spec.dpi <= MAX_DPI:
        raise UserError(
            f"The figure is to have {spec.dpi} dots per inch.",
            expected=f"{MIN_DPI} to {MAX_DPI}",
            action="300 suits print, 150 a screen.",
        )
    width, height = spec.size_in_dots
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise UserError(
            f"The image would have {width:,} × {height:,} pixels.",
            expected=f"at most {MAX_PIXELS // 1_000_000} million, and {MAX_SIDE_PX:,} a side",
            action="Choose fewer dots per inch, a smaller size, or SVG or PDF, which have no pixels.",
        )

"""What every figure has, whatever it shows: look, words and page; and what each view answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.codec import At, Once
from attnscope.errors import UserError
from attnscope.figures.colours import Palette
from attnscope.figures.style import MapStyle
from attnscope.records.findings import GoldCell
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, PositionCheck, PositionTable
from attnscope.records.models import Source
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Stack
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect

if TYPE_CHECKING:
    from attnscope.figures.shown_maps import Wanted

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
    """What a figure says below its picture; empty parts are left out.

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
    """What a figure of a text was made from, enough to draw it again: see `figure_file`.

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
"""What a person may choose of the look of some figures, and what changes nothing in others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRequest:
    """What a trace is asked for to draw a figure again; `also` are the panels beside the heads'."""

    heads: tuple[HeadRef, ...] = ()
    stack: Stack | None = None
    also: tuple[str, ...] = ()
    gold: tuple[GoldCell, ...] = ()
    columns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec(ABC):
    """A picture with its numbers: its look, words and page. What it shows is added by its view.

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
    """Whether a reader is told of maps that are of one colour all over."""
    reads_trace: ClassVar[bool] = False
    """Whether it is drawn from a trace: see `of_trace`."""
    reads_positions: ClassVar[bool] = False
    """Whether it is drawn from tables of positional encodings: see `of_positions`."""
    reads_checks: ClassVar[bool] = False
    """Whether it shows what was measured of every position scheme as well."""
    asks: ClassVar[str] = ""
    """What a person may choose of those tables, in a word; empty where all of them is shown."""
    is_asked: ClassVar[bool] = False
    """Whether a file of it holds the question to the model where it can: see `asked`."""
    text_name: ClassVar[str] = "Text"
    """What the model read is, in the caption."""

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
        """The figure of what is wanted of a trace; `page` is what every figure has."""
        raise NotImplementedError(f"The view {cls.view} is not drawn from a trace.")

    @classmethod
    def of_positions(
        cls,
        tables: tuple[PositionTable, ...],
        only: str = "",
        checks: tuple[PositionCheck, ...] = (),
        **page: Any,
    ) -> "FigureSpec":
        """The figure of positional encodings; `only` is what was chosen of what it `asks`, as typed."""
        raise NotImplementedError(f"The view {cls.view} is not drawn from positional encodings.")

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""

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
        """How high it wants to be at a width, in layout pixels: nothing cut, nothing white; None: any."""
        return None

    def shown_words(self) -> list[str]:
        """What the caption says of what is shown."""
        return []

    def name_parts(self) -> list[str]:
        """What stands after model and view in the suggested name of its file."""
        return []

    def faults(self) -> Iterator[UserError]:
        """What cannot be of its own numbers."""
        return iter(())

    def parts(self) -> "tuple[FigureSpec, ...]":
        """The figures that it is made of, where it shares its page among several."""
        return ()

    def fits_together(self) -> bool:
        """Whether what a file says of it can be painted."""
        return True

    def heads(self) -> Iterator[HeadRef]:
        """The heads that are named in it."""
        return (head_map.head for head_map in self.held_maps())

    def held_maps(self) -> tuple[HeadMap, ...]:
        """The maps of heads that it holds itself."""
        return ()

    def titled_maps(self) -> Iterator[tuple[str, str, HeadMap]]:
        """The maps that are drawn, each with letter and title of its part."""
        return (("a", "", head_map) for head_map in self.held_maps())

    def thumbnail_peaks(self) -> tuple[float, ...]:
        """The largest weight of each thumbnail that shares its scale with maps."""
        return ()

    def mapped(self, change: Callable[[HeadMap], HeadMap]) -> Self:
        """The figure with other maps."""
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
        """Whether a bar beside it says what its colours mean."""
        return self.style.has_bar and "bar" in self.choices

    def suits_column(self) -> bool:
        """Whether one column of a journal is wide enough."""
        return False

    def hint(self) -> str:
        """What would make it tell more; mostly empty."""
        return ""

    def cell_px(self, body: QRectF) -> float | None:
        """The shorter side of a cell of a figure with cells, in layout pixels; None where it has none."""
        return None

    def n_across(self, body: QRectF) -> int:
        """How many cells share the width of the page."""
        return 1

    def widest_value(self) -> str:
        """The widest text that stands in a cell."""
        return ""

    def asked(self) -> FigureRequest | None:
        """What a trace is asked for to draw it again; None where only its numbers say it."""
        return None

    def as_view(self, kind: type[FigureT], **shown: object) -> FigureT:
        """Look, words and page of this figure with what another view shows."""
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
        """How much larger type is than at `BASE_PT`."""
        return self.font_pt / BASE_PT

    @property
    def size_in_dots(self) -> tuple[int, int]:
        """Width and height of the PNG in pixels."""
        scale = self.dpi / MM_PER_INCH
        return round(self.width_mm * scale), round(self.height_mm * scale)


def check_spec(spec: FigureSpec) -> None:
    """Raise UserError when the figure has nothing to show or an impossible size."""
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
    """Raise UserError when the figure has too many pixels for an image."""
    width, height = spec.size_in_dots
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise UserError(
            f"The image would have {width:,} × {height:,} pixels.",
            expected=f"at most {MAX_PIXELS // 1_000_000} million, and {MAX_SIDE_PX:,} a side",
            action="Choose fewer dots per inch, a smaller size, or SVG or PDF, which have no pixels.",
        )

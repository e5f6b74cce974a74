"""Figures of several panels: their letters, and the scale they share.

Two charts never use two legends for one thing: every map of the page is coloured on the same scale, and one
colour bar stands for all of them.
"""

import dataclasses
import math
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.errors import UserError
from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.map_painting import BAR_WIDTH_PX, ColourBar, paint_colour_bar, share_text
from attnscope.figures.raster import NO_DATA, NOT_ALLOWED, codes_from_weights
from attnscope.figures.spec import (
    FigureRequest,
    FigureSpec,
    Wanted,
    as_drawn,
    common_peak,
    map_key,
    shown_maps,
)
from attnscope.figures.style import (
    LARGE_PX,
    NORMAL_PX,
    SMALL_PX,
    MapStyle,
    font,
    plain_text,
    shorten,
    text_width,
)
from attnscope.figures.token_axis import axis_names
from attnscope.figures.views.grid import GridFigure
from attnscope.figures.views.head import HeadFigure, widest_of
from attnscope.figures.views.lines import LinesFigure, comparable
from attnscope.figures.words_and_numbers import change_words, map_arrays, map_rows, mask_words, scale_words
from attnscope.records.maps import HeadMap, SelfCheck, SiteGrid
from attnscope.records.sites import Scale

Panel = HeadFigure | LinesFigure | GridFigure
MAX_PANELS = 12
"""A figure of more is no figure that anybody reads."""
_MAX_IN_FILE = len(string.ascii_lowercase)
"""One letter each: so many panels a figure file may hold."""
MAX_COLUMNS = 6
ALSO = ("lines", "grid")
"""Panels beside the maps of heads."""
HEADER_PX = 24.0
_MARGIN_PX = 12.0
_LETTER_PX = 20.0
_TITLE_PX = 16.0
_DASH_PX = 14.0
_LABELS_PX = (56.0, 44.0)
_OUTSET_PX = 6.0
_PANEL_PX = 180.0
"""The least width of a panel where there may be several in a row."""
_MAX_TITLE = 160


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PanelsFigure(FigureSpec):
    """Charts that share one page, one scale and one colour bar.

    They stand in `columns` beside each other, 0: as many as let them be largest.
    """

    view = "panels"
    words = "panels: selected heads"
    order = 7
    least_px = 190.0
    choices = frozenset({"colours", "scale", "values", "bar", "turn", "every", "special", "axes"})
    has_cells = True
    tells_evenness = True
    reads_trace = True
    is_asked = True

    panels: tuple[Panel, ...] = ()
    columns: int = 0

    @classmethod
    def of_trace(cls, wanted: Wanted, **page: Any) -> "PanelsFigure":
        if not set(wanted.also) <= set(ALSO):
            raise UserError(
                f"There is no panel '{', '.join(wanted.also)}'.",
                expected=" or ".join(ALSO),
                action="Choose from these.",
            )
        maps = wanted.maps()
        grids = wanted.grids(wanted.stack or maps[0].head.stack) if "grid" in wanted.also else ()
        return panels_figure(
            cls(**page),
            maps,
            has_lines="lines" in wanted.also,
            grids=grids,
            columns=wanted.columns,
            most=_MAX_IN_FILE if wanted.from_file else MAX_PANELS,
        )

    @property
    def is_empty(self) -> bool:
        return not self.panels

    def faults(self) -> Iterator[UserError]:
        if not 0 <= self.columns <= MAX_COLUMNS:
            yield UserError(
                f"The number of columns of panels is {self.columns}.",
                expected=f"1 to {MAX_COLUMNS}, or 0 for as many as suit the page",
                action="Choose a number within that range.",
            )

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        field, rects = panel_field(rect, self), panel_places(rect, self)
        colours = _series_colours(self, palette)
        for i, (panel, place) in enumerate(zip(on_common_scale(self), rects, strict=True)):
            is_head = isinstance(panel, HeadFigure)
            colour = colours.get(map_key(self.panels[i].held_maps()[0]), "") if is_head else ""
            _paint_header(painter, place, self.letters[i], panel, colour, palette)
            named = _outer(place, rects[0], rects[i - 1], *self.panels[max(i - 1, 0) : i + 1])
            body = panel_body(place, self)
            _paint_panel(painter, body, panel, palette, named, has_names=lines_are_named(self, i))
        if field != rect:
            top = rect.top() + HEADER_PX
            bar = QRectF(field.right(), top, BAR_WIDTH_PX, rect.bottom() - _MARGIN_PX - top)
            _paint_bar(painter, bar, self, palette)

    def natural_height(self, width: float) -> float:
        """Height of all rows of panels, each as high as its highest panel."""
        field = panel_field(QRectF(0.0, 0.0, width, width), self)
        columns = self.columns or suiting_columns(len(self.panels), field.width())
        return sum(row_heights(self, field.width(), columns))

    @property
    def letters(self) -> str:
        """One letter for each panel, in reading order."""
        return string.ascii_lowercase[: len(self.panels)]

    def parts(self) -> tuple[FigureSpec, ...]:
        return self.panels

    def lines(self) -> list[LinesFigure]:
        return [panel for panel in self.panels if isinstance(panel, LinesFigure)]

    def head_maps(self) -> tuple[HeadMap, ...]:
        return tuple(m for panel in self.panels if isinstance(panel, HeadFigure) for m in panel.maps)

    def grids(self) -> tuple[SiteGrid, ...]:
        return tuple(grid for panel in self.panels if isinstance(panel, GridFigure) for grid in panel.grids)

    def titled_maps(self) -> Iterator[tuple[str, str, HeadMap]]:
        for letter, panel in zip(self.letters, self.panels, strict=True):
            yield from ((letter, panel.title, head_map) for _, _, head_map in panel.titled_maps())

    def site_checks(self) -> tuple[SelfCheck, ...]:
        return tuple(check for panel in self.panels for check in panel.site_checks())

    def thumbnail_peaks(self) -> tuple[float, ...]:
        return tuple(float(grid.peaks[np.isfinite(grid.peaks)].max(initial=0.0)) for grid in self.grids())

    def mapped(self, change: Callable[[HeadMap], HeadMap]) -> Self:
        return dataclasses.replace(self, panels=tuple(panel.mapped(change) for panel in self.panels))

    def without_special(self) -> Self:
        return dataclasses.replace(self, panels=tuple(map(as_drawn, self.panels)))

    def with_style(self, style: MapStyle) -> Self:
        panels = tuple(panel.with_style(style) for panel in self.panels)
        return dataclasses.replace(self, style=style, panels=panels)

    def shown_words(self) -> list[str]:
        words = [f"{letter}: {_panel_words(self, i)}" for i, letter in enumerate(self.letters)]
        maps = self.head_maps()
        if maps:
            rows = "what is written" if maps[0].queries and maps[0].queries[0].read else "queries"
            words += [f"rows {rows}, columns keys", f"mask {mask_words(maps)}"]
        words += list(dict.fromkeys(m.note for m in maps if m.note))
        is_joint = self.style.scale == "head"
        scale = f"scale to the largest weight, {self.style.colour_map}" if is_joint else scale_words(self)
        return [*words, scale, *_changed(self)]

    def name_parts(self) -> list[str]:
        maps = shown_maps(self)
        return [*dict.fromkeys(m.head.stack for m in maps), *(m.head.label for m in maps[:4])]

    def rows(self) -> Iterator[Iterable[str]]:
        return map_rows(self)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return map_arrays(self)

    def cell_px(self, body: QRectF) -> float | None:
        """The shorter side of the smallest cell of a head's panel."""
        found = []
        for panel, place in zip(self.panels, panel_places(body, self), strict=True):
            if isinstance(panel, HeadFigure):
                placed = panel.placed(panel_body(place, self), is_panel=True, has_corner=True)
                found.append(min(placed.rows.step, placed.columns.step))
        return min(found, default=None)

    def widest_value(self) -> str:
        return widest_of(shown_maps(self))

    def fits_together(self) -> bool:
        return len(self.panels) <= _MAX_IN_FILE

    def asked(self) -> FigureRequest:
        heads = tuple(head_map.head for head_map in shown_maps(self))
        grids = self.grids()
        also = tuple(name for name, has_it in zip(ALSO, (self.lines(), grids), strict=True) if has_it)
        stack = grids[0].site.stack if grids else heads[0].stack if heads else None
        return FigureRequest(heads=heads, stack=stack, also=also, columns=self.columns)


def panels_figure(
    base: FigureSpec,
    maps: tuple[HeadMap, ...],
    *,
    has_lines: bool = False,
    grids: tuple[SiteGrid, ...] = (),
    columns: int = 0,
    most: int = MAX_PANELS,
) -> PanelsFigure:
    """A page with one panel for each map, then their lines, then the grid; the rest is as in `base`.

    Raises UserError for more than `most` panels.
    """
    plain = dataclasses.replace(base, title="", caption=None)
    panels: list[Panel] = [plain.as_view(HeadFigure, maps=(head_map,)) for head_map in maps]
    if has_lines and maps:
        panels.append(plain.as_view(LinesFigure, maps=maps))
    if grids:
        chosen = tuple(m.head for m in maps if not m.name)
        panels.append(plain.as_view(GridFigure, grids=grids, selection=chosen))
    check_count(len(panels), most)
    return base.as_view(PanelsFigure, panels=tuple(panels), columns=columns)


def panels_of(parts: Sequence[FigureSpec], titles: Sequence[str], base: PanelsFigure) -> PanelsFigure:
    """Figures of heads, lines and grids as the panels of one page, of any model and text.

    `titles` tell the panels apart beside their letters; look, page, title and caption are those of `base`.
    Raises UserError, naming the panel, for a figure that is no panel.
    """
    check_count(len(parts))
    panels: list[Panel] = []
    for letter, part, title in zip(string.ascii_lowercase, parts, titles, strict=False):
        long = part.part if isinstance(part, HeadFigure) else None
        if not isinstance(part, Panel) or long is not None:
            shown = f"a map of {len(long.queries):,} tokens" if long else f"the view '{part.view}'"
            raise UserError(
                f"Panel {letter} cannot show {shown}.",
                expected="one head of a text that is not too long, lines, or a grid",
                action="Leave it out, or save it as a figure of its own.",
            )
        bare = dataclasses.replace(part, gold=()) if isinstance(part, HeadFigure) else part
        panels.append(dataclasses.replace(bare, title=title, caption=None, style=base.style))
    return dataclasses.replace(base, panels=tuple(panels))


def check_count(n_panels: int, most: int = MAX_PANELS) -> None:
    """Raise UserError for too many panels for one page."""
    if n_panels > most:
        raise UserError(
            f"A figure of panels shows up to {most}, not {n_panels}.",
            expected=f"1 to {most} panels, a to {string.ascii_lowercase[most - 1]}",
            action="Choose fewer heads, show their lines or the grid, or make several figures.",
        )


def _subject(panel: Panel) -> str:
    return "lines" if isinstance(panel, LinesFigure) else panel.subject()


def _panel_words(spec: PanelsFigure, i: int) -> str:
    """Description of a panel; its lines' heads if no other panel names them."""
    panel = spec.panels[i]
    words = " · ".join(filter(None, (_subject(panel), panel.title)))
    if lines_are_named(spec, i):
        names = ", ".join(f"{m.head.stack} {m.name or m.head.label}" for m in panel.held_maps()[:12])
        words = " · ".join(filter(None, (f"lines of {names}", panel.title)))
    return shorten(plain_text(words), _MAX_TITLE)


def _changed(spec: PanelsFigure) -> list[str]:
    """The gates and changes of heads: of the whole figure, or of each panel if they differ."""
    own = [(panel.gates, panel.interventions) for panel in spec.panels]
    if len(set(own)) == 1:
        return change_words(*own[0])
    named = zip(spec.letters, own, strict=True)
    words = [f"{letter}: {', '.join(change_words(*one))}" for letter, one in named if any(one)]
    return [*words, "no other panel has gates"] if len(words) < len(own) else words


def lines_are_named(spec: PanelsFigure, i: int) -> bool:
    """Whether panel `i` names its lines itself, as the dashes before the heads' titles do not."""
    panel = spec.panels[i]
    if not isinstance(panel, LinesFigure):
        return False
    heads = {map_key(one.maps[0]) for one in spec.panels if isinstance(one, HeadFigure)}
    return len(spec.lines()) > 1 or any(map_key(m) not in heads for m in panel.maps)


def on_common_scale(spec: PanelsFigure) -> tuple[Panel, ...]:
    """The panels, their maps and grids coloured on one scale without bars of their own.

    Colours by row have no end in common; each row then ends at its own largest weight in every panel.
    """
    peak = common_peak(spec)
    scale: Scale = "row" if spec.style.scale == "row" else "fixed"
    style = dataclasses.replace(spec.style, scale=scale, has_bar=False)
    return tuple(_on_scale(panel.with_style(style), peak) for panel in spec.panels)


def _on_scale(panel: Panel, peak: float) -> Panel:
    if isinstance(panel, GridFigure):
        grids = tuple(dataclasses.replace(g, peaks=g.peaks / np.float32(peak)) for g in panel.grids)
        return dataclasses.replace(panel, grids=grids)
    return panel.mapped(lambda head_map: dataclasses.replace(head_map, full=peak))


def suiting_columns(n_panels: int, width: float) -> int:
    """Default number of panels beside each other: as many as are wide enough.

    Rows are filled alike: four panels where three would fit stand two by two.
    """
    most = max(1, int(width // _PANEL_PX))
    n_rows = -(-n_panels // most)
    return -(-n_panels // n_rows)


def panel_field(rect: QRectF, spec: PanelsFigure) -> QRectF:
    """The part of `rect` that the panels share: all but the colour bar at its right."""
    has_colours = len(spec.lines()) < len(spec.panels)
    return rect.adjusted(0, 0, -BAR_WIDTH_PX - _MARGIN_PX if spec.style.has_bar and has_colours else 0.0, 0)


def panel_rects(rect: QRectF, n_panels: int, columns: int, shares: tuple[float, ...]) -> tuple[QRectF, ...]:
    """The panels in rows of `columns`, with heights proportional to `shares`; a short row is left-aligned."""
    width, unit = rect.width() / columns, rect.height() / sum(shares)
    tops = [rect.top() + unit * sum(shares[:row]) for row in range(len(shares))]
    places = (divmod(i, columns) for i in range(n_panels))
    return tuple(
        QRectF(rect.left() + column * width, tops[row], width, unit * shares[row]) for row, column in places
    )


def widest_columns(rect: QRectF, n_panels: int) -> int:
    """The number of columns that makes squares largest."""
    return max(range(1, n_panels + 1), key=lambda n: (_side(rect, n_panels, n), -n))


def row_heights(spec: PanelsFigure, width: float, columns: int) -> tuple[float, ...]:
    """Preferred height of each row of panels that share `width`, letters included."""
    columns = min(columns, len(spec.panels))
    body = panel_body(QRectF(0.0, 0.0, width / columns, width), spec).width()
    heights = [
        header_px(spec) + _panel_height(panel, body, has_names=lines_are_named(spec, i))
        for i, panel in enumerate(spec.panels)
    ]
    return tuple(max(heights[i : i + columns]) for i in range(0, len(heights), columns))


def panel_places(rect: QRectF, spec: PanelsFigure) -> tuple[QRectF, ...]:
    """Rectangle of each panel in `rect`, including its letter."""
    field, n_panels = panel_field(rect, spec), len(spec.panels)
    columns = min(spec.columns, n_panels) or widest_columns(field, n_panels)
    return panel_rects(field, n_panels, columns, row_heights(spec, field.width(), columns))


def header_px(spec: PanelsFigure) -> float:
    """The height of letters and, if panels differ in more than their heads, of a line of text about that."""
    return HEADER_PX + (_TITLE_PX if any(panel.title for panel in spec.panels) else 0.0)


def panel_body(place: QRectF, spec: PanelsFigure) -> QRectF:
    """Area of a panel below its letter."""
    return place.adjusted(_MARGIN_PX - 4, header_px(spec), -4, 0)


def _outer(place: QRectF, first: QRectF, before: QRectF, *panels: Panel) -> tuple[bool, bool]:
    """The axes that a panel names: keys in the upper row, queries in the left column.

    Its rows too where they are called otherwise than those of the panel `before`, beside it.
    """
    called = {axis_names(one.held_maps()[0].queries, one.style)[1] for one in panels if one.held_maps()}
    is_called_anew = place.top() == before.top() and len(called) > 1
    return place.top() == first.top(), place.left() == first.left() or is_called_anew


def _side(rect: QRectF, n_panels: int, columns: int) -> float:
    """Largest square for each panel; empty places count against an arrangement."""
    rows = -(-n_panels // columns)
    width = rect.width() / columns - _LABELS_PX[0]
    height = rect.height() / rows - HEADER_PX - _LABELS_PX[1]
    return min(width, height) * math.sqrt(n_panels / (rows * columns))


def _paint_header(
    painter: QPainter, rect: QRectF, letter: str, panel: Panel, colour: str, palette: Palette
) -> None:
    """Paint the letter, the colour of the panel's head in the lines, and the panel's content in words."""
    baseline = rect.top() + _MARGIN_PX + 8
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(rect.left() + _MARGIN_PX, baseline), letter)
    left = rect.left() + _MARGIN_PX + max(_LETTER_PX, text_width(letter, LARGE_PX, is_bold=True) + 6)
    if colour:
        painter.setPen(QPen(QColor(colour), 3.0))
        painter.drawLine(QPointF(left, baseline - 5), QPointF(left + _DASH_PX, baseline - 5))
        left += _DASH_PX + 6
    face, room = font(NORMAL_PX), max(rect.right() - left, 24.0)
    subject, metrics = _subject(panel), QFontMetricsF(face)
    if isinstance(panel, HeadFigure) and metrics.horizontalAdvance(subject) > room:
        subject = panel.maps[0].name or panel.maps[0].head.label  # the caption names the stack
    painter.setFont(face)
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(left, baseline), metrics.elidedText(subject, Qt.TextElideMode.ElideRight, room))
    if panel.title:
        left, small = rect.left() + _MARGIN_PX, QFontMetricsF(font(SMALL_PX))
        room = rect.right() - left - _MARGIN_PX
        words = small.elidedText(plain_text(panel.title), Qt.TextElideMode.ElideRight, room)
        painter.setFont(font(SMALL_PX))
        painter.drawText(QPointF(left, baseline + _TITLE_PX), words)


def _series_colours(spec: PanelsFigure, palette: Palette) -> dict[tuple[object, ...], str]:
    """The colour of each map's lines; empty without lines, or if two panels have some."""
    lines = spec.lines()
    shown = comparable(lines[0].maps) if len(lines) == 1 else ()
    return {map_key(head_map): series_colour(palette, i) for i, head_map in enumerate(shown)}


def _paint_panel(
    painter: QPainter,
    rect: QRectF,
    panel: Panel,
    palette: Palette,
    named: tuple[bool, bool],
    *,
    has_names: bool,
) -> None:
    wider = rect.adjusted(-_OUTSET_PX / 2, -2 * _OUTSET_PX, _OUTSET_PX, _OUTSET_PX)  # less of their margins
    match panel:
        case HeadFigure():
            panel.paint_panel(painter, rect, palette, named)
        case LinesFigure():
            panel.paint_panel(painter, wider, palette, has_names=has_names)
        case GridFigure():
            panel.paint_panel(painter, wider, palette)


def _panel_height(panel: Panel, width: float, *, has_names: bool) -> float:
    """Height of one panel below its letter; lines with names need more."""
    match panel:
        case HeadFigure():
            return panel.map_height(width, is_panel=True)
        case LinesFigure():
            return panel.lines_height(width, has_names=has_names)
        case GridFigure():
            return panel.panel_height(width)


def _paint_bar(painter: QPainter, rect: QRectF, spec: PanelsFigure, palette: Palette) -> None:
    peak, scale = common_peak(spec), spec.style.scale
    shares = (0.0, 0.5, 1.0) if scale == "head" else (0.0, 0.25, 0.5, 0.75, 1.0)
    ticks = tuple((t, share_text(t * peak)) for t in shares)
    if scale == "row":
        ticks = ((0.0, "0"), (1.0, "row max"))
    maps = spec.head_maps()
    codes = [codes_from_weights(m.weights, scale, peak) for m in maps]
    has_masked = any(bool((c == NOT_ALLOWED).any()) for c in codes)
    paint_colour_bar(
        painter,
        rect,
        ColourBar(
            colour_map=spec.style.colour_map,
            title="weight",
            ticks=ticks,
            note={"row": "per row", "head": "to the largest", "fixed": ""}[scale],
            has_not_allowed=has_masked or any(bool((grid.levels == 0).any()) for grid in spec.grids()),
            has_no_data=any(bool((c == NO_DATA).any()) for c in codes),
            no_data_words="left out" if any(m.note for m in maps) else "no data",
        ),
        palette,
    )

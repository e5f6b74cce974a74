"""Several charts on one page: a letter and a title each, one scale, one colour bar."""

import math

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colour_bar import WIDTH_PX, paint_colour_bar, share_text
from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.natural_heights import panel_height
from attnscope.figures.paint_grid import GridMarks, paint_grid
from attnscope.figures.paint_lines import comparable, paint_lines
from attnscope.figures.paint_map import paint_head_map
from attnscope.figures.panels import (
    common_peak,
    lines_are_named,
    map_key,
    on_common_scale,
    panel_letters,
    panel_subject,
)
from attnscope.figures.plain import plain_text
from attnscope.figures.raster import NO_DATA, NOT_ALLOWED, codes_from_weights
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import LARGE_PX, NORMAL_PX, SMALL_PX, font, text_width

_MARGIN_PX = 12.0
HEADER_PX = 24.0
_LETTER_PX = 20.0
_TITLE_PX = 16.0
_DASH_PX = 14.0
_LABELS_PX = (56.0, 44.0)
_OUTSET_PX = 6.0


def panel_field(rect: QRectF, spec: FigureSpec) -> QRectF:
    """The part of `rect` that the panels share: all but the colour bar at its right."""
    has_colours = any(panel.view != "lines" for panel in spec.panels)
    return rect.adjusted(0, 0, -WIDTH_PX - _MARGIN_PX if spec.style.has_bar and has_colours else 0.0, 0)


def panel_rects(rect: QRectF, n_panels: int, columns: int, shares: tuple[float, ...]) -> tuple[QRectF, ...]:
    """The panels in rows of `columns` whose heights are to each other as `shares`; a short one stays left."""
    width, unit = rect.width() / columns, rect.height() / sum(shares)
    tops = [rect.top() + unit * sum(shares[:row]) for row in range(len(shares))]
    places = (divmod(i, columns) for i in range(n_panels))
    return tuple(
        QRectF(rect.left() + column * width, tops[row], width, unit * shares[row]) for row, column in places
    )


def widest_columns(rect: QRectF, n_panels: int) -> int:
    """As many columns as let squares be largest."""
    return max(range(1, n_panels + 1), key=lambda n: (_side(rect, n_panels, n), -n))


def row_heights(spec: FigureSpec, width: float, columns: int) -> tuple[float, ...]:
    """How high each row of panels wants to be when they share `width`, letters included."""
    columns = min(columns, len(spec.panels))
    body = panel_body(QRectF(0.0, 0.0, width / columns, width), spec).width()
    heights = [
        header_px(spec) + panel_height(panel, body, has_names=lines_are_named(spec, i))
        for i, panel in enumerate(spec.panels)
    ]
    return tuple(max(heights[i : i + columns]) for i in range(0, len(heights), columns))


def paint_panels(painter: QPainter, rect: QRectF, spec: FigureSpec, *, palette: Palette) -> None:
    """Draw all panels into `rect` with the colour bar at its right."""
    field, rects = panel_field(rect, spec), panel_places(rect, spec)
    letters = panel_letters(spec)
    colours = _series_colours(spec, palette)
    for i, (panel, place) in enumerate(zip(on_common_scale(spec), rects, strict=True)):
        colour = colours.get(map_key(spec.panels[i].maps[0]), "") if panel.view == "head" else ""
        _paint_header(painter, place, letters[i], panel, colour, palette)
        named = _outer(place, rects[0])
        _paint_panel(
            painter, panel_body(place, spec), panel, palette, named, has_names=lines_are_named(spec, i)
        )
    if field != rect:
        top = rect.top() + HEADER_PX
        bar = QRectF(field.right(), top, WIDTH_PX, rect.bottom() - _MARGIN_PX - top)
        _paint_bar(painter, bar, spec, palette)


def panel_places(rect: QRectF, spec: FigureSpec) -> tuple[QRectF, ...]:
    """Where each panel lies in `rect`, its letter included."""
    field, n_panels = panel_field(rect, spec), len(spec.panels)
    columns = min(spec.columns, n_panels) or widest_columns(field, n_panels)
    return panel_rects(field, n_panels, columns, row_heights(spec, field.width(), columns))


def header_px(spec: FigureSpec) -> float:
    """The height of letters and, where panels are told apart by more than their heads, of a line of that."""
    return HEADER_PX + (_TITLE_PX if any(panel.title for panel in spec.panels) else 0.0)


def panel_body(place: QRectF, spec: FigureSpec) -> QRectF:
    """What is left of a panel below its letter."""
    return place.adjusted(_MARGIN_PX - 4, header_px(spec), -4, 0)


def _outer(place: QRectF, first: QRectF) -> tuple[bool, bool]:
    """The axes that a panel names: keys in the upper row, queries in the left column."""
    return place.top() == first.top(), place.left() == first.left()


def _side(rect: QRectF, n_panels: int, columns: int) -> float:
    """How large a square each panel has room for; empty places count against an arrangement."""
    rows = -(-n_panels // columns)
    width = rect.width() / columns - _LABELS_PX[0]
    height = rect.height() / rows - HEADER_PX - _LABELS_PX[1]
    return min(width, height) * math.sqrt(n_panels / (rows * columns))


def _paint_header(
    painter: QPainter, rect: QRectF, letter: str, panel: FigureSpec, colour: str, palette: Palette
) -> None:
    """The letter, the colour of the panel's head in the lines, and what the panel shows."""
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
    subject, metrics = panel_subject(panel), QFontMetricsF(face)
    if panel.view == "head" and metrics.horizontalAdvance(subject) > room:
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


def _series_colours(spec: FigureSpec, palette: Palette) -> dict[tuple[object, ...], str]:
    """The colour in which the lines show each map; empty without lines, or where two panels have some."""
    lines = [panel for panel in spec.panels if panel.view == "lines"]
    shown = comparable(lines[0].maps) if len(lines) == 1 else ()
    return {map_key(head_map): series_colour(palette, i) for i, head_map in enumerate(shown)}


def _paint_panel(
    painter: QPainter,
    rect: QRectF,
    panel: FigureSpec,
    palette: Palette,
    named: tuple[bool, bool],
    *,
    has_names: bool,
) -> None:
    wider = rect.adjusted(-_OUTSET_PX / 2, -2 * _OUTSET_PX, _OUTSET_PX, _OUTSET_PX)  # less of their margins
    match panel.view:
        case "head":
            head_map = panel.maps[0]
            paint_head_map(
                painter,
                rect,
                head_map,
                style=panel.style,
                palette=palette,
                has_title=False,
                is_compact=True,
                named=named,
            )
        case "lines":
            paint_lines(
                painter,
                wider,
                panel.maps,
                palette=palette,
                style=panel.style,
                has_names=has_names,
                is_paper=True,
            )
        case "grid":
            marks = GridMarks(gates=panel.gates, selection=panel.selection)
            paint_grid(
                painter,
                wider,
                panel.grids,
                style=panel.style,
                palette=palette,
                marks=marks,
                is_paper=True,
            )
        case _:
            raise ValueError(f"no panel for the view {panel.view!r}")


def _paint_bar(painter: QPainter, rect: QRectF, spec: FigureSpec, palette: Palette) -> None:
    peak, scale = common_peak(spec), spec.style.scale
    shares = (0.0, 0.5, 1.0) if scale == "head" else (0.0, 0.25, 0.5, 0.75, 1.0)
    ticks = tuple((t, share_text(t * peak)) for t in shares)
    if scale == "row":
        ticks = ((0.0, "0"), (1.0, "row max"))
    maps = [m for panel in spec.panels if panel.view == "head" for m in panel.maps]
    codes = [codes_from_weights(m.weights, scale, peak) for m in maps]
    grids = [grid for panel in spec.panels for grid in panel.grids]
    has_masked = any(bool((c == NOT_ALLOWED).any()) for c in codes)
    paint_colour_bar(
        painter,
        rect,
        palette,
        colour_map=spec.style.colour_map,
        title="weight",
        ticks=ticks,
        note={"row": "per row", "head": "to the largest", "fixed": ""}[scale],
        has_not_allowed=has_masked or any(bool((grid.levels == 0).any()) for grid in grids),
        has_no_data=any(bool((c == NO_DATA).any()) for c in codes),
        no_data_words="left out" if any(m.note for m in maps) else "no data",
    )

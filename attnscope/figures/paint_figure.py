"""A whole figure: title, picture, caption block. Figures are light, whatever the window's theme."""

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter

from attnscope.figures.caption import caption_lines
from attnscope.figures.colour_bar import WIDTH_PX, paint_colour_bar
from attnscope.figures.colours import LIGHT, Palette
from attnscope.figures.paint_curves import paint_curves
from attnscope.figures.paint_difference import paint_difference
from attnscope.figures.paint_gold import paint_gold, paint_gold_on_tiles
from attnscope.figures.paint_graph import paint_graph
from attnscope.figures.paint_grid import GridMarks, paint_grid
from attnscope.figures.paint_inside import paint_inside
from attnscope.figures.paint_lab import paint_lab
from attnscope.figures.paint_lines import paint_lines
from attnscope.figures.paint_map import paint_head_map
from attnscope.figures.paint_panels import paint_panels
from attnscope.figures.paint_part import paint_map_part, part_layout
from attnscope.figures.paint_picture import paint_picture
from attnscope.figures.paint_positions import paint_positions
from attnscope.figures.plain import plain_text
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import LARGE_PX, SMALL_PX, font, paper_type
from attnscope.figures.wrapping import LINE_PX, wrapped

_MARGIN_PX = 12.0
_TITLE_LINE_PX = 23.0


def paint_figure(painter: QPainter, spec: FigureSpec, *, palette: Palette = LIGHT) -> None:
    """Draw the figure in layout pixels (96 to the inch) from the painter's origin."""
    painter.save()
    painter.scale(spec.type_scale, spec.type_scale)
    with paper_type(spec.style.font):
        _paint_page(painter, spec, palette)
    painter.restore()


def frame_heights(spec: FigureSpec) -> tuple[float, float]:
    """The heights of the title and of the caption, in layout pixels at the size of type on paper."""
    titles, lines = _frame_lines(spec)
    above = _MARGIN_PX + 24.0 + (len(titles) - 1) * _TITLE_LINE_PX if titles else 0.0
    return above, len(lines) * LINE_PX + 2 * 8 if lines else 0.0


def _frame_lines(spec: FigureSpec) -> tuple[list[str], list[str]]:
    """The lines of the title and those of the caption, broken at the page's width."""
    width = spec.width_px / spec.type_scale - 2 * _MARGIN_PX
    face = font(LARGE_PX, is_bold=True)
    titles = wrapped((plain_text(spec.title),), width, face) if spec.title else []
    return titles, wrapped(caption_lines(spec), width)


def _paint_page(painter: QPainter, spec: FigureSpec, palette: Palette) -> None:
    whole = QRectF(0, 0, spec.width_px / spec.type_scale, spec.height_px / spec.type_scale)
    painter.fillRect(whole, QColor(palette.background))
    titles, lines = _frame_lines(spec)
    top, caption_px = frame_heights(spec)
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    for k, line in enumerate(titles):
        painter.drawText(QPointF(_MARGIN_PX, _MARGIN_PX + 17 + k * _TITLE_LINE_PX), line)
    body = QRectF(0, top, whole.width(), max(40.0, whole.height() - top - caption_px))
    _paint_view(painter, body, spec, palette)
    _paint_caption(painter, QRectF(0, whole.height() - caption_px, whole.width(), caption_px), lines, palette)


def _paint_view(painter: QPainter, rect: QRectF, spec: FigureSpec, palette: Palette) -> None:
    match spec.view:
        case "grid":
            _paint_grid_with_bar(painter, rect, spec, palette)
        case "head":
            if spec.part is not None:
                paint_map_part(painter, rect, spec.part, style=spec.style, palette=palette, gates=spec.gates)
                paint_gold_on_tiles(painter, *part_layout(rect, spec.part), spec.gold)
                return
            head_map = spec.maps[0]
            gate = spec.gates.value(head_map.head)
            placed = paint_head_map(
                painter,
                rect,
                head_map,
                style=spec.style,
                palette=palette,
                gate=gate,
                has_title=not spec.style.is_plain,
            )
            paint_gold(painter, placed, spec.gold)
        case "picture" if spec.picture is not None:
            part = spec.picture
            paint_picture(
                painter,
                rect,
                part.picture,
                spec.maps[0],
                part.query,
                style=spec.style,
                palette=palette,
            )
        case "lines":
            paint_lines(painter, rect, spec.maps, palette=palette, style=spec.style, is_paper=True)
        case "inside" if spec.inside is not None:
            inside = spec.inside
            paint_inside(
                painter, rect, inside.inside, palette=palette, step=inside.step, row=inside.row, is_paper=True
            )
        case "graph" if spec.graph is not None:
            paint_graph(painter, rect, spec.graph, palette=palette)
        case "panels":
            paint_panels(painter, rect, spec, palette=palette)
        case "difference" if spec.compared is not None:
            paint_difference(painter, rect, spec.compared, style=spec.style, palette=palette)
        case "positions":
            paint_positions(painter, rect, spec.positions, palette=palette)
        case "curves":
            paint_curves(painter, rect, spec.charts, palette=palette)
        case "lab":
            paint_lab(painter, rect, spec.cells, spec.charts, palette=palette)
        case _:
            raise ValueError(f"no painter for the view {spec.view!r}")


def _paint_grid_with_bar(painter: QPainter, rect: QRectF, spec: FigureSpec, palette: Palette) -> None:
    has_bar = spec.style.has_bar
    field = rect.adjusted(0, 0, -WIDTH_PX - _MARGIN_PX if has_bar else 0.0, 0)
    marks = GridMarks(gates=spec.gates, selection=spec.selection)
    layout = paint_grid(
        painter, field, spec.grids, style=spec.style, palette=palette, marks=marks, is_paper=True
    )
    if not has_bar:
        return
    bottom = layout.area.bottom()
    bar = QRectF(field.right(), layout.box(0, 0).top(), WIDTH_PX, bottom - layout.box(0, 0).top())
    ticks: tuple[tuple[float, str], ...] = tuple((t, f"{t:g}") for t in (0.0, 0.25, 0.5, 0.75, 1.0))
    if spec.style.scale != "fixed":
        ticks = ((0.0, "0"), (1.0, f"{spec.style.scale} max"))
    has_masked = any(bool((grid.levels == 0).any()) for grid in spec.grids)
    paint_colour_bar(
        painter,
        bar,
        palette,
        colour_map=spec.style.colour_map,
        title="weight",
        ticks=ticks,
        has_not_allowed=has_masked,
    )


def _paint_caption(painter: QPainter, rect: QRectF, lines: list[str], palette: Palette) -> None:
    if not lines:
        return
    painter.setPen(QColor(palette.line))
    painter.drawLine(QPointF(_MARGIN_PX, rect.top()), QPointF(rect.right() - _MARGIN_PX, rect.top()))
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    for i, line in enumerate(lines):
        painter.drawText(QPointF(_MARGIN_PX, rect.top() + 8 + 11 + i * LINE_PX), line)

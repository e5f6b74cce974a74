"""A whole figure: title, picture, caption block. Figures are light, whatever the window's theme."""

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter

from attnscope.figures.caption import caption_lines
from attnscope.figures.colours import LIGHT, Palette
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
    spec.paint(painter, body, palette)
    _paint_caption(painter, QRectF(0, whole.height() - caption_px, whole.width(), caption_px), lines, palette)


def _paint_caption(painter: QPainter, rect: QRectF, lines: list[str], palette: Palette) -> None:
    if not lines:
        return
    painter.setPen(QColor(palette.line))
    painter.drawLine(QPointF(_MARGIN_PX, rect.top()), QPointF(rect.right() - _MARGIN_PX, rect.top()))
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    for i, line in enumerate(lines):
        painter.drawText(QPointF(_MARGIN_PX, rect.top() + 8 + 11 + i * LINE_PX), line)

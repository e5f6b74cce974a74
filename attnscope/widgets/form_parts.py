"""Small pieces that the training and positions pages are put together from."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QPainter, QPixmap, QPolygonF
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget


def row(*widgets: QWidget | None, spacing: int = 8) -> QHBoxLayout:
    """Widgets beside each other; None stretches."""
    layout = QHBoxLayout()
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(spacing)
    for widget in widgets:
        if widget is None:
            layout.addStretch(1)
        else:
            layout.addWidget(widget)
    return layout


def column(parent: QWidget, *, margin: int = 0, spacing: int = 8) -> QVBoxLayout:
    """A vertical layout on `parent`."""
    layout = QVBoxLayout(parent)
    layout.setContentsMargins(margin, margin, margin, margin)
    layout.setSpacing(spacing)
    return layout


def play_icon(colour: str, *, is_playing: bool) -> QIcon:
    """A triangle, or two bars while something plays."""
    size = 32
    pixmap = QPixmap(QSize(size, size))
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        if is_playing:
            painter.drawRect(QRectF(8, 6, 6, 20))
            painter.drawRect(QRectF(18, 6, 6, 20))
        else:
            painter.drawPolygon(QPolygonF([QPointF(9, 5), QPointF(27, 16), QPointF(9, 27)]))
    return QIcon(pixmap)


def monospaced_font(size_px: int = 12) -> QFont:
    """The system's font of equal widths."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPixelSize(size_px)
    return font

"""One matrix of a positional encoding as a picture: exact cells, axes, a cursor, zoom and pan."""

from math import isfinite

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QSizePolicy

from attnscope.figures.colours import Palette, argb, lut_argb
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.last_made import LastMade
from attnscope.widgets.map_widget import Drag, zoom_factor
from attnscope.widgets.theme import Dressed

_LEFT_PX, _BOTTOM_PX, _TOP_PX, _RIGHT_PX = 44.0, 32.0, 4.0, 8.0
_WHOLE = QRectF(0.0, 0.0, 1.0, 1.0)
_SMALLEST_SHARE = 1e-3
Matrix = NDArray[np.float32]


def colour_words(values: Matrix, limit: float, palette: Palette) -> NDArray[np.uint32]:
    """Colours of [rows, columns] values from −limit to limit, diverging about 0.

    Raises ValueError for what is not a matrix with at least one cell: a drawing library given such an
    array would end the process.
    """
    if values.ndim != 2 or values.size == 0 or values.dtype.kind != "f":
        raise ValueError(f"expected a matrix of numbers, found shape {values.shape}, type {values.dtype}")
    if not (isfinite(limit) and limit > 0):
        limit = 1.0
    is_finite = np.isfinite(values)
    share = np.clip(np.where(is_finite, values, 0.0) / limit, -1.0, 1.0)
    words = lut_argb("diverging")[np.rint((share + 1.0) * 127.5).astype(np.intp)]
    return np.where(is_finite, words, np.uint32(argb(palette.no_data)))


class PositionMap(Dressed):
    """Shows values about 0 in a diverging colour map; rows downwards, columns to the right.

    `hovered` gives row and column; the view is a part of the whole, 0…1 both ways, so that maps of
    different sizes can show the same part.
    """

    hovered = Signal(int, int)
    left = Signal()
    view_moved = Signal(QRectF)

    def __init__(self, x_label: str, y_label: str, *, is_square: bool = False) -> None:
        super().__init__()
        self._labels = (x_label, y_label)
        self._is_square = is_square
        self._values: Matrix = np.zeros((0, 0), np.float32)
        self._limit = 1.0
        self._image = QImage()
        self._scaled: LastMade[QImage] = LastMade()
        self._view = QRectF(_WHOLE)
        self._cursor: tuple[int, int] | None = None
        self._drag = Drag()
        self._is_stale = False
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(120, 96)

    def set_values(self, values: Matrix, limit: float) -> None:
        """Show a matrix; `limit` is the value at both ends of the colour map."""
        self._image = _image(colour_words(values, limit, self.theme))
        self._values, self._limit = values, limit
        self.update()

    def set_labels(self, x_label: str, y_label: str) -> None:
        """Set the names of both axes."""
        self._labels = (x_label, y_label)
        self.update()

    def dress(self) -> None:
        if self._values.size:
            self.set_values(self._values, self._limit)

    def set_stale(self, is_stale: bool) -> None:
        """Dim the picture while a newer one is pending."""
        self._is_stale = is_stale
        self.update()

    def set_view(self, view: QRectF) -> None:
        """Show a part of the whole, 0…1 in each direction."""
        self._view = QRectF(view)
        self.update()

    def set_cursor(self, cell: tuple[int, int] | None) -> None:
        """Mark a row and a column, or none."""
        if cell != self._cursor:
            self._cursor = cell
            self.update()

    def value_at(self, cell: tuple[int, int]) -> float | None:
        """The value of a cell, None outside the matrix."""
        row, column = cell
        n_rows, n_columns = self._values.shape
        inside = 0 <= row < n_rows and 0 <= column < n_columns
        return float(self._values[row, column]) if inside else None

    def plot_rect(self) -> QRectF:
        """Rectangle of the matrix."""
        rect = QRectF(self.rect()).adjusted(type_px(_LEFT_PX), _TOP_PX, -_RIGHT_PX, -type_px(_BOTTOM_PX))
        if self._is_square:
            side = max(1.0, min(rect.width(), rect.height()))
            rect = QRectF(rect.left(), rect.top(), side, side)
        return rect

    def cell_at(self, place: QPointF) -> tuple[int, int] | None:
        """The row and column at a position of the widget."""
        rect = self.plot_rect()
        if not self._values.size or not rect.contains(place):
            return None
        n_rows, n_columns = self._values.shape
        x = self._view.left() + (place.x() - rect.left()) / rect.width() * self._view.width()
        y = self._view.top() + (place.y() - rect.top()) / rect.height() * self._view.height()
        return min(int(y * n_rows), n_rows - 1), min(int(x * n_columns), n_columns - 1)

    def sizeHint(self) -> QSize:
        return QSize(280, 220)

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(event.rect(), QColor(self.theme.background))
            if not self._values.size:
                return
            rect = self.plot_rect()
            painter.drawImage(rect.toAlignedRect(), self._scaled_image(rect))
            if self._is_stale:
                veil = QColor(self.theme.background)
                veil.setAlphaF(0.6)
                painter.fillRect(rect, veil)
            painter.setPen(QPen(QColor(self.theme.line), 1))
            painter.drawRect(rect.adjusted(-0.5, -0.5, 0.5, 0.5))
            self._paint_cursor(painter, rect)
            self._paint_axes(painter, rect)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag.is_down:
            step = self._drag.move(event.position())
            if not step.isNull():
                rect = self.plot_rect()
                dx = -step.x() / rect.width() * self._view.width()
                dy = -step.y() / rect.height() * self._view.height()
                self._move_view(self._view.translated(dx, dy))
        cell = self.cell_at(event.position())
        if cell is None:
            self.left.emit()
        else:
            self.hovered.emit(*cell)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._drag.press(event)

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        self._drag.release()

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:
        self._move_view(QRectF(_WHOLE))

    def leaveEvent(self, _event: QEvent) -> None:
        self.left.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_0:
            self._move_view(QRectF(_WHOLE))
        else:
            super().keyPressEvent(event)

    def fit_room(self) -> None:
        self._scaled.forget()

    def wheelEvent(self, event: QWheelEvent) -> None:
        rect = self.plot_rect()
        if not rect.contains(event.position()):
            return
        share = min(1.0, max(_SMALLEST_SHARE, self._view.width() / zoom_factor(event.angleDelta().y())))
        across = (event.position().x() - rect.left()) / rect.width()
        down = (event.position().y() - rect.top()) / rect.height()
        left = self._view.left() + across * (self._view.width() - share)
        top = self._view.top() + down * (self._view.height() - share)
        self._move_view(QRectF(left, top, share, share))
        event.accept()

    def _move_view(self, view: QRectF) -> None:
        width, height = min(view.width(), 1.0), min(view.height(), 1.0)
        left = min(max(view.left(), 0.0), 1.0 - width)
        top = min(max(view.top(), 0.0), 1.0 - height)
        self.set_view(QRectF(left, top, width, height))
        self.view_moved.emit(self._view)

    def _scaled_image(self, rect: QRectF) -> QImage:
        """The visible part at the screen's resolution: cells crisp when large, averaged when small."""
        image = self._image
        ratio = self.devicePixelRatioF()
        size = QSize(max(1, round(rect.width() * ratio)), max(1, round(rect.height() * ratio)))
        key = (self._view.getRect(), size.toTuple(), image.cacheKey())
        source = QRectF(
            self._view.left() * image.width(),
            self._view.top() * image.height(),
            self._view.width() * image.width(),
            self._view.height() * image.height(),
        )
        return self._scaled.of(key, lambda: _resampled(image, source, size))

    def _paint_cursor(self, painter: QPainter, rect: QRectF) -> None:
        if self._cursor is None:
            return
        n_rows, n_columns = self._values.shape
        x = (self._cursor[1] + 0.5) / n_columns
        y = (self._cursor[0] + 0.5) / n_rows
        painter.setPen(QPen(QColor(0, 0, 0, 150), 1))
        if self._view.left() <= x <= self._view.right():
            across = rect.left() + (x - self._view.left()) / self._view.width() * rect.width()
            painter.drawLine(QPointF(across, rect.top()), QPointF(across, rect.bottom()))
        if self._view.top() <= y <= self._view.bottom():
            down = rect.top() + (y - self._view.top()) / self._view.height() * rect.height()
            painter.drawLine(QPointF(rect.left(), down), QPointF(rect.right(), down))

    def _paint_axes(self, painter: QPainter, rect: QRectF) -> None:
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(self.theme.muted))
        n_rows, n_columns = self._values.shape
        line, left = type_px(14), type_px(_LEFT_PX)
        for i, share in ticks(n_columns, self._view.left(), self._view.right(), rect.width() / 40):
            x = rect.left() + share * rect.width()
            place = QRectF(x - 24, rect.bottom() + 2, 48, line)
            painter.drawText(place, Qt.AlignmentFlag.AlignHCenter, str(i))
        for i, share in ticks(n_rows, self._view.top(), self._view.bottom(), rect.height() / 24):
            y = rect.top() + share * rect.height()
            place = QRectF(rect.left() - left + line, max(0.0, y - line / 2), left - line - 4, line)
            painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, str(i))
        over_px = max(0.0, text_width(self._labels[0]) + 2 - rect.width())  # of a narrow map
        left_px = min(rect.left() - over_px / 2, self.width() - rect.width() - over_px)
        below = QRectF(left_px, rect.bottom() + 2 + line, rect.width() + over_px, line)
        painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, self._labels[0])
        painter.translate(rect.left() - left + 1, rect.center().y())
        painter.rotate(-90)
        across = QRectF(-rect.height() / 2, 0, rect.height(), line)
        painter.drawText(across, Qt.AlignmentFlag.AlignHCenter, self._labels[1])
        painter.resetTransform()


def ticks(n_cells: int, first: float, last: float, n_wanted: float) -> list[tuple[int, float]]:
    """Round cell indices between two shares of the whole, each with its position 0…1 in between."""
    span = (last - first) * n_cells
    raw = max(1.0, span / max(2.0, n_wanted))
    power = 10 ** int(np.floor(np.log10(raw)))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= raw)
    start = int(np.ceil(max(0.0, first * n_cells - 0.5) / step)) * step
    found = []
    for i in range(start, n_cells, step):
        share = ((i + 0.5) / n_cells - first) / (last - first)
        if share > 1.0:
            break
        if share >= 0.0:
            found.append((i, share))
    return found


def _image(words: NDArray[np.uint32]) -> QImage:
    height, width = words.shape
    words = np.ascontiguousarray(words)
    return QImage(words.data, width, height, 4 * width, QImage.Format.Format_RGB32).copy()


def _resampled(image: QImage, source: QRectF, size: QSize) -> QImage:
    """The part `source` of the image at `size`: no smoothing when enlarged, means when reduced."""
    is_smaller = source.width() > size.width() or source.height() > size.height()
    if is_smaller:
        part = image.copy(source.toAlignedRect())
        mode = Qt.TransformationMode.SmoothTransformation
        return part.scaled(size, Qt.AspectRatioMode.IgnoreAspectRatio, mode)
    result = QImage(size, QImage.Format.Format_RGB32)
    with QPainter(result) as painter:
        painter.drawImage(QRectF(0, 0, size.width(), size.height()), image, source)
    return result

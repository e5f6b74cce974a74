"""Heads as points: near ones attend alike. Hover, click, arrow keys."""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.figures.colours import Palette, series_colour
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.records.redundancy import HeadPlane
from attnscope.records.sites import HeadRef

_MARGIN_PX, _DOT_PX, _REACH_PX, _NAME_PX = 40.0, 5.0, 18.0, 14.0
_STEPS = {
    Qt.Key.Key_Left: (-1.0, 0.0),
    Qt.Key.Key_Right: (1.0, 0.0),
    Qt.Key.Key_Up: (0.0, -1.0),
    Qt.Key.Key_Down: (0.0, 1.0),
}


class PlaneView(QWidget):
    """Paints a HeadPlane with one scale for both axes; names that would overlap are left out."""

    head_hovered = Signal(object)
    """HeadRef under the cursor, or None."""
    head_chosen = Signal(object, bool)
    """HeadRef, and whether to add it to the selection."""

    def __init__(self, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self._plane: HeadPlane | None = None
        self._hovered: HeadRef | None = None
        self._selected: HeadRef | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Heads by how alike they attend")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self.update()

    def show_plane(self, plane: HeadPlane | None) -> None:
        """Show these heads."""
        self._plane = plane
        self.update()

    def show_marks(self, hovered: HeadRef | None, selected: HeadRef | None) -> None:
        """Mark the head under the cursor and the one selected."""
        self._hovered, self._selected = hovered, selected
        self.update()

    def sizeHint(self) -> QSize:
        """Some room."""
        return QSize(480, 400)

    def place_of(self, head: HeadRef) -> QPointF:
        """Where a head is painted."""
        if self._plane is None:
            raise ValueError("there is no plane")
        x, y = self._places()[self._plane.heads.index(head)]
        return QPointF(x, y)

    def head_at(self, place: QPointF) -> HeadRef | None:
        """The head nearest to a place, within reach."""
        if self._plane is None:
            return None
        distances = np.hypot(*(self._places() - (place.x(), place.y())).T)
        k = int(distances.argmin())
        return self._plane.heads[k] if distances[k] <= _REACH_PX else None

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint dots, then as many names as find room."""
        plane, palette = self._plane, self._palette
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(palette.background))
            if plane is None:
                return
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            places = self._places()
            for (x, y), group in zip(places, plane.clusters, strict=True):
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(series_colour(palette, group)))
                painter.drawEllipse(QPointF(x, y), _DOT_PX, _DOT_PX)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            for head, colour in ((self._selected, palette.accent), (self._hovered, palette.text)):
                if head in plane.heads:
                    painter.setPen(QPen(QColor(colour), 2.0))
                    painter.drawEllipse(self.place_of(head), _DOT_PX + 4, _DOT_PX + 4)
            self._paint_names(painter, plane, places)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Tell which head is under the cursor."""
        found = self.head_at(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if found else Qt.CursorShape.ArrowCursor)
        self.head_hovered.emit(found)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the head under the cursor."""
        found = self.head_at(event.position())
        if found is not None and event.button() == Qt.MouseButton.LeftButton:
            self.head_chosen.emit(found, bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier))

    def leaveEvent(self, event: QEvent) -> None:
        """The cursor is gone."""
        super().leaveEvent(event)
        self.head_hovered.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrow keys choose the nearest head that way."""
        step = _STEPS.get(Qt.Key(event.key()))
        if step is None or self._plane is None:
            super().keyPressEvent(event)
            return
        found = self._nearest_that_way(self._plane, *step)
        if found is not None:
            self.head_chosen.emit(found, False)

    def _nearest_that_way(self, plane: HeadPlane, dx: float, dy: float) -> HeadRef | None:
        places = self._places()
        if self._selected not in plane.heads:
            return plane.heads[0]
        away = places - places[plane.heads.index(self._selected)]
        along, across = away @ (dx, dy), np.abs(away @ (dy, dx))
        costs = np.where(along > 0.5, along + 2 * across, np.inf)
        k = int(costs.argmin())
        return plane.heads[k] if np.isfinite(costs[k]) else None

    def _places(self) -> NDArray[np.float64]:
        """The middle of every dot, [n_heads, 2]; the second axis points up."""
        if self._plane is None:
            return np.zeros((0, 2))
        points = self._plane.places * (1.0, -1.0)
        low, high = points.min(axis=0), points.max(axis=0)
        room = (self.width() - 2 * _MARGIN_PX, self.height() - 2 * _MARGIN_PX)
        span = np.maximum(high - low, 1e-9)
        scale = max(1.0, float(min(room[0] / span[0], room[1] / span[1])))
        middle = np.array([self.width() / 2, self.height() / 2])
        places: NDArray[np.float64] = (points - (low + high) / 2) * scale + middle
        return places

    def _paint_names(self, painter: QPainter, plane: HeadPlane, places: NDArray[np.float64]) -> None:
        painter.setFont(font(SMALL_PX))
        around = _DOT_PX + 1
        dots = [QRectF(x - around, y - around, 2 * around, 2 * around) for x, y in places]
        taken: list[QRectF] = []
        marked = [head for head in (self._hovered, self._selected) if head in plane.heads]
        order = [*(plane.heads.index(head) for head in marked), *range(len(plane.heads))]
        for k in dict.fromkeys(order):
            head, others = plane.heads[k], [*taken, *dots[:k], *dots[k + 1 :]]
            rooms = _rooms(float(places[k, 0]), float(places[k, 1]), text_width(head.label) + 2)
            room = next((r for r in rooms if not any(r.intersects(other) for other in others)), None)
            room = rooms[0] if room is None and head in marked else room
            if room is None:
                continue
            taken.append(room)
            painter.setPen(QColor(self._palette.text if head in marked else self._palette.muted))
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, head.label)


def _rooms(x: float, y: float, wide: float) -> list[QRectF]:
    """Where the name of a dot may stand: right of it, left, above, below."""
    high, away = type_px(_NAME_PX), _DOT_PX + 5
    return [
        QRectF(x + away, y - high / 2, wide, high),
        QRectF(x - away - wide, y - high / 2, wide, high),
        QRectF(x - wide / 2, y - away - high, wide, high),
        QRectF(x - wide / 2, y + away, wide, high),
    ]

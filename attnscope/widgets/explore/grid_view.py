"""All heads of one stack as small maps: hover, select, switch off, enlarge, zoom and pan."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.grid_layout import MAX_ZOOM, GridLayout, grid_layout
from attnscope.figures.paint_grid import GridMarks, paint_grid
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import SMALL_PX, text_width, type_at, type_px
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import Gates, HeadRef
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.map_widget import ARROWS, ZOOM_KEYS, MapWidget, zoom_factor

# The small switch on a head's thumbnail: one click turns the head off, another turns it on again.

_SIDE_PX = 18.0
_MOST_OF_BOX = 0.34
_LEAST_BOX_PX = 40.0
_INSET_PX = 2.0


def switch_rect(box: QRectF) -> QRectF | None:
    """Where the switch lies in a thumbnail's rectangle; None when the thumbnail is too small for one.

    It stays in its corner: a click in the middle of a thumbnail of any size is a click on the head.
    """
    shorter = min(box.width(), box.height())
    if shorter < _LEAST_BOX_PX:
        return None
    side = min(_SIDE_PX, _MOST_OF_BOX * shorter)
    return QRectF(box.right() - side - _INSET_PX, box.top() + _INSET_PX, side, side)


def paint_switch(painter: QPainter, rect: QRectF, *, is_off: bool, is_hot: bool, palette: Palette) -> None:
    """Paint the sign of a power switch; `is_hot` when the pointer is on it."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(palette.accent if is_hot else palette.line), 1.0))
    painter.setBrush(QColor(palette.accent if is_hot else palette.raised))
    painter.drawRoundedRect(rect, 4, 4)
    sign = QColor(palette.accent_text if is_hot else palette.muted if is_off else palette.accent)
    pen = QPen(sign, 1.6)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.translate(rect.center())
    painter.scale(rect.width() / _SIDE_PX, rect.height() / _SIDE_PX)
    painter.drawArc(QRectF(-4.5, -3.5, 9, 9), 125 * 16, 290 * 16)
    painter.drawLine(QPointF(0, -5.5), QPointF(0, -0.5))
    painter.restore()


_SETTLE_MS = 80
_KEPT_ON_STAGE = 0.85
"""So much of their width thumbnails keep where their labels grow."""

_NO_TEXT = (
    "No attention yet",
    "Type a sentence above: every layer and head appears here as a small map.",
)


class GridZoom(QObject):
    """Which part of a grid is seen: how many times larger than fitted it is, and by how much it is moved.

    It is never moved past its edges. `layout` lays the grid out at a zoom, unmoved.
    """

    changed = Signal()
    zoomed = Signal()

    def __init__(self, layout: Callable[[float], GridLayout], parent: QObject) -> None:
        super().__init__(parent)
        self._layout = layout
        self.zoom, self.offset = 1.0, QPointF(0, 0)

    def fit(self) -> None:
        """Show everything."""
        self.zoom, self.offset = 1.0, QPointF(0, 0)
        self.changed.emit()

    def zoom_at(self, position: QPointF, factor: float) -> None:
        """Zoom so that what is under `position` stays there."""
        zoom = min(max(self.zoom * factor, 1.0), MAX_ZOOM)
        if zoom == 1.0:
            self.fit()
            return
        before, after = self._layout(self.zoom), self._layout(zoom)
        old, new = before.origin + self.offset, after.origin
        self.zoom = zoom
        self.offset = QPointF(
            _keep(position.x(), old.x(), before.pitch_x, new.x(), after.pitch_x),
            _keep(position.y(), old.y(), before.layer_pitch, new.y(), after.layer_pitch),
        )
        self.limit()
        self.zoomed.emit()
        self.changed.emit()

    def pan(self, step: QPointF) -> None:
        """Move the zoomed grid by `step` pixels."""
        self.offset += step
        self.limit()
        self.changed.emit()

    def bring_into_view(self, box: QRectF, area: QRectF) -> None:
        """Move the zoomed grid as little as needed for `box` to lie in `area`."""
        if self.zoom > 1.0:
            dx = max(0.0, area.left() - box.left()) - max(0.0, box.right() - area.right())
            dy = max(0.0, area.top() - box.top()) - max(0.0, box.bottom() - area.bottom())
            self.offset += QPointF(dx, dy)
            self.limit()

    def limit(self) -> None:
        """Keep the grid's edges from leaving the widget's."""
        if self.zoom == 1.0:
            return
        layout = self._layout(self.zoom)
        spare_x = min(0.0, layout.area.width() - layout.n_columns * layout.pitch_x)
        spare_y = min(0.0, layout.area.height() - layout.height)
        self.offset = QPointF(
            min(0.0, max(self.offset.x(), spare_x)), min(0.0, max(self.offset.y(), spare_y))
        )


class GridView(MapWidget):
    """Shows the grids of one stack; reports which head is wanted, never changes anything itself.

    Click selects, Ctrl+click adds, double click opens, wheel zooms, drag pans, `0` fits, arrows walk,
    Space asks to toggle the selected gates, Enter opens. With `has_switches` the thumbnail under the
    pointer has a switch: a click on it asks to toggle that head's gate.
    """

    head_selected = Signal(object, bool)
    """HeadRef, and whether to add it to the selection."""
    head_toggled = Signal(object)
    """HeadRef whose gate is to be toggled."""
    selection_toggled = Signal()
    """The gates of all selected heads are to be toggled."""
    head_activated = Signal(object)
    """HeadRef to open large."""
    head_hovered = Signal(object)
    """HeadRef under the cursor, or None."""
    cell_hovered = Signal(object, float, float)
    """HeadRef under the cursor, and how far down and across its map, 0 to 1."""

    def __init__(self, parent: QWidget | None = None, *, has_switches: bool = False) -> None:
        super().__init__("Heads by layer", parent=parent, empty=_NO_TEXT)
        self._has_switches = has_switches
        self._is_on_switch = False
        self._grids: tuple[SiteGrid, ...] = ()
        self._marks = GridMarks()
        self._cache = ImageCache()
        self._settling = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settling.timeout.connect(self.update)
        self.seen = GridZoom(self._layout, self)
        self.seen.zoomed.connect(self._settling.start)
        self.seen.changed.connect(self.update)
        self._most_px = 0.0
        self.setMinimumSize(160, 120)

    def set_grids(self, grids: tuple[SiteGrid, ...]) -> None:
        """Show these sites, one below the other. The zoom stays when the grid keeps its shape."""
        if _shape(grids) != _shape(self._grids):
            self.seen.fit()
        self._grids = grids
        self._cache.clear()
        self._is_stale = False
        self.update()

    def set_switches(self, has_switches: bool) -> None:
        """Offer a switch on the thumbnail under the pointer, or none."""
        self._has_switches = has_switches
        self.update()

    def set_gates(self, gates: Gates) -> None:
        """Show these gates."""
        self._marks = replace(self._marks, gates=gates)
        self.update()

    def set_selection(self, heads: tuple[HeadRef, ...]) -> None:
        """Frame these heads; the last one is where arrow keys start."""
        self._marks = replace(self._marks, selection=tuple(heads))
        self.update()

    def set_frames(self, frames: Mapping[HeadRef, str]) -> None:
        """Frame heads in colours that stand for a number."""
        self._marks = replace(self._marks, frames=dict(frames))
        self.update()

    def set_roles(self, roles: Mapping[HeadRef, str]) -> None:
        """Name what heads do beside their labels, where there is room."""
        self._marks = replace(self._marks, roles=dict(roles))
        self.update()

    def set_most(self, width_px: float) -> None:
        """Draw thumbnails no wider than this at zoom 1; 0: as wide as there is room."""
        self._most_px = width_px
        self.update()

    def layout_now(self) -> GridLayout:
        """Where everything lies at this moment."""
        return self._layout(self.seen.zoom, self.seen.offset)

    def _layout(self, zoom: float, offset: QPointF | None = None) -> GridLayout:
        """Where everything would lie at a zoom, moved by so much."""
        with type_at(self._label_type()):
            room = _room(QRectF(self.rect()), self._grids, self._most_px)
            return grid_layout(room, self._grids, zoom=zoom, offset=offset)

    def sizeHint(self) -> QSize:
        return QSize(480, 420)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        if not self._grids:
            return False
        with type_at(self._label_type()):
            layout = paint_grid(
                painter,
                _room(room, self._grids, self._most_px),
                self._grids,
                style=self._style,
                palette=self.theme,
                marks=self._marks,
                zoom=self.seen.zoom,
                offset=None if self.seen.zoom == 1.0 else self.seen.offset,
                cache=self._cache,
                is_rough=self._settling.isActive(),
            )
        self._paint_switch(painter, layout)
        if self._is_stale:
            self.veil(painter, layout.area)
        return True

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag.is_down:
            step = self._drag.move(event.position())
            if self._drag.is_moving and self.seen.zoom > 1.0:
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
                self.seen.pan(step)
            return
        layout, position = self.layout_now(), event.position()
        head = layout.hit(position)
        self._hover(head, is_on_switch=self._is_switch(layout, position))
        place = layout.place(head) if head is not None else None
        if place is not None:
            box = layout.box(*place)
            down, across = position.y() - box.top(), position.x() - box.left()
            self.cell_hovered.emit(head, down / box.height(), across / box.width())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        was_click = self._drag.release()
        self.unsetCursor()
        if not was_click or event.button() != Qt.MouseButton.LeftButton:
            return
        layout = self.layout_now()
        head = layout.hit(event.position())
        if head is not None and self._is_switch(layout, event.position()):
            self.head_toggled.emit(head)
        elif head is not None:
            self.head_selected.emit(head, _is_additive(event.modifiers()))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        layout = self.layout_now()
        head = layout.hit(event.position())
        if head is None or event.button() != Qt.MouseButton.LeftButton:
            return
        if self._is_switch(layout, event.position()):
            self._drag.press(event)  # the second click of a quick pair is a click too
        else:
            self.head_activated.emit(head)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y() and self._grids:
            self.seen.zoom_at(event.position(), zoom_factor(event.angleDelta().y()))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        current = self._marks.selection[-1] if self._marks.selection else None
        if key in ARROWS and self._grids:
            self._walk(current, ARROWS[key], is_additive=_is_additive(event.modifiers()))
        elif key == Qt.Key.Key_0:
            self.seen.fit()
        elif key in ZOOM_KEYS:
            self.seen.zoom_at(QRectF(self.rect()).center(), ZOOM_KEYS[key])
        elif key == Qt.Key.Key_Space and current is not None:
            self.selection_toggled.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and current is not None:
            self.head_activated.emit(current)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._hover(None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.seen.limit()

    def _label_type(self) -> float:
        """How large type is: on a stage as large as leaves maps nearly their size and labels whole."""
        least = type_px(1.0)
        if not self._is_on_stage or not self._grids:
            return least
        desk = grid_layout(QRectF(self.rect()), self._grids)
        for label_px in range(
            round(SMALL_PX * self.type_factor(desk.box_width)), round(SMALL_PX * least), -1
        ):
            with type_at(label_px / SMALL_PX):
                stage = grid_layout(QRectF(self.rect()), self._grids)
                labels = max(text_width(head.label) for heads in stage.rows for head in heads[-1:])
            is_whole = not stage.label_px or labels < stage.box_width  # else layers and columns are named
            if is_whole and stage.box_width >= _KEPT_ON_STAGE * desk.box_width:
                return label_px / SMALL_PX
        return least

    def _hover(self, head: HeadRef | None, *, is_on_switch: bool = False) -> None:
        is_new, roles = head != self._marks.hovered, self._marks.roles
        if is_new or is_on_switch != self._is_on_switch:
            self._marks, self._is_on_switch = replace(self._marks, hovered=head), is_on_switch
            role = f"{head.label} · {roles[head]}" if head is not None and head in roles else ""
            self.setToolTip("Turn this head off or on (Space)" if is_on_switch else plain_tooltip(role))
            self.update()
        if is_new:
            self.head_hovered.emit(head)

    def _is_switch(self, layout: GridLayout, position: QPointF) -> bool:
        """Whether the switch of a thumbnail is under a position."""
        head = layout.hit(position) if self._has_switches else None
        place = layout.place(head) if head is not None else None
        rect = switch_rect(layout.box(*place)) if place is not None else None
        return rect is not None and rect.contains(position)

    def _paint_switch(self, painter: QPainter, layout: GridLayout) -> None:
        head = self._marks.hovered if self._has_switches else None
        place = layout.place(head) if head is not None else None
        rect = switch_rect(layout.box(*place)) if place is not None else None
        if rect is not None and head is not None and layout.area.contains(rect):
            is_off = self._marks.gates.value(head) == 0.0
            paint_switch(painter, rect, is_off=is_off, is_hot=self._is_on_switch, palette=self.theme)

    def _walk(self, current: HeadRef | None, step: tuple[int, int], *, is_additive: bool) -> None:
        layout = self.layout_now()
        place = layout.place(current) if current is not None else None
        row, column = (0, 0) if place is None else layout.step(place, step)
        if (row, column) != place:
            self.seen.bring_into_view(layout.box(row, column), layout.area)
            self.head_selected.emit(layout.rows[row][column], is_additive)


def _room(room: QRectF, grids: tuple[SiteGrid, ...], most_px: float) -> QRectF:
    """Where a grid is laid out: in less than `room` where thumbnails would be wider than `most_px`."""
    whole = grid_layout(room, grids) if most_px and grids else None
    if whole is None or whole.box_width <= most_px:
        return room
    share, area = most_px / whole.box_width, whole.area
    right = area.left() + share * area.width() + room.right() - area.right()
    bottom = area.top() + share * area.height() + room.bottom() - area.bottom()
    return QRectF(room.topLeft(), QPointF(right, bottom))


def _keep(position: float, origin: float, pitch: float, new_origin: float, new_pitch: float) -> float:
    """The offset that leaves the point under `position` where it is after the pitch has changed."""
    return position - new_origin - (position - origin) / pitch * new_pitch


def _shape(grids: tuple[SiteGrid, ...]) -> tuple[object, ...]:
    return tuple(grid.site for grid in grids)


def _is_additive(modifiers: Qt.KeyboardModifier) -> bool:
    return bool(modifiers & Qt.KeyboardModifier.ControlModifier)

"""The selected heads as lines beside the heatmap: a second view that follows the same session."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from attnscope.figures.lines_field import FieldCache, StrongLines
from attnscope.figures.paint_lines import (
    MAX_ZOOM,
    LinesLayout,
    comparable,
    line_names,
    lines_layout,
    paint_lines,
    strong_lines,
)
from attnscope.figures.style import MapStyle, type_at
from attnscope.last_made import LastMade
from attnscope.records.maps import HeadMap
from attnscope.viewmodels.maps.shown_maps import distinct
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import Highlight, ViewState
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import when
from attnscope.widgets.map_widget import ARROWS, ZOOM_KEYS, MapWidget, map_style, zoom_factor

# Token-to-token lines of the selected heads; pointing at a token or a head's name leaves only its lines.

Pointed = tuple[int | None, int | None]
_NOWHERE: Pointed = (None, None)
NO_HEADS = (
    "No heads chosen",
    "Click a small map, and Ctrl+click more, to see their weights as lines.",
)
FINDING = ("Finding the strongest lines", "Searching all weights of a long text.")
"""Title and text that stand where there are no lines."""
_STILL_MS = 120
"""So long after the last zoom, very many lines are drawn sharply again on a fine screen."""


class LinesView(MapWidget):
    """Shows several heads as lines from queries (left) to keys (right).

    Wheel spreads the rows at the cursor, drag moves them, `0` fits. With the keyboard: up and down walk
    the tokens, left and right change the side, Esc shows all lines again.
    """

    token_hovered = Signal(object, object)
    """The query (int) or the key (int) pointed at; None for the other, or for both."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Attention as lines", parent=parent, empty=NO_HEADS)
        self._maps: tuple[HeadMap, ...] = ()
        self._lines: LastMade[StrongLines] = LastMade()
        self._cache = FieldCache()
        self._pointed: Pointed = _NOWHERE
        self._highlight: Pointed = _NOWHERE
        self._only: int | None = None
        self._zoom, self._offset_px = 1.0, 0.0
        self._zooming = QTimer(self, singleShot=True, interval=_STILL_MS)
        self._zooming.timeout.connect(self.update)

    def set_maps(self, maps: tuple[HeadMap, ...]) -> None:
        """Show these heads, each in its own colour. The zoom stays when the tokens do."""
        maps = distinct(maps)
        if not maps or not self._maps or maps[0].queries != self._maps[0].queries:
            self._zoom, self._offset_px = 1.0, 0.0
        self._maps = maps
        self._pointed, self._only = _NOWHERE, None
        self._is_stale = False
        self._choose_lines()

    def set_style(self, style: MapStyle) -> None:
        """Choose lines by this style; lines have no colour map."""
        is_other = (style.least_weight, style.n_strongest) != (
            self._style.least_weight,
            self._style.n_strongest,
        )
        self._style = style
        if is_other:
            self._choose_lines()

    def set_highlight(self, query: int | None, key: int | None) -> None:
        """Leave only the lines of a query or a key, as another view asks."""
        self._highlight = (query, key)
        self.update()

    @property
    def only(self) -> int | None:
        """The head whose name is pointed at, counted from 0; its lines alone are shown."""
        return self._only

    @property
    def zoom(self) -> float:
        """How many times further apart than fitted the rows are."""
        return self._zoom

    def layout_now(self) -> LinesLayout | None:
        """Where everything lies at this moment; None without maps."""
        if not self._maps:
            return None
        with type_at(self.type_factor()):
            return lines_layout(
                QRectF(self.rect()),
                self._maps[0],
                names=line_names(comparable(self._maps)),
                zoom=self._zoom,
                offset_px=self._offset_px,
            )

    def fit(self) -> None:
        """Show every token."""
        self._zoom, self._offset_px = 1.0, 0.0
        self.update()

    def zoom_at(self, y_px: float, factor: float) -> None:
        """Spread the rows so that the one at height `y_px` stays there."""
        layout = self.layout_now()
        if layout is None:
            return
        zoom = min(max(self._zoom * factor, 1.0), MAX_ZOOM)
        place = (y_px - layout.queries.origin) * zoom / self._zoom
        self._zoom = zoom
        self._offset_px = layout.room.top() + place - y_px
        self._zooming.start()
        self._limit_offset()

    def sizeHint(self) -> QSize:
        return QSize(560, 480)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        if not self._maps:
            return False
        with type_at(self.type_factor()):
            paint_lines(
                painter,
                room,
                self._maps,
                palette=self.theme,
                highlight=self._pointed if self._pointed != _NOWHERE else self._highlight,
                only=self._only,
                zoom=self._zoom,
                offset_px=self._offset_px,
                lines=self._strong_lines(),
                cache=self._cache,
                is_rough=self._zooming.isActive(),
            )
        if self._is_stale:
            self.veil(painter, room)
        return True

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag.is_down:
            step = self._drag.move(event.position())
            if self._drag.is_moving and self._zoom > 1.0:
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
                self._offset_px -= step.y()
                self._limit_offset()
            return
        self._point_under(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag.release()
        self.unsetCursor()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y() and self._maps:
            self.zoom_at(event.position().y(), zoom_factor(event.angleDelta().y()))
            self._point_under(event.position())
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key == Qt.Key.Key_0:
            self.fit()
        elif key in ZOOM_KEYS:
            self.zoom_at(self.rect().center().y(), ZOOM_KEYS[key])
        elif key in ARROWS and self._maps:
            self._walk(key)
        elif key == Qt.Key.Key_Escape and self._pointed != _NOWHERE:
            self._point_at(_NOWHERE)
        else:
            super().keyPressEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._point_at(_NOWHERE)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._limit_offset()

    def _choose_lines(self) -> None:
        """Which lines are strong enough is worked out anew at the next painting."""
        self._lines.forget()
        self.update()

    def _strong_lines(self) -> StrongLines:
        least, n = self._style.least_weight, self._style.n_strongest
        return self._lines.of(
            (least, n), lambda: strong_lines(comparable(self._maps), least_weight=least, n_strongest=n)
        )

    def _walk(self, key: Qt.Key) -> None:
        """Point at the next token, on the side that is pointed at (the queries' at first)."""
        query, key_at = self._pointed
        is_query = query is not None or key_at is None
        at = query if query is not None else key_at
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            is_query = key == Qt.Key.Key_Left
            step = 0
        else:
            step = 1 if key == Qt.Key.Key_Down else -1
        n = len(self._maps[0].queries if is_query else self._maps[0].keys)
        place = 0 if at is None else min(max(at + step, 0), n - 1)
        self._point_at((place, None) if is_query else (None, place))
        self._bring_into_view(place)

    def _bring_into_view(self, row: int) -> None:
        layout = self.layout_now()
        if layout is not None:
            centre = layout.queries.centre(row)
            self._offset_px += min(0.0, centre - layout.room.top() - layout.queries.step)
            self._offset_px += max(0.0, centre - layout.room.bottom() + layout.queries.step)
            self._limit_offset()

    def _limit_offset(self) -> None:
        """Keep the ends of the columns from leaving their room."""
        layout = self.layout_now()
        if layout is not None:
            spare = max(0.0, layout.height - layout.room.height())
            self._offset_px = min(max(self._offset_px, 0.0), spare)
        self.update()

    def _point_under(self, position: QPointF) -> None:
        layout = self.layout_now()
        only = layout.hit_name(position) if layout is not None else None
        if only != self._only and (only is None or only >= 0):
            self._only = only
            self.update()
        self._point_at(layout.hit(position) if layout is not None else _NOWHERE)

    def _point_at(self, pointed: Pointed) -> None:
        if pointed != self._pointed:
            self._pointed = pointed
            self.token_hovered.emit(*pointed)
            self.update()


class LinesPanel(QWidget):
    """One lines view, kept up to date."""

    def __init__(self, session: Session, view: ViewState) -> None:
        super().__init__()
        self._session, self._view = session, view
        self.lines = LinesView()
        column(self.lines, on=self, spacing=-1)
        self.lines.token_hovered.connect(self._on_token_hovered)
        told = session.changed
        when(self, self._show_maps, told.heads, told.selection, told.traced, told.model)
        when(self, self._show_style, view.changed.style)
        when(self, self._show_highlight, view.changed.highlight)
        self._show_style()
        self._show_maps()

    def _show_maps(self) -> None:
        maps = self._session.maps.shown if self._session.text.strip() else ()
        if maps or not self._session.text.strip() or self._session.traced is None:
            self.lines.set_maps(maps)

    def _show_style(self) -> None:
        self.lines.set_style(map_style(self._view))

    def _show_highlight(self) -> None:
        self.lines.set_highlight(self._view.highlight.query, self._view.highlight.key)

    def _on_token_hovered(self, query: int | None, key: int | None) -> None:
        self._view.set_highlight(Highlight(query=query, key=key))

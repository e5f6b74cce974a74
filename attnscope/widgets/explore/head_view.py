"""One head large: exact values under the cursor, row and column highlight, zoom and pan.

On the picture that a vision model reads, and as lines beside the heatmap: views that follow the same session.
"""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QMouseEvent, QPainter, QWheelEvent
from PySide6.QtWidgets import QWidget

from attnscope.figures.map_painting import MapLayout, map_layout, paint_head_map, paint_readout
from attnscope.figures.raster import ImageCache
from attnscope.figures.style import MapStyle, drawn_piece, type_at, type_px
from attnscope.figures.token_axis import AXIS_LINE_PX, PAD_PX, axis_names
from attnscope.figures.views.head import paint_gold
from attnscope.figures.views.lines import (
    MAX_ZOOM,
    FieldCache,
    LinesLayout,
    StrongLines,
    comparable,
    line_names,
    lines_layout,
    paint_lines,
    strong_lines,
)
from attnscope.figures.views.picture import PictureLayout, PicturePart, Side, paint_picture, picture_layout
from attnscope.last_made import LastMade
from attnscope.records.findings import GoldCell
from attnscope.records.maps import HeadMap
from attnscope.viewmodels.maps.aspect import distinct
from attnscope.viewmodels.maps.picturing import ShowsPicture
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import Highlight, ViewState
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import plain_tooltip, watch_seen, when
from attnscope.widgets.map_widget import ARROWS, ZOOM_KEYS, CellMapWidget, MapWidget, map_style, zoom_factor

_RENAMING = (
    "Written: a row is named after the word written there.\nQuery: after the word read last. (Shift+R)"
)
_NO_HEAD = ("No head chosen", "Click a small map to see it here with its tokens and exact weights.")


class HeadView(CellMapWidget[HeadMap]):
    """Shows one HeadMap; the cell under the cursor, or walked to with the arrows, is written out."""

    cell_hovered = Signal(int, int, float)
    """Query, key and weight (NaN where the mask forbids) of the cell under the cursor."""
    menu_wanted = Signal(object, object)
    """Where (QPoint in the view) a menu is wanted, and the cell (query, key) there or None."""
    edge_toggled = Signal(int, int)
    """Query and key of the cell that the user removes or restores."""
    rows_clicked = Signal()
    """The rows are to be called after something else."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Attention of one head", parent=parent, empty=_NO_HEAD)
        self._gate = 1.0
        self._highlight: tuple[int | None, int | None] = (None, None)
        self._knocked_out: frozenset[tuple[int, int]] = frozenset()
        self._gold: tuple[GoldCell, ...] = ()
        self._cache = ImageCache()
        self._is_compact = self._can_rename = False

    def set_map(self, head_map: HeadMap | None) -> None:
        """Set this head. The zoom stays if the number of tokens does."""
        self._cache.clear()
        self._is_stale = False
        self.show_cells(head_map, (0, 0) if head_map is None else head_map.weights.shape)

    def set_renaming(self, can_rename: bool) -> None:
        """Make the name of the rows clickable."""
        self._can_rename = can_rename

    def set_gate(self, gate: float) -> None:
        """Name the head's gate in the title."""
        self._gate = gate
        self.update()

    def set_knocked_out(self, cells: frozenset[tuple[int, int]]) -> None:
        """Set the (query, key) without weight because the user removed them, not because of the mask."""
        self._knocked_out = cells
        self.update()

    def set_gold(self, cells: tuple[GoldCell, ...]) -> None:
        """Mark these gold word links."""
        self._gold = cells
        self.update()

    def set_compact(self, is_compact: bool) -> None:
        """Omit the title, if a low panel needs its height for the cells."""
        self._is_compact = is_compact
        self.update()

    def set_highlight(self, query: int | None, key: int | None) -> None:
        """Mark a row, a column or both, for another view; the own cursor takes precedence."""
        self._highlight = (query, key)
        self.update()

    def layout_now(self) -> MapLayout | None:
        """Current layout; None without a map."""
        if self.shown is None:
            return None
        with type_at(self._factor_now()):
            return self._layout_of(self.shown)

    def _factor_now(self) -> float:
        if self.shown is None or not self._is_on_stage:
            return self.type_factor()
        with type_at(self.type_factor()):
            layout = self._layout_of(self.shown)
        return self.type_factor(min(layout.rows.step, layout.columns.step))

    def _layout_of(self, shown: HeadMap) -> MapLayout:
        return map_layout(
            QRectF(self.rect()),
            shown.queries,
            shown.keys,
            view=self._view,
            has_title=not self._is_compact,
            is_compact=self._is_compact,
            has_corner=True,
            names=axis_names(shown.queries, self._style),
        )

    def names_rows_at(self, position: QPointF) -> bool:
        """Whether a position is on the name of rows that can be renamed."""
        layout = self.layout_now()
        if layout is None or not self._can_rename or self._is_compact:
            return False
        bottom, height = layout.cells.top(), type_px(AXIS_LINE_PX) + PAD_PX
        name = QRectF(layout.cells.left() - layout.row_width, bottom - height, layout.row_width, height)
        return name.contains(position)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.names_rows_at(event.position()):
            self.rows_clicked.emit()
            return
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        is_name = self.names_rows_at(event.position())
        self.setToolTip(plain_tooltip(_RENAMING) if is_name else "")
        if is_name:
            self.setCursor(Qt.CursorShape.PointingHandCursor)
        elif self.cursor().shape() == Qt.CursorShape.PointingHandCursor:
            self.unsetCursor()

    def sizeHint(self) -> QSize:
        return QSize(560, 480)

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        if self.shown is None or 0 in self.shown.weights.shape:
            return False
        with type_at(self._factor_now()):
            layout = paint_head_map(
                painter,
                room,
                self.shown,
                style=self._style,
                palette=self.theme,
                gate=self._gate,
                view=self._view,
                highlight=self._cell or self._highlight,
                has_title=not self._is_compact,
                is_compact=self._is_compact,
                named=(True, True),
                cache=self._cache,
                not_allowed_words="ruled out" if self._knocked_out else "not allowed",
            )
            if self._gold:
                paint_gold(painter, layout, self._gold)
            if self._is_stale:
                self.veil(painter, layout.cells)
            if self._cell:
                self.paint_pointed(painter, room)
        return True

    def paint_cell(self, painter: QPainter, room: QRectF, shown: HeadMap, cell: tuple[int, int]) -> None:
        is_off = cell in self._knocked_out
        paint_readout(painter, room, shown, cell, self._cursor, self.theme, is_knocked_out=is_off)

    def panel_at(self, position: QPointF | None = None) -> MapLayout | None:
        return self.layout_now()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        layout = self.layout_now()
        is_mouse = event.reason() == QContextMenuEvent.Reason.Mouse
        cell = layout.hit(QPointF(event.pos())) if layout is not None and is_mouse else self._cell
        place = event.pos() if is_mouse else self._cursor.toPoint()
        self.menu_wanted.emit(place, cell)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace) and self._cell is not None:
            self.edge_toggled.emit(*self._cell)
        else:
            super().keyPressEvent(event)

    def tell_cell(self, shown: HeadMap, cell: tuple[int, int]) -> None:
        self.cell_hovered.emit(*cell, float(shown.weights[cell]))


_WALKS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}


class PictureView(MapWidget):
    """A head's map over a picture: a click makes a patch the query, arrows walk."""

    cell_hovered = Signal(int, int, float)
    """Query, key and weight of the patch under the cursor; NaN where there is none."""
    left = Signal()

    def __init__(self, state: ShowsPicture) -> None:
        super().__init__("Attention on the picture")
        self._state = state
        self._pointed: tuple[Side, int] | None = None
        self._cursor = QPointF()
        self.setToolTip(
            "Click a patch or a special token to see where it looks; arrow keys move, Home: the first token"
        )
        watch_seen(self, state.watch)
        when(self, self._on_picture, state.changed.picture)
        when(self, self.update, state.changed.query)

    def figure(self) -> PicturePart | None:
        shown = self._state.shown
        return PicturePart(picture=shown[0], query=self._state.query) if shown is not None else None

    def layout_now(self) -> PictureLayout | None:
        """Current layout; None without a picture."""
        shown = self._state.shown
        if shown is None:
            return None
        picture, head_map = shown
        names = tuple(drawn_piece(token.piece) for token in head_map.queries[: picture.n_first])
        return picture_layout(QRectF(self.rect()), picture, names, has_bar=self._style.has_bar)

    @property
    def words_when_empty(self) -> tuple[str, str]:
        return "Attention on a picture", self._state.note

    def paint_shown(self, painter: QPainter, room: QRectF) -> bool:
        shown = self._state.shown
        if shown is None:
            return False
        picture, head_map = shown
        query, pointed = self._state.query, self._pointed
        paint_picture(
            painter,
            room,
            picture,
            head_map,
            query,
            style=self._style,
            palette=self.theme,
            pointed=pointed,
        )
        if self._is_stale:
            self.veil(painter, room)
        if pointed is not None and not self._is_stale:
            paint_readout(painter, room, head_map, (query, pointed[1]), self._cursor, self.theme)
        return True

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._cursor = event.position()
        layout = self.layout_now()
        self._point(layout.hit(self._cursor) if layout is not None else None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        layout = self.layout_now()
        hit = layout.hit(event.position()) if layout is not None else None
        if hit is not None and event.button() == Qt.MouseButton.LeftButton:
            self._state.choose_query(hit[1])

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._point(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in _WALKS:
            self._state.walk(*_WALKS[key])
        elif key == Qt.Key.Key_Home:
            self._state.choose_query(0)
        else:
            super().keyPressEvent(event)

    def _point(self, pointed: tuple[Side, int] | None) -> None:
        self._pointed = pointed
        shown = self._state.shown
        if pointed is None or shown is None:
            self.left.emit()
        else:
            weight = float(shown[1].weights[self._state.query, pointed[1]])
            self.cell_hovered.emit(self._state.query, pointed[1], weight)
        self.update()

    def _on_picture(self) -> None:
        self._pointed = None
        self.update()


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
        """Set these heads, each in its own colour. The zoom stays if the tokens do."""
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
        """Show only the lines of a query or a key, for another view."""
        self._highlight = (query, key)
        self.update()

    @property
    def only(self) -> int | None:
        """The head whose name is pointed at, from 0; only its lines are shown."""
        return self._only

    @property
    def zoom(self) -> float:
        """Row spacing relative to the fitted one."""
        return self._zoom

    def layout_now(self) -> LinesLayout | None:
        """Current layout; None without maps."""
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
        """Spread the rows about the one at height `y_px`."""
        layout = self.layout_now()
        if layout is None:
            return
        zoom = min(max(self._zoom * factor, 1.0), MAX_ZOOM)
        place = (y_px - layout.queries.origin) * zoom / self._zoom
        self._zoom = zoom
        self._offset_px = layout.room.top() + place - y_px
        self._zooming.start()
        self.fit_room()

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
                self.fit_room()
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

    def _choose_lines(self) -> None:
        """Recompute at the next painting which lines are strong enough."""
        self._lines.forget()
        self.update()

    def _strong_lines(self) -> StrongLines:
        least, n = self._style.least_weight, self._style.n_strongest
        return self._lines.of(
            (least, n), lambda: strong_lines(comparable(self._maps), least_weight=least, n_strongest=n)
        )

    def _walk(self, key: Qt.Key) -> None:
        """Point at the next token, on the current side (initially the queries')."""
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
            self.fit_room()

    def fit_room(self) -> None:
        """Keep the ends of the columns within their area."""
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

"""A vision model's picture with the attention of one query over it."""

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter

from attnscope.figures.paint_map import paint_readout
from attnscope.figures.paint_picture import PictureLayout, Side, paint_picture, picture_layout
from attnscope.figures.plain import plain_piece
from attnscope.figures.views.picture import PicturePart
from attnscope.viewmodels.maps.picturing import ShowsPicture
from attnscope.widgets.labels import watch_seen, when
from attnscope.widgets.map_widget import MapWidget

_WALKS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}


class PictureView(MapWidget):
    """A head's map over a picture: a click makes a patch the query, arrows walk; asks only while seen."""

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
        """What is shown, for a figure."""
        shown = self._state.shown
        return PicturePart(picture=shown[0], query=self._state.query) if shown is not None else None

    def layout_now(self) -> PictureLayout | None:
        """Where everything lies at this moment; None without a picture."""
        shown = self._state.shown
        if shown is None:
            return None
        picture, head_map = shown
        names = tuple(plain_piece(token.piece) for token in head_map.queries[: picture.n_first])
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

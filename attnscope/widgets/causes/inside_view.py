"""The picture of one head's inside: rows scroll, what is under the cursor is written out."""

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from attnscope.figures.colours import LIGHT, Palette
from attnscope.figures.inside_layout import InsideLayout, Place, inside_layout
from attnscope.figures.paint_inside import paint_inside
from attnscope.records.inside import HeadInside
from attnscope.viewmodels.causes.inside_words import Step
from attnscope.widgets.placeholder import paint_focus, paint_placeholder, paint_veil

_NOWHERE = Place()


class InsideView(QAbstractScrollArea):
    """Shows one HeadInside; tells what the cursor is on and where the keyboard wants to go."""

    pointed = Signal(object)
    """The Place under the cursor; one without a row when it is on none."""
    left = Signal()
    query_walked = Signal(int)
    step_walked = Signal(int)
    key_walked = Signal(int)
    query_chosen = Signal(int)
    """The place in the text of a key that was clicked twice, to be the query."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._inside: HeadInside | None = None
        self._palette = LIGHT
        self._step: Step = "product"
        self._row: int | None = None
        self._dimension: int | None = None
        self._is_stale = False
        self._note = ""
        self._place = _NOWHERE
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Inside one head")
        self.setMinimumSize(200, 160)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def set_inside(self, inside: HeadInside | None, note: str = "") -> None:
        """Show these numbers; without any, say `note`."""
        self._inside, self._note = inside, note
        self._is_stale = False
        self._place = _NOWHERE
        self._fit()

    def set_step(self, step: Step) -> None:
        """Mark another step."""
        self._step = step
        self._fit()

    def set_pointed(self, row: int | None, dimension: int | None) -> None:
        """Write out the numbers of this key and dimension."""
        self._row, self._dimension = row, dimension
        self.viewport().update()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self._fit()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the picture while newer numbers are on their way."""
        self._is_stale = is_stale
        self.viewport().update()

    @property
    def is_pointing(self) -> bool:
        """Whether the cursor is on a row."""
        return self._place.row is not None

    def bring_into_view(self, row: int) -> None:
        """Scroll so that a row can be seen."""
        layout = self.layout_now()
        if layout is None:
            return
        bar, step = self.verticalScrollBar(), layout.rows.step
        lowest, highest = (row + 1) * step - layout.field.height(), row * step
        bar.setValue(round(min(max(float(bar.value()), lowest), highest)))

    def layout_now(self) -> InsideLayout | None:
        """Where everything lies at this moment; None without numbers."""
        if self._inside is None:
            return None
        offset = float(self.verticalScrollBar().value())
        return inside_layout(self._room(), self._inside, step=self._step, offset_px=offset)

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self.viewport()) as painter:
            room = self._room()
            painter.fillRect(room, QColor(self._palette.background))
            if self._inside is None:
                paint_placeholder(painter, room, self._palette, "Inside one head", self._note)
                return
            layout = paint_inside(
                painter,
                room,
                self._inside,
                palette=self._palette,
                step=self._step,
                row=self._row,
                dimension=self._dimension,
                offset_px=float(self.verticalScrollBar().value()),
            )
            if self._is_stale:
                paint_veil(painter, layout.rect, self._palette)
            if self.hasFocus():
                paint_focus(painter, self.viewport().rect(), self._palette)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(event.position())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self._point(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        layout = self.layout_now()
        row = layout.hit(event.position()).row if layout is not None else None
        if self._inside is not None and row is not None:
            self.query_chosen.emit(self._inside.keys[row])

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self._place = _NOWHERE
            self.left.emit()
        return super().viewportEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        has_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        match Qt.Key(event.key()):
            case Qt.Key.Key_Up | Qt.Key.Key_Down as key:
                n = -1 if key == Qt.Key.Key_Up else 1
                (self.key_walked if has_shift else self.query_walked).emit(n)
            case Qt.Key.Key_Left:
                self.step_walked.emit(-1)
            case Qt.Key.Key_Right:
                self.step_walked.emit(1)
            case Qt.Key.Key_Home:
                self.query_walked.emit(-1_000_000)
            case Qt.Key.Key_End:
                self.query_walked.emit(1_000_000)
            case _:
                super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def scrollContentsBy(self, _dx: int, _dy: int) -> None:
        """The rows alone scroll, so everything is painted anew."""
        self.viewport().update()

    def _room(self) -> QRectF:
        return QRectF(self.viewport().rect())

    def _fit(self) -> None:
        """Let the bar scroll as far as there are rows out of sight."""
        layout = self.layout_now()
        hidden = 0.0 if layout is None else max(0.0, layout.rows_px - layout.field.height())
        bar = self.verticalScrollBar()
        bar.setRange(0, round(hidden))
        if layout is not None:
            bar.setPageStep(max(1, round(layout.field.height())))
            bar.setSingleStep(max(1, round(layout.rows.step)))
        self.viewport().update()

    def _point(self, position: QPointF) -> None:
        layout = self.layout_now()
        place = layout.hit(position) if layout is not None else _NOWHERE
        if place != self._place:
            self._place = place
            self.pointed.emit(place)

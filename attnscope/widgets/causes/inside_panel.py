"""Inside one head: the steps, the selected query, and the picture."""

from types import MappingProxyType

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolButton, QWidget

from attnscope.figures.style import NORMAL_PX, isolated, plain_piece, text_width, type_px
from attnscope.figures.views.inside import InsideLayout, InsidePart, InsidePlace, inside_layout, paint_inside
from attnscope.viewmodels.causes.inside import STEP_TIPS, STEPS, InsideState, Step, queries_of
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import Cell, Highlight, ViewState
from attnscope.widgets.form_parts import column, one_of, row
from attnscope.widgets.labels import PlainLabel, tool_button, watch_seen, when, when_seen
from attnscope.widgets.map_widget import paint_focus, paint_placeholder, paint_veil
from attnscope.widgets.theme import Dressed, Dressing

# The picture of one head's inside: rows scroll, what is under the cursor is written out.

_NOWHERE = InsidePlace()


class InsideView(Dressing, QAbstractScrollArea):
    """Shows one HeadInside; reports the item under the cursor and keyboard moves."""

    pointed = Signal(object)
    """The Place under the cursor; one without a row when it is on none."""
    left = Signal()
    query_walked = Signal(int)
    step_walked = Signal(int)
    key_walked = Signal(int)
    query_chosen = Signal(int)
    """The place in the text of a key that was clicked twice, to be the query."""
    went_on = Signal()
    """The keyboard wants to leave the head for the rest of its layer."""

    def __init__(self, state: InsideState) -> None:
        super().__init__()
        self._state = state
        self._is_stale = False
        self._place = _NOWHERE
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("One head step by step")
        self.setMinimumSize(200, 160)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def show_inside(self) -> None:
        """Show the newest numbers; without any, the reason."""
        self._is_stale = False
        self._place = _NOWHERE
        self.fit_room()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the picture while newer numbers are pending."""
        self._is_stale = is_stale
        self.viewport().update()

    @property
    def is_pointing(self) -> bool:
        """Whether the cursor is on a row."""
        return self._place.row is not None

    def bring_into_view(self, row: int) -> None:
        """Scroll so that a row is visible."""
        layout = self.layout_now()
        if layout is None:
            return
        bar, step = self.verticalScrollBar(), layout.rows.step
        lowest, highest = (row + 1) * step - layout.field.height(), row * step
        bar.setValue(round(min(max(float(bar.value()), lowest), highest)))

    def layout_now(self) -> InsideLayout | None:
        """Current layout; None without numbers."""
        inside = self._state.inside
        if inside is None:
            return None
        offset = float(self.verticalScrollBar().value())
        return inside_layout(self._room(), inside, step=self._state.step, offset_px=offset)

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self.viewport()) as painter:
            room = self._room()
            painter.fillRect(room, QColor(self.theme.background))
            state, layout = self._state, self.layout_now()
            if state.inside is None or layout is None:
                paint_placeholder(painter, room, self.theme, "One head step by step", state.note)
                return
            paint_inside(
                painter,
                layout,
                state.inside,
                palette=self.theme,
                step=state.step,
                row=state.row,
                dimension=state.pointed.dimension,
            )
            if self._is_stale:
                paint_veil(painter, layout.rect, self.theme)
            if self.hasFocus():
                paint_focus(painter, self.viewport().rect(), self.theme)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(event.position())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self._point(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        layout, inside = self.layout_now(), self._state.inside
        if layout is None or inside is None:
            return
        row = layout.hit(event.position()).row
        if row is not None:
            self.query_chosen.emit(inside.keys[row])

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
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self.went_on.emit()
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
        """Only the rows scroll, so everything is painted anew."""
        self.viewport().update()

    def _room(self) -> QRectF:
        return QRectF(self.viewport().rect())

    def fit_room(self) -> None:
        """Set the scroll bar's range to the hidden rows."""
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


_PATIENCE_MS = 160
_LAYER, _ON = "layer", "▸"
_PAD_PX, _ON_PX, _ROOM_PX, _LEAST_PX = 14.0, 26.0, 460.0, 340.0


class InsidePanel(Dressed):
    """The picture with its controls; requests numbers only while visible.

    `chooser` is the query, to be placed by whoever holds the panel. `layer_asked` carries the options of the
    question *Layer step by step* that go on behind the head.
    """

    layer_asked = Signal(object)

    def __init__(self, state: InsideState, session: Session, view: ViewState) -> None:
        super().__init__()
        self._state, self._session, self._view = state, session, view
        self.picture = InsideView(state)
        self.steps: dict[Step, QToolButton] = {}
        self.back = tool_button("◂", "Previous query (↑)", role="flat")
        self.on = tool_button("▸", "Next query (↓)", role="flat")
        self.layer = tool_button(
            _ON, "Go on through the rest of the layer", role="flat", clicked=self._ask_layer
        )
        self.query = PlainLabel(tip="The query; ↑ and ↓ move, double-click a key's row to go there")
        self.chooser = QWidget()
        self.note = PlainLabel(role="hint")
        self.note.setContentsMargins(12, 4, 12, 0)
        self.note.setVisible(False)
        self._patience = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._lay_out()
        self._connect()
        for show in (self._show_step, self._show_inside, self._show_pointed):
            show()

    @property
    def state(self) -> InsideState:
        return self._state

    def minimumSizeHint(self) -> QSize:
        """As narrow as with short names of the steps: nothing beside it shrinks for long ones."""
        least = super().minimumSizeHint()
        return QSize(min(least.width(), round(type_px(_LEAST_PX))), least.height())

    def fit_room(self) -> None:
        """Shorten the names of the steps if there is no room for them."""
        self._name_steps()
        self._show_query()

    def figure(self) -> InsidePart | None:
        """The current view for a figure; None without numbers, or while others are pending."""
        state = self._state
        if state.inside is None or state.asking.is_busy:
            return None
        return InsidePart(inside=state.inside, step=state.step, row=state.row)

    def _lay_out(self) -> None:
        for number, step in enumerate(STEPS, start=1):
            button = tool_button(
                f"{number} {step}", f"Step {number}: {step}", role="segment", is_checkable=True
            )
            button.setToolTip(f"{STEP_TIPS[step]} (← →)")
            self.steps[step] = button
        one_of(self, self.steps.values())
        row(self.back, self.query, self.on, on=self.chooser, spacing=0)
        self.layer.setToolTip(
            "Go on: heads side by side, W_O, residual, norm and feed-forward of this token, in Ask (Enter)"
        )
        steps = row(*self.steps.values(), self.layer, None, margins=(8, 4, 8, 0), spacing=0)
        column(steps, self.note, (self.picture, 1), on=self, spacing=0)

    def _connect(self) -> None:
        state, picture = self._state, self.picture
        for step, button in self.steps.items():
            button.clicked.connect(lambda _is_on=False, step=step: state.choose_step(step))
        self.back.clicked.connect(lambda: state.walk_queries(-1))
        self.on.clicked.connect(lambda: state.walk_queries(1))
        picture.query_walked.connect(state.walk_queries)
        picture.step_walked.connect(state.walk_steps)
        picture.key_walked.connect(self._on_key_walked)
        picture.query_chosen.connect(self._on_query_chosen)
        picture.went_on.connect(self._ask_layer)
        picture.pointed.connect(self._on_pointed)
        picture.left.connect(self._on_left)
        self._patience.timeout.connect(self._on_patience_over)
        watch_seen(self, state.watch)
        when_seen(self, self._show_step, state.changed.step)
        when_seen(self, self._show_query, state.changed.query)
        when(self, self._patience.start, state.changed.busy)
        when(self, self._show_inside, state.changed.inside)
        when(self, self._show_pointed, state.changed.inside, state.changed.key)
        when(self, self._point_at_lit_key, self._view.changed.highlight)

    def _show_step(self) -> None:
        self.steps[self._state.step].setChecked(True)
        self._name_steps()
        self.picture.fit_room()

    def _show_pointed(self) -> None:
        self.picture.viewport().update()

    def _name_steps(self) -> None:
        """Every step by its name; if there is no room, the chosen one only, and no word before ▸."""
        names = {step: f"{number} {step}" for number, step in enumerate(STEPS, start=1)}
        room = sum(text_width(name, NORMAL_PX) + 2 * type_px(_PAD_PX) for name in names.values())
        left = self.width() - 16 - type_px(_ON_PX)
        is_wide = room <= left
        for step, button in self.steps.items():
            button.setText(names[step] if is_wide or step == self._state.step else names[step][:1])
        words = text_width(_LAYER, NORMAL_PX) + 2 * type_px(_PAD_PX)
        has_word = not is_wide or room + words <= left
        self.layer.setText(f"{_LAYER} {_ON}" if has_word else _ON)
        self.layer.setFixedWidth(round(type_px(_ON_PX) + words * has_word))

    def _show_inside(self) -> None:
        self._patience.stop()
        state, is_pointing = self._state, self.picture.is_pointing
        self.picture.show_inside()
        self.note.setText(state.note)
        self.note.setVisible(bool(state.note) and state.inside is not None)
        self._show_query()
        if state.row is not None and not is_pointing:
            self.picture.bring_into_view(state.row)

    def _show_query(self) -> None:
        state, tokens = self._state, queries_of(self._session, self._session.aspect.rows)
        has_query = state.query < len(tokens)
        has_room = has_query and self.width() >= type_px(_ROOM_PX)
        piece = isolated(plain_piece(tokens[state.query].piece, max_characters=14)) if has_room else ""
        place = f"query {state.query} of 0–{len(tokens) - 1}"
        self.query.setText(f"{piece}  {place}".strip() if has_query else "")
        self.back.setEnabled(state.query > 0)
        self.on.setEnabled(state.query + 1 < len(tokens))
        self.layer.setEnabled(state.rest_of_layer is not None)
        self.picture.viewport().update()  # the query may be called otherwise

    def _ask_layer(self) -> None:
        options = self._state.rest_of_layer
        if options is not None:
            self.layer_asked.emit(MappingProxyType(options))

    @Slot()
    def _on_patience_over(self) -> None:
        self.picture.set_stale(self._state.asking.is_busy)

    def _point_at_lit_key(self) -> None:
        """Write out the numbers of a key highlighted in another view."""
        if self.isVisible() and not self._is_by_word():
            self._state.point_at_key(self._view.highlight.key)

    def _on_pointed(self, place: InsidePlace) -> None:
        self._state.point_at(place.row, place.dimension)
        self._light(place.row)

    def _on_key_walked(self, n: int) -> None:
        self._state.walk_keys(n)
        row = self._state.row
        if row is not None:
            self.picture.bring_into_view(row)
        self._light(row)

    def _on_query_chosen(self, place: int) -> None:
        """A key's row can become the query only if both are tokens of one text."""
        head = self._session.primary
        if head is not None and head.stack != "cross":
            self._state.choose_query(place)

    def _on_left(self) -> None:
        self._state.point_at(None)
        self._view.set_highlight(Highlight())
        self._view.set_cell(None)

    def _light(self, row: int | None) -> None:
        """Highlight the query and the key in every view, and show the weight in the status bar."""
        inside = self._state.inside
        if inside is None or row is None:
            self._view.set_cell(None)
            return
        weight = float(inside.weight[row]) if inside.is_allowed(row) else None
        key = plain_piece(inside.key_tokens[row].piece)
        if not self._is_by_word():
            self._view.set_highlight(Highlight(query=inside.query, key=inside.keys[row]))
        self._view.set_cell(Cell(query=plain_piece(inside.query_token.label), key=key, weight=weight))

    def begin_with_lit_query(self) -> None:
        """Use the query whose row is highlighted in another view."""
        query = self._view.highlight.query
        if query is not None and not self._is_by_word():
            self._state.choose_query(query)

    def _is_by_word(self) -> bool:
        """Whether the other views show words, which this one does not."""
        return self._session.aspect.is_by_word

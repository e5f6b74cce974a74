"""The causes of an output: the parts that add up to it, and patching between two texts."""

from collections.abc import Sequence
from typing import Literal

from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QShowEvent,
)
from PySide6.QtWidgets import QComboBox, QLineEdit, QProgressBar, QSizePolicy, QVBoxLayout, QWidget

from attnscope.counting import number_text, short_change
from attnscope.figures.cause_maps import attribution_cells, patch_cells, reads_cells
from attnscope.figures.colours import difference_map, lut
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import SMALL_PX, font, plain_piece, plain_text, text_width, type_px
from attnscope.figures.views.lab import LabFigure
from attnscope.figures.words_and_numbers import caption_of
from attnscope.records.causes import Contribution, WishedToken
from attnscope.records.outputs import Candidate
from attnscope.records.tokens import Token, told_apart
from attnscope.viewmodels.causes.attribution_and_patching import (
    PART_ORDERS,
    WHAT_NAMES,
    WHAT_TIPS,
    AttributingState,
    PatchingState,
    part_words,
)
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.export.figures_offered import export_one
from attnscope.widgets.form_parts import (
    ChoiceButton,
    FormulaButton,
    NamedFormula,
    column,
    one_of,
    row,
    scrolled,
    stacked,
)
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    Telling,
    named,
    plain_tooltip,
    push_button,
    tool_button,
    when_seen,
)
from attnscope.widgets.labs.cells_and_tables import CellPanel
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_chips import OutputStrip

# Two texts, what is exchanged between their runs, and the map of how far that brings the output.


_MIN_MAP_PX = 148


class PatchingView(Dressed):
    """Shows a PatchingState; `pointed` carries the words of the cell under the cursor."""

    pointed = Signal(str)
    token_chosen = Signal(str, int)
    """The text (`source` or `target`) and place of a cell of positions that was clicked."""

    def __init__(self, state: PatchingState) -> None:
        super().__init__()
        self._state = state
        self._cell = (-1, -1)
        self.corrupt = QLineEdit()
        self.corrupt.textEdited.connect(state.set_corrupt)
        self.corrupt.returnPressed.connect(state.run)
        self.what = named(QComboBox(), "What is patched from one run into the other")
        self.what.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.what.activated.connect(self._on_what)
        self.run_button = push_button("Patch", clicked=state.run)
        self.stop_button = tool_button("Cancel", "Cancel patching", clicked=state.stop)
        self.progress = named(QProgressBar(textVisible=False), "Progress of patching")
        self.statement = ElidedLabel(role="value")
        self.cells = CellPanel()
        self.cells.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.cells.hovered.connect(self._on_hovered)
        self.cells.clicked.connect(self._on_clicked)
        self.sentence = PlainLabel(role="muted", wraps=True)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.note = PlainLabel(role="hint", wraps=True)
        self._lay_out()
        changed = state.changed
        when_seen(self, self._show_choices, changed.choice)
        when_seen(self, self._show_map, changed.map)
        when_seen(self, self._show_progress, changed.progress)
        when_seen(self, self._frame, changed.selection)
        when_seen(self, self._show_note, changed.choice, changed.map, changed.progress)
        for show in (self._show_choices, self._show_map, self._show_progress, self._show_note):
            show()

    def _lay_out(self) -> None:
        picture, words = QWidget(), QWidget()
        column(self.statement, self.sentence, (self.cells, 1), on=picture, spacing=4)
        column(self.note, None, on=words, spacing=4)
        self._pages = stacked(words, scrolled(picture, is_framed=True))
        choices = row((self.what, 1), self.run_button, self.stop_button)
        column(self.corrupt, choices, self.progress, (self._pages, 1), on=self, spacing=4)

    def _show_note(self) -> None:
        """Show the next step, and enable it if possible."""
        state = self._state
        self.run_button.setEnabled(state.is_runnable)
        self.note.setText(plain_text(state.note))
        self.note.set_role("error" if state.job.error else "hint")

    def _show_progress(self) -> None:
        state = self._state
        is_running = state.job.phase == "running"
        self.run_button.setVisible(not is_running)
        self.stop_button.setVisible(is_running)
        self.progress.setVisible(is_running)
        self.progress.setRange(0, 0 if state.job.fraction is None else 100)
        self.progress.setValue(round(100 * (state.job.fraction or 0.0)))

    def _show_choices(self) -> None:
        state = self._state
        if self.corrupt.text() != state.corrupt:
            self.corrupt.setText(state.corrupt)
            self.corrupt.setCursorPosition(state.change_end)
        if [self.what.itemData(k) for k in range(self.what.count())] != list(state.exchange.whats):
            self.what.clear()
            for what in state.exchange.whats:
                self.what.addItem(WHAT_NAMES[what], what)
        self.what.setCurrentIndex(state.exchange.whats.index(state.exchange.what))
        self.what.setToolTip(WHAT_TIPS[state.exchange.what])
        is_picture = state.exchange.reads_pictures
        self.corrupt.setPlaceholderText(
            "The path of another picture" if is_picture else "The text with a word replaced"
        )
        self.corrupt.setAccessibleName("Second picture" if is_picture else "Second text")
        self.corrupt.setToolTip(
            "The path of a second picture. Enter patches."
            if is_picture
            else "The second text: the one above with a word replaced. Enter patches."
        )

    def _show_map(self) -> None:
        state = self._state
        self._cell = (-1, -1)
        if state.found.patched is not None:
            self.cells.show_cells(patch_cells(state.found.patched))
            self.statement.set_full_text(plain_text(state.found.statement))
        self._pages.setCurrentIndex(1 if state.found.patched is not None else 0)
        self._frame()

    def fit_room(self) -> None:
        """Two lines for the sentence, so that nothing moves as it changes."""
        self.sentence.setFixedHeight(2 * self.sentence.fontMetrics().lineSpacing())
        self.cells.setMinimumHeight(round(type_px(_MIN_MAP_PX)))

    def _frame(self) -> None:
        """The cell under the cursor, or that of the selected head."""
        cell = self._cell if self._cell[0] >= 0 else self._state.found.selected_cell
        self.cells.set_cursor(*cell)
        self.sentence.setText(plain_text(self._state.found.sentence(*self._cell)))

    @Slot(int)
    def _on_what(self, index: int) -> None:
        self._state.exchange.choose(str(self.what.itemData(index)))

    @Slot(int, int)
    def _on_hovered(self, i: int, j: int) -> None:
        self._cell = (i, j)
        self._frame()
        self.pointed.emit(self._state.found.sentence(i, j) if i >= 0 else "")

    @Slot(int, int)
    def _on_clicked(self, i: int, j: int) -> None:
        if self._state.found.select(i, j) is None:
            side = self._state.found.side_of(i)
            if side:
                self.token_chosen.emit(side, j)


# The parts of an output as signed bars: a click chooses a head, the exact value is told under the cursor.

_ROW_PX, _LABEL_PX, _VALUE_PX, _GAP_PX, _BAR_PX = 19.0, 92.0, 42.0, 6.0, 9.0


class PartBars(Telling, Dressed):
    """Paints the parts of an AttributingState, as far as visible.

    `pointed` carries the words of the part under the cursor, empty when there is none; `walked` the row that
    a key has gone to.
    """

    pointed = Signal(str)
    walked = Signal(int)

    def __init__(self, state: AttributingState) -> None:
        super().__init__()
        self._state = state
        self._parts: tuple[Contribution, ...] = ()
        self._row = -1
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("What each part adds to the difference of the two logits")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def dress(self) -> None:
        self.show_parts()

    def show_parts(self) -> None:
        """Fit the list and paint it."""
        parts = self._state.parts
        if parts != self._parts:
            self._parts, self._row = parts, -1
        self.setFixedHeight(self.sizeHint().height())
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(220, round(len(self._parts) * type_px(_ROW_PX)))

    def row_rect(self, row: int) -> QRectF:
        return QRectF(0, row * type_px(_ROW_PX), self.width(), type_px(_ROW_PX))

    def row_at(self, y: float) -> int:
        """The part at a height, −1 below the last."""
        row = int(y / type_px(_ROW_PX))
        return row if 0 <= row < len(self._parts) else -1

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._parts:
            return
        values = [part.value for part in self._parts]
        low, high = min(0.0, *values), max(0.0, *values)
        first, last = self.row_at(event.rect().top()), self.row_at(event.rect().bottom())
        shown = range(max(first, 0), last + 1 if last >= 0 else len(self._parts))
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(SMALL_PX))
            for row in shown:
                self._paint_row(painter, row, low, max(high - low, 1e-12))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().y())
        is_head = row >= 0 and self._parts[row].head is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if is_head else Qt.CursorShape.ArrowCursor)
        self._go_to(row)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._go_to(-1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the head of a bar; with Ctrl in addition to those chosen."""
        if event.button() == Qt.MouseButton.LeftButton:
            is_added = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self._choose(self.row_at(event.position().y()), is_added=is_added)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up, Down, Home and End walk the parts; Enter chooses a head."""
        last = len(self._parts) - 1
        places = {
            Qt.Key.Key_Down: min(self._row + 1, last),
            Qt.Key.Key_Up: max(self._row - 1, 0),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        key = Qt.Key(event.key())
        if key in places and last >= 0:
            self._go_to(places[key])
            self.walked.emit(self._row)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._row >= 0:
            self._choose(self._row)
        else:
            super().keyPressEvent(event)

    def tip_at(self, place: QPointF) -> str:
        """The exact value."""
        return self.words(self.row_at(place.y()))

    def words(self, row: int) -> str:
        """A part in words; empty for no row."""
        found = self._state.found
        if found is None or not 0 <= row < len(self._parts):
            return ""
        part = self._parts[row]
        gate = self._state.gate(part.head) if part.head is not None else 1.0
        return part_words(part, found.total) + (f"; its gate is {gate:g}" if gate != 1.0 else "")

    def _go_to(self, row: int) -> None:
        if row != self._row:
            self._row = row
            self.pointed.emit(self.words(row))
            self.update()

    def _choose(self, row: int, *, is_added: bool = False) -> None:
        head = self._parts[row].head if row >= 0 else None
        if head is not None:
            self._state.select(head, is_added=is_added)

    def _paint_row(self, painter: QPainter, row: int, low: float, span: float) -> None:
        part, palette, rect = self._parts[row], self.theme, self.row_rect(row)
        is_selected = part.head is not None and part.head in self._state.selected
        if row == self._row:
            painter.fillRect(rect, QColor(palette.grid))
        if is_selected:
            painter.fillRect(QRectF(0, rect.top(), 2, rect.height()), QColor(palette.accent))
        label = QRectF(6, rect.top(), type_px(_LABEL_PX) - 6, rect.height())
        value = QRectF(rect.right() - type_px(_VALUE_PX), rect.top(), type_px(_VALUE_PX) - 4, rect.height())
        self._paint_name(painter, label, part, is_selected=is_selected)
        painter.setPen(QColor(palette.text))
        side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(value, side, short_change(part.value))
        field = QRectF(label.right() + _GAP_PX, rect.top(), 0, rect.height())
        field.setRight(value.left() - _GAP_PX)
        zero = field.left() - low / span * field.width()
        end = zero + part.value / span * field.width()
        red, green, blue = lut(difference_map(palette))[255 if part.value > 0 else 0].tolist()
        high_px = type_px(_BAR_PX)
        bar = QRectF(min(zero, end), rect.center().y() - high_px / 2, abs(end - zero), high_px)
        painter.fillRect(bar, QColor(red, green, blue))
        painter.setPen(QPen(QColor(palette.muted), 1.0))
        painter.drawLine(QLineF(round(zero) + 0.5, rect.top(), round(zero) + 0.5, rect.bottom()))

    def _paint_name(self, painter: QPainter, place: QRectF, part: Contribution, *, is_selected: bool) -> None:
        """A head that is off is dimmed and struck through, as everywhere."""
        palette = self.theme
        is_off = part.head is not None and self._state.gate(part.head) == 0.0
        quiet = is_off or part.kind == "bias"
        painter.setPen(QColor(palette.accent if is_selected else palette.muted if quiet else palette.text))
        metrics = QFontMetricsF(painter.font())
        text = metrics.elidedText(part.label, Qt.TextElideMode.ElideRight, place.width())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        if is_off:
            middle = place.center().y()
            painter.drawLine(QLineF(place.left(), middle, place.left() + text_width(text), middle))


# Two boxes for the two tokens whose logits are compared: chosen from the likeliest, or typed.


class AnswerBoxes(QWidget):
    """`chosen` carries both choices: a token's id, a typed text, or None for the model's own."""

    chosen = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self.answer = _box("Answer", "The token whose logit is explained. Choose one, or type a token.")
        self.other = _box("Other answer", "The token it is compared with. Choose one, or type a token.")
        self._wishes: list[WishedToken] = [None, None]
        row((self.answer, 1), PlainLabel("over", "muted"), (self.other, 1), on=self, spacing=6)
        for k, box in enumerate((self.answer, self.other)):
            box.activated.connect(lambda index, k=k, box=box: self._wish(k, box.itemData(index)))
            edit = box.lineEdit()
            if edit is not None:
                edit.returnPressed.connect(lambda k=k, edit=edit: self._wish(k, edit.text()))

    def show_answers(
        self,
        wishes: tuple[WishedToken, WishedToken],
        found: tuple[Token | None, Token | None],
        candidates: Sequence[Candidate],
        automatic: tuple[str, str],
    ) -> None:
        """Show the comparison; `automatic` says what an untouched box stands for."""
        self._wishes = list(wishes)
        names = told_apart([candidate.token for candidate in candidates])
        for box, wish, token, name in zip((self.answer, self.other), wishes, found, automatic, strict=True):
            box.clear()
            box.addItem(name, None)
            for candidate, piece in zip(candidates, names, strict=True):
                box.addItem(f"{plain_piece(piece)}   {candidate.probability:.3f}", candidate.token.id)
            shown = wish if isinstance(wish, str) else plain_piece(token.piece) if token is not None else ""
            box.setEditText(shown)
            edit = box.lineEdit()
            if edit is not None:
                edit.setCursorPosition(0)
                edit.setPlaceholderText("automatic")

    def _wish(self, k: int, wish: WishedToken) -> None:
        wishes = list(self._wishes)
        wishes[k] = (wish.strip() or None) if isinstance(wish, str) else wish
        self.chosen.emit(*wishes)


def _box(name: str, tip: str) -> QComboBox:
    box = named(QComboBox(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert), name, tip)
    box.setCompleter(None)  # type: ignore[arg-type]  # None takes it away
    box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    box.setMinimumWidth(72)
    return box


CausesMode = Literal["parts", "patching"]
_TIPS: dict[CausesMode, str] = {
    "parts": "Direct logit attribution: what each part writes towards one token and away from another. With"
    " the norms' scales held, the parts add up to the difference of the two logits. (Elhage et al. 2021)",
    "patching": "Activation patching: a piece of one text's run is put into that of another; the map "
    "shows how much of the difference it restores. (Meng et al. 2022, Wang et al. 2022)",
}
_SAID: dict[CausesMode, NamedFormula] = {
    "parts": NamedFormula(
        name="Direct logit attribution",
        formulas=("logit(a) − logit(b) = Σ_p c_p·u", "u = J (W_U[a] − W_U[b])"),
        symbols="c: what a part adds to the stream; J: the norms on the way, their scales held",
        source="Elhage et al. 2021",
    ),
    "patching": NamedFormula(
        name="Activation patching",
        formulas=("(Δ_patched − Δ_corrupt) / (Δ_clean − Δ_corrupt)", "Δ = logit(a) − logit(b)"),
        symbols="1: all of the difference is restored; 0: none",
        source="Meng et al. 2022; Wang et al. 2022, section 3",
    ),
}
_LOW_PX = 480
_PATCHES_TIP = (
    "What all heads read at each patch, in logits: a head's output is a sum over the patches it looks at, and"
    " so is what it adds to the difference. Patches and special tokens together are what the heads add."
)
_MODES: dict[CausesMode, str] = {"parts": "Parts", "patching": "Patching"}


class CausesPanel(Dressed):
    """Two methods for the causes of one output token; requests only while visible."""

    pointed = Signal(str)

    def __init__(self, session: Session, attributing: AttributingState, patching: PatchingState) -> None:
        super().__init__()
        self._session, self._attributing, self._patching = session, attributing, patching
        self.mode: CausesMode = "parts"
        self.strip = OutputStrip()
        self.strip.chosen.connect(self._on_token)
        self.answers = AnswerBoxes()
        self.answers.chosen.connect(self._on_answers)
        self.statement, self.sum = ElidedLabel(role="value"), PlainLabel(role="value")
        self.sum.setToolTip("With the norms' scales held, all parts add up to the difference.")
        self.order = ChoiceButton("Sort", "How the parts are sorted", PART_ORDERS)
        self.order.chosen.connect(attributing.choose_order)
        self.picture_button = tool_button(
            "Picture", "Show what heads read at each patch", role="segment", is_checkable=True
        )
        self.picture_button.setToolTip(plain_tooltip(_PATCHES_TIP))
        self.picture_button.setChecked(True)
        self.picture_button.toggled.connect(self._show_parts)
        self.note = PlainLabel(role="hint", wraps=True)
        self.bars = PartBars(attributing)
        self.bars.pointed.connect(self.pointed)
        self.patches = CellPanel()
        self.patches.setToolTip(plain_tooltip(_PATCHES_TIP))
        self.patches.hovered.connect(self._on_patch)
        self.patching = PatchingView(patching)
        self.patching.pointed.connect(self.pointed)
        self._lay_out()
        parts, patched = attributing.changed, patching.changed
        selection = session.changed.selection
        when_seen(self, self._on_attributing, parts.choice, parts.order, parts.parts, selection)
        when_seen(self, self._on_patching, patched.choice, patched.progress, patched.map)
        self.show_mode("parts")

    def show_mode(self, mode: CausesMode) -> None:
        """Show the parts or patching."""
        self.mode = mode
        self.modes[mode].setChecked(True)
        self._show()
        self._attributing.watch(self.isVisible() and mode == "parts")

    def figure_spec(self) -> FigureSpec | None:
        """The current view as a figure; None while there is none."""
        model, traced = self._session.model, self._session.traced
        if model is None or traced is None:
            return None
        is_of_parts, patching = self.mode == "parts", self._patching
        heading = self._attributing.heading if is_of_parts else patching.found.about(patching.corrupt)
        caption = caption_of(model, traced, f"{heading}.")
        found, patched = self._attributing.found, self._patching.found.patched
        cells = []
        if self.mode == "parts" and found is not None:
            cells.append(attribution_cells(found))
            if found.reads is not None and self._attributing.picture is not None:
                cells.append(reads_cells(found, self._attributing.picture))
        elif self.mode == "patching" and patched is not None:
            cells.append(patch_cells(patched))
        return (
            LabFigure(cells=tuple(cells), gates=traced.gates, caption=caption, height_mm=100.0)
            if cells
            else None
        )

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._attributing.watch(self.mode == "parts")
        self.fit_room()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._attributing.watch(False)

    # Building

    def _lay_out(self) -> None:
        self._strip_area, self.area = (scrolled(one, is_framed=True) for one in (self.strip, self.bars))
        self.bars.walked.connect(self._on_walked)
        modes = self._build_modes()
        self._pages = stacked(self._build_parts(), self.patching, self._build_refusal())
        parts = (modes, self._strip_area, self.answers, (self._pages, 1))
        column(*parts, on=self, margins=(16, 8, 8, 8), spacing=4)

    def _build_modes(self) -> QVBoxLayout:
        self.modes = {
            mode: tool_button(name, name, role="segment", is_checkable=True) for mode, name in _MODES.items()
        }
        one_of(self, self.modes.values())
        for mode, button in self.modes.items():
            button.setToolTip(plain_tooltip(_TIPS[mode]))
            button.clicked.connect(lambda _, mode=mode: self.show_mode(mode))
        self.export_button = tool_button(
            "Export…", "Export the view as a figure, or its numbers", role="flat", clicked=self._on_export
        )
        self.formula_button = FormulaButton(lambda: (_SAID[self.mode],))
        line = row(*self.modes.values(), None, self.formula_button, self.export_button, spacing=0)
        return column(line, spacing=-1)

    def _build_parts(self) -> QWidget:
        page = QWidget()
        column(
            self.statement,
            row(self.sum, None, self.order, self.picture_button),
            self.note,
            (self.area, 1),
            (self.patches, 1),
            on=page,
            spacing=4,
        )
        return page

    def _build_refusal(self) -> QWidget:
        page = QWidget()
        self.refusal_title, self.refusal = PlainLabel(role="name"), PlainLabel(role="hint")
        layout = column(None, on=page)
        for label in (self.refusal_title, self.refusal):
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
            layout.addWidget(label)
        layout.addStretch(2)
        return page

    # Showing

    def _show(self) -> None:
        is_parts = self.mode == "parts"
        state = self._attributing if is_parts else self._patching
        self.strip.show_tokens(state.tokens, state.position)
        self._strip_area.setVisible(bool(state.tokens))
        self.fit_room()
        self.answers.show_answers(
            (state.answer, state.other), state.compared, state.candidates, state.automatic
        )
        reason = state.reason
        self.refusal_title.setText(state.refusal_title)
        self.refusal.setText(plain_text(reason))
        self._pages.setCurrentIndex(2 if reason else 0 if is_parts else 1)
        self.answers.setVisible(not reason or state.answer is not None or state.other is not None)
        self.export_button.setEnabled(self.figure_spec() is not None)
        if is_parts:
            self._show_parts()

    def _show_parts(self) -> None:
        state = self._attributing
        self.statement.set_full_text(plain_text(state.statement))
        self.sum.setText(state.sum_words)
        self.order.show_choice(state.order)
        self.note.say(state.note)
        self.bars.show_parts()
        found, picture = state.found, state.picture
        is_laid_over = found is not None and found.reads is not None and picture is not None
        is_over = is_laid_over and self.picture_button.isChecked()
        self.picture_button.setVisible(is_laid_over)
        self.order.setVisible(found is not None and not is_over)
        self.patches.setVisible(is_over)
        self.area.setVisible(not is_over)
        if found is not None and found.reads is not None and picture is not None:
            self.patches.show_cells(reads_cells(found, picture))

    def fit_room(self) -> None:
        """Show a row or two of output tokens, including the chosen one; the rest can be scrolled to."""
        n_rows = 2 if self.height() > round(type_px(_LOW_PX)) else 1
        self._strip_area.setFixedHeight(min(self.strip.sizeHint().height(), round(type_px(28)) * n_rows))
        state = self._attributing if self.mode == "parts" else self._patching
        chips = self.strip.chips()
        if 0 <= state.position < len(chips):
            middle = chips[state.position].rect.center()
            self._strip_area.ensureVisible(round(middle.x()), round(middle.y()), 0, round(type_px(14)))

    # Intents

    def _on_attributing(self) -> None:
        if self.mode == "parts":
            self._show()

    def _on_patching(self) -> None:
        if self.mode == "patching":
            self._show()

    @Slot(int)
    def _on_token(self, position: int) -> None:
        (self._attributing if self.mode == "parts" else self._patching).choose_position(position)

    @Slot(int, int)
    def _on_patch(self, i: int, j: int) -> None:
        self.patches.set_cursor(i, j)
        found, picture = self._attributing.found, self._attributing.picture
        if i < 0 or found is None or found.reads is None or picture is None:
            self.pointed.emit("")
        else:
            self.pointed.emit(f"patch {i},{j}: {number_text(float(found.reads[picture.token(i, j)]))} logits")

    @Slot(object, object)
    def _on_answers(self, answer: object, other: object) -> None:
        wishes = [one if isinstance(one, int | str) else None for one in (answer, other)]
        (self._attributing if self.mode == "parts" else self._patching).choose_answers(*wishes)

    @Slot(int)
    def _on_walked(self, part: int) -> None:
        rect = self.bars.row_rect(part)
        self.area.ensureVisible(0, round(rect.center().y()), 0, round(rect.height()))

    @Slot()
    def _on_export(self) -> None:
        export_one(self.figure_spec(), self)

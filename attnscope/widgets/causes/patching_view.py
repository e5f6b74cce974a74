"""Two texts, what is exchanged between their runs, and the map of how far that brings the output."""

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QLineEdit,
    QProgressBar,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QWidget,
)

from attnscope.figures.cause_maps import patch_cells
from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.viewmodels.causes.patch_words import WHAT_NAMES, WHAT_TIPS
from attnscope.viewmodels.causes.patching import PatchingState
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, named, push_button, tool_button, when_seen
from attnscope.widgets.labs.cell_panel import CellPanel

_MIN_MAP_PX = 148


class PatchingView(QWidget):
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
        self.sentence = _wrapped("muted")
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.note = _wrapped("hint")
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
        self._pages = QStackedWidget()
        area = QScrollArea(widgetResizable=True)
        area.setWidget(picture)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._pages.addWidget(words)
        self._pages.addWidget(area)
        layout = column(self.corrupt, on=self, spacing=4)
        choices = row((self.what, 1), self.run_button, self.stop_button)
        layout.addLayout(choices)
        layout.addWidget(self.progress)
        layout.addWidget(self._pages, 1)

    def _show_note(self) -> None:
        """What is to be done, and whether it can be."""
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
        if [self.what.itemData(k) for k in range(self.what.count())] != list(state.whats):
            self.what.clear()
            for what in state.whats:
                self.what.addItem(WHAT_NAMES[what], what)
        self.what.setCurrentIndex(state.whats.index(state.what))
        self.what.setToolTip(WHAT_TIPS[state.what])
        is_picture = state.reads_pictures
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
        if state.patched is not None:
            self.cells.show_cells(patch_cells(state.patched))
            self.statement.set_full_text(plain_text(state.statement))
        self._pages.setCurrentIndex(1 if state.patched is not None else 0)
        self._frame()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Two lines for the sentence, so that nothing moves as it changes."""
        super().resizeEvent(event)
        self.sentence.setFixedHeight(2 * self.sentence.fontMetrics().lineSpacing())
        self.cells.setMinimumHeight(round(type_px(_MIN_MAP_PX)))

    def _frame(self) -> None:
        """The cell under the cursor, or that of the selected head."""
        cell = self._cell if self._cell[0] >= 0 else self._state.selected_cell
        self.cells.set_cursor(*cell)
        self.sentence.setText(plain_text(self._state.sentence(*self._cell)))

    @Slot(int)
    def _on_what(self, index: int) -> None:
        self._state.choose_what(str(self.what.itemData(index)))

    @Slot(int, int)
    def _on_hovered(self, i: int, j: int) -> None:
        self._cell = (i, j)
        self._frame()
        self.pointed.emit(self._state.sentence(i, j) if i >= 0 else "")

    @Slot(int, int)
    def _on_clicked(self, i: int, j: int) -> None:
        if self._state.select(i, j) is None:
            side = self._state.side_of(i)
            if side:
                self.token_chosen.emit(side, j)


def _wrapped(role: str) -> PlainLabel:
    label = PlainLabel(role=role, wraps=True)
    return label

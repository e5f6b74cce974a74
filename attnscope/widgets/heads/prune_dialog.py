"""The dialog that removes the heads that are off: what goes, the proof, what it gains, and saving."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QSizePolicy,
    QWidget,
)

from attnscope.figures.style import type_px
from attnscope.records.importance import PruneShape
from attnscope.viewmodels.heads.pruning import (
    PruningState,
    folded_sentence,
    outcome_words,
    removed_by_site,
    removed_title,
    report_rows,
    waiting_rows,
)
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, named, rule, when

_SHAPES: dict[PruneShape, str] = {
    "small": "Smaller: the parameters of the heads are gone",
    "same": "Same shape: removed heads become zeros",
}
_WIDTH_PX, _LIST_PX = 660, 148
ChooseFolder = Callable[[QWidget, str, str], str]


class PruneDialog(QDialog):
    """Shows one attempt of `state`; `open_wanted` carries the folder of the saved model."""

    open_wanted = Signal(str)

    def __init__(
        self,
        state: PruningState,
        *,
        name: str,
        suggested: str,
        choose_folder: ChooseFolder,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Remove heads that are off")
        self._state, self._suggested, self._choose_folder = state, suggested, choose_folder
        self.resize(round(type_px(_WIDTH_PX)), 100)
        self.title = PlainLabel(removed_title(state.gates, name), role="large")
        self.folded = PlainLabel(folded_sentence(state.gates), role="hint")
        self.shapes = {shape: QRadioButton(text) for shape, text in _SHAPES.items()}
        self.table = QWidget()
        self.progress = QProgressBar(textVisible=False)
        self.outcome, self.details = PlainLabel(role="name"), PlainLabel(role="hint")
        self.save_button, self.open_button = QPushButton("Save as…"), QPushButton("Open it")
        self.stop_button = QPushButton("Stop")
        self.stop_button.setToolTip("Cancel: nothing is removed (Esc cancels and closes)")
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._build()
        when(self, self._show, state.changed.pruning)
        self._show()

    def done(self, result: int) -> None:
        """Close, and let the copy go."""
        super().done(result)
        self._state.forget()

    def _build(self) -> None:
        for label in (self.title, self.folded, self.outcome, self.details):
            label.setWordWrap(True)
        group = QButtonGroup(self)
        for button in self.shapes.values():
            group.addButton(button)
        group.buttonClicked.connect(self._on_shape_clicked)
        self._lay_out_table()
        self.save_button.clicked.connect(self._on_save_clicked)
        self.open_button.clicked.connect(self._on_open_clicked)
        self.stop_button.clicked.connect(self._state.give_up)
        self.buttons.addButton(self.stop_button, QDialogButtonBox.ButtonRole.ActionRole)
        self.buttons.addButton(self.open_button, QDialogButtonBox.ButtonRole.ActionRole)
        self.buttons.addButton(self.save_button, QDialogButtonBox.ButtonRole.ActionRole)
        self.buttons.rejected.connect(self.reject)
        column(
            self.title,
            self._list(),
            self.folded,
            *self.shapes.values(),
            rule(),
            self.table,
            self.progress,
            self.outcome,
            self.details,
            None,
            self.buttons,
            on=self,
            margins=(24, 24, 24, 16),
            spacing=12,
        )
        self.setMinimumWidth(round(type_px(_WIDTH_PX)))

    def _lay_out_table(self) -> None:
        """Before and after: a row for each thing that is told, filled in as it becomes known."""
        cells = QGridLayout(self.table)
        cells.setContentsMargins(0, 0, 0, 0)
        cells.setHorizontalSpacing(16)
        cells.setVerticalSpacing(6)
        for k, width_px in ((0, 144), (1, 80), (3, 80)):  # so that nothing moves when numbers come
            cells.setColumnMinimumWidth(k, round(type_px(width_px)))
        cells.setColumnStretch(4, 1)
        roles = ("hint", "", "hint", "name", "hint")
        self._cells = [[PlainLabel(role=role) for role in roles] for _ in waiting_rows()]
        for i, labels in enumerate(self._cells):
            for k, label in enumerate(labels):
                cells.addWidget(label, i, k)

    def _list(self) -> QWidget:
        """The heads that go, a line for each site."""
        content = named(QWidget(), role="panel")
        cells = QGridLayout(content)
        cells.setContentsMargins(12, 8, 12, 8)
        cells.setHorizontalSpacing(16)
        cells.setVerticalSpacing(4)
        cells.setColumnStretch(1, 1)
        rows = removed_by_site(self._state.gates)
        for k, (site, heads) in enumerate(rows):
            cells.addWidget(PlainLabel(site, role="hint"), k, 0, Qt.AlignmentFlag.AlignTop)
            names = PlainLabel(heads, wraps=True)
            cells.addWidget(names, k, 1)
        cells.setRowStretch(len(rows), 1)
        area = QScrollArea(widgetResizable=True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(content)
        area.setFixedHeight(round(type_px(min(_LIST_PX, 8 + 25 * len(rows) + 8))))
        area.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        return area

    def _show(self) -> None:
        state = self._state
        self.folded.setVisible(bool(self.folded.text()))
        for shape, button in self.shapes.items():
            button.setVisible(len(state.shapes) > 1)
            button.setChecked(shape == state.shape)
            button.setEnabled(shape in state.shapes and not state.is_working)
        self.progress.setVisible(state.is_working)
        self.progress.setRange(0, 0 if state.fraction is None else 100)
        self.progress.setValue(int(100 * (state.fraction or 0.0)))
        self._show_rows()
        words = outcome_words(state)
        self.outcome.setText(words.title)
        self.outcome.set_role("error" if words.is_error else "name")
        self.details.setText(words.details)
        self.details.setVisible(bool(words.details))
        self.stop_button.setVisible(state.step == "trying")
        self.save_button.setEnabled(state.can_save)
        self.open_button.setVisible(state.step == "saved")
        (self.open_button if state.step == "saved" else self.save_button).setDefault(True)
        self._grow()

    def _grow(self) -> None:
        """Be as high as the wrapped sentences need; never smaller than before, so that nothing jumps."""
        layout = self.layout()
        if layout is not None:
            layout.activate()
            self.resize(self.width(), max(self.height(), layout.totalHeightForWidth(self.width())))

    def _show_rows(self) -> None:
        report = self._state.report
        rows = waiting_rows() if report is None else report_rows(report)
        self.table.setVisible(self._state.step != "failed")
        for k, labels in enumerate(self._cells):
            row = rows[k] if k < len(rows) else None
            texts = ("",) * 5 if row is None else (row.name, row.before, "→", row.after, row.change)
            for label, text in zip(labels, texts, strict=True):
                label.setText(text)

    def _on_shape_clicked(self, clicked: QAbstractButton) -> None:
        for shape, button in self.shapes.items():
            if button is clicked:
                self._state.set_shape(shape)

    def _on_save_clicked(self) -> None:
        folder = self._choose_folder(self, "Save the smaller model as", self._suggested)
        if folder:
            self._state.save(folder)

    def _on_open_clicked(self) -> None:
        if self._state.report is not None and self._state.report.folder:
            self.open_wanted.emit(self._state.report.folder)
            self.accept()

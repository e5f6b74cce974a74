"""Removing heads: the tab of pruning curves on the Heads page, and the dialog."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QStackedWidget,
    QWidget,
)

from attnscope.counting import plural
from attnscope.figures.charts import csv_of_curves, pruning_chart
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import type_px
from attnscope.figures.views.curves import CurvesFigure
from attnscope.files import replace_file
from attnscope.records.importance import METRICS, RANKINGS, PruneShape
from attnscope.records.measures import interval_said
from attnscope.viewmodels.heads.pruning import (
    MAX_TEXTS,
    CurvesState,
    PruningState,
    folded_sentence,
    outcome_words,
    removed_by_site,
    removed_title,
    report_rows,
    waiting_rows,
)
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.widgets.export.figures_offered import export_one
from attnscope.widgets.form_parts import ChoiceButton, FlowRow, column, inset_text, one_of, row, stacked
from attnscope.widgets.heads.page import AskPath, ask_open_path, ask_save_path
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    ground,
    named,
    plain_tooltip,
    push_button,
    rule,
    told_failures,
    tool_button,
    watch_seen,
    when,
    when_seen,
)
from attnscope.widgets.map_widget import StateCard

if TYPE_CHECKING:
    from attnscope.widgets.heads.pruning_view import PruningView


class PruningPage(QWidget):
    """Shows a CurvesState; `explore_wanted` and `remove_wanted` ask for a page and a dialog."""

    failed = Signal(str, str)
    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(
        self,
        state: CurvesState,
        *,
        table_path: Callable[[], str] = str,
        ask_open: AskPath = ask_open_path,
        ask_save: AskPath = ask_save_path,
    ) -> None:
        super().__init__()
        self._state, self._table_path = state, table_path
        self._ask_open, self._ask_save = ask_open, ask_save
        ground(self, "page")
        column(
            self._build_run_row(),
            self._build_ranking_row(),
            (self._build_pages(), 1),
            self._build_bottom_row(),
            on=self,
            margins=12,
        )
        for show in (self._show_choices, self._show_progress):
            when_seen(self, show, state.changed.choice, state.changed.progress, state.changed.curves)
            show()
        watch_seen(self, state.first_look.look)

    def figure_spec(self) -> FigureSpec | None:
        curves, model = self._state.curves, self._state.model
        if not curves or model is None:
            return None
        caption = Caption(model=model.name, sha256=model.sha256, note=f"{self._statement_now()}.")
        return CurvesFigure(charts=(pruning_chart(curves),), caption=caption, height_mm=100.0)

    # --- building ---------------------------------------------------------------------------------

    def _build_run_row(self) -> FlowRow:
        self._texts = ChoiceButton(
            "Texts",
            "Texts to measure over",
            {
                "own": "the model's own texts: of its task, aligned by hand, or else its samples",
                "samples": "the sample sentences",
                "table": "those of the table",
                "file": "a file: texts, pairs with a tab, or CoNLL-U trees…",
            },
        )
        self._texts.chosen.connect(self._on_texts_chosen)
        self._amount = QSpinBox(minimum=1, maximum=MAX_TEXTS, prefix="up to ", suffix=" texts")
        self._amount.setAccessibleName("Most texts to read")
        metrics = {name: one.title for name, one in METRICS.items()}
        self._metric = ChoiceButton("Metric", "What is measured as heads are removed", metrics)
        self._metric.chosen.connect(self._state.choose_metric)
        self.run_button = push_button("Run", is_default=True, name="Measure the pruning curves")
        self.run_button.clicked.connect(self._state.run)
        self.stop_button = tool_button("Cancel", "Cancel the pass", clicked=self._state.stop)
        self._export = tool_button("Export ▾", "Export the curves")
        self._export.setPopupMode(self._export.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self._export)
        menu.addAction("Figure…").triggered.connect(self._on_export_figure)
        menu.addAction("Numbers as CSV…").triggered.connect(self._on_export_numbers)
        self._export.setMenu(menu)
        self._amount.valueChanged.connect(self._on_amounts)
        line = FlowRow(self._texts, self._amount, self._metric, self.run_button, self.stop_button)
        line.add_stretch()
        line.addWidget(self._export)
        return line

    def _build_ranking_row(self) -> FlowRow:
        self.rankings = {name: QCheckBox(one.title) for name, one in RANKINGS.items()}
        for name, box in self.rankings.items():
            box.setToolTip(plain_tooltip(RANKINGS[name].tip))
            box.clicked.connect(self._on_ranking_clicked)
        self._orders = named(QSpinBox(minimum=1, maximum=20, prefix="× "), "Random orders")
        self._orders.valueChanged.connect(self._on_amounts)
        inset_text(self._amount, self._orders)
        self._again = QCheckBox("score again after each removal")
        self._again.setToolTip(
            plain_tooltip("A head can become important once a similar head is gone (Michel et al. 2019).")
        )
        self._again.clicked.connect(self._state.rescore)
        ranked = PlainLabel("Ranked by", "hint")
        return FlowRow(ranked, *self.rankings.values(), self._orders, self._again, spacing=12)

    def _build_pages(self) -> QStackedWidget:
        self._stage = StateCard()
        self._pages = stacked(self._stage)
        return self._pages

    @cached_property
    def curves(self) -> "PruningView":
        """The curves, created on first use: the plotting library is slow to import."""
        from attnscope.widgets.heads.pruning_view import PruningView

        curves = PruningView(self._state)
        curves.explore_wanted.connect(self.explore_wanted)
        curves.remove_wanted.connect(self.remove_wanted)
        self._pages.addWidget(curves)
        return curves

    def _build_bottom_row(self) -> QHBoxLayout:
        self._progress = named(QProgressBar(textVisible=False), "Progress of the pass")
        self._progress.setFixedWidth(160)
        self._statement = ElidedLabel(role="muted", n_lines=2)
        layout = row(self._progress, (self._statement, 1))
        return layout

    # --- showing ----------------------------------------------------------------------------------

    def _show_choices(self) -> None:
        state = self._state
        self._texts.setText(f"Texts: {state.texts_name} ▾")
        self._metric.show_choice(state.metric)
        for spin, value in ((self._amount, state.max_texts), (self._orders, state.n_random)):
            if spin.value() != value:
                spin.setValue(value)
        for ranking, box in self.rankings.items():
            box.setChecked(ranking in state.rankings)
        self._orders.setEnabled(any(RANKINGS[name].source == "drawn" for name in state.rankings))
        self._again.setChecked(state.is_rescored)
        self.run_button.setEnabled(state.can_run)
        self.stop_button.setVisible(state.job.phase == "running")
        self._export.setEnabled(bool(state.curves))

    def _show_progress(self) -> None:
        state = self._state
        is_running, has_curves = state.job.phase == "running", bool(state.groups)
        fraction = state.job.fraction
        self._progress.setVisible(is_running and has_curves)
        self._progress.setRange(0, 0 if fraction is None else 100)
        self._progress.setValue(round(100 * (fraction or 0.0)))
        self._statement.set_full_text(state.progress if is_running else self._statement_now())
        self._statement.set_role("error" if state.job.error else "muted")
        self._statement.setVisible(has_curves)
        if not has_curves:
            self._stage.show_stage(self._stage_now(fraction))
        self._pages.setCurrentWidget(self.curves if has_curves else self._stage)

    def _statement_now(self) -> str:
        state = self._state
        if state.job.error:
            return state.job.error
        if not state.curves:
            return ""
        stopped = " · cancelled: only the curves that were whole" if state.job.phase == "stopped" else ""
        n = state.curves[0].n_texts
        first = (
            f" · a first look, heads scored once: Run reads up to {state.max_texts}" if state.is_first else ""
        )
        return f"{state.texts or state.texts_name}: {plural(n, 'text')}; {interval_said(n)}{first}{stopped}"

    def _stage_now(self, fraction: float | None) -> Placeholder:
        state = self._state
        match state.job.phase:
            case "running":
                hint = "Other pages stay usable. Curves appear point by point."
                return Placeholder(
                    kind="waiting", title=state.progress, hint=hint, is_working=True, fraction=fraction
                )
            case "failed":
                return Placeholder(
                    kind="failed", title="These curves cannot be measured", hint=state.job.error
                )
            case _:
                hint = (
                    "Heads are switched off, least important first, a tenth at a time; the curves show what"
                    f" is left of the model. Choose texts and rankings and press Run.{state.first_look.words}"
                )
                return Placeholder(kind="empty", title="Which heads can go?", hint=hint)

    # --- user actions ----------------------------------------------------------------------------

    @Slot(str)
    def _on_texts_chosen(self, key: str) -> None:
        path = self._table_path()
        if key == "samples":
            self._state.choose_texts("samples")
        elif key == "own" or (key == "table" and not path):
            self._state.choose_texts("own")
        elif key == "table":
            self._state.choose_texts("file", path)
        else:
            kinds = "Texts and trees (*.txt *.tsv *.conllu *.gz);;All files (*)"
            path = self._ask_open(self, "Texts to measure over", kinds)
            if path:
                self._state.choose_texts("file", path)

    @Slot()
    def _on_ranking_clicked(self) -> None:
        self._state.choose_rankings(ranking for ranking, box in self.rankings.items() if box.isChecked())

    @Slot()
    def _on_amounts(self) -> None:
        amounts = (self._amount.value(), self._orders.value())
        if amounts != (self._state.max_texts, self._state.n_random):
            self._state.choose_amounts(*amounts)

    @Slot()
    def _on_export_figure(self) -> None:
        export_one(self.figure_spec(), self)

    @Slot()
    def _on_export_numbers(self) -> None:
        path = self._ask_save(self, "Export the numbers", "CSV (*.csv)")
        if not path:
            return
        with told_failures(self.failed, "numbers of pruning"):
            replace_file(Path(path), csv_of_curves(self._state.curves).encode())


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
        """Close, and release the copy."""
        super().done(result)
        self._state.forget()

    def _build(self) -> None:
        for label in (self.title, self.folded, self.outcome, self.details):
            label.setWordWrap(True)
        one_of(self, self.shapes.values()).buttonClicked.connect(self._on_shape_clicked)
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
        """Before and after: a row for each quantity, filled in as it becomes known."""
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
        self.details.say(words.details)
        self.stop_button.setVisible(state.step == "trying")
        self.save_button.setEnabled(state.can_save)
        self.open_button.setVisible(state.step == "saved")
        (self.open_button if state.step == "saved" else self.save_button).setDefault(True)
        self._grow()

    def _grow(self) -> None:
        """Grow to the height of the wrapped sentences; never shrink, so that nothing jumps."""
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

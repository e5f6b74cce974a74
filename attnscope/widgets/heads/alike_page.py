"""The tab of the Heads page that shows which heads attend alike."""

import math
from collections.abc import Callable

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import (
    QHBoxLayout,
    QHeaderView,
    QProgressBar,
    QStackedWidget,
    QTableWidget,
    QTableWidgetItem,
)

from attnscope.counting import short_number
from attnscope.figures.style import type_px
from attnscope.records.measures import PairsSource
from attnscope.records.sites import STACKS
from attnscope.viewmodels.heads.alike import SOURCE_NAMES, AlikeState
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.widgets.form_parts import ChoiceButton, column, dress_table, row
from attnscope.widgets.heads.page import SHARE_ROLE, AskPath, BarDelegate, ask_open_path
from attnscope.widgets.labels import (
    ElidedLabel,
    ground,
    named,
    push_button,
    tool_button,
    watch_seen,
    when_seen,
)
from attnscope.widgets.map_widget import StateCard
from attnscope.widgets.theme import Dressed

_STACKS: dict[str, str] = {stack: stack for stack in STACKS}
_COLUMNS = ("head", "attends like", "divergence, nats")
_HEAD_PX, _BAR_PX, _ROW_PX = 120, 320, 26


class AlikePage(Dressed):
    """Shows an AlikeState: the pairs that attend most alike, and what is nearest to the selected head."""

    def __init__(
        self,
        state: AlikeState,
        *,
        table_path: Callable[[], str] = str,
        ask_open: AskPath = ask_open_path,
    ) -> None:
        super().__init__()
        self._state, self._bars = state, BarDelegate(self)
        self._table_path, self._ask_open = table_path, ask_open
        ground(self, "page")
        layout = column(self._build_run_row(), on=self, margins=12)
        self._stage = StateCard()
        self.table = QTableWidget(0, len(_COLUMNS))
        self._dress_table()
        self._pages = QStackedWidget()
        self._pages.addWidget(self._stage)
        self._pages.addWidget(self.table)
        layout.addWidget(self._pages, 1)
        self._nearest = ElidedLabel()
        self._statement = ElidedLabel(role="muted", n_lines=2)
        layout.addWidget(self._nearest)
        layout.addWidget(self._statement)
        changed, shown = state.changed, state.session.changed
        when_seen(self, self._show_choices, changed.choice, changed.progress, shown.model, shown.traced)
        when_seen(self, self._show_pairs, changed.pairs)
        when_seen(self, self._show_nearest, changed.pairs, changed.selection)
        when_seen(self, self._show_statement, changed.pairs, changed.progress)
        for show in (self._show_choices, self._show_pairs, self._show_nearest, self._show_statement):
            show()
        watch_seen(self, state.first_look.look)

    def dress(self) -> None:
        self._fit()

    def _dress_table(self) -> None:
        table = self.table
        dress_table(table, "Pairs of heads that attend most alike")
        table.setHorizontalHeaderLabels(list(_COLUMNS))
        table.setTabKeyNavigation(False)
        table.setItemDelegate(self._bars)
        header = table.horizontalHeader()
        header.setSectionsClickable(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        table.cellClicked.connect(self._on_row)
        table.cellActivated.connect(self._on_row)
        self._fit()

    def _fit(self) -> None:
        for k, width_px in enumerate((_HEAD_PX, _HEAD_PX, _BAR_PX)):
            self.table.setColumnWidth(k, round(type_px(width_px)))
        self.table.verticalHeader().setDefaultSectionSize(round(type_px(_ROW_PX)))

    def _build_run_row(self) -> QHBoxLayout:
        texts = {**{str(key): name for key, name in SOURCE_NAMES.items()}, "table": "those of the table"}
        texts["file"] = "a file: texts, pairs with a tab, or CoNLL-U trees…"
        self._texts = ChoiceButton("Texts", "Texts to compare over", texts)
        self._texts.chosen.connect(self._on_texts_chosen)
        self._stack = ChoiceButton("Stack", "Stack whose heads are compared", _STACKS)
        self._stack.chosen.connect(self._state.choose_stack)
        self.run_button = push_button("Compare", is_default=True, clicked=self._state.run)
        self.stop_button = tool_button("Cancel", "Cancel the pass", clicked=self._state.stop)
        self._progress = named(QProgressBar(textVisible=False), "Progress of the pass")
        self._progress.setFixedWidth(160)
        return row(self._texts, self._stack, self.run_button, self.stop_button, self._progress, None)

    def _show_statement(self) -> None:
        state = self._state
        self._statement.set_full_text(state.job.error or state.statement)
        self._statement.set_role("error" if state.job.error else "muted")
        self._statement.setVisible(state.found is not None)
        if state.found is None:
            self._stage.show_stage(self._stage_now())
        self._pages.setCurrentWidget(self.table if state.found is not None else self._stage)

    def _show_pairs(self) -> None:
        pairs = self._state.pairs()
        self.table.setRowCount(len(pairs))
        for k, (first, second, value) in enumerate(pairs):
            for at, text in enumerate((first.label, second.label, short_number(value))):
                item = QTableWidgetItem(text)
                if at == len(_COLUMNS) - 1:
                    item.setData(SHARE_ROLE, min(1.0, value / math.log(2)))
                    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                self.table.setItem(k, at, item)
        self.table.scrollToTop()

    def _show_nearest(self) -> None:
        """What is nearest to the selected head."""
        head = self._state.selected
        near = self._state.nearest(head) if head is not None else ()
        words = ", ".join(f"{other.label} ({short_number(value)})" for other, value in near)
        self._nearest.set_full_text(f"{head.label} attends most like {words}" if head and near else "")
        self._nearest.setVisible(bool(near))

    def _show_choices(self) -> None:
        state, news = self._state, self._state.job.news
        is_running = state.job.is_running
        self._texts.setText(f"Texts: {state.texts_name} ▾")
        self._stack.setText(f"Stack: {state.stack or '–'} ▾")
        self.run_button.setEnabled(state.can_run)
        self.stop_button.setVisible(is_running)
        self._progress.setVisible(is_running)
        self._progress.setRange(0, news.n_total if news is not None else 0)
        self._progress.setValue(news.n_done if news is not None else 0)

    def _stage_now(self) -> Placeholder:
        match self._state.job.phase:
            case "running":
                return Placeholder(kind="waiting", title="Comparing heads…", hint="Other pages stay usable.")
            case "failed":
                return Placeholder(
                    kind="failed", title="These heads cannot be compared", hint=self._state.job.error
                )
            case _:
                return Placeholder(
                    kind="empty",
                    title="Which heads attend alike?",
                    hint="The pairs of heads that attend most alike, first. Choose texts and press Compare;"
                    " click a pair to select both heads."
                    f"{self._state.first_look.words}",
                )

    @Slot(str)
    def _on_texts_chosen(self, key: str) -> None:
        known: dict[str, PairsSource] = {"shown": "shown", "own": "own", "samples": "samples"}
        path = self._table_path()
        if key in known:
            self._state.choose_texts(known[key])
        elif key == "table":
            self._state.choose_texts("file" if path else "own", path)
        else:
            kinds = "Texts and trees (*.txt *.tsv *.conllu *.gz);;All files (*)"
            path = self._ask_open(self, "Texts to compare over", kinds)
            if path:
                self._state.choose_texts("file", path)

    @Slot(int, int)
    def _on_row(self, row: int, _column: int) -> None:
        self._state.select(row)

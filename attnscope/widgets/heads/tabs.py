"""The tabs of the Heads page: the table and pruning, the heads that attend alike, and the weights of the
selected head, without any text.
"""

import math
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QMenu,
    QProgressBar,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QStackedWidget,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from attnscope.counting import significant
from attnscope.figures.chart_painting import paint_chart
from attnscope.figures.charts import csv_of_pairs, json_of_weights, weights_charts
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import NORMAL_PX, SMALL_PX, drawn_piece, font, isolated, plain_piece, type_px
from attnscope.figures.views.curves import CurvesFigure
from attnscope.files import replace_file
from attnscope.outside import json_text
from attnscope.records.charts import Chart
from attnscope.records.measures import CircuitKind, PairsSource, TokenPair
from attnscope.records.sites import STACKS
from attnscope.records.tokens import Token
from attnscope.viewmodels.heads.tabs import (
    END_NAMES,
    KIND_COLUMNS,
    KIND_NAMES,
    KIND_TIPS,
    LEFT_OUT,
    SOURCE_NAMES,
    AlikeState,
    WeightsState,
)
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.viewmodels.states import States
from attnscope.widgets.export.figures_offered import export_one
from attnscope.widgets.form_parts import ChoiceButton, SideTabs, column, dress_table, row, split, stacked
from attnscope.widgets.heads.page import (
    SHARE_ROLE,
    AskPath,
    BarDelegate,
    HeadsPage,
    ask_open_path,
    ask_save_path,
)
from attnscope.widgets.heads.pruning import PruningPage
from attnscope.widgets.labels import (
    ElidedLabel,
    PlainLabel,
    Telling,
    ground,
    named,
    plain_tooltip,
    push_button,
    told_failures,
    tool_button,
    watch_seen,
    when_seen,
)
from attnscope.widgets.map_widget import StateCard
from attnscope.widgets.theme import Dressed

_STACKS: dict[str, str] = {stack: stack for stack in STACKS}
_COLUMNS = ("head", "attends like", "divergence, nats")
_PAIR_HEAD_PX, _BAR_PX, _PAIR_ROW_PX = 120, 320, 26


class AlikePage(Dressed):
    """Shows an AlikeState: the most similar pairs, and the heads nearest to the selected one."""

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
        self._pages = stacked(self._stage, self.table)
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
        for k, width_px in enumerate((_PAIR_HEAD_PX, _PAIR_HEAD_PX, _BAR_PX)):
            self.table.setColumnWidth(k, round(type_px(width_px)))
        self.table.verticalHeader().setDefaultSectionSize(round(type_px(_PAIR_ROW_PX)))

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
            for at, text in enumerate((first.label, second.label, significant(value, 3))):
                item = QTableWidgetItem(text)
                if at == len(_COLUMNS) - 1:
                    item.setData(SHARE_ROLE, min(1.0, value / math.log(2)))
                    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                self.table.setItem(k, at, item)
        self.table.scrollToTop()

    def _show_nearest(self) -> None:
        head = self._state.selected
        near = self._state.nearest(head) if head is not None else ()
        words = ", ".join(f"{other.label} ({significant(value, 3)})" for other, value in near)
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


# Token pairs of one of a head's products: two tokens, a bar and the value of each, one under the other.

_ROW_PX, _HEAD_PX, _NUMBER_PX, _ARROW_PX, _RIGHT_PX = 22, 22, 52, 18, 12
_TOKEN_SHARE = 0.3


class PairTable(Telling, Dressed):
    """One row a pair; `joint` is between its tokens, `columns` above them."""

    def __init__(self, columns: tuple[str, str], joint: str) -> None:
        super().__init__()
        self._columns, self._joint = columns, joint
        self._pairs: tuple[TokenPair, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.fit_room()

    def show_pairs(self, pairs: tuple[TokenPair, ...]) -> None:
        """Show other pairs, strongest first."""
        if pairs != self._pairs:
            self._pairs = pairs
            self.setAccessibleDescription("; ".join(self._words(pair) for pair in pairs))
            self.fit_room()

    def sizeHint(self) -> QSize:
        return QSize(280, self.height())

    def pair_at(self, y: float) -> TokenPair | None:
        """The pair at a height of the widget."""
        row = int((y - type_px(_HEAD_PX)) // type_px(_ROW_PX))
        return self._pairs[row] if 0 <= row < len(self._pairs) else None

    def tip_at(self, place: QPointF) -> str:
        pair = self.pair_at(place.y())
        return f"{self._words(pair)}\ntokens {pair.first.id} and {pair.second.id}" if pair is not None else ""

    def paintEvent(self, _event: QPaintEvent) -> None:
        largest = max((abs(pair.value) for pair in self._pairs), default=1.0) or 1.0
        row = type_px(_ROW_PX)
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(self.theme.background))
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            first, second, _bar, number = self._places(0.0)
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(first, middle, self._columns[0])
            painter.drawText(second, middle, self._columns[1])
            painter.drawText(number, middle | Qt.AlignmentFlag.AlignRight, "value")
            for k, pair in enumerate(self._pairs):
                self._paint_row(painter, type_px(_HEAD_PX) + k * row, pair, abs(pair.value) / largest)

    def _places(self, top: float) -> tuple[QRectF, QRectF, QRectF, QRectF]:
        row, room, arrow = type_px(_ROW_PX), type_px(_NUMBER_PX), type_px(_ARROW_PX)
        right = self.width() - _RIGHT_PX
        token = min(_TOKEN_SHARE * right, type_px(150))
        second = token + arrow
        bar = second + token + 8
        return (
            QRectF(0, top, token, row),
            QRectF(second, top, token, row),
            QRectF(bar, top + row / 2 - 4, max(8.0, right - bar - room - 4), 8),
            QRectF(right - room, top, room, row),
        )

    def _paint_row(self, painter: QPainter, top: float, pair: TokenPair, share: float) -> None:
        palette, middle = self.theme, Qt.AlignmentFlag.AlignVCenter
        first, second, bar, number = self._places(top)
        painter.setFont(font(NORMAL_PX))
        for place, token in ((first, pair.first), (second, pair.second)):
            self._write(painter, place, token)
        painter.setPen(QColor(palette.muted))
        between = QRectF(first.right(), top, second.left() - first.right(), first.height())
        painter.drawText(between, Qt.AlignmentFlag.AlignCenter, self._joint)
        painter.fillRect(bar, QColor(palette.grid))
        bar.setWidth(bar.width() * share)
        painter.fillRect(bar, QColor(palette.accent if pair.value >= 0 else palette.muted))
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.text))
        painter.drawText(number, middle | Qt.AlignmentFlag.AlignRight, significant(pair.value, 3))

    def _write(self, painter: QPainter, place: QRectF, token: Token) -> None:
        painter.setPen(QColor(self.theme.muted if token.is_special else self.theme.text))
        metrics = QFontMetricsF(painter.font())
        text = metrics.elidedText(drawn_piece(token.piece), Qt.TextElideMode.ElideMiddle, place.width())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, isolated(text))

    def _words(self, pair: TokenPair) -> str:
        names = (plain_piece(pair.first.piece), plain_piece(pair.second.piece))
        return f"“{names[0]}” {self._joint} “{names[1]}”: {significant(pair.value, 3)}"

    def fit_room(self) -> None:
        self.setFixedHeight(round(type_px(_HEAD_PX) + len(self._pairs) * type_px(_ROW_PX)))
        self.update()


_GAP_PX = 12.0
_ENDS = {str(key): name for key, name in END_NAMES.items()}
_JOINTS: dict[CircuitKind, str] = {"ov": "→", "qk": "↔"}


class ChartsView(Dressed):
    """Charts below each other."""

    def __init__(self) -> None:
        super().__init__()
        self._charts: tuple[Chart, ...] = ()
        self.setMinimumSize(280, 320)
        self.setAccessibleName("Singular values of the head, and of all heads of its layer")

    def show_charts(self, charts: tuple[Chart, ...]) -> None:
        """Draw these charts."""
        self._charts = charts
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), QColor(self.theme.background))
            n, whole = len(self._charts), QRectF(self.rect()).adjusted(4, 4, -8, -4)
            height = (whole.height() - _GAP_PX * (n - 1)) / max(n, 1)
            for k, chart in enumerate(self._charts):
                top = whole.top() + k * (height + _GAP_PX)
                place = QRectF(whole.left(), top, whole.width(), height)
                paint_chart(painter, place, chart, palette=self.theme)


class PairPanel(QWidget):
    """The pairs of one product under its name, with a summary."""

    def __init__(self, state: WeightsState, kind: CircuitKind) -> None:
        super().__init__()
        self._state, self.kind = state, kind
        title = PlainLabel(KIND_NAMES[kind], "section", tip=plain_tooltip(f"{KIND_TIPS[kind]}\n{LEFT_OUT}"))
        self.note = PlainLabel(role="hint", wraps=True)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.table = PairTable(KIND_COLUMNS[kind], _JOINTS[kind])
        self.table.setAccessibleName(KIND_NAMES[kind])
        area = QScrollArea(widgetResizable=True)
        area.setWidget(self.table)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column(title, self.note, (area, 1), on=self, margins=8, spacing=4)
        self.setMinimumWidth(240)

    def show_found(self) -> None:
        self.note.setText(self._state.note(self.kind))
        self.table.show_pairs(self._state.pairs(self.kind))


class WeightsPage(QWidget):
    """Shows a WeightsState; requests what is missing only while visible."""

    failed = Signal(str, str)

    def __init__(self, state: WeightsState, *, ask_save: AskPath = ask_save_path) -> None:
        super().__init__()
        self._state, self._ask_save = state, ask_save
        ground(self, "page")
        self._statement = ElidedLabel(role="muted", n_lines=2)
        column(self._build_top_row(), (self._build_pages(), 1), self._statement, on=self, margins=12)
        watch_seen(self, state.watch)
        when_seen(self, self._show_all, state.changed.all)
        self._show_all()

    def figure_spec(self) -> FigureSpec | None:
        """The singular values as a figure."""
        found, model = self._state.found, self._state.model
        charts = weights_charts(found) if found is not None else ()
        if not charts or model is None:
            return None
        caption = Caption(model=model.name, sha256=model.sha256, note=self._state.statement())
        return CurvesFigure(charts=charts, caption=caption)

    # --- building ---------------------------------------------------------------------------------

    def _build_top_row(self) -> QHBoxLayout:
        self.back = tool_button("‹", "Select the head before", role="flat")
        self.forward = tool_button("›", "Select the next head", role="flat")
        for button, by in ((self.back, -1), (self.forward, 1)):
            button.setToolTip(button.accessibleName())
            button.setProperty("step", by)
            button.clicked.connect(self._on_step)
        self._title = PlainLabel(role="large")
        self._end = ChoiceButton("Pairs", "Which token pairs are shown", _ENDS)
        self._end.chosen.connect(self._state.show_end)
        self.run_button = tool_button("Compute", "Compute what the weights of this head do")
        self.run_button.clicked.connect(self._state.run)
        self.stop_button = tool_button("Stop", "Stop computing", clicked=self._state.stop)
        self._progress = named(QProgressBar(textVisible=False), "Progress of the pass")
        self._progress.setFixedWidth(120)
        self._words = PlainLabel(role="muted")
        self._export = tool_button("Export ▾", "Export what the weights do")
        self._export.setPopupMode(self._export.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self._export)
        menu.addAction("Figure of the singular values…").triggered.connect(self._on_export_figure)
        menu.addAction("Token pairs as CSV…").triggered.connect(self._on_export_pairs)
        menu.addAction("Everything as JSON…").triggered.connect(self._on_export_json)
        self._export.setMenu(menu)
        parts = (self.back, self._title, self.forward, self._end, self.run_button, self.stop_button)
        return row(*parts, self._progress, self._words, None, self._export)

    def _build_pages(self) -> QStackedWidget:
        self._stage = StateCard()
        self.panels = tuple(PairPanel(self._state, kind) for kind in ("ov", "qk"))
        self.charts = ChartsView()
        self._no_charts = PlainLabel(role="hint", wraps=True)
        right = QWidget()
        title = PlainLabel("How many dimensions it uses", "section")
        title.setToolTip(
            plain_tooltip(
                "Singular values of W_Q W_Kᵀ and W_V W_O. Heads that need fewer dimensions together than one"
                " by one share them. (Cordonnier et al. 2020)"
            )
        )
        column(title, self._no_charts, (self.charts, 1), on=right, margins=(8, 8, 0, 0), spacing=-1)
        self._splitter = split(Qt.Orientation.Horizontal, *self.panels, right, sizes=(340, 340, 460))
        self._pages = stacked(self._stage, self._splitter)
        return self._pages

    # --- showing ----------------------------------------------------------------------------------

    def _show_all(self) -> None:
        state, head, stage = self._state, self._state.head, self._state.stage
        is_running, has_found = state.job.is_running, stage is None
        self._title.setText(f"{head.stack} {head.label}" if head is not None else "No head")
        self._end.show_choice(state.end)
        self._end.setText("Pairs: largest ▾" if state.end == "strongest" else "Pairs: smallest ▾")
        self.run_button.setVisible(state.can_run)
        self.stop_button.setVisible(is_running)
        self._progress.setVisible(is_running and has_found)
        self._progress.setRange(0, 0 if state.job.fraction is None else 100)
        self._progress.setValue(round(100 * (state.job.fraction or 0.0)))
        self._words.setText(state.progress if has_found else "")
        for widget in (self._end, self._export):
            widget.setEnabled(has_found)
        self._statement.setVisible(has_found)
        if stage is not None:
            self._stage.show_stage(stage)
        else:
            self._show_found()
        self._pages.setCurrentWidget(self._stage if stage is not None else self._splitter)

    def _show_found(self) -> None:
        found = self._state.found
        for panel in self.panels:
            panel.show_found()
        charts = weights_charts(found) if found is not None else ()
        parts = found.parts if found is not None else ()
        refusals = {part.no_spectrum for part in parts if part.no_spectrum}
        has_pairs = not parts or not all(part.refusal for part in parts)
        for widget in (*self.panels, self._end):
            widget.setVisible(has_pairs)
        refusals |= set() if has_pairs else {part.refusal for part in parts}
        self._no_charts.setText("\n".join(sorted(refusals)))
        self._no_charts.setVisible(bool(refusals))
        self.charts.setVisible(bool(charts))
        self.charts.show_charts(charts)
        statement = self._state.statement()
        self.charts.setAccessibleDescription(statement)
        self._statement.set_full_text(" · ".join(filter(None, (statement, LEFT_OUT))))

    # --- user actions ----------------------------------------------------------------------------

    @Slot()
    def _on_step(self) -> None:
        self._state.step(int(self.sender().property("step")))

    @Slot()
    def _on_export_figure(self) -> None:
        export_one(self.figure_spec(), self)

    @Slot()
    def _on_export_pairs(self) -> None:
        found = self._state.found
        if found is not None:
            self._write("Export the token pairs", "CSV (*.csv)", csv_of_pairs(found))

    @Slot()
    def _on_export_json(self) -> None:
        found, model = self._state.found, self._state.model
        if found is not None and model is not None:
            text = json_text(json_of_weights(found, model.name))
            self._write("Export what the weights do", "JSON (*.json)", text)

    def _write(self, title: str, kinds: str, text: str) -> None:
        path = self._ask_save(self, title, kinds)
        if not path:
            return
        with told_failures(self.failed, "what weights say"):
            replace_file(Path(path), text.encode())


class HeadsTabs(QWidget):
    """Tabs around the Heads page; `remove_wanted` asks for the dialog that removes heads."""

    failed = Signal(str, str)
    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, table: HeadsPage, states: States) -> None:
        super().__init__()
        ground(self, "page")
        self.table = table
        self.pruning = PruningPage(states.curves, table_path=lambda: states.heads.texts.path)
        self.alike = AlikePage(states.alike, table_path=lambda: states.heads.texts.path)
        self.weights = WeightsPage(states.weights)
        self.pruning.explore_wanted.connect(self.explore_wanted)
        self.pruning.remove_wanted.connect(self.remove_wanted)
        for page in (self.pruning, self.weights):
            page.failed.connect(self.failed)
        self.tabs = SideTabs()
        self.tabs.add("Table", table)
        self.tabs.add("Pruning", self.pruning)
        self.tabs.add("Alike", self.alike, label="Similar heads")
        self.tabs.add("Weights", self.weights)
        self.tabs.shown.connect(self.updateGeometry)
        column(self.tabs, on=self, spacing=-1)

    def minimumSizeHint(self) -> QSize:
        """The width of the tab in front: a panel at the right edge must leave it that much."""
        hint = super().minimumSizeHint()
        pages = (self.table, self.pruning, self.alike, self.weights)
        widths = [page.minimumSizeHint().width() for page in pages if page.isVisibleTo(self)]
        return QSize(max(widths, default=hint.width()), hint.height())

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose positions are saved."""
        return self.table.splitters()

    def figure_spec(self) -> FigureSpec | None:
        """The figure that can be exported from here."""
        return self.pruning.figure_spec()

"""The tab of the Heads page that shows which heads attend alike."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QWidget,
)

from attnscope.counting import counted
from attnscope.figures.colours import Palette, series_colour
from attnscope.records.redundancy import PlaneSource
from attnscope.records.sites import STACKS, HeadRef
from attnscope.viewmodels.heads.alike import SOURCE_NAMES, AlikeState
from attnscope.viewmodels.heads.pruning_words import short_number, taken_words
from attnscope.viewmodels.stage import Stage
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.heads.page import AskPath, ask_open_path
from attnscope.widgets.heads.plane_view import PlaneView
from attnscope.widgets.labels import ElidedLabel, PlainLabel, listen, rule, tool_button, watch_seen
from attnscope.widgets.state_card import StateCard

_STACKS: dict[str, str] = {stack: stack for stack in STACKS}
_DOT_PX = 10


class AlikePage(QWidget):
    """Shows an AlikeState: the plane, the groups, what is nearest to a head."""

    def __init__(
        self,
        state: AlikeState,
        palette: Palette,
        parent: QWidget | None = None,
        *,
        table_path: Callable[[], str] = str,
        ask_open: AskPath = ask_open_path,
    ) -> None:
        super().__init__(parent)
        self._state, self._palette = state, palette
        self._table_path, self._ask_open = table_path, ask_open
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        layout = column(self, margin=12, spacing=8)
        layout.addLayout(self._build_run_row())
        self._stage = StateCard()
        self.plane = PlaneView(palette)
        self.plane.head_hovered.connect(state.hover)
        self.plane.head_chosen.connect(self._on_chosen)
        self._side = QScrollArea()
        self._side.setWidgetResizable(True)
        self._side.setFrameShape(QFrame.Shape.NoFrame)
        self._side.setFixedWidth(240)
        self._side.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        pictures = QWidget()
        parts = QHBoxLayout(pictures)
        parts.setContentsMargins(0, 0, 0, 0)
        parts.setSpacing(0)
        parts.addWidget(self.plane, 1)
        parts.addWidget(self._side)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._stage)
        self._pages.addWidget(pictures)
        self._pictures = pictures
        layout.addWidget(self._pages, 1)
        self._statement = ElidedLabel(role="muted", n_lines=2)
        layout.addWidget(self._statement)
        listen(self, state, self._on_state)
        for name in ("choice", "plane", "progress"):
            self._on_state(name)
        watch_seen(self, state.first_look.look)

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        self._palette = palette
        self.plane.set_theme(palette)
        self._fill_side()

    def _build_run_row(self) -> QHBoxLayout:
        texts = {**{str(key): name for key, name in SOURCE_NAMES.items()}, "table": "those of the table"}
        texts["file"] = "a file: texts, pairs with a tab, or CoNLL-U trees…"
        self._texts = ChoiceButton("Texts", "Texts to compare over", texts)
        self._texts.chosen.connect(self._on_texts_chosen)
        self._stack = ChoiceButton("Stack", "Stack whose heads are compared", _STACKS)
        self._stack.chosen.connect(self._state.choose_stack)
        self.run_button = QPushButton("Compare")
        self.run_button.setDefault(True)
        self.run_button.clicked.connect(self._state.run)
        self.stop_button = tool_button("Cancel", "Cancel the pass")
        self.stop_button.clicked.connect(self._state.stop)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(160)
        self._progress.setAccessibleName("Progress of the pass")
        return row(self._texts, self._stack, self.run_button, self.stop_button, self._progress, None)

    def _on_state(self, name: str) -> None:
        state = self._state
        if name in ("choice", "progress"):
            self._show_choices()
        if name == "plane":
            self.plane.show_plane(state.plane)
        if name in ("plane", "hovered", "selection"):
            self.plane.show_marks(state.hovered, state.selected)
            self._fill_side()
        if name in ("plane", "progress"):
            self._statement.set_full_text(state.error or state.statement)
            self._statement.set_role("error" if state.error else "muted")
            self._statement.setVisible(state.plane is not None)
            if state.plane is None:
                self._stage.show_stage(self._stage_now())
            self._pages.setCurrentWidget(self._pictures if state.plane is not None else self._stage)

    def _show_choices(self) -> None:
        state, news = self._state, self._state.news
        is_running = state.phase == "running"
        self._texts.setText(f"Texts: {state.texts_name} ▾")
        self._stack.setText(f"Stack: {state.stack or '–'} ▾")
        self.run_button.setEnabled(state.can_run)
        self.stop_button.setVisible(is_running)
        self._progress.setVisible(is_running)
        self._progress.setRange(0, news.n_total if news is not None else 0)
        self._progress.setValue(news.n_done if news is not None else 0)

    def _stage_now(self) -> Stage:
        match self._state.phase:
            case "running":
                return Stage(kind="waiting", title="Comparing heads…", hint="Other pages stay usable.")
            case "failed":
                return Stage(kind="failed", title="These heads cannot be compared", hint=self._state.error)
            case _:
                return Stage(
                    kind="empty",
                    title="Which heads do the same?",
                    hint="Heads as points on a plane: those that attend alike lie together. Choose texts and"
                    " press Compare; a click on a point selects that head."
                    f"{self._state.first_look.words}",
                )

    def _fill_side(self) -> None:
        """What is nearest to the head under the cursor or selected, and the groups."""
        state = self._state
        inner = QWidget()
        inner.setProperty("role", "panel")
        inner.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        lines = column(inner, margin=16, spacing=8)
        head = state.hovered or state.selected
        if head is not None and state.nearest(head):
            lines.addWidget(PlainLabel(f"{head.stack} {head.label}", "large"))
            lines.addWidget(PlainLabel("Attends most like", "section"))
            near = "\n".join(
                f"{other.label}   {short_number(value)} nats" for other, value in state.nearest(head)
            )
            lines.addWidget(PlainLabel(near))
            lines.addWidget(rule())
        for number, heads in enumerate(state.groups()):
            title = QHBoxLayout()
            dot = PlainLabel()
            dot.setPixmap(_dot(series_colour(self._palette, number)))
            title.addWidget(dot)
            title.addWidget(PlainLabel(f"Group {number + 1}: {counted(len(heads), 'head')}", "name"), 1)
            lines.addLayout(title)
            names = PlainLabel(taken_words(heads).partition("  ")[2], "hint")
            names.setWordWrap(True)
            lines.addWidget(names)
        lines.addStretch(1)
        self._side.setWidget(inner)

    @Slot(str)
    def _on_texts_chosen(self, key: str) -> None:
        known: dict[str, PlaneSource] = {"shown": "shown", "own": "own", "samples": "samples"}
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

    @Slot(object, bool)
    def _on_chosen(self, head: HeadRef, is_added: bool) -> None:
        self._state.select(head, is_added=is_added)


def _dot(colour: str) -> QPixmap:
    pixmap = QPixmap(_DOT_PX, _DOT_PX)
    pixmap.fill(QColor(colour))
    return QIcon(pixmap).pixmap(_DOT_PX, _DOT_PX)

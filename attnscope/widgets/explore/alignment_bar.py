"""Below a map of cross-attention: gold links on or off, whose, and how well the head agrees with them."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt, Slot
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QWidget

from attnscope.figures.paint_gold import paint_gold_mark
from attnscope.records.alignment import GoldFiles
from attnscope.viewmodels.heads.aligning import ROWS, AligningState
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.choice_button import ChoiceButton
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, tool_button, when

AskPath = Callable[[QWidget, str], str]
_MARK_PX, _LONGEST_NAME = 12, 16
_NUMBERS = (
    "Against the gold links, on this text alone. A word is aligned with the source word that gets most of its"
    " weight.\nAER  alignment error rate 1 − (|A∩S| + |A∩P|) / (|A| + |S|), 0 is perfect\n"
    "P  precision |A∩P| / |A|     R  recall |A∩S| / |S|\nA: the head's links, S: sure, P: possible ones."
    " (Och & Ney 2003)\nOver a corpus, with intervals: the Heads page."
)


def ask_path(parent: QWidget, title: str) -> str:
    """Ask for a file to read; empty when nothing was chosen."""
    return QFileDialog.getOpenFileName(parent, title, str(Path.home()))[0]


class GoldMark(QWidget):
    """A small picture of how sure, or possible, links are drawn."""

    def __init__(self, *, is_sure: bool) -> None:
        super().__init__()
        self._is_sure = is_sure
        self.setFixedSize(QSize(_MARK_PX + 4, _MARK_PX + 4))

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            paint_gold_mark(painter, QRectF(2.5, 2.5, _MARK_PX - 1, _MARK_PX - 1), is_sure=self._is_sure)


class AlignmentBar(QWidget):
    """Shows an AligningState while it is on; `switch` stands elsewhere, where there is something to show."""

    def __init__(self, state: AligningState, session: Session, *, ask: AskPath = ask_path) -> None:
        super().__init__()
        self._state, self._session, self._ask = state, session, ask
        self.switch = tool_button("Gold links", "Show gold word links", role="segment", is_checkable=True)
        self.switch.setToolTip("Gold word links over this map, and how well its heads agree with them")
        self.rows = ChoiceButton(
            "Row", "Which row of the map represents a word", {str(k): v for k, v in ROWS.items()}
        )
        self.files = ChoiceButton(
            "Links",
            "Whose gold links",
            {
                "task": "of the model's own task",
                "0": "files of pairs and links, words counted from 0…",
                "1": "files of pairs and links, words counted from 1…",
            },
        )
        self.read = tool_button("", "Read a pair whose links are known", role="flat")
        self.shown, self.mean = PlainLabel(role="name"), ElidedLabel()
        self.best = tool_button("", "Select the head that aligns best", clicked=state.select_best)
        self.origin = ElidedLabel(role="muted")
        self._lay_out()
        self.switch.clicked.connect(state.show)
        self.rows.chosen.connect(state.choose_rows)
        self.files.chosen.connect(self._on_files_chosen)
        self.read.clicked.connect(state.read_offered)
        when(self, self._show, state.changed.alignment)
        self._show()

    def _lay_out(self) -> None:
        first, second, third = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        first.setSpacing(4)
        self.switch.setParent(self)  # until it gets its place
        for widget in (self.rows, self.files):
            first.addWidget(widget)
        first.addStretch(1)
        first.addWidget(self.read)
        second.setSpacing(16)
        self.shown.setToolTip(plain_tooltip(_NUMBERS))
        self.shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        second.addWidget(self.shown)
        second.addWidget(self.mean, 1)
        second.addWidget(self.best)
        third.setSpacing(4)
        self._legend = QWidget()
        legend = row(on=self._legend, margins=(0, 0, 8, 0), spacing=4)
        for is_sure, word in ((True, "sure"), (False, "possible")):
            legend.addWidget(GoldMark(is_sure=is_sure))
            legend.addWidget(PlainLabel(word, "muted"))
        third.addWidget(self._legend)
        third.addWidget(self.origin, 1)
        self._numbers, self._about = QWidget(), QWidget()
        for part, line in ((self._numbers, second), (self._about, third)):
            line.setContentsMargins(4, 0, 4, 0)
            part.setLayout(line)
        column(first, self._numbers, self._about, on=self, margins=(8, 0, 8, 4), spacing=2)

    def _show(self) -> None:
        state, head = self._state, self._session.primary
        self.switch.setVisible(state.is_offered)
        self.setVisible(state.is_offered and state.query.is_watched)
        if not state.is_offered:
            return
        self.switch.setChecked(state.query.is_watched)
        for button in (self.rows, self.files):
            button.setVisible(state.query.is_watched)
        self.rows.show_choice(state.rows)
        self.rows.setText("Row: predicts ▾" if state.rows == "predicting" else "Row: has read ▾")
        counted = str(state.files.counts_from) if state.files is not None else "task"
        self.files.show_choice(counted)
        name = state.files_name or "the task"
        self.files.setText(
            f"Links: {name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + '…'} ▾"
        )
        self.files.setToolTip(plain_tooltip(f"Whose gold links: {name}"))
        self._show_pair()
        has_numbers = state.table is not None
        self._numbers.setVisible(has_numbers)
        self.shown.setText(state.numbers_of(head))
        self.mean.set_full_text(state.mean_of(head))
        best = state.best
        self.best.setVisible(best is not None)
        if best is not None:
            self.best.setText(f"Best: {best.label}" if best != head else f"{best.label} is best")
            self.best.setToolTip(plain_tooltip(f"Select it.\n{state.numbers_of(best)}"))
            self.best.setEnabled(best != head)
        self._about.setVisible(state.query.is_watched)
        self._legend.setVisible(has_numbers)
        self.origin.set_role("error" if state.query.error else "muted")
        self.origin.set_full_text(state.origin)
        self.setAccessibleName(f"Gold word links: {state.numbers_of(head) or state.origin or 'off'}")

    def _show_pair(self) -> None:
        state, pair = self._state, self._state.offered
        self.read.setVisible(pair is not None)
        if pair is not None:
            self.read.setText("Next pair" if state.table is not None else "Read it")
            self.read.setToolTip(plain_tooltip(f"Read {pair.name}:\n{pair.source}\n{pair.target}"))

    @Slot(str)
    def _on_files_chosen(self, key: str) -> None:
        if key == "task":
            self._state.open_files(None)
            return
        links = self._ask(self, "Gold links: one line for each pair, such as 0-0 1-2 2p1")
        pairs = self._ask(self, "Their pairs: source, tab, target in each line") if links else ""
        if pairs:
            self._state.open_files(GoldFiles(pairs=pairs, links=links, counts_from=int(key)))
        else:
            self._show()

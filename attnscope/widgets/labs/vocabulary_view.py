"""The vocabulary browser: every piece of the open model's tokenizer, to search, sort and inspect."""

from typing import get_args

import numpy as np
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QComboBox, QFrame, QLineEdit, QScrollArea, QWidget

from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import plain_piece, plain_text, type_px
from attnscope.figures.views.lab import LabFigure
from attnscope.records.charts import Chart, Series
from attnscope.records.tokenizers import MAX_QUERY, PIECE_KINDS, PieceDetail, SortKey
from attnscope.viewmodels.labs.tokenizers import MODES, VocabularyState
from attnscope.widgets.form_parts import column, row, scrolled
from attnscope.widgets.labels import ElidedLabel, PlainLabel, ground, named, tool_button, when
from attnscope.widgets.labs.cells_and_tables import TextTable, TextTableModel
from attnscope.widgets.labs.lab_view import LabFoot
from attnscope.widgets.theme import Dressed
from attnscope.widgets.token_chips import ChipFlow

_SIDE_PX, _TYPING_MS = 288, 120
_COLUMNS = (
    ("id", "Number of the piece"),
    ("piece", "Readable form: ␣ is a space, ⟨E2⟩ a byte that is part of a character"),
    ("kind", "Special, begins a word, continues one, a byte, or not used"),
    ("length", "Characters; bytes for a piece of bytes"),
    ("score", "Rank of the merge that makes it, or its log-probability"),
)
_SORT: tuple[SortKey, ...] = get_args(SortKey)
_HINTS = {"id": "ids, such as 5 17 300", "regex": "regular expression, such as ing$"}


class VocabularyView(Dressed):
    """Shows a VocabularyState."""

    export_wanted = Signal()
    hover_text = Signal(str)

    def __init__(self, state: VocabularyState) -> None:
        super().__init__()
        self.state, self.controls = state, state.controls
        self.query, self.typed = named(QLineEdit(), "Search pieces"), named(QLineEdit(), "Text to spell")
        self.mode, self.kind = named(QComboBox(), "How to search"), named(QComboBox(), "Kind of piece")
        self.sentence = PlainLabel("", "name", wraps=True)
        self.count, self.spelled = PlainLabel("", "hint"), ElidedLabel("", "hint")
        self._rows = TextTableModel(_COLUMNS, self._cells, left=frozenset({1, 2}))
        self.table = TextTable(self._rows, "Pieces")
        self.flow = ChipFlow("Tokens of the typed text")
        self.detail, self.foot = _PieceCard(), LabFoot()
        self._timer = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._timer.timeout.connect(self._on_typing_ended)
        self._build()
        self.dress()
        self.foot.work_on(state.controls)
        self.typed.setText(state.typed)
        changed = state.changed
        when(self, self._show_pieces, changed.table, changed.found)
        when(self, self._show_wish, changed.choice)
        when(self, self._show_spelled, changed.spelled)
        when(self, self._show_detail, changed.piece)
        for show in (self._show_pieces, self._show_wish, self._show_spelled, self._show_detail):
            show()

    def dress(self) -> None:
        self._side.setFixedWidth(round(type_px(_SIDE_PX)))
        self._area.setFixedHeight(round(type_px(64)))
        self.table.fit_rows()
        self.table.set_widths((56, 240, 100, 60, 72), stretched=1)

    def figure_spec(self) -> FigureSpec | None:
        """Chart of the number of pieces of each length."""
        state = self.state
        if state.table is None:
            return None
        counts = np.bincount(np.minimum(state.table.lengths[state.ids], 24), minlength=2).astype(np.float64)
        chart = Chart(
            title="Pieces by length",
            x_label="characters (24: or more)",
            y_label="pieces",
            series=(
                Series(name="pieces", xs=np.arange(len(counts), dtype=np.float64), ys=counts, style="stems"),
            ),
        )
        kinds = ", ".join(
            f"{n:,} {kind}" for kind, n in zip(PIECE_KINDS, state.kind_counts(), strict=True) if n
        )
        return LabFigure(
            charts=(chart,),
            title=f"Vocabulary of {state.table.name}",
            caption=Caption(note=plain_text(f"{state.count_sentence}: {kinds}.")),
            width_mm=160.0,
            height_mm=90.0,
        )

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.state.start()

    # Building

    def _build(self) -> None:
        self.query.setPlaceholderText("Search pieces")
        self.query.setClearButtonEnabled(True)
        self.query.setMaxLength(MAX_QUERY)
        self.query.textEdited.connect(self._on_query)
        for mode, name in MODES.items():
            self.mode.addItem(name, mode)
        self.mode.activated.connect(self._on_mode)
        self.kind.addItem("every kind", "")
        for kind in PIECE_KINDS:
            self.kind.addItem(kind, kind)
        self.kind.activated.connect(self._on_kind)
        header = self.table.horizontalHeader()
        header.setSectionsClickable(True)
        header.setSortIndicatorShown(True)
        header.setSortIndicator(0, Qt.SortOrder.AscendingOrder)
        header.sortIndicatorChanged.connect(self._on_sorted)
        self.table.row_chosen.connect(self._on_row)
        self.typed.setPlaceholderText("Type a text to spell it in this vocabulary")
        self.typed.textEdited.connect(self.state.spell)
        self.flow.hovered.connect(self.hover_text)
        self._area = scrolled(self.flow, is_across=True)
        left = column(margins=(16, 12, 12, 8))
        bar = row((self.query, 1), self.mode, self.kind)
        left.addWidget(self.sentence)
        left.addLayout(bar)
        self.copy_button = tool_button("Copy rows", "Copy the chosen rows", role="flat")
        self.copy_button.setToolTip("The chosen rows with tabs between columns (Ctrl+C)")
        self.copy_button.clicked.connect(self.table.copy_rows)
        left.addLayout(row(self.count, None, self.copy_button))
        left.addWidget(self.table, 1)
        left.addWidget(self.typed)
        left.addWidget(self._area)
        left.addWidget(self.spelled)
        self._side = self._build_side()
        row((left, 1), self._side, on=self, spacing=0)

    def _build_side(self) -> QWidget:
        side = ground(QWidget(), "panel", edge="left")
        area = QScrollArea(widgetResizable=True)
        area.setWidget(self.detail)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.foot.export_wanted.connect(self.export_wanted)
        column((area, 1), self.foot, on=side, margins=(1, 0, 0, 0), spacing=0)
        self.detail.piece_wanted.connect(self.state.look_at)
        return side

    # Showing

    def _show_pieces(self) -> None:
        state = self.state
        self._rows.show_rows(len(state.ids))
        self.table.setColumnHidden(4, state.table is not None and not state.table.score_name)
        self.sentence.setText(plain_text(state.sentence))
        self.count.setText(plain_text(state.count_sentence))
        self.count.set_role("error" if state.error else "hint")

    def _show_detail(self) -> None:
        state = self.state
        score = ""
        if state.detail is not None and state.table is not None and state.table.score_name:
            value = float(state.table.scores[state.detail.id])
            score = "" if value != value else f"{state.table.score_name} {value:g}"
        self.detail.show_piece(state.detail, score)

    def _show_spelled(self) -> None:
        state = self.state
        tokens = state.spelled.tokens if state.spelled is not None else ()
        self.flow.show_tokens(tokens, unknown_id=state.unknown_id)
        self.spelled.set_full_text(plain_text(state.spelled_sentence))

    def _show_wish(self) -> None:
        state = self.state
        wish = state.wish
        if self.query.text() != wish.query:
            self.query.setText(wish.query)
        self.mode.setCurrentIndex(self.mode.findData(wish.mode))
        self.query.setPlaceholderText(_HINTS.get(wish.mode, "Search pieces"))
        self.kind.setCurrentIndex(max(self.kind.findData("".join(wish.kinds[:1])), 0))
        order = Qt.SortOrder.DescendingOrder if wish.is_descending else Qt.SortOrder.AscendingOrder
        self.table.horizontalHeader().setSortIndicator(_SORT.index(wish.sort), order)
        self.foot.show_possible(state.controls)

    def _cells(self, k: int) -> tuple[str, ...]:
        state = self.state
        if state.table is None or k >= len(state.ids):
            return ("",) * len(_COLUMNS)
        id, table = int(state.ids[k]), state.table
        score = float(table.scores[id])
        shown = (
            "" if score != score else f"{score:,.0f}" if table.score_name == "merge rank" else f"{score:.3f}"
        )
        piece = plain_piece(table.piece(id), max_characters=120)
        return (f"{id:,}", piece, table.piece_kind(id), str(int(table.lengths[id])), shown)

    # User actions

    def _on_query(self, _text: str) -> None:
        self._timer.start()

    def _on_typing_ended(self) -> None:
        self.state.search(self.query.text())

    def _on_mode(self, index: int) -> None:
        self.state.set_mode(self.mode.itemData(index))

    def _on_kind(self, index: int) -> None:
        kind = self.kind.itemData(index)
        self.state.set_kinds((kind,) if kind else ())

    def _on_sorted(self, column_index: int, order: Qt.SortOrder) -> None:
        self.state.sort(_SORT[column_index], is_descending=order == Qt.SortOrder.DescendingOrder)

    def _on_row(self, k: int) -> None:
        if k < len(self.state.ids):
            self.state.look_at(int(self.state.ids[k]))


class _PieceCard(QWidget):
    """One piece in detail; `piece_wanted` carries a clicked neighbour."""

    piece_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._layout = column(on=self, margins=12, spacing=4)
        self.show_piece(None, "")

    def show_piece(self, detail: PieceDetail | None, score: str) -> None:
        while item := self._layout.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        if detail is None:
            self._add("Choose a piece to see its bytes, how it is made, and what is near it.", "hint")
            self._layout.addStretch(1)
            return
        self._add(plain_piece(detail.piece, max_characters=40), "large")
        self._add(f"id {detail.id} · {detail.kind}" + (f" · {score}" if score else ""), "hint")
        self._add("In the file", "section")
        self._add(plain_piece(detail.entry, max_characters=60), "")
        self._add("Bytes", "section")
        self._add(" ".join(f"{byte:02X}" for byte in detail.data[:48]) or "none", "")
        if detail.characters:
            self._add("Characters", "section")
            for letter, name in detail.characters[:10]:
                self._add(f"{plain_piece(letter)}   {name}", "small")
        if detail.merges:
            self._add("How it is made", "section")
            for step in detail.merges:
                pieces = "·".join(step.words[0].pieces) if step.words else ""
                self._add(f"{step.rank}: {step.left} + {step.right}   {pieces}", "small")
        if detail.nearest:
            self._add("Nearest embeddings (cosine)", "section")
            for id, piece, cosine in detail.nearest:
                button = tool_button(
                    f"{plain_piece(piece)}   {cosine:.2f}", f"Show piece {id}", role="status"
                )
                button.clicked.connect(lambda _checked=False, wanted=id: self.piece_wanted.emit(wanted))
                self._layout.addWidget(button)
                button.show()
        self._layout.addStretch(1)

    def _add(self, text: str, role: str) -> None:
        if role == "section":
            self._layout.addSpacing(6)
        label = PlainLabel(plain_text(text) if role != "large" else text, role, wraps=True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._layout.addWidget(label)
        label.show()

"""What one head does: a sentence, its roles with their numbers, and the texts that tell most."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from attnscope.figures.plain import isolated, plain_piece
from attnscope.records.roles import HeadCard, TellingText
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, rule, tool_button, when

_N_EDGES = 5


class HeadCardPanel(QScrollArea):
    """The card of the selected head; `look_wanted` carries the number of a text to see in Explore."""

    look_wanted = Signal(int)

    def __init__(self, state: HeadsState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMinimumWidth(280)
        when(self, self._show, state.changed.card, state.changed.table)
        self._show()

    def _show(self) -> None:
        inner = QWidget()
        inner.setProperty("role", "panel")
        inner.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._layout = column(inner, margin=12, spacing=8)
        self._fill()
        self.setWidget(inner)  # the one before is deleted

    def _fill(self) -> None:
        card = self._state.card
        if card is None:
            self._add("Choose a head in the table: what it does stands here.", "hint")
            self._layout.addStretch(1)
            return
        self._add(f"{card.head.stack} {card.head.label}", "large")
        self._add(_sentence(card.sentence))
        self._add_roles(card)
        if card.texts:
            self._layout.addWidget(rule())
            self._add("Most telling texts", "section")
        for index, text in enumerate(card.texts):
            self._add_text(index, text)
        self._layout.addWidget(rule())
        self._add(card.statement + ".", "muted")
        self._layout.addStretch(1)
        self.setAccessibleName(f"{card.head.stack} {card.head.label} {card.sentence}")

    def _add_roles(self, card: HeadCard) -> None:
        if len(card.roles) < 2:
            return
        self._add("Also", "section")
        for role in card.roles[1:]:
            self._add(_sentence(role.sentence), "small")

    def _add_text(self, index: int, text: TellingText) -> None:
        self._add(f"“{_short(text.source)}”")
        if text.target is not None:
            self._add(f"→ “{_short(text.target)}”", "hint")
        edges = "\n".join(
            f"{isolated(plain_piece(text.queries[i]))} → {isolated(plain_piece(text.keys[j]))}   {weight:.2f}"
            for i, j, weight in text.edges[:_N_EDGES]
        )
        self._add(edges, "muted")
        button = tool_button("See in Explore", f"See text {index + 1} in Explore")
        button.setProperty("text_number", index)
        button.clicked.connect(self._on_look)
        self._layout.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)

    def _add(self, text: str, role: str = "") -> None:
        label = PlainLabel(text, role)
        label.setWordWrap(True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._layout.addWidget(label)

    def _on_look(self) -> None:
        self.look_wanted.emit(int(self.sender().property("text_number")))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _short(text: str, n: int = 160) -> str:
    return text if len(text) <= n else text[: n - 1] + "…"

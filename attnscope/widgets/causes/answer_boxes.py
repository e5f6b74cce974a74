"""Two boxes for the two tokens whose logits are compared: chosen from the likeliest, or typed."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSizePolicy, QWidget

from attnscope.figures.plain import plain_piece
from attnscope.records.attribution import WishedToken
from attnscope.records.outputs import Candidate
from attnscope.records.tokens import Token
from attnscope.widgets.labels import PlainLabel


class AnswerBoxes(QWidget):
    """`chosen` carries both wishes: a token's id, a typed text, or None for what the model says."""

    chosen = Signal(object, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.answer = _box("Answer", "The token whose logit is explained. Choose one, or type a token.")
        self.other = _box("Other answer", "The token it is compared with. Choose one, or type a token.")
        self._wishes: list[WishedToken] = [None, None]
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.answer, 1)
        layout.addWidget(PlainLabel("over", "muted"))
        layout.addWidget(self.other, 1)
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
        """Show what is compared; `automatic` says what a box stands for that nobody has chosen."""
        self._wishes = list(wishes)
        for box, wish, token, name in zip((self.answer, self.other), wishes, found, automatic, strict=True):
            box.clear()
            box.addItem(name, None)
            for candidate in candidates:
                piece = plain_piece(candidate.token.piece)
                box.addItem(f"{piece}   {candidate.probability:.3f}", candidate.token.id)
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
    box = QComboBox()
    box.setEditable(True)
    box.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
    box.setCompleter(None)  # type: ignore[arg-type]  # None takes it away
    box.setAccessibleName(name)
    box.setToolTip(tip)
    box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    box.setMinimumWidth(72)
    return box

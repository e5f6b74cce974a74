"""A row or card that can be chosen: a title, a line or two below it, and a word at its right."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QHBoxLayout,
    QSizePolicy,
    QStyle,
    QStyleOption,
    QVBoxLayout,
    QWidget,
)

from attnscope.widgets.labels import PlainLabel


class CardButton(QAbstractButton):
    """Looks as its role `card` in the style sheet says; Enter and Space choose it too."""

    def __init__(self, title: str, detail: str = "", side: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self.title, self.detail, self.side = (
            PlainLabel(title, "name"),
            PlainLabel(detail, "muted"),
            PlainLabel(),
        )
        self.side.set_role("muted")
        self.detail.setWordWrap(True)
        self._words = words = QVBoxLayout()
        words.setContentsMargins(0, 0, 0, 0)
        words.setSpacing(2)
        words.addWidget(self.title)
        words.addWidget(self.detail)
        self._row = layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 8)
        layout.setSpacing(12)
        layout.addLayout(words, 1)
        self.detail.setVisible(bool(detail))  # it has a parent now: shown earlier it were a window
        layout.addWidget(self.side, 0, Qt.AlignmentFlag.AlignTop)
        for label in (self.title, self.detail, self.side):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.set_side(side)

    def add_below(self, part: QWidget) -> None:
        """Put something below the words."""
        self._words.addWidget(part)
        self._words.addStretch(1)

    def set_side(self, text: str) -> None:
        """Say something else at the right."""
        self.side.setText(text)
        self.side.setVisible(bool(text))
        parts = (self.title.text(), self.detail.text(), text)
        self.setAccessibleName(". ".join(part.rstrip(".") for part in parts if part))

    def sizeHint(self) -> QSize:
        return self._row.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self._row.minimumSize()

    def hasHeightForWidth(self) -> bool:
        """Where words wrap; a card of one line is as high as it is, or it would get no height at all."""
        return self._row.hasHeightForWidth()

    def heightForWidth(self, width: int) -> int:
        return self._row.heightForWidth(width)

    def keyPressEvent(self, event: object) -> None:
        """Enter chooses, as Space does."""
        key = event.key()  # type: ignore[attr-defined]
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)  # type: ignore[arg-type]

    def paintEvent(self, event: QPaintEvent) -> None:
        option = QStyleOption()
        option.initFrom(self)
        with QPainter(self) as painter:
            self.style().drawPrimitive(QStyle.PrimitiveElement.PE_Widget, option, painter, self)

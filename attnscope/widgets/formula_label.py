"""Formulas in the window, set as in a textbook; read aloud, and copied, as they are typed."""

import math

from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.figures.paint_formula import SetFormula, set_formula
from attnscope.figures.style import NORMAL_PX
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, plain_tooltip


def below(view: QWidget, formulas: tuple[str, ...], source: str) -> QWidget:
    """A view with its formulas and their source below it, to be scrolled together."""
    both, label, said = QWidget(), FormulaLabel(), PlainLabel(source, role="muted", wraps=True)
    label.set_formulas(*formulas)
    column(view, label, said, None, on=both, spacing=6)
    return both


class FormulaLabel(QWidget):
    """Formulas below each other, broken at spaces where there is no room; as high as they are."""

    def __init__(self, size_px: int = NORMAL_PX) -> None:
        super().__init__()
        self._size_px = size_px
        self._texts: tuple[str, ...] = ()
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def set_formulas(self, *texts: str) -> None:
        if texts != self._texts:
            self._texts = texts
            self.setAccessibleName(f"Formula: {self.text()}")
            self.setToolTip(plain_tooltip(self.text()))
            self.updateGeometry()
            self.update()

    def text(self) -> str:
        """The formulas as they are typed, a line for each."""
        return "\n".join(self._texts)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return math.ceil(self._set(width).height) + 2

    def sizeHint(self) -> QSize:
        whole = self._set(0)
        return QSize(math.ceil(whole.width) + 2, math.ceil(whole.height) + 2)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.heightForWidth(max(self.width(), 80)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        colour: QColor = self.palette().color(QPalette.ColorRole.WindowText)
        with QPainter(self) as painter:
            self._set(self.width()).paint(painter, 0.0, 1.0, colour.name())

    def _set(self, room: int) -> SetFormula:
        return set_formula(self._texts, self._size_px, float(room))

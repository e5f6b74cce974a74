"""Formulas in the window, set as in a textbook; read aloud, and copied, as they are typed.

Beside a picture a button opens them on a small card, with their sources.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolButton, QWidget, QWidgetAction

from attnscope.figures.paint_formula import SetFormula, set_formula
from attnscope.figures.style import NORMAL_PX
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, named, plain_tooltip


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFormula:
    """One thing by its name: its formulas, what stands for what, and who published it."""

    name: str
    formulas: tuple[str, ...]
    symbols: str = ""
    source: str = ""


class FormulaButton(QToolButton):
    """`said` is asked what the card holds each time it opens; Esc or a click elsewhere closes it."""

    def __init__(self, said: Callable[[], Sequence[NamedFormula]]) -> None:
        super().__init__()
        named(self, "Formula and source", "The formula, and where it was published", role="line")
        self.setText("ƒ")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._said = said
        self._card = QMenu(self)
        self._card.setAccessibleName("Formula and source")
        self._card.aboutToShow.connect(self._fill)
        self.setMenu(self._card)

    def text_of_card(self) -> str:
        """All that the card holds, as plain text."""
        lines = [(one.name, *one.formulas, one.symbols, one.source) for one in self._said()]
        return "\n".join(line for one in lines for line in one if line)

    def _fill(self) -> None:
        self._card.clear()
        inner, parts = QWidget(), list[QWidget | int]()
        for one in self._said():
            formula = FormulaLabel()
            formula.set_formulas(*one.formulas)
            rest = [PlainLabel(words, role="muted") for words in (one.symbols, one.source) if words]
            parts += [*((10,) if parts else ()), PlainLabel(one.name, role="name"), formula, *rest]
        column(*parts, on=inner, margins=12, spacing=3)
        inner.setAccessibleName(self.text_of_card())
        action = QWidgetAction(self._card)
        action.setDefaultWidget(inner)
        self._card.addAction(action)

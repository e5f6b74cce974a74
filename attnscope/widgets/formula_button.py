"""A button that opens a small card with formulas and their sources; beside a picture it takes no height."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtWidgets import QMenu, QToolButton, QWidget, QWidgetAction

from attnscope.widgets.form_parts import column
from attnscope.widgets.formula_label import FormulaLabel
from attnscope.widgets.labels import PlainLabel, named


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

"""A button that shows what is chosen and offers the rest in a menu."""

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu, QToolButton, QWidget


class ChoiceButton(QToolButton):
    """One of several choices; `chosen` carries the key that the person took. No title: an icon alone."""

    chosen = Signal(str)

    def __init__(
        self, title: str, name: str, choices: Mapping[str, str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._title, self._choices = title, dict(choices)
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setProperty("role", "flat")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        group = QActionGroup(self)
        self._actions: dict[str, QAction] = {}
        for key, text in self._choices.items():
            # Made here and not by the menu: an action of the menu's own is forgotten by the binding when a
            # widget around it goes from one window to another.
            action = QAction(text.replace("&", "&&"), menu, checkable=True)
            menu.addAction(action)
            action.setData(key)
            group.addAction(action)
            self._actions[key] = action
        menu.triggered.connect(self._on_triggered)
        self.setMenu(menu)
        self.show_choice("")

    def show_choice(self, key: str) -> None:
        """Show which choice holds; an unknown one shows none."""
        for name, action in self._actions.items():
            action.setChecked(name == key)
        short = _SHORT.get(key, self._choices.get(key, ""))
        words = f"{self._title}: {short} ▾" if short else f"{self._title} ▾"
        self.setText(words if self._title else "")

    def _on_triggered(self, action: QAction) -> None:
        self.chosen.emit(str(action.data()))


_SHORT = {
    "fixed": "0–1",
    "head": "per head",
    "row": "per row",
    "none": "one",
    "mean": "mean",
    "max": "largest",
    "sum": "sum",
    "selection": "selection",
    "layer": "layer",
    "stack": "stack",
    "nothing": "all",
    "first": "no first",
    "special": "no special",
    "both": "no first, special",
    "weight:0": "all",
    "pairs": "pieces, in pairs",
    "pieces": "same pieces",
    "position": "by position",
    "every": "all heads",
    "unit": "±1",
}

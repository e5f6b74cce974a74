"""What an output owes to the patches of a picture, method by method, laid over the picture."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from attnscope.figures.cause_maps import influence_cells
from attnscope.figures.colours import Palette
from attnscope.figures.style import type_px
from attnscope.records.influence import METHODS, Method
from attnscope.viewmodels.causes.across_layers import METHOD_TIPS, AcrossState
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.labs.cell_panel import CellPanel

_SIDE_PX, _TITLE_PX = 112, 26


class PatchMaps(QWidget):
    """A CellPanel for every method that is not refused; a click makes a patch the output token.

    `pointed` carries the words of the patch under the cursor, empty when there is none.
    """

    pointed = Signal(str)

    def __init__(self, state: AcrossState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(8)
        self.panels: dict[Method, CellPanel] = {}
        for method in METHODS:
            panel = CellPanel(palette)
            panel.setToolTip(plain_tooltip(METHOD_TIPS[method]))
            panel.hovered.connect(lambda i, j, method=method: self._on_hovered(method, i, j))
            panel.clicked.connect(self._on_clicked)
            self.panels[method] = panel
        self._place(2)

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        for panel in self.panels.values():
            panel.set_theme(palette)

    def show_maps(self) -> None:
        """Show what every method says, where the input is a picture."""
        shown = self._state.shown
        picture = shown.picture if shown is not None else None
        for method, panel in self.panels.items():
            numbers = self._state.numbers(method) if picture is not None else None
            if picture is not None and numbers is not None:
                panel.show_cells(influence_cells(method, numbers, picture))
            panel.setVisible(numbers is not None)
        self._fit()

    def words(self, method: Method, row: int, column: int) -> str:
        """What a method says of one patch."""
        shown, numbers = self._state.shown, self._state.numbers(method)
        if shown is None or shown.picture is None or numbers is None or row < 0:
            return ""
        value = numbers[shown.picture.token(row, column)]
        what = "of its sum" if self._state.has_shares else "as computed"
        return f"{method}, patch {row},{column}: {value:.4g} {what}".replace("-", "−")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Maps beside each other where there is room."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        n_shown = sum(not panel.isHidden() for panel in self.panels.values())
        n_columns = max(1, min(self.width() // round(type_px(_SIDE_PX)), n_shown))
        if n_columns == 3 and n_shown == 4:
            n_columns = 2
        self._place(n_columns)

    def _place(self, n_columns: int) -> None:
        side = round(max(type_px(_SIDE_PX), self.width() / n_columns - 8) + type_px(_TITLE_PX))
        shown = [panel for panel in self.panels.values() if not panel.isHidden()] or [*self.panels.values()]
        for k, panel in enumerate(shown):
            panel.setMinimumHeight(side)
            self._grid.addWidget(panel, k // n_columns, k % n_columns)

    def _on_hovered(self, method: Method, i: int, j: int) -> None:
        for panel in self.panels.values():
            panel.set_cursor(i, j)
        self.pointed.emit(self.words(method, i, j))

    def _on_clicked(self, i: int, j: int) -> None:
        shown = self._state.shown
        if shown is not None and shown.picture is not None:
            self._state.choose(shown.picture.token(i, j))

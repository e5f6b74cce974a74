"""One tour as a card: what it is about, how far somebody is, and where there is room, its steps."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QToolButton, QWidget

from attnscope.viewmodels.tours.tours import Tour
from attnscope.widgets.card_button import CardButton
from attnscope.widgets.labels import tool_button


class TourCard(CardButton):
    """A click begins the tour or goes on with it; `step_wanted` carries the step that was clicked, from 0."""

    step_wanted = Signal(int)

    def __init__(self, tour: Tour, parent: QWidget | None = None) -> None:
        super().__init__(tour.title, tour.theme, parent=parent)
        self._tour = tour
        self._n_seen, self._n_columns = 0, 0
        self.steps: list[QToolButton] = []
        self._list = QWidget()
        self._grid = QGridLayout(self._list)
        self._grid.setContentsMargins(0, 4, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(0)
        self._list.hide()
        self.add_below(self._list)

    def show_seen(self, n_seen: int) -> None:
        """Say how far somebody is."""
        self._n_seen = n_seen
        self.set_side(progress_words(self._tour, n_seen))
        for k, step in enumerate(self.steps):
            step.setText(self._line(k))

    def show_steps(self, n_columns: int) -> None:
        """List the steps in so many columns; 0 lists none."""
        if n_columns == self._n_columns:
            return
        self._n_columns = n_columns
        if n_columns and not self.steps:
            self._make_steps()
        n_rows = -(-len(self.steps) // max(n_columns, 1))
        for k, step in enumerate(self.steps):
            self._grid.addWidget(step, k % n_rows, k // n_rows, Qt.AlignmentFlag.AlignLeft)
        for k in range(2):
            self._grid.setColumnStretch(k, int(k < n_columns))
        self._list.setVisible(n_columns > 0)
        self.updateGeometry()

    def _make_steps(self) -> None:
        for k, step in enumerate(self._tour.steps):
            button = tool_button(
                self._line(k), f"{self._tour.title}, step {k + 1}: {step.title}", role="line"
            )
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # by key, the arrows walk the tour
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(lambda _on=False, k=k: self.step_wanted.emit(k))
            self.steps.append(button)

    def _line(self, k: int) -> str:
        mark = "✓" if k < self._n_seen else f"{k + 1}"
        return f"{mark:\u2007>2}  {self._tour.steps[k].title}"  # padded as wide as a digit


def progress_words(tour: Tour, n_seen: int) -> str:
    """How far somebody is in a tour."""
    n_steps = len(tour.steps)
    if n_seen >= n_steps:
        return "✓ seen"
    return f"{n_seen} of {n_steps}" if n_seen else f"{n_steps} steps"

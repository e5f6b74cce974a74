"""One line below the recipe: what it costs, or what is wrong with it."""

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from attnscope.counting import bytes_text, short_count
from attnscope.viewmodels.training.plan_words import memory_line, problem_of, seconds_text
from attnscope.viewmodels.training.state import TrainingState
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, tool_button
from attnscope.widgets.training.cost_dialog import CostDialog


class CostBar(QWidget):
    """Shows the plan of a TrainingState in a line; the button opens everything about it."""

    def __init__(self, state: TrainingState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._dialog: CostDialog | None = None
        self._line = ElidedLabel(role="muted")
        self.more = tool_button("Cost…", "Cost of this recipe", role="flat")
        self.more.setToolTip("Parameters, memory, operations, time and disk of this recipe, and the presets")
        self.more.clicked.connect(self._on_more)
        self._problem = PlainLabel(role="warning")
        self._problem.setWordWrap(True)
        self._problem.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout: QVBoxLayout = column(self, spacing=4)
        top = row(self._line, self.more, spacing=4)
        top.setStretch(0, 1)
        layout.addLayout(top)
        layout.addWidget(self._problem)
        self.show_plan()

    @property
    def has_words(self) -> bool:
        """Whether something is said of the recipe."""
        return self._state.planning.plan is not None or bool(self._state.planning.problem)

    def show_plan(self) -> None:
        """Show the newest plan."""
        planning = self._state.planning
        plan = planning.plan
        problem = planning.problem if plan is None else problem_of(plan)
        if plan is None:
            self._line.set_full_text("This recipe cannot run yet" if problem else "")
        else:
            parts = [f"{short_count(plan.n_parameters)} parameters", bytes_text(plan.memory_bytes)]
            if plan.seconds is not None:
                parts.append(seconds_text(plan))
            if self._state.recipe.is_changed:
                parts.append("edited")
            self._line.set_full_text(" · ".join(parts))
            self._line.setToolTip(f"Trained it takes {memory_line(plan)} on {plan.device}")
        self._problem.setVisible(bool(problem))
        self._problem.setText(problem)

    @Slot()
    def _on_more(self) -> None:
        if self._dialog is None:
            self._dialog = CostDialog(self._state, self.window())
        self._dialog.show()
        self._dialog.raise_()

    def open_presets(self) -> None:
        """Open the table of presets."""
        self._on_more()
        if self._dialog is not None:
            self._dialog.tabs.show_panel("Presets")

"""One point of a pruning curve in words, and what can be done with it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QVBoxLayout, QWidget

from attnscope.records.importance import UNITS
from attnscope.records.intervals import interval_said
from attnscope.viewmodels.heads.curve_groups import RANKING_NAMES, PointRef
from attnscope.viewmodels.heads.pruning_curves import METRIC_NAMES, CurvesState, pruning_label
from attnscope.viewmodels.heads.pruning_words import taken_words, value_words
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import PlainLabel, rule, when

_HINT = (
    "Point at a curve: how many heads are off there, what that does, and which went last.\n\n"
    "A click switches those heads off in the whole window; undo brings them back."
)


class PointPanel(QWidget):
    """Shows the point of a CurvesState under the cursor, else the one that was clicked."""

    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, state: CurvesState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setProperty("role", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumWidth(216)
        self.title, self.ranking = PlainLabel(role="large"), PlainLabel(role="hint")
        self.value, self.unit = PlainLabel(role="name"), PlainLabel(role="muted")
        self.untouched = PlainLabel(role="hint")
        self.taken_title, self.taken = PlainLabel("Taken last", "section"), PlainLabel()
        self.hint = PlainLabel(_HINT, role="hint")
        self.loaded = PlainLabel(role="name")
        self.again_button = QPushButton("Load it again")
        self.explore_button = QPushButton("See in Explore")
        self.remove_button = QPushButton("Remove these heads…")
        self.again_button.clicked.connect(state.load_again)
        self.explore_button.clicked.connect(self.explore_wanted)
        self.remove_button.clicked.connect(self.remove_wanted)
        self._lay_out()
        when(self, self._show, state.changed.point, state.changed.loaded, state.changed.curves)
        self._show()

    def _lay_out(self) -> None:
        inner = QWidget()
        inner.setProperty("role", "panel")
        told = column(inner, margin=16, spacing=8)
        for label in (
            self.hint, self.title, self.ranking, self.value, self.unit, self.untouched, self.taken_title,
            self.taken,
        ):  # fmt: skip
            label.setWordWrap(True)
            told.addWidget(label)
        told.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inner)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(area, 1)
        self._bottom = QWidget()
        buttons = column(self._bottom, margin=16, spacing=8)
        buttons.addWidget(self.loaded)
        self.loaded.setWordWrap(True)
        for button in (self.again_button, self.explore_button, self.remove_button):
            buttons.addWidget(button)
        layout.addWidget(rule())
        layout.addWidget(self._bottom)

    def _show(self) -> None:
        state = self._state
        found, chosen = state.point, state.chosen
        told = (self.title, self.ranking, self.value, self.unit, self.untouched, self.taken_title, self.taken)
        for label in told:
            label.setVisible(found is not None)
        self.hint.setVisible(found is None)
        if found is not None:
            self._tell(found)
        self._bottom.setVisible(chosen is not None)
        if chosen is not None:
            words = pruning_label(chosen).removeprefix("pruning: ")
            self.loaded.setText(f"Loaded: {words}" if state.is_loaded else f"Not loaded any more: {words}")
        self.again_button.setVisible(not state.is_loaded)
        self.explore_button.setVisible(state.is_loaded)
        self.remove_button.setVisible(state.is_loaded)
        self.remove_button.setEnabled(chosen is not None and bool(chosen.point.gates.off()))

    def _tell(self, found: PointRef) -> None:
        curve, point = found.curve, found.point
        self.title.setText(f"{point.n_removed} of {curve.n_heads} heads off")
        same = [one for one in self._state.curves if one.ranking == curve.ranking]
        order = f", order {same.index(curve) + 1} of {len(same)}" if len(same) > 1 else ""
        again = ", scored again each time" if curve.is_rescored else ""
        self.ranking.setText(f"by {RANKING_NAMES[curve.ranking]}{order}{again}")
        self.value.setText(f"{METRIC_NAMES[curve.metric]} {value_words(point)}")
        self.unit.setText(f"{UNITS[curve.metric]}; {interval_said(curve.n_texts)}")
        self.untouched.setText(f"{value_words(curve.points[0])} with every head on")
        taken = taken_words(found.taken_last)
        self.taken_title.setVisible(bool(taken))
        self.taken.setVisible(bool(taken))
        self.taken.setText(taken)

"""The pruning curves under their titles, beside what is said of the point chosen."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QSplitter, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.viewmodels.heads.pruning_curves import METRIC_NAMES, CurvesState
from attnscope.widgets.form_parts import row
from attnscope.widgets.heads.point_panel import PointPanel
from attnscope.widgets.heads.pruning_plot import PruningPlot
from attnscope.widgets.labels import PlainLabel, plain_tooltip, when


class PruningView(QSplitter):
    """Shows the curves of a CurvesState; `explore_wanted` and `remove_wanted` ask for a page and a dialog."""

    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, state: CurvesState, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._state = state
        self.plot = PruningPlot(palette)
        self.plot.point_hovered.connect(state.hover)
        self.plot.point_clicked.connect(state.load)
        self.panel = PointPanel(state)
        self.panel.explore_wanted.connect(self.explore_wanted)
        self.panel.remove_wanted.connect(self.remove_wanted)
        self.log = QCheckBox("logarithmic")
        self.log.setToolTip(plain_tooltip("Draw the logarithm of the metric."))
        self.log.clicked.connect(self.plot.set_log)
        self.setChildrenCollapsible(False)
        self.setHandleWidth(1)
        self.addWidget(self._build_left())
        self.addWidget(self.panel)
        self.setStretchFactor(0, 1)
        self.setSizes([880, 264])
        when(self, self._show_curves, state.changed.curves)
        when(self, self._show_points, state.changed.point, state.changed.loaded, state.changed.curves)
        self._show_curves()
        self._show_points()

    def _build_left(self) -> QWidget:
        self._y_title, self._x_title = PlainLabel(role="muted"), PlainLabel(role="muted")
        self._x_title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        left = QWidget()
        charts = QVBoxLayout(left)
        charts.setContentsMargins(0, 0, 8, 0)
        charts.setSpacing(4)
        charts.addLayout(row(self._y_title, None, self.log))
        charts.addWidget(self.plot, 1)
        charts.addWidget(self._x_title)
        return left

    def _show_curves(self) -> None:
        groups = self._state.groups
        self.plot.set_groups(groups)
        if groups:
            curve = groups[0].curves[0]
            self._y_title.setText(f"{METRIC_NAMES[curve.metric]}, {curve.unit}")
            self._x_title.setText(f"heads off (of {curve.n_heads})")

    def _show_points(self) -> None:
        state = self._state
        self.plot.set_points(state.hovered, state.chosen, is_loaded=state.is_loaded)

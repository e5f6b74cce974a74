"""The pruning curves under their titles, beside the description of the chosen point."""

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPolygonF
from PySide6.QtWidgets import QCheckBox, QGraphicsPolygonItem, QSplitter, QWidget

from attnscope.counting import significant
from attnscope.figures.colours import series_colour
from attnscope.records.importance import METRICS, RANKINGS, CurvePoint, PruningCurve
from attnscope.records.measures import interval_said
from attnscope.records.sites import STACKS, HeadRef, Stack
from attnscope.viewmodels.heads.pruning import CurveGroup, CurvesState, PointRef, pruning_label
from attnscope.widgets.form_parts import column, row, scrolled
from attnscope.widgets.labels import PlainLabel, ground, named, plain_tooltip, push_button, rule, when
from attnscope.widgets.line_plot import Line, LinePlot

# Points of pruning curves in words. Pure functions.


def metric_words(point: CurvePoint) -> str:
    """The metric with its interval, to three significant digits."""
    if not point.low <= point.high:
        return significant(point.value, 3)
    return f"{significant(point.value, 3)} ({significant(point.low, 3)}–{significant(point.high, 3)})"


def taken_words(heads: Sequence[HeadRef]) -> str:
    """Heads by stack, one line each: `encoder  L0H1, L0H3`."""
    stacks: dict[Stack, list[str]] = {}
    for head in sorted(heads, key=lambda head: (STACKS.index(head.stack), head.layer, head.head)):
        stacks.setdefault(head.stack, []).append(head.label)
    return "\n".join(f"{stack}  {', '.join(labels)}" for stack, labels in stacks.items())


# The plot of pruning curves: lines with intervals, a point under the cursor, a point that is loaded.

_NAMES_PX, _REACH_PX, _STILL_PX = 128, 16.0, 4.0
_BAND = 0.13


class PruningPlot(LinePlot):
    """Curves of several rankings; arrow keys walk their points, Enter chooses one."""

    point_hovered = Signal(object)
    """PointRef under the cursor, or None."""
    point_clicked = Signal(object)

    def __init__(self, state: CurvesState) -> None:
        super().__init__(label_px=_NAMES_PX)
        self._state = state
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Pruning curves")
        self._groups: tuple[CurveGroup, ...] = ()
        self._bands: list[QGraphicsPolygonItem] = []
        self._rings = (pg.ScatterPlotItem(pxMode=True), pg.ScatterPlotItem(pxMode=True))
        for k, ring in enumerate(self._rings):
            ring.setZValue(10 + k)
            self.getPlotItem().addItem(ring, ignoreBounds=True)
        self._pressed = QPointF()
        self._has_log = False

    def dress(self) -> None:
        super().dress()
        if hasattr(self, "_rings"):
            self.set_groups(self._groups)

    def set_groups(self, groups: tuple[CurveGroup, ...]) -> None:
        """Draw these rankings."""
        self._groups = groups
        lines: list[Line] = []
        for k, group in enumerate(groups):
            lines += _lines(group, series_colour(self.theme, k))
        n_heads = groups[0].curves[0].n_heads if groups else 1
        self.set_x_range((-0.015 * n_heads, 1.01 * n_heads))
        self.set_lines(tuple(lines))
        self._draw_bands()
        self.draw_rings()

    def set_log(self, is_log: bool) -> None:
        """Draw the logarithm of the metric."""
        self._has_log = is_log
        super().set_log(is_log)
        self.set_groups(self._groups)

    def point_at(self, place: QPointF) -> PointRef | None:
        """The point of any curve nearest to a position of the widget, within reach."""
        view = self.getPlotItem().getViewBox()
        best, best_px = None, _REACH_PX
        scene = self.mapToScene(place.toPoint())
        for found in self._points():
            there = view.mapViewToScene(self._place(found.point.n_removed, found.point.value))
            distance = float(np.hypot(there.x() - scene.x(), there.y() - scene.y()))
            if distance < best_px:
                best, best_px = found, distance
        return best

    def place_of(self, found: PointRef) -> QPointF:
        """Position of a point in the widget."""
        view = self.getPlotItem().getViewBox()
        there = view.mapViewToScene(self._place(found.point.n_removed, found.point.value))
        return QPointF(self.mapFromScene(there))

    def _place(self, n_removed: int, value: float) -> QPointF:
        if self._has_log:
            value = float(np.log10(value)) if value > 0 else float("nan")
        return QPointF(n_removed, value)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        found = self.point_at(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if found else Qt.CursorShape.ArrowCursor)
        self.point_hovered.emit(found)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._pressed = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        moved = event.position() - self._pressed
        is_still = abs(moved.x()) + abs(moved.y()) <= _STILL_PX
        found = self.point_at(event.position())
        if is_still and found is not None and event.button() == Qt.MouseButton.LeftButton:
            self.point_clicked.emit(found)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.point_hovered.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right walk along a curve, up and down from curve to curve, Enter chooses the point."""
        key, at = Qt.Key(event.key()), self._state.point
        steps = {Qt.Key.Key_Left: (0, -1), Qt.Key.Key_Right: (0, 1)}
        steps |= {Qt.Key.Key_Up: (-1, 0), Qt.Key.Key_Down: (1, 0)}
        if key in steps and self._groups:
            self.point_hovered.emit(self._step(at, *steps[key]))
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and at is not None:
            self.point_clicked.emit(at)
        elif key == Qt.Key.Key_Escape and self._state.hovered is not None:
            self.point_hovered.emit(None)
        else:
            super().keyPressEvent(event)

    def _step(self, at: PointRef | None, curves: int, points: int) -> PointRef:
        every = self._curves()
        if at is None or at.curve not in every:
            return PointRef(curve=every[0], index=0)
        curve = every[(every.index(at.curve) + curves) % len(every)]
        index = min(max(at.index + points, 0), len(curve.points) - 1)
        return PointRef(curve=curve, index=index)

    def _curves(self) -> list[PruningCurve]:
        return [curve for group in self._groups for curve in group.curves]

    def _points(self) -> list[PointRef]:
        return [PointRef(curve=curve, index=k) for curve in self._curves() for k in range(len(curve.points))]

    def _draw_bands(self) -> None:
        plot = self.getPlotItem()
        for band in self._bands:
            plot.removeItem(band)
        self._bands.clear()
        for k, group in enumerate(self._groups):
            if len(group.curves) > 1:
                continue
            points = group.curves[0].points
            edge = [self._place(p.n_removed, p.low) for p in points]
            edge += [self._place(p.n_removed, p.high) for p in reversed(points)]
            if any(p.y() != p.y() for p in edge):
                continue
            band = QGraphicsPolygonItem(QPolygonF(edge))
            colour = QColor(series_colour(self.theme, k))
            colour.setAlphaF(_BAND)
            band.setBrush(colour)
            band.setPen(QColor(0, 0, 0, 0))
            band.setZValue(-5)
            plot.addItem(band, ignoreBounds=True)
            self._bands.append(band)

    def draw_rings(self) -> None:
        """Ring the point under the cursor and the one chosen; filled if the session has it."""
        accent, state = QColor(self.theme.accent), self._state
        for ring, found, is_full in (
            (self._rings[0], state.chosen, state.is_loaded),
            (self._rings[1], state.hovered, False),
        ):
            if found is None or found.curve not in self._curves():
                ring.setData([], [])
                continue
            colour = accent if ring is self._rings[0] else QColor(self.theme.text)
            brush = pg.mkBrush(colour) if is_full else pg.mkBrush(None)
            place = self._place(found.point.n_removed, found.point.value)
            ring.setData(
                [place.x()], [place.y()], symbol="o", size=11, pen=pg.mkPen(colour, width=2), brush=brush
            )


def _lines(group: CurveGroup, colour: str) -> list[Line]:
    """The line of one ranking, and the interval, or the single random orders, behind it."""
    xs = np.array(group.removed, np.float64)
    if len(group.curves) > 1:
        behind = [[point.value for point in curve.points] for curve in group.curves]
    else:
        points = group.curves[0].points
        behind = [[point.low for point in points], [point.high for point in points]]
    has_points = len(group.curves) > 1
    lines = [
        Line(xs=xs, ys=np.array(ys), colour=colour, is_pale=True, has_points=has_points) for ys in behind
    ]
    means = np.array(group.means)
    lines.append(Line(xs=xs, ys=means, colour=colour, label=group.name, has_points=not has_points))
    return lines


# One point of a pruning curve in words, and what can be done with it.

_HINT = (
    "Hover over a curve to see how many heads are off there, the effect, and which went last.\n\n"
    "Click to switch those heads off in the whole window; undo brings them back."
)


class PointPanel(QWidget):
    """Shows the point of a CurvesState under the cursor, else the one clicked."""

    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, state: CurvesState) -> None:
        super().__init__()
        self._state = state
        ground(self, "panel")
        self.setMinimumWidth(216)
        self.title, self.ranking = PlainLabel(role="large"), PlainLabel(role="hint")
        self.value, self.unit = PlainLabel(role="name"), PlainLabel(role="muted")
        self.untouched = PlainLabel(role="hint")
        self.taken_title, self.taken = PlainLabel("Removed last", "section"), PlainLabel()
        self.hint = PlainLabel(_HINT, role="hint")
        self.loaded = PlainLabel(role="name", wraps=True)
        self.again_button = push_button("Load it again", clicked=state.load_again)
        self.explore_button = push_button("See in Explore", clicked=self.explore_wanted)
        self.remove_button = push_button("Remove these heads…", clicked=self.remove_wanted)
        self._lay_out()
        when(self, self._show, state.changed.point, state.changed.loaded, state.changed.curves)
        self._show()

    def _lay_out(self) -> None:
        inner = named(QWidget(), role="panel")
        told = column(on=inner, margins=16, spacing=8)
        for label in (
            self.hint, self.title, self.ranking, self.value, self.unit, self.untouched, self.taken_title,
            self.taken,
        ):  # fmt: skip
            label.setWordWrap(True)
            told.addWidget(label)
        told.addStretch(1)
        layout = column((scrolled(inner), 1), on=self, spacing=0)
        self._bottom = QWidget()
        column(
            self.loaded,
            self.again_button,
            self.explore_button,
            self.remove_button,
            on=self._bottom,
            margins=16,
        )
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
            self.loaded.setText(f"Loaded: {words}" if state.is_loaded else f"No longer loaded: {words}")
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
        self.ranking.setText(f"by {RANKINGS[curve.ranking].title}{order}{again}")
        self.value.setText(f"{METRICS[curve.metric].title} {metric_words(point)}")
        self.unit.setText(f"{curve.unit}; {interval_said(curve.n_texts)}")
        self.untouched.setText(f"{metric_words(curve.points[0])} with every head on")
        taken = taken_words(found.taken_last)
        self.taken_title.setVisible(bool(taken))
        self.taken.say(taken)


class PruningView(QSplitter):
    """Shows the curves of a CurvesState; `explore_wanted` and `remove_wanted` ask for a page and a dialog."""

    explore_wanted = Signal()
    remove_wanted = Signal()

    def __init__(self, state: CurvesState) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._state = state
        self.plot = PruningPlot(state)
        self.plot.point_hovered.connect(state.hover)
        self.plot.point_clicked.connect(state.load)
        self.panel = PointPanel(state)
        self.panel.explore_wanted.connect(self.explore_wanted)
        self.panel.remove_wanted.connect(self.remove_wanted)
        self.log = named(QCheckBox("logarithmic"), tip=plain_tooltip("Draw the logarithm of the metric."))
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
        column(
            row(self._y_title, None, self.log),
            (self.plot, 1),
            self._x_title,
            on=left,
            margins=(0, 0, 8, 0),
            spacing=4,
        )
        return left

    def _show_curves(self) -> None:
        groups = self._state.groups
        self.plot.set_groups(groups)
        if groups:
            curve = groups[0].curves[0]
            self._y_title.setText(f"{METRICS[curve.metric].title}, {curve.unit}")
            self._x_title.setText(f"heads off (of {curve.n_heads})")

    def _show_points(self) -> None:
        self.plot.draw_rings()

"""The plot of pruning curves: lines with intervals, a point under the cursor, a point that is loaded."""

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPolygonF
from PySide6.QtWidgets import QGraphicsPolygonItem, QWidget

from attnscope.figures.colours import Palette, series_colour
from attnscope.records.importance import PruningCurve
from attnscope.viewmodels.heads.curve_groups import CurveGroup, PointRef
from attnscope.widgets.line_plot import Line, LinePlot

_NAMES_PX, _REACH_PX, _STILL_PX = 128, 16.0, 4.0
_BAND = 0.13


class PruningPlot(LinePlot):
    """Curves of several rankings; arrow keys walk their points, Enter takes the one they are on."""

    point_hovered = Signal(object)
    """PointRef under the cursor, or None."""
    point_clicked = Signal(object)

    def __init__(self, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(palette, parent, label_px=_NAMES_PX)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Pruning curves")
        self._groups: tuple[CurveGroup, ...] = ()
        self._hovered: PointRef | None = None
        self._chosen: PointRef | None = None
        self._is_loaded = False
        self._bands: list[QGraphicsPolygonItem] = []
        self._rings = (pg.ScatterPlotItem(pxMode=True), pg.ScatterPlotItem(pxMode=True))
        for k, ring in enumerate(self._rings):
            ring.setZValue(10 + k)
            self.getPlotItem().addItem(ring, ignoreBounds=True)
        self._pressed = QPointF()
        self._has_log = False

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        super().set_theme(palette)
        if hasattr(self, "_rings"):
            self.set_groups(self._groups)

    def set_groups(self, groups: tuple[CurveGroup, ...]) -> None:
        """Draw these rankings."""
        self._groups = groups
        lines: list[Line] = []
        for k, group in enumerate(groups):
            lines += _lines(group, series_colour(self._palette, k))
        n_heads = groups[0].curves[0].n_heads if groups else 1
        self.set_x_range((-0.015 * n_heads, 1.01 * n_heads))
        self.set_lines(tuple(lines))
        self._draw_bands()
        self._draw_rings()

    def set_log(self, is_log: bool) -> None:
        """Draw the logarithm of the metric."""
        self._has_log = is_log
        super().set_log(is_log)
        self.set_groups(self._groups)

    def set_points(self, hovered: PointRef | None, chosen: PointRef | None, *, is_loaded: bool) -> None:
        """Ring the point under the cursor and the one chosen; full when the session has it."""
        self._hovered, self._chosen, self._is_loaded = hovered, chosen, is_loaded
        self._draw_rings()

    def point_at(self, place: QPointF) -> PointRef | None:
        """The point of any curve nearest to a place of the widget, within reach."""
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
        """Where in the widget a point lies."""
        view = self.getPlotItem().getViewBox()
        there = view.mapViewToScene(self._place(found.point.n_removed, found.point.value))
        return QPointF(self.mapFromScene(there))

    def _place(self, n_removed: int, value: float) -> QPointF:
        """Where a number lies on the axes."""
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
        """Left and right walk along a curve, up and down from curve to curve, Enter takes the point."""
        key, at = Qt.Key(event.key()), self._hovered or self._chosen
        steps = {Qt.Key.Key_Left: (0, -1), Qt.Key.Key_Right: (0, 1)}
        steps |= {Qt.Key.Key_Up: (-1, 0), Qt.Key.Key_Down: (1, 0)}
        if key in steps and self._groups:
            self.point_hovered.emit(self._step(at, *steps[key]))
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and at is not None:
            self.point_clicked.emit(at)
        elif key == Qt.Key.Key_Escape and self._hovered is not None:
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
        """The intervals, filled."""
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
            colour = QColor(series_colour(self._palette, k))
            colour.setAlphaF(_BAND)
            band.setBrush(colour)
            band.setPen(QColor(0, 0, 0, 0))
            band.setZValue(-5)
            plot.addItem(band, ignoreBounds=True)
            self._bands.append(band)

    def _draw_rings(self) -> None:
        accent = QColor(self._palette.accent)
        for ring, found, is_full in (
            (self._rings[0], self._chosen, self._is_loaded),
            (self._rings[1], self._hovered, False),
        ):
            if found is None or found.curve not in self._curves():
                ring.setData([], [])
                continue
            colour = accent if ring is self._rings[0] else QColor(self._palette.text)
            brush = pg.mkBrush(colour) if is_full else pg.mkBrush(None)
            place = self._place(found.point.n_removed, found.point.value)
            ring.setData(
                [place.x()], [place.y()], symbol="o", size=11, pen=pg.mkPen(colour, width=2), brush=brush
            )


def _lines(group: CurveGroup, colour: str) -> list[Line]:
    """The line of one ranking, and what lies behind it: its interval, or the single random orders."""
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

"""One plot of lines on shared axes, drawn by pyqtgraph: labels at the lines, a cursor, zoom and pan.

Lines come cut to display size; a value that is not a number breaks its line.
"""

import math
from dataclasses import dataclass
from math import isfinite

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QObject, QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QGraphicsSimpleTextItem, QWidget

from attnscope.counting import number_text
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.widgets.theme import Dressing

# The axes of a plot: how far apart their numbers stand, and which numbers they name.


class UprightAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis whose numbers are never closer than a line of type."""

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        levels: list[tuple[float, float]] = super().tickSpacing(low, high, size)
        least = 0.85 * QFontMetricsF(font(SMALL_PX)).height() * abs(high - low) / max(size, 1.0)
        if not levels or levels[0][0] >= least:
            return levels
        wider = [levels[0][0] * k for k in (2, 4, 10, 20, 50)]
        seen = [step for step in wider if math.floor(high / step) * step >= low] or [levels[0][0]]
        return [(next((step for step in seen if step >= least), seen[-1]), 0)]

    def boundingRect(self) -> QRectF:
        """Include the numbers at the ends of a low plot, which need a little room beyond it."""
        beyond = _BEYOND_SHARE * QFontMetricsF(font(SMALL_PX)).height()
        return QRectF(super().boundingRect()).adjusted(0.0, -beyond, 0.0, beyond)


class LevelAxis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis of counts, such as steps: there are no ticks between 2 and 3."""

    is_whole = True

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        levels: list[tuple[float, float]] = super().tickSpacing(low, high, size)
        if not self.is_whole:
            return levels
        return [level for level in levels if level[0] >= 1.0] or [(1.0, 0)]


def _show_numbers(axis: pg.AxisItem, is_shown: bool) -> None:
    """Show or hide the numbers of an axis; it is repainted if its style is set."""
    if axis.style["showValues"] != is_shown:
        axis.setStyle(showValues=is_shown)


X_NUMBERS_PX = 20
_BEYOND_SHARE = 0.42
"""How much of its line a number may stand above or below its plot: half of one that is at its very end."""
_ABOVE_PX, _AXIS_PX, _LABEL_GAP_PX, _LEAST_DRAG_PX = 4, 48, 13.0, 4
_PALE_SHARE, _LEAST_FILL = 0.4, 0.6
_ABOVE_SHARE = 0.06
"""So much of an axis of shares stands above 1, for the line that is drawn there; no number does."""
_LONG = 600
"""Jagged lines with more points than this are drawn one pixel wide: wider ones take 50 times as long."""
Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a plot; `label` is written at its right end, unless empty; a strong one is thicker."""

    xs: Points
    ys: Points
    colour: str
    label: str = ""
    is_pale: bool = False
    has_points: bool = False
    is_dashed: bool = False
    is_strong: bool = False
    is_thin: bool = False


def _shown(line: Line, is_log: bool) -> Points:
    """The values as drawn: themselves, or their logarithms if positive."""
    if not is_log:
        return line.ys
    positive = np.where(line.ys > 0, line.ys, np.nan)
    return np.asarray(np.log10(positive), dtype=np.float64)


def _ends(arrays: list[Points]) -> tuple[float, float] | None:
    """The smallest and the largest number; None if there is none."""
    lows = [float(np.nanmin(a)) for a in (x[np.isfinite(x)] for x in arrays) if len(a)]
    highs = [float(np.nanmax(a)) for a in (x[np.isfinite(x)] for x in arrays) if len(a)]
    ends = (min(lows), max(highs)) if lows else None
    return ends if ends and isfinite(ends[0]) and isfinite(ends[1]) else None


class _DrawnLine:
    """A line in the picture, and its points."""

    def __init__(self, plot: pg.PlotItem) -> None:
        self._curve = pg.PlotCurveItem(connect="finite")
        self._dots = pg.ScatterPlotItem(size=5, pxMode=True, pen=None)
        for item in (self._curve, self._dots):
            plot.addItem(item, ignoreBounds=True)

    def hide(self) -> None:
        self._curve.setVisible(False)
        self._dots.setVisible(False)

    def draw(self, line: Line, shown: Points, background: str) -> None:
        """Draw a line with the values `shown`; a pale one halfway between its colour and the background."""
        has_points = line.has_points or len(line.xs) == 1  # one alone is no line
        self._curve.setVisible(True)
        self._dots.setVisible(has_points)
        colour = QColor(line.colour)
        if line.is_pale:
            colour = _mixed(colour, QColor(background), _PALE_SHARE)
        style = Qt.PenStyle.DashLine if line.is_dashed else Qt.PenStyle.SolidLine
        ys = np.where(np.isfinite(line.ys), shown, np.nan)
        is_thin = line.is_pale or len(line.xs) > _LONG or line.is_thin
        width = 1.0 if is_thin else 2.4 if line.is_strong else 1.5
        self._curve.setPen(pg.mkPen(colour, width=width, style=style))
        self._curve.setData(line.xs, ys, antialias=not line.is_pale, connect="finite")
        self._curve.setZValue(0 if line.is_pale else 2 if line.is_strong else 1)
        if has_points:
            is_finite = np.isfinite(ys)
            self._dots.setData(line.xs[is_finite], ys[is_finite], brush=pg.mkBrush(colour), pen=None)


class _EndLabels(QObject):
    """The names of lines beside their ends, with the values at the cursor; `width_px` is their room."""

    def __init__(self, plot: pg.PlotItem, width_px: int) -> None:
        super().__init__(plot)
        self._plot, self.width_px, self.has_values = plot, width_px, True
        self._lines: tuple[Line, ...] = ()
        self._shown: list[Points] = []
        self._cursor_x = math.nan
        self._items: list[QGraphicsSimpleTextItem] = []

    def set_lines(self, lines: tuple[Line, ...], shown: list[Points]) -> None:
        """Set the drawn lines, with their values as `shown`; they are placed with the next call."""
        self._lines, self._shown = lines, shown
        while len(self._items) < len(lines):
            self._items.append(QGraphicsSimpleTextItem(self._plot))
            self._items[-1].setFont(font(SMALL_PX))

    def set_cursor(self, x: float | None) -> None:
        """Write the values at the cursor, or none."""
        self._cursor_x = math.nan if x is None else x
        self.place()

    def fit_type(self) -> None:
        """Adapt to another size of type."""
        for item in self._items:
            item.setFont(font(SMALL_PX))

    @Slot()
    def place(self) -> None:
        """Write each beside the end of its line, moved apart to avoid overlap."""
        if self.width_px == 0:
            return
        area = self._plot.getViewBox().sceneBoundingRect()
        ends = sorted(
            (place.y(), i, place.x())
            for i, line in enumerate(self._lines)
            if line.label and (place := self._end_of(i)) is not None
        )
        tops = spread([y for y, _, _ in ends], type_px(_LABEL_GAP_PX), area.top(), area.bottom())
        right = min(area.right(), max((x for _, _, x in ends), default=0.0)) + 6
        named = {i: (right, y) for (_, i, _), y in zip(ends, tops, strict=True)}
        for i, item in enumerate(self._items):
            item.setVisible(i in named)
            if i in named:
                item.setText(self._text(self._lines[i]))
                item.setBrush(QColor(self._lines[i].colour))
                place = self._plot.mapFromScene(QPointF(*named[i]))
                item.setPos(place - QPointF(0, item.boundingRect().height() / 2))

    def _end_of(self, i: int) -> QPointF | None:
        view, xs, shown = self._plot.getViewBox(), self._lines[i].xs, self._shown[i]
        known = np.flatnonzero(np.isfinite(shown) & (xs <= view.viewRange()[0][1]))
        if not len(known):
            return None
        return QPointF(view.mapViewToScene(QPointF(xs[known[-1]], shown[known[-1]])))

    def _text(self, line: Line) -> str:
        """The label, with the value under the cursor if wanted; cut if both have no room."""
        x, value = self._cursor_x, ""
        if self.has_values and len(line.xs) and line.xs[0] <= x <= line.xs[-1]:
            nearest = int(np.argmin(np.abs(line.xs - x)))
            value = f" {number_text(float(line.ys[nearest]))}"
        room = max(24.0, self.width_px - 8 - text_width(value))
        metrics = QFontMetricsF(font(SMALL_PX))
        return metrics.elidedText(line.label, Qt.TextElideMode.ElideMiddle, room) + value


class _HeldRange:
    """An axis that stays while the data fill it well enough, so that it does not jitter as they grow."""

    _low, _high = math.inf, -math.inf

    def forget(self) -> None:
        """Reset for other data."""
        self._low, self._high = math.inf, -math.inf

    def around(self, low: float, high: float) -> tuple[float, float]:
        """The axis for data from `low` to `high`."""
        is_inside = self._low <= low and high <= self._high
        if not is_inside or high - low < _LEAST_FILL * (self._high - self._low):
            pad = 0.06 * (high - low)
            self._low, self._high = low - pad, high + pad
        return self._low, self._high


class LinePlot(Dressing, pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph has no types
    """Lines that fit the picture until the user zooms; a double click or `0` fits them again.

    The numbers along the x axis are whole ones, unless `set_whole_x` says otherwise.
    """

    cursor_moved = Signal(float)
    cursor_left = Signal()
    place_clicked = Signal(float)
    view_changed = Signal()

    def __init__(
        self,
        parent: QWidget | None = None,
        *,
        label_px: int = 0,
    ) -> None:
        self._along = LevelAxis(orientation="bottom")
        axes = {"left": UprightAxis(orientation="left"), "bottom": self._along}
        super().__init__(parent, axisItems=axes, enableMenu=False)  # to make one takes a quarter of the time
        self._has_x_numbers = True
        self._is_log = False
        self.is_share = False
        """Whether the values are shares, so that the axis ends at 1."""
        self._pressed_at = QPointF()
        self._lines: tuple[Line, ...] = ()
        self._drawn: list[_DrawnLine] = []
        self._marks: list[pg.InfiniteLine] = []
        self._x_range: tuple[float, float] | None = None
        self._held = _HeldRange()
        self.is_fitted = True
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setFrameShape(self.Shape.NoFrame)
        plot = self.getPlotItem()
        self._labels = _EndLabels(plot, label_px)
        plot.hideButtons()
        for side in ("left", "bottom"):
            axis = plot.getAxis(side)
            axis.enableAutoSIPrefix(False)
            axis.setStyle(tickFont=font(SMALL_PX), tickTextOffset=4, tickLength=-4, autoReduceTextSpace=False)
        view = plot.getViewBox()
        view.disableAutoRange()
        view.setMouseMode(view.PanMode)
        view.sigRangeChangedManually.connect(self._on_moved_by_hand)
        view.sigXRangeChanged.connect(self._labels.place)
        self._cursor, self._looked_at = (pg.InfiniteLine(angle=90, movable=False) for _ in range(2))
        for line in (self._cursor, self._looked_at):
            line.hide()
            plot.addItem(line, ignoreBounds=True)
        self.dress()

    def dress(self) -> None:
        self.setBackground(self.theme.background)
        plot = self.getPlotItem()
        for side in ("left", "bottom"):
            axis = plot.getAxis(side)
            axis.setPen(pg.mkPen(self.theme.line))
            axis.setTextPen(pg.mkPen(self.theme.muted))
        plot.showGrid(x=False, y=True, alpha=0.25)
        self._fit_type()
        self._cursor.setPen(pg.mkPen(self.theme.muted, width=1))
        self._looked_at.setPen(pg.mkPen(self.theme.accent, width=2))
        for mark in self._marks:
            mark.setPen(pg.mkPen(self.theme.line, style=Qt.PenStyle.DashLine))

    def set_x_numbers(self, has_numbers: bool) -> None:
        """Write numbers along the axis, or leave them to a plot below with the same axis."""
        self._has_x_numbers = has_numbers
        is_shown = has_numbers and any(len(line.xs) for line in self._lines)
        _show_numbers(self.getPlotItem().getAxis("bottom"), is_shown)
        self._fit_type()

    def _fit_type(self) -> None:
        plot = self.getPlotItem()
        for side in ("left", "bottom"):
            plot.getAxis(side).setStyle(tickFont=font(SMALL_PX))
        plot.setContentsMargins(0, round(type_px(_ABOVE_PX)), self._labels.width_px, 0)
        plot.getAxis("left").setWidth(type_px(_AXIS_PX))
        plot.getAxis("bottom").setHeight(type_px(X_NUMBERS_PX) if self._has_x_numbers else 5)
        self._labels.fit_type()

    def set_log(self, is_log: bool) -> None:
        """Draw the logarithm of the values; the line is broken at values that are not positive."""
        if is_log != self._is_log:
            self.set_lines(self._lines, is_log=is_log)

    def set_label_px(self, label_px: int, *, has_values: bool = True) -> None:
        """Set the width for the labels at the right, with or without the values at the cursor."""
        self._labels.has_values = has_values
        if label_px != self._labels.width_px:
            self._labels.width_px = label_px
            self._fit_type()

    def set_whole_x(self, is_whole: bool) -> None:
        """Set whether the x axis has whole numbers."""
        if is_whole != self._along.is_whole:
            self._along.is_whole = is_whole
            self._along.picture = None  # painted anew, though its range may stay

    def set_x_range(self, x_range: tuple[float, float] | None) -> None:
        """The x axis of the fitted picture; None fits it to the lines."""
        self._x_range = x_range

    def follow(self, other: "LinePlot") -> None:
        """Show the same part of the x axis as another plot, whatever their positions on the screen.

        (A link of pyqtgraph lines axes up by their place on the screen where plots overlap, hidden ones too.)
        """
        if other.is_fitted and not self.is_fitted:
            self.fit()
        self.is_fitted = other.is_fitted
        if not self.is_fitted and other is not self:
            self.getPlotItem().getViewBox().setXRange(*other.visible_x(), padding=0)

    def set_lines(self, lines: tuple[Line, ...], *, is_log: bool | None = None) -> None:
        """Draw these lines instead of the old ones, logarithmic or not; None leaves that."""
        if is_log is not None and is_log != self._is_log:
            self._is_log = is_log
            self._held.forget()
            self.getPlotItem().getAxis("left").setLogMode(y=is_log)
        self._lines = lines
        while len(self._drawn) < len(lines):
            self._drawn.append(_DrawnLine(self.getPlotItem()))
        shown = [_shown(line, self._is_log) for line in lines]
        for drawn, line, values in zip(self._drawn, lines, shown, strict=False):
            drawn.draw(line, values, self.theme.background)
        for drawn in self._drawn[len(lines) :]:
            drawn.hide()
        self._labels.set_lines(lines, shown)
        if self.is_fitted:
            self.fit()
        self._labels.place()

    def set_marks(self, xs: tuple[float, ...]) -> None:
        """Vertical lines behind the data."""
        while len(self._marks) < len(xs):
            mark = pg.InfiniteLine(
                angle=90, movable=False, pen=pg.mkPen(self.theme.line, style=Qt.PenStyle.DashLine)
            )
            mark.setZValue(-10)
            self._marks.append(mark)
            self.getPlotItem().addItem(mark, ignoreBounds=True)
        for i, mark in enumerate(self._marks):
            mark.setVisible(i < len(xs))
            if i < len(xs):
                mark.setValue(xs[i])

    def set_cursor(self, x: float | None) -> None:
        """Put the cursor at `x` and write the values there into the labels, or remove it."""
        self._cursor.setVisible(x is not None)
        self._cursor.setValue(x or 0.0)
        self._labels.set_cursor(x)

    def set_place(self, x: float | None) -> None:
        """Mark the position shown elsewhere, or none."""
        self._looked_at.setVisible(x is not None)
        self._looked_at.setValue(x or 0.0)

    def fit(self) -> None:
        """Show all of the lines; an empty picture has axes without numbers."""
        self.is_fitted = True
        has_lines = any(len(line.xs) for line in self._lines)
        _show_numbers(self.getPlotItem().getAxis("left"), has_lines)
        _show_numbers(self.getPlotItem().getAxis("bottom"), has_lines and self._has_x_numbers)
        xs = _ends([line.xs for line in self._lines])
        ys = _ends([_shown(line, self._is_log) for line in self._lines])
        left, right = self._x_range or xs or (0.0, 1.0)
        low, high = ys or (0.0, 1.0)
        is_below_one = self.is_share and high <= 1.0
        if right <= left:
            left, right = left - 0.5, right + 0.5
        if high - low < 1e-12 * max(1.0, abs(high)):
            low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
        bottom, top = self._held.around(low, high)
        if is_below_one and top > 1.0:
            top = 1.0 + _ABOVE_SHARE * (1.0 - bottom)
        view = self.getPlotItem().getViewBox()
        view.setRange(xRange=(left, right), yRange=(bottom, top), padding=0)

    def visible_x(self) -> tuple[float, float]:
        """The x axis as it is shown."""
        left, right = self.getPlotItem().getViewBox().viewRange()[0]
        return float(left), float(right)

    def n_buckets(self) -> int:
        """Number of pairs of extremes worth drawing across the width."""
        width: float = self.width() - type_px(_AXIS_PX) - self._labels.width_px
        return max(50, round(width / 2))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        x = self._x_at(event)
        self.cursor_left.emit() if x is None else self.cursor_moved.emit(x)

    def _x_at(self, event: QMouseEvent) -> float | None:
        """The position on the x axis, None outside the picture."""
        view, place = self.getPlotItem().getViewBox(), self.mapToScene(event.position().toPoint())
        if view.sceneBoundingRect().contains(place):
            return float(view.mapSceneToView(QPointF(place)).x())
        return None

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.cursor_left.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._pressed_at = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        has_moved = (event.position() - self._pressed_at).manhattanLength() >= _LEAST_DRAG_PX
        if not has_moved and event.button() == Qt.MouseButton.LeftButton:
            if (x := self._x_at(event)) is not None:
                self.place_clicked.emit(x)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.fit()
        self.view_changed.emit()
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_0:
            self.fit()
            self.view_changed.emit()
        else:
            super().keyPressEvent(event)

    def fit_room(self) -> None:
        if hasattr(self, "_labels"):  # not while the parent class is made
            if self.is_fitted:
                self.fit()
            self._labels.place()

    @Slot(object)
    def _on_moved_by_hand(self, _mask: object) -> None:
        self.is_fitted = False
        self.view_changed.emit()


def spread(places: list[float], gap: float, top: float, bottom: float) -> list[float]:
    """Ascending positions moved as little as needed to be `gap` apart between `top` and `bottom`."""
    result: list[float] = []
    lowest = top + gap / 2
    for place in places:
        result.append(max(place, lowest))
        lowest = result[-1] + gap
    highest = bottom - gap / 2
    for k in range(len(result) - 1, -1, -1):
        result[k] = min(result[k], highest)
        highest = result[k] - gap
    return result


def _mixed(colour: QColor, other: QColor, share: float) -> QColor:
    """`share` of one colour in another; opaque, because translucent lines are slow to draw."""
    first, second = colour.getRgb(), other.getRgb()
    channels = zip(first[:3], second[:3], strict=True)  # type: ignore[index]
    return QColor(*(round(share * a + (1 - share) * b) for a, b in channels))

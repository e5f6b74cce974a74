"""Charts on the screen: of labs, answers and positions, drawn by pyqtgraph from the records used in files."""

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QShowEvent
from PySide6.QtWidgets import QCheckBox, QGraphicsSimpleTextItem, QGridLayout, QWidget

from attnscope.counting import number_text
from attnscope.figures.chart_painting import (
    equal_ranges,
    log_ticks,
    name_lines,
    names_high,
    nice_ticks,
    off_points,
    parted,
    points_about,
    tick_text,
    ticks_apart,
    upright_every,
    words_apart,
)
from attnscope.figures.colours import series_colour
from attnscope.figures.style import SMALL_PX, drawn_piece, font, type_px
from attnscope.records.charts import Chart, Series
from attnscope.records.maps import PositionTable
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, tool_button
from attnscope.widgets.line_plot import X_NUMBERS_PX, Line, LinePlot
from attnscope.widgets.theme import Dressed

_NAMES_SHARE, _NAMES_HIGH_SHARE = 0.46, 0.4
_BEYOND_PX = 48
"""So far the first and the last word below an axis may reach beyond it."""
_NO_CHART = Chart(title="", x_label="", y_label="", series=())


class LabPlot(LinePlot):
    """Shows a Chart; `dragged` carries x and y, and whether the button was just pressed.

    `let_go` ends a drag.
    """

    dragged = Signal(float, float, bool)
    let_go = Signal()

    def __init__(self, *, label_px: int = 0) -> None:
        self._chart, self._is_old = _NO_CHART, False
        self._loose: list[pg.ScatterPlotItem] = []
        self._stems: list[pg.PlotCurveItem] = []
        self._words: list[QGraphicsSimpleTextItem] = []
        self._notes: list[QGraphicsSimpleTextItem] = []
        self._names: list[QGraphicsSimpleTextItem] = []
        super().__init__(label_px=label_px)
        self.getPlotItem().getViewBox().setMouseEnabled(False, False)
        for side, beyond in (("left", False), ("bottom", _BEYOND_PX)):
            self.getPlotItem().getAxis(side).setStyle(hideOverlappingLabels=beyond)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def dress(self) -> None:
        """Redraw the chart, or, if hidden as most lab charts are, once it is shown."""
        is_drawn = self._chart is not _NO_CHART
        self._is_old = is_drawn and not self.isVisible()
        if self._is_old:
            return
        super().dress()
        if is_drawn:
            self.show_chart(self._chart)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_old:
            self.dress()

    def show_chart(self, chart: Chart) -> None:
        """Draw another chart."""
        self._chart = chart
        self.is_fitted = False  # before all of it is there
        self.set_log(chart.is_log_y)
        lines = tuple(self._line(series) for series in chart.series if series.style == "line")
        xs = np.concatenate([np.empty(0), *(self._xs(series.xs) for series in chart.series)])
        known = xs[np.isfinite(xs)]
        self.set_x_range((float(known.min()), float(known.max())) if known.size else None)
        self.set_marks(tuple(self._x(x) for x, _ in chart.marks))
        self.set_lines(lines)
        self._draw_loose([s for s in chart.series if s.style == "points"])
        self._draw_stems([s for s in chart.series if s.style in ("stems", "whiskers")])
        self.fit()

    def fit(self) -> None:
        """Show all of the data; the axes have round numbers, on logarithmic ones powers of ten."""
        super().fit()
        if self._chart is _NO_CHART:
            return
        view = self.getPlotItem().getViewBox()
        bottom, top = self._y_range(self._chart)
        left, right = self._x_range or view.viewRange()[0]
        room = 0.02 * (right - left)
        is_geometric = self._chart.is_geometric
        names = () if is_geometric else tuple(map(drawn_piece, self._chart.x_names))
        step = view.width() / (right - left + 2 * room) if right > left else 0.0
        n_lines = name_lines(names, step)
        self._make_room(names, n_lines)
        if is_geometric:
            size = view.width(), view.height()
            (left, right), (bottom, top) = equal_ranges((left, right), (bottom, top), *size)
        view.setRange(xRange=(left - room, right + room), yRange=(bottom, top), padding=0)
        plot = self.getPlotItem()
        for side in ("left", "bottom"):
            plot.getAxis(side).setStyle(showValues=not is_geometric)
        if is_geometric:
            upright: list[tuple[float, str]] = []
            along: list[tuple[float, str]] = []
        else:
            upright = _ticks(bottom, top, view.height() / type_px(36), self._chart.is_log_y)
            upright = ticks_apart(upright, (bottom, top), view.height())
            along = [(float(k), "") for k in range(1, len(names) + 1)]
            if not names:
                along = self._ticks_along(left, right, view.width() / type_px(64))
                along = words_apart(along, view.width() / (right - left) if right > left else 0.0)
        plot.getAxis("left").setTicks([upright])
        plot.getAxis("bottom").setTicks([along])
        self._place_words()
        self._place_names(names, n_lines, step)

    def _make_room(self, names: tuple[str, ...], n_lines: int) -> None:
        """The height for the names below, limited to a share of the total."""
        most = _NAMES_HIGH_SHARE * self.height()
        high = type_px(X_NUMBERS_PX) + min(names_high(names, n_lines), most)
        self.getPlotItem().getAxis("bottom").setHeight(high)
        self.getPlotItem().layout.activate()  # so that what follows knows the height that is left

    def _place_names(self, names: tuple[str, ...], n_lines: int, step: float) -> None:
        """Place the names below the axis: on one line, on two alternating, or upright."""
        while len(self._names) < len(names):
            self._names.append(QGraphicsSimpleTextItem(self.getPlotItem()))
        view, metrics = self.getPlotItem().getViewBox(), QFontMetricsF(font(SMALL_PX))
        bottom, room = view.sceneBoundingRect().bottom(), self.getPlotItem().getAxis("bottom").height() - 6
        for k, item in enumerate(self._names):
            item.setVisible(k < len(names) and (n_lines > 0 or k % upright_every(step) == 0))
            if not item.isVisible():
                continue
            item.setFont(font(SMALL_PX))
            item.setBrush(QColor(self.theme.muted))
            is_cut = n_lines == 0
            item.setText(
                metrics.elidedText(names[k], Qt.TextElideMode.ElideRight, room) if is_cut else names[k]
            )
            size, x = item.boundingRect(), view.mapViewToScene(QPointF(k + 1.0, 0.0)).x()
            line = k % n_lines * size.height() if n_lines else 0.0
            at = QPointF(x - size.width() / 2, bottom + 4 + line)
            if is_cut:
                at = QPointF(x - size.height() / 2, bottom + 5 + size.width())
            item.setRotation(-90.0 if is_cut else 0.0)
            item.setPos(self.getPlotItem().mapFromScene(at))

    def _ticks_along(self, left: float, right: float, n_wanted: float) -> list[tuple[float, str]]:
        chart = self._chart
        return _ticks(left, right, n_wanted, chart.is_log_x, is_counted=chart.is_counted)

    def sentence(self, x: float) -> str:
        """The values of the curves nearest to a position of the x axis, in words."""
        parts, nearest = [], x
        for series in self._chart.series:
            xs = self._xs(series.xs)
            if series.name and np.isfinite(series.ys).any():
                k = int(np.nanargmin(np.where(np.isfinite(series.ys), np.abs(xs - x), np.nan)))
                parts.append(f"{series.name} {number_text(float(series.ys[k]))}")
                nearest = float(series.xs[k])
        names = dict(enumerate(self._chart.x_names, start=1))
        place = f"{self._chart.x_label or 'at'} {names.get(round(nearest), number_text(nearest))}"
        return "  ·  ".join((f"{self._chart.title}: {place}", *parts)) if parts else ""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._tell_drag(event, is_start=True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self._tell_drag(event, is_start=False)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        self.let_go.emit()

    def _tell_drag(self, event: QMouseEvent, *, is_start: bool) -> None:
        if not event.buttons() & Qt.MouseButton.LeftButton or self._chart is _NO_CHART:
            return
        view = self.getPlotItem().getViewBox()
        place = view.mapSceneToView(QPointF(self.mapToScene(event.position().toPoint())))
        x, y = (
            min(max(at, low), high)
            for at, (low, high) in zip((place.x(), place.y()), view.viewRange(), strict=True)
        )
        self.dragged.emit(
            10.0**x if self._chart.is_log_x else x, 10.0**y if self._chart.is_log_y else y, is_start
        )

    def _x(self, x: float) -> float:
        return float(np.log10(x)) if self._chart.is_log_x else x

    def _xs(self, xs: np.ndarray) -> np.ndarray:
        return np.log10(xs) if self._chart.is_log_x else xs

    def _line(self, series: Series) -> Line:
        return Line(
            xs=self._xs(series.xs),
            ys=series.ys,
            colour=series_colour(self.theme, series.colour),
            label=series.name if series.has_label else "",
            is_dashed=series.is_quiet or series.is_dashed,
            has_points=series.has_points,
        )

    def _draw_loose(self, every: list[Series]) -> None:
        while len(self._loose) < len(every):
            self._loose.append(pg.ScatterPlotItem(pxMode=True, pen=None))
            self._loose[-1].setZValue(5)
            self.getPlotItem().addItem(self._loose[-1], ignoreBounds=True)
        for item, series in zip(self._loose, every, strict=False):
            size = 11 if len(series.xs) == 1 else 6
            brush = pg.mkBrush(QColor(series_colour(self.theme, series.colour)))
            xs, ys = self._xs(series.xs), self._heights(series.ys)
            known = np.isfinite(xs) & np.isfinite(
                ys
            )  # pyqtgraph can kill the process on points that are none
            item.setData(xs[known], ys[known], size=size, brush=brush, pen=None)
        for k, item in enumerate(self._loose):
            item.setVisible(k < len(every))

    def _draw_stems(self, every: list[Series]) -> None:
        while len(self._stems) < len(every):
            self._stems.append(pg.PlotCurveItem(connect="pairs"))
            self.getPlotItem().addItem(self._stems[-1], ignoreBounds=True)
        for item, series in zip(self._stems, every, strict=False):
            pen = pg.mkPen(QColor(series_colour(self.theme, series.colour)), width=2)
            if series.style == "whiskers":  # both ends are given
                xs, ys = self._xs(series.xs), self._heights(series.ys)
            else:
                xs = np.repeat(self._xs(series.xs), 2)
                ys = np.stack([np.zeros(len(series.ys)), series.ys], axis=1).ravel()
            known = np.isfinite(ys).reshape(-1, 2).all(axis=1).repeat(2)
            item.setData(xs[known], ys[known], pen=pen, connect="pairs")
        for k, item in enumerate(self._stems):
            item.setVisible(k < len(every))

    def _heights(self, ys: np.ndarray) -> np.ndarray:
        return np.log10(np.where(ys > 0, ys, np.nan)) if self._is_log else ys

    def _y_range(self, chart: Chart) -> tuple[float, float]:
        if chart.y_range is not None and not chart.is_log_y:
            low, high = chart.y_range
            return low - 0.03 * (high - low), high + 0.03 * (high - low)
        heights = [self._heights(series.ys) for series in chart.series]
        finite = np.concatenate([h[np.isfinite(h)] for h in heights]) if heights else np.zeros(0)
        if not len(finite):
            return 0.0, 1.0
        low, high = float(finite.min()), float(finite.max())
        room = 0.06 * (high - low) or 0.5
        is_from_zero = not chart.is_log_y and 0 <= low < 0.35 * high
        return (-0.5 * room if is_from_zero else low - room), high + room

    def _place_words(self) -> None:
        """Place the word of each mark at its top, and each note around its position."""
        marks = self._chart.marks
        self._place_notes()
        while len(self._words) < len(marks):
            self._words.append(QGraphicsSimpleTextItem(self.getPlotItem()))
        view = self.getPlotItem().getViewBox()
        area = view.sceneBoundingRect()
        places = [view.mapViewToScene(QPointF(self._x(x), 0.0)).x() for x, word in marks if word]
        for k, item in enumerate(self._words):
            item.setVisible(k < len(marks) and bool(marks[k][1]))
            if k < len(marks):
                item.setFont(font(SMALL_PX))
                item.setText(marks[k][1])
                item.setBrush(QColor(self.theme.muted))
                x = view.mapViewToScene(QPointF(self._x(marks[k][0]), 0.0)).x()
                width = item.boundingRect().width()
                left = x + 4 if x + 4 + width <= area.right() else x - 4 - width
                has_room = left >= area.left() and not any(left < other <= left + width for other in places)
                item.setVisible(item.isVisible() and has_room)
                item.setPos(self.getPlotItem().mapFromScene(QPointF(left, area.top() + 1)))

    def _place_notes(self) -> None:
        notes = self._chart.notes
        while len(self._notes) < len(notes):
            self._notes.append(QGraphicsSimpleTextItem(self.getPlotItem()))
        view = self.getPlotItem().getViewBox()
        for k, item in enumerate(self._notes):
            item.setVisible(k < len(notes))
            if k < len(notes):
                x, y, word = notes[k]
                item.setFont(font(SMALL_PX))
                item.setText(word)
                item.setBrush(QColor(self.theme.muted))
                item.setPos(self._on_plot(view, x, y) - item.boundingRect().center())
                place = item.mapRectToParent(item.boundingRect())
                about = (self._on_plot(view, *at) for at in zip(*points_about(self._chart, x), strict=True))
                moved = off_points(place, ((at.x(), at.y()) for at in about))
                item.setPos(item.pos() + moved.topLeft() - place.topLeft())
        self._part_notes(n_notes=len(notes))

    def _on_plot(self, view: pg.ViewBox, x: float, y: float) -> QPointF:
        at = self.getPlotItem().mapFromScene(view.mapViewToScene(QPointF(self._x(x), y)))
        assert isinstance(at, QPointF)
        return at

    def _part_notes(self, *, n_notes: int) -> None:
        """Move notes that overlap an earlier one by a line; the cursor reveals those without room."""
        items, view = self._notes[:n_notes], self.getPlotItem().getViewBox()
        places = [item.mapRectToParent(item.boundingRect()) for item in items]
        room = self.getPlotItem().mapRectFromScene(view.sceneBoundingRect())
        for item, before, place in zip(items, places, parted(places, room), strict=True):
            item.setVisible(place is not None)
            if place is not None:
                item.setPos(item.pos() + place.topLeft() - before.topLeft())


class ChartPanel(Dressed):
    """A chart with its title and units; `dragged` and `let_go` as of the plot."""

    dragged = Signal(float, float, bool)
    let_go = Signal()
    hover_text = Signal(str)

    def __init__(self, *, names_px: int = 84) -> None:
        super().__init__()
        self._names_px = names_px
        self.plot = LabPlot(label_px=round(type_px(names_px)))
        self._title, self.caption = PlainLabel("", "name"), ElidedLabel("", "muted")
        self._below = PlainLabel("", "muted")
        self._below.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        head = row(self._title, (self.caption, 1))
        column(head, (self.plot, 1), self._below, on=self, spacing=0)
        self.plot.cursor_moved.connect(self._on_moved)
        self.plot.cursor_left.connect(self._on_left)
        self.plot.dragged.connect(self.dragged)
        self.plot.let_go.connect(self.let_go)

    def show_chart(self, chart: Chart) -> None:
        """Draw another chart."""
        self._title.setText(chart.title)
        self.caption.set_full_text(chart.y_label)
        self._below.say(chart.x_label)
        self.plot.setAccessibleName(f"{chart.title} {chart.y_label}")
        self.plot.show_chart(chart)

    def fit_room(self) -> None:
        """Limit the names at the lines to a share of a narrow chart."""
        self.plot.set_label_px(round(min(type_px(self._names_px), _NAMES_SHARE * self.width())))
        self.caption.setMinimumWidth(round(type_px(16)))  # to be pointed at, where only … has room

    def _on_moved(self, x: float) -> None:
        self.hover_text.emit(self.plot.sentence(x))

    def _on_left(self) -> None:
        self.hover_text.emit("")


def _ticks(
    low: float, high: float, n_wanted: float, is_log: bool, *, is_counted: bool = False
) -> list[tuple[float, str]]:
    if is_log:
        found = log_ticks(10.0**low, 10.0**high)
        if len(found) > n_wanted + 1:
            found = tuple(t for t in found if abs(np.log10(t) - round(np.log10(t))) < 1e-9)
        return [(float(np.log10(tick)), tick_text(tick)) for tick in found]
    ticks = nice_ticks(low, high, max(2, round(n_wanted)), is_counted=is_counted)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    return [(tick, tick_text(tick, step)) for tick in ticks]


_LABEL_PX = 128
_DASHED = ("rotary",)
"""Its similarities are those of the sinusoidal encoding: dashes let both be seen."""


class OffsetPlots(QWidget):
    """Mean cosine similarity at the left, mean dot product at the right, against the offset."""

    offset_hovered = Signal(int)
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tables: tuple[PositionTable, ...] = ()
        self._titles: tuple[str, ...] = ()
        self._colours: tuple[str, ...] = ()
        self._cosine = LinePlot(label_px=_LABEL_PX)
        self._dot = LinePlot(label_px=_LABEL_PX)
        self._cosine.setAccessibleName("Cosine similarity against offset")
        self._dot.setAccessibleName("Dot product against offset")
        self._is_relative = QCheckBox("Relative to offset 0")
        self._is_relative.setToolTip("Divide each dot product by that of a position with itself")
        self._is_relative.toggled.connect(self._redraw)
        self._offset = PlainLabel(role="value")
        words = "Past the trained length →"
        self.lab_button = tool_button(words, f"Lab: {words}", role="status")
        self.lab_button.setToolTip("Open the lab: these and relative encodings at offsets never trained")
        layout = QGridLayout()  # one row for both headings: the plots begin at the same height
        layout.setHorizontalSpacing(16)
        layout.setVerticalSpacing(0)
        layout.setRowStretch(1, 1)
        for i, (title, plot) in enumerate((("Cosine similarity", self._cosine), ("Dot product", self._dot))):
            quiet = ElidedLabel("against offset, mean over all pairs", "muted")
            beside = (self._offset, self.lab_button) if i == 0 else (self._is_relative,)
            heading = row(PlainLabel(title, "small"), (quiet, 1), *beside)
            layout.addLayout(heading, 0, i)
            layout.addWidget(plot, 1, i)
            layout.setColumnStretch(i, 1)
            plot.cursor_moved.connect(self._on_cursor_moved)
            plot.cursor_left.connect(self._on_cursor_left)
        self._dot.setXLink(self._cosine)
        layout.setContentsMargins(0, 8, 0, 0)
        self.setLayout(layout)

    def show_tables(
        self, tables: tuple[PositionTable, ...], titles: tuple[str, ...], colours: tuple[str, ...]
    ) -> None:
        """Draw these encodings, in these colours."""
        self._tables, self._titles, self._colours = tables, titles, colours
        self._cosine.is_fitted = self._dot.is_fitted = True
        self._redraw()

    @Slot(int)
    def show_offset(self, offset: int) -> None:
        """Put the cursor at an offset; the labels carry the values of all encodings there."""
        self._cosine.set_cursor(float(offset))
        self._dot.set_cursor(float(offset))
        self._offset.setText(f"at offset {offset}")

    @Slot()
    def clear_cursor(self) -> None:
        """Take the cursor away."""
        self._cosine.set_cursor(None)
        self._dot.set_cursor(None)
        self._offset.setText("")

    def _cosines(self) -> list[np.ndarray]:
        return [table.by_offset.astype(np.float64) for table in self._tables]

    def _dots(self) -> list[np.ndarray]:
        dots = [table.dot_by_offset.astype(np.float64) for table in self._tables]
        if not self._is_relative.isChecked():
            return dots
        return [dot / dot[0] if len(dot) and dot[0] else np.full(len(dot), np.nan) for dot in dots]

    @Slot()
    def _redraw(self) -> None:
        for plot, curves in ((self._cosine, self._cosines()), (self._dot, self._dots())):
            plot.set_lines(
                tuple(
                    Line(
                        xs=np.arange(len(ys), dtype=np.float64),
                        ys=ys,
                        colour=colour,
                        label=title,
                        is_dashed=table.name in _DASHED,
                    )
                    for table, ys, title, colour in zip(
                        self._tables, curves, self._titles, self._colours, strict=True
                    )
                )
            )

    @Slot(float)
    def _on_cursor_moved(self, x: float) -> None:
        n_offsets = max((len(table.by_offset) for table in self._tables), default=0)
        if n_offsets:
            offset = int(min(max(round(x), 0), n_offsets - 1))
            self.show_offset(offset)
            self.offset_hovered.emit(offset)

    @Slot()
    def _on_cursor_left(self) -> None:
        self.clear_cursor()
        self.left.emit()

"""The curves of one or several runs: loss large, the others beside it, with a common cursor."""

from collections.abc import Callable
from typing import cast

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QGridLayout, QSlider, QVBoxLayout, QWidget

from attnscope.counting import number_text, significant
from attnscope.figures.charts import LINEAR, PARTS, SHARES, shown_charts
from attnscope.figures.colours import series_colour
from attnscope.figures.style import text_width, type_px
from attnscope.records.charts import Chart
from attnscope.viewmodels.training.run_curves import AXES, Axis
from attnscope.viewmodels.training.runs_compared import (
    CurveLine,
    Drawing,
    Losses,
    Quantity,
    ShownRun,
    curves_of,
    end_of,
    lines_of,
    names_at_lines,
    nearest_place,
    unit_of_losses,
    value_at,
)
from attnscope.widgets.form_parts import ChoiceButton, column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, named, plain_tooltip
from attnscope.widgets.line_plot import X_NUMBERS_PX, Line, LinePlot
from attnscope.widgets.theme import Dressed

# What is chosen above the curves: the axis, which losses, how smooth, and a logarithmic axis.

SMOOTHING_STEPS = 99
DEFAULT_SMOOTHING = 33
_AXIS_CHOICES = {
    "step": "step",
    "tokens": "tokens read",
    "time": "seconds of training",
    "compute": "operations",
}
_LOSS_CHOICES = {"loss:both": "both", "loss:validation": "validation", "loss:training": "training"}
_UNITS: dict[Axis, str] = {"step": "", "tokens": "", "time": " s", "compute": ""}


class CurvesBar(QWidget):
    """Holds the settings of the curves; `changed` when any of them does."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._axis: Axis = "step"
        self._losses: Losses = "both"
        self._axes = ChoiceButton("against", "The horizontal axis of the curves", _AXIS_CHOICES)
        self._axes.show_choice("step")
        self._axes.chosen.connect(self._on_axis)
        self._loss_choice = ChoiceButton("losses", "Which losses are drawn", _LOSS_CHOICES)
        self._loss_choice.show_choice("loss:both")
        self._loss_choice.chosen.connect(self._on_losses)
        self._place = PlainLabel(role="small")
        self._slider = named(QSlider(Qt.Orientation.Horizontal), "Smoothing")
        self._slider.setRange(0, SMOOTHING_STEPS)
        self._slider.setValue(DEFAULT_SMOOTHING)
        self._slider.setMinimumWidth(48)
        self._slider.setMaximumWidth(120)
        self._slider.setToolTip("Exponential running mean with bias correction; the raw values stay, pale.")
        self._slider.valueChanged.connect(self._on_smoothing)
        self._smoothing_text = PlainLabel(role="value")
        self._smoothing_text.setMinimumWidth(40)
        self._log = QCheckBox("Log axis")
        self._log.toggled.connect(self.changed)
        row(
            PlainLabel("Curves", "section"),
            self._axes,
            self._loss_choice,
            self._place,
            None,
            PlainLabel("Smoothing", "muted"),
            self._slider,
            self._smoothing_text,
            self._log,
            on=self,
        )
        self._show_smoothing()
        self.show_runs(1)

    @property
    def drawing(self) -> Drawing:
        share = self._slider.value() / SMOOTHING_STEPS
        smoothing = 0.0 if share == 0 else float(1.0 - 10.0 ** (-3.0 * share))
        return Drawing(axis=self._axis, smoothing=smoothing, losses=self._losses)

    @property
    def is_log(self) -> bool:
        """Whether values are drawn by their logarithms."""
        return self._log.isChecked()

    def show_runs(self, n_runs: int) -> None:
        """Offer a choice of losses only if there are several runs."""
        self._loss_choice.setVisible(n_runs > 1 or self._losses != "both")

    def show_place(self, place: float | None) -> None:
        """Show the position of the cursor."""
        name = AXES[self._axis] if self._axis == "step" else ""
        unit = _UNITS[self._axis]
        number = "" if place is None else number_text(place) if self._axis == "compute" else f"{place:,.0f}"
        self._place.setText("" if place is None else f"at {name} {number}{unit}".replace("  ", " "))

    def _show_smoothing(self) -> None:
        smoothing = self.drawing.smoothing
        self._smoothing_text.setText(f"{smoothing:.3f}" if smoothing else "off")

    @Slot(int)
    def _on_smoothing(self, _value: int) -> None:
        self._show_smoothing()
        self.changed.emit()

    @Slot(str)
    def _on_axis(self, axis: str) -> None:
        self._axis = cast("Axis", axis)
        self._axes.show_choice(axis)
        self.changed.emit()

    @Slot(str)
    def _on_losses(self, losses: str) -> None:
        self._losses = cast("Losses", losses.partition(":")[2])
        self._loss_choice.show_choice(losses)
        self.changed.emit()


_LABEL_PX, _NAMES_PX, _NAMES_SHARE = 64, 190, 0.28
_MOST_NAMED = 3
_MOST_WIDE = 4
"""More runs than this are drawn one pixel wide but for the strongest: wider lines take five times as long."""
_LEAST_PLOT_PX, _LEAST_OF_MANY_PX = 28, 22
"""The least height of one of the plots above each other, and where more than the usual ones are there."""
_LEAST_END = 2.0
"""Where the axis of steps ends at the least: the number of the last one is not written at its edge."""
_ALWAYS = 4
"""So many plots stand there always; the rest come with their data."""


class CurvesView(Dressed):
    """Draws the runs from `shown` when `redraw` is called and something changed."""

    hover_text = Signal(str)
    step_pointed = Signal(float)
    step_chosen = Signal(float)
    height_changed = Signal()
    """The plots may need another height now: one came or went, or the type has another size."""

    def __init__(self, shown: Callable[[], tuple[ShownRun, ...]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._source = shown
        self._shown: tuple[ShownRun, ...] = shown()
        self._n_steps = 0
        self._drawn_settings: tuple[object, ...] = ()
        self._last_drawn = -1
        self._cursor: float | None = None
        self._parts = (
            _Part(*PARTS[0], label_px=_LABEL_PX),
            *(_Part(*part) for part in PARTS[1:]),
        )
        self._drawn: list[object] = [None] * len(self._parts)
        self._is_there = [i < _ALWAYS for i in range(len(self._parts))]
        self.bar = CurvesBar()
        self.bar.changed.connect(self.redraw)
        column(self.bar, (self._build_plots(), 1), on=self, spacing=4)
        self._share_axis()
        self.redraw()

    @property
    def smoothing(self) -> float:
        """The factor of the running mean, 0…0.999; fine steps near 1."""
        return self.bar.drawing.smoothing

    def dress(self) -> None:
        self._drawn_settings = ()
        self._share_axis()
        self.redraw()

    def set_n_steps(self, n_steps: int) -> None:
        """Set the length of the page's run; with several runs, or another axis, the data count."""
        self._n_steps = n_steps

    @Slot()
    def redraw(self) -> None:
        """Redraw what changed: every curve after a new setting, the next one in turn for new steps.

        Four plots painted in one turn of the event loop would hold up everything else for too long.
        """
        self._shown = self._source()
        loss, drawing = self._parts[0].plot, self.bar.drawing
        runs = tuple((run.folder, run.name, run.colour, run.is_strong) for run in self._shown)
        settings = (drawing, self.bar.is_log, loss.visible_x(), loss.n_buckets(), loss.is_fitted, runs)
        version = tuple(run.version for run in self._shown)
        is_whole = settings != self._drawn_settings
        stale = [
            i for i, drawn in enumerate(self._drawn) if (is_whole or drawn != version) and self._has_data(i)
        ]
        if not stale:
            return
        self._fit_range(drawing)
        self._parts[0].show_unit(unit_of_losses(self._shown))
        following = [i for i in stale if i > self._last_drawn] or stale
        for i in stale if is_whole else following[:1]:
            self._draw(self._parts[i], drawing)
            self._drawn[i] = version
            self._last_drawn = i
        if is_whole:
            self.bar.show_runs(len(self._shown))
        self._show_values(self._cursor)
        self._drawn_settings = (*settings[:2], loss.visible_x(), *settings[3:])

    def charts(self) -> tuple[Chart, ...]:
        """The curves for an export."""
        return shown_charts(self._source(), self.bar.drawing, is_log=self.bar.is_log)

    # --- building ---------------------------------------------------------------------------------

    def _build_plots(self) -> QGridLayout:
        grid = self._grid = QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(4)
        grid.setHorizontalSpacing(24)
        grid.addWidget(self._parts[0], 0, 0, len(self._parts) - 1, 1)
        for i, part in enumerate(self._parts[1:]):
            grid.addWidget(part, i, 1)
        grid.setColumnStretch(0, 3)
        grid.setColumnStretch(1, 2)
        for part in self._parts:
            part.plot.cursor_moved.connect(self._on_cursor_moved)
            part.plot.cursor_left.connect(self._on_cursor_left)
            part.plot.place_clicked.connect(self._on_place_clicked)
            part.plot.view_changed.connect(self._on_view_changed)
        return grid

    # --- drawing ----------------------------------------------------------------------------------

    def _fit_range(self, drawing: Drawing) -> None:
        """One run against steps ends at its last step, or at a half, a quarter, … of it until then.

        The axis grows in jumps, not with each step: one that stands still costs nothing to paint.
        """
        last = max(end_of(self._shown, drawing.axis), 1e-9)
        end = last
        if drawing.axis == "step":
            end = last = max(last, _LEAST_END)
            if len(self._shown) <= 1:
                end = float(max(self._n_steps, last))
                while self._n_steps and end / 2 >= last:
                    end /= 2
        for part in self._parts:
            part.plot.set_whole_x(drawing.axis != "time")
            part.plot.set_x_range((0.0, end))

    def _draw(self, part: "_Part", drawing: Drawing) -> None:
        plot = part.plot
        is_main = part is self._parts[0]
        has_names = len(self._shown) > 1
        if is_main:
            plot.set_label_px(self._names_px(), has_values=has_names)  # those of one stand beside the title
        first, last = plot.visible_x()
        if plot.is_fitted:
            first, last = 0.0, max(end_of(self._shown, drawing.axis), 1e-9)
        window = (first, last, plot.n_buckets())
        lines = lines_of(self._shown, part.quantity, drawing, window)
        is_log = self.bar.is_log and part.quantity not in LINEAR
        plot.is_share = part.quantity in SHARES
        plot.set_lines(tuple(self._line(line) for line in lines), is_log=is_log)
        alone = self._shown[0].curves.resumed_at if len(self._shown) == 1 and drawing.axis == "step" else ()
        plot.set_marks(tuple(float(step) for step in alone))

    def _has_data(self, i: int) -> bool:
        """Whether to draw a plot: the later ones come and go with their data."""
        if i < _ALWAYS:
            return True
        part = self._parts[i]
        is_there = any(len(c) for run in self._shown for _, c, _ in curves_of(run, part.quantity))
        if self._is_there[i] != is_there:
            self._is_there[i] = is_there
            self._share_axis()
        return is_there

    def _share_axis(self) -> None:
        """Give the lowest of stacked plots the numbers for all, and room for these."""
        last = max(i for i, is_there in enumerate(self._is_there) if is_there)
        least = _LEAST_PLOT_PX if sum(self._is_there) <= _ALWAYS + 1 else _LEAST_OF_MANY_PX
        for i, part in enumerate(self._parts[1:], start=1):
            part.plot.set_x_numbers(i == last)
            part.plot.setMinimumHeight(least + (round(type_px(X_NUMBERS_PX)) if i == last else 0))
            part.setVisible(self._is_there[i])
            self._grid.setRowStretch(i - 1, 0 if not self._is_there[i] else 140 if i == last else 100)
        self.height_changed.emit()

    def _names_px(self) -> int:
        """Room for the names at the lines, and for several runs also for the values under the cursor."""
        if len(self._shown) <= 1:
            return round(max(type_px(_LABEL_PX), text_width("validation") + 10))
        names = names_at_lines(self._shown).values()
        longest = max((text_width(name) for name in names), default=0.0)
        most = min(type_px(_NAMES_PX), _NAMES_SHARE * self._parts[0].width())
        return round(max(type_px(_LABEL_PX), min(most, longest + text_width(" 0.0000") + 10)))

    def _line(self, line: CurveLine) -> Line:
        return Line(
            xs=line.xs,
            ys=line.ys,
            colour=series_colour(self.theme, line.colour),
            label=line.name,
            is_pale=line.is_pale,
            has_points=line.has_points and len(line.xs) <= 200,
            is_strong=line.is_strong,
            is_thin=len(self._shown) > _MOST_WIDE and not line.is_strong,
        )

    def _show_values(self, place: float | None) -> None:
        """Write the values at a position of the axis, or the newest, beside the titles."""
        at = float("inf") if place is None else place
        for part in self._parts:
            part.show_values(self._values_of(part.quantity, at))

    def _values_of(self, quantity: Quantity, at: float) -> str:
        axis = self.bar.drawing.axis
        words = []
        if len(self._shown) == 1:
            run = self._shown[0]
            sources = curves_of(run, quantity)
            for name, curve, _ in sources:
                value = value_at(run, curve, axis, at)
                if value is not None:
                    words.append(f"{name} {number_text(value)}" if len(sources) > 1 else number_text(value))
            return " · ".join(words)
        if quantity != "loss":
            return ""
        names = names_at_lines(self._shown)
        for run in reversed(self._shown):
            value = self._main_value(run, quantity, at)
            if value is not None:
                words.append(f"{names[run]}: {significant(value)}")
        return self._as_many_as_fit(words)

    def _as_many_as_fit(self, words: list[str]) -> str:
        """As many as fit beside the title, and the number of others."""
        room = self._parts[0].room_px()
        for n in range(min(_MOST_NAMED, len(words)), 0, -1):
            more = f" · {len(words) - n} more" if len(words) > n else ""
            text = " · ".join(words[:n]) + more
            if n == 1 or text_width(text) <= room:
                return text
        return ""

    def _main_value(self, run: ShownRun, quantity: Quantity, at: float) -> float | None:
        """For several runs: the held-out loss, or the training loss if there is none."""
        drawing = self.bar.drawing
        curve = curves_of(run, quantity)[0][1]
        if quantity == "loss" and drawing.losses != "training" and len(run.curves.validation_loss):
            curve = run.curves.validation_loss
        return value_at(run, curve, drawing.axis, at)

    # --- user actions ----------------------------------------------------------------------------

    @Slot(float)
    def _on_cursor_moved(self, x: float) -> None:
        place = nearest_place(self._shown, x, self.bar.drawing.axis)
        if place is None:
            return
        self._stand_at(place)
        self.hover_text.emit(self._words_at(place))
        if self.bar.drawing.axis == "step":
            self.step_pointed.emit(place)

    def stand_at(self, step: float) -> None:
        """Put the cursor at a step pointed at elsewhere; no effect on another axis."""
        if self.bar.drawing.axis == "step":
            self._stand_at(step)

    def mark_step(self, step: float | None) -> None:
        """Mark the step whose attention is shown; no effect on another axis."""
        for part in self._parts:
            part.plot.set_place(step if self.bar.drawing.axis == "step" else None)

    @Slot(float)
    def _on_place_clicked(self, place: float) -> None:
        if self.bar.drawing.axis == "step":
            self.step_chosen.emit(place)

    def _stand_at(self, place: float | None) -> None:
        self._cursor = place
        for part in self._parts:
            part.plot.set_cursor(place)
        self.bar.show_place(place)
        self._show_values(place)

    @Slot()
    def _on_cursor_left(self) -> None:
        self._stand_at(None)
        self.hover_text.emit("")

    @Slot()
    def _on_view_changed(self) -> None:
        moved = self.sender()
        if isinstance(moved, LinePlot):
            for part in self._parts:
                part.plot.follow(moved)
        self.redraw()

    def _words_at(self, place: float) -> str:
        where = f"{AXES[self.bar.drawing.axis]} {place:,.0f}"
        if len(self._shown) == 1:
            values = (f"{part.title.lower()} {part.values}" for part in self._parts if part.values)
            return f"{where} · " + " · ".join(values)
        found = [(self._main_value(run, "loss", place), run) for run in self._shown]
        losses = sorted((value, run.name) for value, run in found if value is not None)
        return f"{where} · loss " + " · ".join(f"{name} {number_text(value)}" for value, name in losses)


class _Part(Dressed):
    """One plot under its title and its value."""

    def __init__(
        self,
        title: str,
        unit: str,
        quantity: Quantity,
        *,
        label_px: int = 0,
    ) -> None:
        super().__init__()
        self.title, self.quantity, self.values = title, quantity, ""
        self._value = ElidedLabel(role="value")
        self._value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.plot = LinePlot(label_px=label_px)
        self.plot.setAccessibleName(title)
        layout: QVBoxLayout = column(on=self, spacing=0)
        self._unit = PlainLabel(unit, "muted")
        self._title = PlainLabel(title, "small", tip=plain_tooltip(unit))
        self._top = row(self._title, self._unit, (self._value, 1))
        layout.addLayout(self._top)
        layout.addWidget(self.plot, 1)

    def show_unit(self, unit: str) -> None:
        if unit != self._unit.text():
            self._unit.setText(unit)
            self._title.setToolTip(plain_tooltip(unit))
            self.plot.setAccessibleName(f"{self.title}, {unit}")

    def room_px(self) -> int:
        """Room for the values beside the title and the unit."""
        taken = self._title.sizeHint().width() + self._unit.sizeHint().width()
        return self.width() - taken - 2 * self._top.spacing()

    def show_values(self, text: str) -> None:
        self.values = text
        self._value.set_full_text(text)
        self.fit_room()

    def fit_room(self) -> None:
        """Move the unit to the tooltip if the values would be cut."""
        self._unit.setVisible(self._value.fontMetrics().horizontalAdvance(self.values) <= self.room_px())

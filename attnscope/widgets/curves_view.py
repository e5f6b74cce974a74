"""The curves of a run: loss large, rate, gradient norm and speed beside it, one cursor through all."""

from time import perf_counter

import numpy as np
from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QGridLayout, QHBoxLayout, QSlider, QVBoxLayout, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.run_charts import NEVER_SMOOTHED, PARTS, Source, run_charts, sources_of
from attnscope.figures.spec import Chart
from attnscope.viewmodels.curve_data import CurveData, decimated, sampled
from attnscope.viewmodels.run_curves import RunCurves
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.labels import PlainLabel
from attnscope.widgets.line_plot import Line, LinePlot
from attnscope.widgets.number_text import number_text

SMOOTHING_STEPS = 99
DEFAULT_SMOOTHING = 33


class CurvesView(QWidget):
    """Draws a run's curves when `redraw` is called and something changed; keeps no copy of them."""

    hover_text = Signal(str)

    def __init__(self, curves: RunCurves, palette: Palette, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._curves = curves
        self._palette = palette
        self._drawn_settings: tuple[object, ...] = ()
        self._last_drawn = -1
        self.last_redraw_ms = 0.0
        self._parts = (
            _Part(*PARTS[0], palette, label_px=64),
            _Part(*PARTS[1], palette, has_x_numbers=False),
            _Part(*PARTS[2], palette, has_x_numbers=False),
            _Part(*PARTS[3], palette),
        )
        self._drawn = [-1] * len(self._parts)
        layout = column(self, spacing=4)
        layout.addLayout(self._build_bar())
        layout.addLayout(self._build_plots(), 1)
        self.redraw()

    @property
    def smoothing(self) -> float:
        """The factor of the running mean, 0…0.999; fine steps near 1."""
        share = self._slider.value() / SMOOTHING_STEPS
        return 0.0 if share == 0 else float(1.0 - 10.0 ** (-3.0 * share))

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        self._palette = palette
        self._drawn_settings = ()
        for part in self._parts:
            part.plot.set_theme(palette)
        self.redraw()

    def set_n_steps(self, n_steps: int) -> None:
        """How long the run will be: the x axis ends there, or at a half, a quarter, … of it until then.

        It grows in jumps, not with each step: an axis that stands still costs nothing to paint.
        """
        last = float(max(self._curves.last_step, 1))
        end = float(max(n_steps, last))
        while n_steps and end / 2 >= last:
            end /= 2
        for part in self._parts:
            part.plot.set_x_range((0.0, end))

    @Slot()
    def redraw(self) -> None:
        """Draw again what changed: every curve when a setting did, the next one in turn for new steps.

        Four plots painted in one turn of the event loop would hold up everything else for too long.
        """
        loss = self._parts[0].plot
        settings = (
            self.smoothing,
            self._log.isChecked(),
            loss.visible_x(),
            loss.n_buckets(),
            loss.is_fitted,
        )
        is_whole = settings != self._drawn_settings
        stale = [i for i, version in enumerate(self._drawn) if is_whole or version != self._curves.version]
        if not stale:
            return
        start = perf_counter()
        following = [i for i in stale if i > self._last_drawn] or stale
        sources = sources_of(self._curves)
        for i in stale if is_whole else following[:1]:
            self._draw(self._parts[i], sources[i])
            self._drawn[i] = self._curves.version
            self._last_drawn = i
        self._show_values(None)
        self._drawn_settings = (*settings[:2], loss.visible_x(), *settings[3:])
        self.last_redraw_ms = 1000 * (perf_counter() - start)

    def _draw(self, part: "_Part", sources: tuple[Source, ...]) -> None:
        part.plot.set_log(self._log.isChecked() and part.title != "Speed")
        part.plot.set_lines(tuple(line for source in sources for line in self._lines_of(part.plot, *source)))
        part.plot.set_marks(tuple(float(step) for step in self._curves.resumed_at))

    def charts(self) -> tuple[Chart, ...]:
        """The curves as an export shows them."""
        return run_charts(self._curves, smoothing=self.smoothing, is_log=self._log.isChecked())

    # --- building ---------------------------------------------------------------------------------

    def _build_bar(self) -> QHBoxLayout:
        self._values = PlainLabel(role="small")
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, SMOOTHING_STEPS)
        self._slider.setValue(DEFAULT_SMOOTHING)
        self._slider.setFixedWidth(120)
        self._slider.setAccessibleName("Smoothing")
        self._slider.setToolTip("Exponential running mean with bias correction; the raw values stay, pale.")
        self._slider.valueChanged.connect(self._on_smoothing_changed)
        self._smoothing_text = PlainLabel(role="value")
        self._smoothing_text.setFixedWidth(40)
        self._log = QCheckBox("Log axis")
        self._log.toggled.connect(self.redraw)
        self._show_smoothing()
        return row(
            PlainLabel("Curves", "section"),
            PlainLabel("against the step", "muted"),
            self._values,
            None,
            PlainLabel("Smoothing", "muted"),
            self._slider,
            self._smoothing_text,
            self._log,
        )

    def _build_plots(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(8)
        grid.addWidget(self._parts[0], 0, 0, 3, 1)
        for i, part in enumerate(self._parts[1:]):
            grid.addWidget(part, i, 1)
            grid.setRowStretch(i, 100 if part is not self._parts[-1] else 115)
            part.plot.setXLink(self._parts[0].plot)
        grid.setColumnStretch(0, 3)
        grid.setColumnStretch(1, 2)
        for part in self._parts:
            part.plot.cursor_moved.connect(self._on_cursor_moved)
            part.plot.cursor_left.connect(self._on_cursor_left)
            part.plot.view_changed.connect(self._on_view_changed)
        return grid

    # --- drawing ----------------------------------------------------------------------------------

    def _lines_of(self, plot: LinePlot, name: str, curve: CurveData, colour: int) -> tuple[Line, ...]:
        ink = self._palette.series[colour]
        label = name if name in ("train", "validation") else ""
        first, last = plot.visible_x()
        if plot.is_fitted:
            first, last = 0.0, float(max(self._curves.last_step, 1))
        window = (first, last, plot.n_buckets())
        raw_xs, raw = decimated(curve.steps, curve.values, *window)
        if name in NEVER_SMOOTHED or not self.smoothing:
            return (Line(xs=raw_xs, ys=raw, colour=ink, label=label, has_points=name == "validation"),)
        smooth_xs, smooth = sampled(curve.steps, curve.smoothed(self.smoothing), *window)
        return (
            Line(xs=raw_xs, ys=raw, colour=ink, is_pale=True),
            Line(xs=smooth_xs, ys=smooth, colour=ink, label=label),
        )

    def _show_values(self, step: float | None) -> None:
        """Write the values at `step`, or the newest, beside the titles."""
        for part, sources in zip(self._parts, sources_of(self._curves), strict=True):
            words = []
            for name, curve, _ in sources:
                index = curve.nearest(np.inf if step is None else step)
                if index is not None:
                    words.append((name, float(curve.values[index])))
            is_pair = len(sources) > 1
            part.show_values(
                " · ".join(f"{n} {number_text(v)}" if is_pair else number_text(v) for n, v in words)
            )

    def _show_smoothing(self) -> None:
        self._smoothing_text.setText(f"{self.smoothing:.3f}" if self.smoothing else "off")

    # --- what the person does ---------------------------------------------------------------------

    @Slot(int)
    def _on_smoothing_changed(self, _value: int) -> None:
        self._show_smoothing()
        self.redraw()

    @Slot(float)
    def _on_cursor_moved(self, x: float) -> None:
        index = self._curves.train_loss.nearest(x)
        if index is None:
            return
        step = float(self._curves.train_loss.steps[index])
        for part in self._parts:
            part.plot.set_cursor(step)
        self._values.setText(f"at step {step:,.0f}")
        self._show_values(step)
        self.hover_text.emit(self._words_at(step))

    @Slot()
    def _on_cursor_left(self) -> None:
        for part in self._parts:
            part.plot.set_cursor(None)
        self._values.setText("")
        self._show_values(None)
        self.hover_text.emit("")

    @Slot()
    def _on_view_changed(self) -> None:
        is_fitted = bool(getattr(self.sender(), "is_fitted", True))
        for part in self._parts:
            part.plot.is_fitted = is_fitted
        self.redraw()

    def _words_at(self, step: float) -> str:
        values = (f"{part.title.lower()} {part.values}" for part in self._parts if part.values)
        return f"step {step:,.0f} · " + " · ".join(values)


class _Part(QWidget):
    """One plot under its title and its value."""

    def __init__(
        self, title: str, unit: str, palette: Palette, *, label_px: int = 0, has_x_numbers: bool = True
    ) -> None:
        super().__init__()
        self.title, self.unit, self.values = title, unit, ""
        self._value = PlainLabel(role="value")
        self.plot = LinePlot(palette, label_px=label_px, has_x_numbers=has_x_numbers)
        self.plot.setAccessibleName(title)
        layout: QVBoxLayout = column(self, spacing=0)
        layout.addLayout(row(PlainLabel(title, "small"), PlainLabel(unit, "muted"), None, self._value))
        layout.addWidget(self.plot, 1)

    def show_values(self, text: str) -> None:
        self.values = text
        self._value.setText(text)

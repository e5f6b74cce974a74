"""Inside the steps of the chosen run: gradients by layer beside updates and inputs of norms, one cursor."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QWidget

from attnscope.counting import number_text
from attnscope.figures.paint_chart import ChartLayout, paint_chart
from attnscope.figures.plain import plain_text, shorten
from attnscope.figures.run_charts import inspection_charts
from attnscope.records.charts import Chart
from attnscope.records.runs import InspectionHistory, Numbers
from attnscope.records.sites import STACKS
from attnscope.viewmodels.training.run_inspections import (
    InspectionsState,
    nearest_step,
    still_shares,
    typical_updates,
)
from attnscope.widgets.form_parts import ChoiceButton, column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip
from attnscope.widgets.theme import Dressed

READING = (
    "Gradients: with the norm after the residual, the layers near the output get the large ones at first, "
    "which is why such models need warm-up (Xiong et al. 2020). Updates: the first of Adam are nearly as "
    "large as the learning rate, because a few steps do not show how large a gradient is. Where that harms "
    "the model, gradients and updates then shrink by powers of ten (Liu et al. 2019)."
)
_SHORT = (
    "Are the gradients of all layers similar at first (Xiong et al. 2020)? "
    "Are the first updates as large as the rate, the later ones tiny (Liu et al. 2019)?"
)
MOVED = (
    "Accumulated update: how far each layer has come from its first weights. In deep models with norms after "
    "the residual it leaps in the first steps, and the inputs of the norms grow with it; a norm divides "
    "its gradient by the size of its input, so that little arrives below (DeepNet: Wang et al. 2022, who "
    "measure the change of the outputs)."
)
_MOVED_SHORT = (
    "Does the accumulated update leap at first, and do the inputs of the norms grow with it? "
    "Then gradients below shrink (DeepNet: Wang et al. 2022)."
)
_CHOICES = {"updates": "updates", "moved": "accumulated update, norms"}
INSIDE_VIEWS: dict[str, tuple[str, str]] = {
    "updates": (
        "Gradients and updates",
        "Gradients by depth: the gradient norm of each layer, and how large the updates are",
    ),
    "moved": (
        "Accumulated update, norms",
        "How far each layer has come from its first weights, and the inputs of the norms (DeepNet, DeepNorm)",
    ),
}
"""Each choice as the palette names it, with what it shows."""
_OF_CHOICE: dict[str, tuple[str, ...]] = {
    "updates": ("Gradients by layer", "Sizes of updates"),
    "moved": ("Gradients by layer", "Accumulated update", "Inputs of the norms"),
}
_GAP_PX = 24.0
_LONGEST_NAME = 24


class InspectionsView(QWidget):
    """Draws the history of an InspectionsState; `step_pointed` carries the step under the cursor.

    `loss_at` gives the words for the loss of the run at a step.
    """

    hover_text = Signal(str)
    step_pointed = Signal(float)

    def __init__(self, state: InspectionsState, loss_at: Callable[[float], str]) -> None:
        super().__init__()
        self._state, self._loss_at = state, loss_at
        self._shown: InspectionHistory | None = None
        self._step = float("inf")
        self.run_name = PlainLabel(role="section")
        self._values = ElidedLabel(role="value")
        self._values.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.plot = _StepsPlot()
        self.plot.pointed.connect(self._on_pointed)
        self.plot.moved.connect(self._on_moved)
        self._choice = ChoiceButton("gradients and", "What is drawn beside the gradients", _CHOICES)
        self._choice.chosen.connect(self.choose)
        self._reading = PlainLabel(_SHORT, "small", wraps=True, tip=READING)
        top = row(self.run_name, self._choice, (self._values, 1))
        column(top, (self.plot, 1), self._reading, on=self, spacing=4)
        self.choose("updates")

    @Slot(str)
    def choose(self, choice: str) -> None:
        """Draw the sizes of updates beside the gradients, or what has added up, and the norms."""
        self.choice = choice
        self._choice.show_choice(choice)
        words, tip = (_SHORT, READING) if choice == "updates" else (_MOVED_SHORT, MOVED)
        self._reading.setText(words)
        self._reading.setToolTip(plain_tooltip(tip))
        self.plot.setToolTip(plain_tooltip(tip))
        self.show_history()

    def charts(self) -> tuple[Chart, ...]:
        """Every chart as an export shows them, with the typical size and the learning rate; none without."""
        return inspection_charts(self._state.history) if self._state.history is not None else ()

    def show_history(self) -> None:
        """Draw what is known now."""
        self._shown = self._state.history
        name = PurePath(self._state.folder.replace("\\", "/")).name
        self.run_name.setText(
            f"Run {shorten(plain_text(name), _LONGEST_NAME)}" if name else "Gradients and updates"
        )
        self.run_name.setToolTip(plain_tooltip(plain_text(self._state.folder)))
        charts = self.charts()
        self._choice.setVisible(len(charts) > len(_OF_CHOICE["updates"]))
        shown = (chart for chart in charts if chart.title in _OF_CHOICE[self.choice])
        self.plot.show_charts(tuple(_of_one_stack(chart) for chart in shown))
        self.stand_at(self._step)

    def stand_at(self, step: float) -> None:
        """Put the cursor at the step nearest to one; infinity is the newest, without a cursor."""
        self._step = step
        history = self._shown
        if history is None:
            return self._values.set_full_text("")
        i = nearest_step(history, step) if np.isfinite(step) else len(history.steps) - 1
        self.plot.set_cursor(float(history.steps[i]) if np.isfinite(step) else None)
        self._values.set_full_text(self._words_at(history, i))
        return None

    def _words_at(self, history: InspectionHistory, i: int) -> str:
        step = float(history.steps[i])
        typical = typical_updates(history)[i]
        parts = (
            f"step {step:,.0f}",
            self._loss_at(step),
            f"rate {number_text(float(history.learning_rates[i]))}",
            f"median update {number_text(float(typical))}" if np.isfinite(typical) else "",
            f"{still_shares(history)[i]:.0%} unchanged",
        )
        return " · ".join(part for part in parts if part)

    def _pointed(self, history: InspectionHistory) -> tuple[str, tuple[str, ...], Numbers]:
        """What is told under the cursor: the numbers of the chart that it is in."""
        match self.plot.pointed_title:
            case "Accumulated update":
                return "accumulated update", history.layers, history.moved_norms
            case "Inputs of the norms":
                return "input of the norm, root mean square", history.norms, history.norm_inputs
        return "gradient norm", history.layers, history.gradient_norms

    @Slot(float)
    def _on_pointed(self, x: float) -> None:
        history = self._shown
        if history is None or not np.isfinite(x):
            self.hover_text.emit("")
            return
        i = nearest_step(history, x)
        self.stand_at(float(history.steps[i]))
        title, names, values = self._pointed(history)
        norms = zip(names, values[:, i].tolist(), strict=True)
        words = " · ".join(f"{name} {number_text(norm)}" for name, norm in norms if np.isfinite(norm))
        self.hover_text.emit(f"step {history.steps[i]:,.0f} · {title} {words}")
        self.step_pointed.emit(float(history.steps[i]))

    @Slot(int)
    def _on_moved(self, by: int) -> None:
        history = self._shown
        if history is not None:
            i = nearest_step(history, self._step) if np.isfinite(self._step) else len(history.steps) - 1
            self._on_pointed(float(history.steps[min(max(0, i + by), len(history.steps) - 1)]))


def _of_one_stack(chart: Chart) -> Chart:
    """The chart with the stack left out of its names, where there is but one."""
    named = [stack for series in chart.series for stack in STACKS if series.name.startswith(f"{stack} ")]
    if len(set(named)) != 1:
        return chart
    series = (replace(one, name=one.name.removeprefix(f"{named[0]} ")) for one in chart.series)
    return replace(chart, series=tuple(series))


class _StepsPlot(Dressed):
    """The charts side by side, painted once, with the cursor over them."""

    pointed = Signal(float)
    moved = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._charts: tuple[Chart, ...] = ()
        self._picture = QPixmap()
        self._layouts: tuple[ChartLayout, ...] = ()
        self._cursor: float | None = None
        self.pointed_title = ""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumHeight(120)
        self.setAccessibleName("Gradients, updates and inputs of norms over the inspected steps")

    def dress(self) -> None:
        self._redraw()

    def show_charts(self, charts: tuple[Chart, ...]) -> None:
        self._charts = charts
        self._redraw()

    def set_cursor(self, step: float | None) -> None:
        if step != self._cursor:
            self._cursor = step
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._charts:
            return
        if self._picture.isNull():
            self._paint_charts()
        with QPainter(self) as painter:
            painter.drawPixmap(0, 0, self._picture)
            if self._cursor is not None:
                self._paint_cursor(painter, self._cursor)
            if self.hasFocus():
                painter.setPen(QPen(QColor(self.theme.accent), 1.0))
                painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._redraw()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        for chart, layout in zip(self._charts, self._layouts, strict=False):
            if layout.plot.contains(event.position()):
                self.pointed_title = chart.title
                self.pointed.emit(layout.x_at(event.position().x()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.pointed.emit(float("nan"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        far = 1_000_000
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_PageUp: -10,
            Qt.Key.Key_PageDown: 10,
            Qt.Key.Key_Home: -far,
            Qt.Key.Key_End: far,
        }
        by = steps.get(Qt.Key(event.key()))
        if by is None:
            super().keyPressEvent(event)
        else:
            self.moved.emit(by)

    def _redraw(self) -> None:
        self._picture = QPixmap()
        self.update()

    def _paint_charts(self) -> None:
        ratio = self.devicePixelRatioF()
        self._picture = QPixmap(round(self.width() * ratio), round(self.height() * ratio))
        self._picture.setDevicePixelRatio(ratio)
        self._picture.fill(QColor(self.theme.background))
        whole = QRectF(self.rect()).adjusted(4, 2, -8, -4)
        n = len(self._charts)
        width = (whole.width() - _GAP_PX * (n - 1)) / n
        lefts = [whole.left() + k * (width + _GAP_PX) for k in range(n)]
        places = [QRectF(left, whole.top(), width, whole.height()) for left in lefts]
        with QPainter(self._picture) as painter:
            self._layouts = tuple(
                paint_chart(painter, place, chart, palette=self.theme)
                for place, chart in zip(places, self._charts, strict=True)
            )

    def _paint_cursor(self, painter: QPainter, step: float) -> None:
        for layout in self._layouts:
            x = float(layout.place(np.array([step]), np.ones(1))[0][0])
            if layout.plot.left() - 1 <= x <= layout.plot.right() + 1:
                painter.setPen(QPen(QColor(self.theme.background), 3.0))
                painter.drawLine(QPointF(x, layout.plot.top()), QPointF(x, layout.plot.bottom()))
                painter.setPen(QPen(QColor(self.theme.text), 1.0))
                painter.drawLine(QPointF(x, layout.plot.top()), QPointF(x, layout.plot.bottom()))

"""Charts of runs: loss against size, data or compute, and the inspected steps of one run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import cast

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QShowEvent
from PySide6.QtWidgets import QWidget

from attnscope.counting import number_text, percent
from attnscope.figures.chart_painting import ChartLayout, paint_chart
from attnscope.figures.charts import inspection_charts, scaling_charts
from attnscope.figures.colours import series_colour
from attnscope.figures.style import plain_text, shorten
from attnscope.records.charts import Chart
from attnscope.records.runs import InspectionHistory, Numbers, RunSummary, loss_unit
from attnscope.records.sites import STACKS
from attnscope.viewmodels.session.opening import Placeholder
from attnscope.viewmodels.training.run_curves import (
    InspectionsState,
    nearest_step,
    still_shares,
    typical_updates,
)
from attnscope.viewmodels.training.runs_compared import (
    KEPT_SWEEP,
    PUBLISHED_WORDS,
    SCALES,
    UNITS,
    Scale,
    kept_sweep,
    scaling_points,
)
from attnscope.viewmodels.training.runs_list import RunsState
from attnscope.widgets.form_parts import ChoiceButton, column, row, stacked
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, tool_button
from attnscope.widgets.map_widget import StateCard
from attnscope.widgets.theme import Dressed

_NEAR_PX = 12.0
_DOT_PX = 4.5
_EMPTY = Placeholder(
    kind="empty",
    title="No finished run is ticked",
    hint=(
        "Add runs of several sizes below, for instance a folder that a sweep wrote. Runs that completed "
        "all their steps become points here, and a power law is fitted through three of them or more."
    ),
)

_KEPT_WORDS = (
    f"A kept sweep of the recipe {KEPT_SWEEP} (d_model 8 to 32, characters of Shakespeare); "
    "two runs of your own replace it."
)


class ScalingView(QWidget):
    """Draws the shown runs of a RunsState; `run_clicked` carries the folder of the point clicked.

    While a user has listed fewer than two of their own, a kept sweep is drawn in their place, with the
    published law beside it.
    """

    hover_text = Signal(str)
    run_clicked = Signal(str)

    def __init__(self, state: RunsState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self._scale: Scale = "parameters"
        self._choice = ChoiceButton("loss against", "The horizontal axis of the loss", {s: s for s in SCALES})
        self._choice.show_choice(self._scale)
        self._choice.chosen.connect(self._on_scale)
        self.published = tool_button("Published", "Published", role="segment", is_checkable=True)
        self.published.setToolTip(plain_tooltip(PUBLISHED_WORDS))
        self.published.clicked.connect(self._on_published)
        self._wants_published: bool | None = None
        self._kept_line = PlainLabel(_KEPT_WORDS, "muted", wraps=True)
        self._law = ElidedLabel(role="small")
        self._card = StateCard()
        self._card.show_stage(_EMPTY)
        self.plot = _ScalingPlot()
        self.plot.hover_text.connect(self.hover_text)
        self.plot.run_clicked.connect(self.run_clicked)
        self._pages = stacked(self._card, self.plot)
        top = row(PlainLabel("Scaling", "section"), self._choice, self.published, (self._law, 1))
        column(top, self._kept_line, (self._pages, 1), on=self, spacing=4)
        self._kept_line.setVisible(False)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.show_runs()

    @cached_property
    def _kept(self) -> tuple[RunSummary, ...]:
        """The bundled sweep, read on first use."""
        return kept_sweep()

    @property
    def _is_kept(self) -> bool:
        return self._state.n_own < 2 and bool(self._kept)

    @property
    def _runs(self) -> tuple[RunSummary, ...]:
        return self._kept if self._is_kept else self._state.fitted

    def charts(self) -> tuple[Chart, ...]:
        """All three scales, for an export."""
        return scaling_charts(self._runs, has_published=self.published.isChecked())

    @property
    def note(self) -> str:
        """Note on the runs drawn, and on the origin of the lines beside them."""
        names = ", ".join(run.name for run in (self._kept if self._is_kept else self._state.summaries))
        parts = [_KEPT_WORDS if self._is_kept else "", PUBLISHED_WORDS if self.published.isChecked() else ""]
        return " ".join([f"Runs: {names}.", *filter(None, parts)])

    @Slot()
    def show_runs(self) -> None:
        """Draw the currently listed runs."""
        runs, is_kept, wish = self._runs, self._is_kept, self._wants_published
        self._kept_line.setVisible(is_kept)
        self.published.setChecked(is_kept if wish is None else wish)
        charts = self.charts()
        self._pages.setCurrentWidget(self.plot if charts else self._card)
        if not charts:
            self._law.set_full_text("")
            return
        points = scaling_points(runs, self._scale)
        self._law.set_full_text(
            " · ".join(
                text for text in (points.law.words(self._scale) if points.law else "", points.note) if text
            )
        )
        folders = {run.name: run.folder for run in runs}
        dots = tuple(
            RunDot(
                x=float(x),
                loss=float(loss),
                name=name,
                folder=folders[name],
                colour=i if is_kept else self._state.drawn.colour_of(folders[name]),
                is_chosen=not is_kept and folders[name] == self._state.chosen,
            )
            for i, (name, x, loss) in enumerate(zip(points.names, points.xs, points.losses, strict=True))
        )
        chart = charts[SCALES.index(self._scale)]
        unit = loss_unit(run.objective for run in runs if run.is_converged)
        plain = replace(chart, title="Loss", y_label=unit)
        self.plot.show_chart(plain, dots, UNITS[self._scale])

    @Slot(bool)
    def _on_published(self, is_wanted: bool) -> None:
        self._wants_published = is_wanted
        self.show_runs()

    @Slot(str)
    def _on_scale(self, scale: str) -> None:
        self._scale = cast("Scale", scale)
        self._choice.show_choice(scale)
        self.show_runs()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDot:
    """One finished run in the plot; one without a folder is bundled, and cannot be clicked."""

    x: float
    loss: float
    name: str
    folder: str
    colour: int
    is_chosen: bool


class _ScalingPlot(Dressed):
    hover_text = Signal(str)
    run_clicked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._chart = Chart(title="", x_label="", y_label="", series=())
        self._dots: tuple[RunDot, ...] = ()
        self._unit = ""
        self._places: list[QPointF] = []
        self._near = -1
        self.setMouseTracking(True)
        self.setMinimumHeight(120)

    def show_chart(self, chart: Chart, dots: tuple[RunDot, ...], unit: str) -> None:
        self._chart, self._dots, self._unit, self._near = chart, dots, unit, -1
        self._places = []
        facts = ", ".join(f"{dot.name} {number_text(dot.loss)} at {number_text(dot.x)}" for dot in dots)
        self.setAccessibleName(f"Loss against {unit}: {facts}")
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            layout = paint_chart(
                painter, QRectF(self.rect()).adjusted(0, 0, -8, -2), self._chart, palette=self.theme
            )
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._places = self._places_in(layout)
            for i, place in enumerate(self._places):
                dot = self._dots[i]
                n_above = sum(_are_one(place, other) for other in self._places[i + 1 :])
                size = _DOT_PX * (1 + 0.6 * n_above) + (1.0 if i == self._near else 0.0)
                ink = self.theme.text if dot.is_chosen else self.theme.background
                painter.setPen(QPen(QColor(ink), 1.5))
                painter.setBrush(QColor(series_colour(self.theme, dot.colour)))
                painter.drawEllipse(place, size, size)

    def _places_in(self, layout: ChartLayout) -> list[QPointF]:
        xs = np.array([dot.x for dot in self._dots])
        ys = np.array([dot.loss for dot in self._dots])
        px, py = layout.place(xs, ys)
        return [QPointF(x, y) for x, y in zip(px.tolist(), py.tolist(), strict=True)]

    def _dot_at(self, place: QPointF) -> int:
        apart = [QPointF(dot - place).manhattanLength() for dot in self._places]
        nearest = min(range(len(apart)), key=apart.__getitem__, default=-1)
        return nearest if nearest >= 0 and apart[nearest] <= _NEAR_PX else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        near = self._dot_at(event.position())
        if near != self._near:
            self._near = near
            is_run = near >= 0 and bool(self._dots[near].folder)
            self.setCursor(Qt.CursorShape.PointingHandCursor if is_run else Qt.CursorShape.ArrowCursor)
            self.hover_text.emit(self._words(near))
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self._dot_at(event.position())
        if at >= 0 and self._dots[at].folder and event.button() == Qt.MouseButton.LeftButton:
            self.run_clicked.emit(self._dots[at].folder)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._near = -1
        self.hover_text.emit("")
        self.update()

    def _words(self, i: int) -> str:
        if i < 0:
            return ""
        dot = self._dots[i]
        return f"{dot.name} · loss {number_text(dot.loss)} · {number_text(dot.x)} {self._unit}"


def _are_one(place: QPointF, other: QPointF) -> bool:
    """Whether one dot would hide the other: the lower is then drawn as a wider ring."""
    return QPointF(place - other).manhattanLength() < _DOT_PX


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
        """Draw the sizes of updates beside the gradients, or the accumulated changes and the norms."""
        self.choice = choice
        self._choice.show_choice(choice)
        words, tip = (_SHORT, READING) if choice == "updates" else (_MOVED_SHORT, MOVED)
        self._reading.setText(words)
        self._reading.setToolTip(plain_tooltip(tip))
        self.plot.setToolTip(plain_tooltip(tip))
        self.show_history()

    def charts(self) -> tuple[Chart, ...]:
        """Every chart for an export, with the typical size and the learning rate; none without data."""
        return inspection_charts(self._state.history) if self._state.history is not None else ()

    def show_history(self) -> None:
        """Draw the current history."""
        self._shown = self._state.history
        name = PurePath(self._state.folder.replace("\\", "/")).name
        words = f"Run {shorten(plain_text(name), _LONGEST_NAME)}" if name else "Gradients and updates"
        self.run_name.setText(f"{words}{_steps_words(self._shown)}")
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
            f"{percent(float(still_shares(history)[i]))} unchanged",
        )
        return " · ".join(part for part in parts if part)

    def _pointed(self, history: InspectionHistory) -> tuple[str, tuple[str, ...], Numbers]:
        """Numbers under the cursor, of the chart that it is in."""
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


def _steps_words(history: InspectionHistory | None) -> str:
    """Note on the share of inspected steps that is drawn; empty if all are."""
    if history is None or history.n_steps_seen <= len(history.steps):
        return ""
    return f" · {len(history.steps):,} of {history.n_steps_seen:,} steps"


def _of_one_stack(chart: Chart) -> Chart:
    """The chart without the stack in its names, if there is only one."""
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

    def show_charts(self, charts: tuple[Chart, ...]) -> None:
        self._charts = charts
        self.fit_room()

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

    def fit_room(self) -> None:
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

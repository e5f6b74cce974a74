"""Loss against parameters, data or compute over the listed runs, with the power law through them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from attnscope.counting import number_text
from attnscope.figures.colours import series_colour
from attnscope.figures.paint_chart import ChartLayout, paint_chart
from attnscope.figures.run_charts import scaling_charts
from attnscope.records.charts import Chart
from attnscope.records.runs import RunSummary, loss_unit
from attnscope.viewmodels.placeholder import Placeholder
from attnscope.viewmodels.training.runs_list import RunsState
from attnscope.viewmodels.training.scaling import (
    KEPT_SWEEP,
    PUBLISHED_WORDS,
    SCALES,
    UNITS,
    Scale,
    kept_sweep,
    scaling_points,
)
from attnscope.widgets.form_parts import ChoiceButton, column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, tool_button
from attnscope.widgets.placeholders import StateCard
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

    While a person has listed fewer than two of their own, a kept sweep is drawn in their place, with the
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
        self._pages = QStackedWidget()
        self._pages.addWidget(self._card)
        self._pages.addWidget(self.plot)
        layout = column(on=self, spacing=4)
        top = row(PlainLabel("Scaling", "section"), self._choice, self.published, (self._law, 1))
        layout.addLayout(top)
        layout.addWidget(self._kept_line)
        layout.addWidget(self._pages, 1)
        self._kept_line.setVisible(False)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.show_runs()

    @cached_property
    def _kept(self) -> tuple[RunSummary, ...]:
        """Read when it is first seen."""
        return kept_sweep()

    @property
    def _is_kept(self) -> bool:
        return self._state.n_own < 2 and bool(self._kept)

    @property
    def _runs(self) -> tuple[RunSummary, ...]:
        return self._kept if self._is_kept else self._state.fitted

    def charts(self) -> tuple[Chart, ...]:
        """All three scales, as an export shows them."""
        return scaling_charts(self._runs, has_published=self.published.isChecked())

    @property
    def note(self) -> str:
        """Which runs are drawn, and where what is drawn beside them comes from."""
        names = ", ".join(run.name for run in (self._kept if self._is_kept else self._state.summaries))
        parts = [_KEPT_WORDS if self._is_kept else "", PUBLISHED_WORDS if self.published.isChecked() else ""]
        return " ".join([f"Runs: {names}.", *filter(None, parts)])

    @Slot()
    def show_runs(self) -> None:
        """Draw the runs as they are listed now."""
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
    """One finished run in the plot; one without a folder is kept, and nothing to click."""

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
        facts = ", ".join(f"{dot.name} {dot.loss:.4g} at {dot.x:.4g}" for dot in dots)
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

"""The training page: recipe and controls at the left, curves above, the watched sentence below."""

from collections.abc import Callable
from functools import cached_property
from time import thread_time
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAction, QHideEvent, QShowEvent
from PySide6.QtWidgets import QSplitter, QWidget

from attnscope import paths
from attnscope.counting import number_text
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import MapStyle
from attnscope.figures.views.curves import CurvesFigure
from attnscope.viewmodels.session.opening import Recents
from attnscope.viewmodels.training.recipe_text import offered_recipes
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState
from attnscope.widgets.form_parts import SideTabs, column, split
from attnscope.widgets.labels import ground, when, when_seen
from attnscope.widgets.training.charts import MOVED, READING, InspectionsView, ScalingView
from attnscope.widgets.training.run_panel import RunPanel
from attnscope.widgets.training.runs_panel import RunsPanel, SweepLine
from attnscope.widgets.training.watch_panel import WatchPanel

if TYPE_CHECKING:
    from attnscope.widgets.training.curves_view import CurvesView

SCALING, INSIDE = "Scaling", "Inside"
_SCALING_TIP = "Scaling laws: loss against parameters, data and compute of several runs (Kaplan 2020)"
_INSIDE_TIP = (
    "Gradient norms and updates of each layer, and how far it has come from its first weights (DeepNet)"
)
REDRAW_MS, _MOST_REDRAW_MS, _AT_REST_MS = 100, 500, 40
"""Between two redraws of the curves: the window takes cores, and Python's lock, from the run it shows.

One curve is drawn each time: at the end of a run, when nothing is taken from it, they soon follow.
"""
_DRAWING = 0.2
"""The share of its time in which the window's thread may be busy before it redraws less often."""

_FILMS = "films"
"""Bundled runs of some recipes, shown before the user has any."""
_LOOKED_INTO = "reverse-deep"
"""The kept run whose gradients are shown where the one looked at has none: six layers, norms after them."""
_FIRST_RECIPE = "reverse"
"""What the page opens on: it is small, and its picture is known beforehand."""


class TrainingPage(QWidget):
    """Shows a TrainingState; curves are polled by a timer, never pushed by events.

    `open_checkpoint` is called with a checkpoint's folder when the user wants it in Explore.
    """

    hover_text = Signal(str)
    failed = Signal(str, str)

    def __init__(
        self,
        state: TrainingState,
        sweep: SweepState,
        recents: Recents,
        *,
        open_checkpoint: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._state = state
        ground(self, "page")
        self._run = RunPanel(state, sweep, recents)
        self._wanted_inside = ""
        self.sweep_line = SweepLine(sweep)
        self.sweep_line.failed.connect(self.failed)
        self.sweep_line.begun.connect(lambda: self.lower_tabs.show_panel("Runs"))
        self._run.several_button.clicked.connect(self.open_several)
        self._run.last_button.several_wanted.connect(self.open_several)
        self._watch = WatchPanel(state, open_checkpoint)
        self.watched_texts = self._watch.texts
        self.scaling = ScalingView(state.runs)
        self._inside = InspectionsView(state.runs.inspections, self._loss_at)
        self._inside.hover_text.connect(self.hover_text)
        self._inside.step_pointed.connect(self._on_step_pointed)
        self._runs = RunsPanel(state)
        self._runs.add_line(self.sweep_line)
        self._runs.failed.connect(self.failed)
        self.scaling.hover_text.connect(self.hover_text)
        self.scaling.run_clicked.connect(self._runs.choose)
        self._run.failed.connect(self.failed)
        self._watch.hover_text.connect(self.hover_text)
        self._build()
        self._worked_s = 0.0
        self._timer = QTimer(self, interval=REDRAW_MS)
        self._timer.timeout.connect(self._on_tick)
        self._follow()
        self._open_first_recipe()

    @property
    def actions_of_run(self) -> tuple[QAction, ...]:
        """Actions of the page, for menus: start, pause or resume, stop, open and save."""
        run = self._run
        return (
            run.start_action,
            run.hold_action,
            run.stop_action,
            run.open_run_action,
            run.recipe_row.open_action,
            run.recipe_row.save_action,
        )

    def set_style(self, style: MapStyle) -> None:
        """Draw the watched heads in another way."""
        self._watch.set_style(style)

    def figure_spec(self) -> FigureSpec | None:
        """The curves, or the content of the tab in front, as a figure; None if there are none yet."""
        if self.upper_tabs.is_shown(INSIDE):
            return self._figure_inside()
        if self.upper_tabs.is_shown(SCALING):
            scaling = self.scaling.charts()
            return (
                CurvesFigure(
                    charts=scaling,
                    title="Scaling",
                    caption=Caption(note=self.scaling.note),
                )
                if scaling
                else None
            )
        charts = self._curves.charts()
        if not charts:
            return None
        if len(self._state.runs.shown) > 1:
            return CurvesFigure(
                charts=charts,
                title="Training runs",
                caption=Caption(note="One colour a run: held-out loss strong, training loss pale."),
            )
        name = self._state.run.folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return CurvesFigure(
            charts=charts,
            title=f"Training of {name}" if name else "Training",
            caption=Caption(model=name, step=self._state.run.step, note=self._state.run.note),
        )

    def _figure_inside(self) -> FigureSpec | None:
        charts = self._inside.charts()
        folder = self._state.runs.inspections.folder.replace("\\", "/").rstrip("/")
        name = folder.rpartition("/")[2]
        caption = Caption(model=name, note=f"{READING} {MOVED}" if len(charts) > 2 else READING)
        return (
            CurvesFigure(charts=charts, title=f"Gradients and updates of {name}", caption=caption)
            if charts
            else None
        )

    def open_cost(self, tab: str) -> None:
        """Open the cost estimate of the recipe, at one of its tabs."""
        self._run.open_cost(tab)

    def open_inside(self, choice: str) -> None:
        """Show gradients and updates, or the accumulated changes: of the run shown, or of a bundled one.

        Where no run of one's own is shown, the recipe of the kept one stands beside it.
        """
        self._inside.choose(choice)
        runs = self._state.runs
        self._wanted_inside = runs.inspections.folder
        if runs.inspections.history is None:
            if not (self._state.run.is_active or self._run.last_button.run):
                self._state.open_recipe(str(paths.resources_folder() / "recipes" / f"{_LOOKED_INTO}.toml"))
            self._wanted_inside = str(paths.resources_folder() / _FILMS / _LOOKED_INTO)
            runs.add(self._wanted_inside)
        self._show_upper_tabs()

    def open_several(self) -> None:
        """Ask which seeds and values to train."""
        self.sweep_line.open_dialog()

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose positions are saved."""
        return (self._across, self._down, self._watch.splitter())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        _ = self._curves
        self._state.watch.set_watched(True)
        self._show_film()
        self._ask_for_room()
        self._state.planning.ask_again()
        self._worked_s = thread_time()
        self._timer.start()

    def _show_film(self) -> None:
        """Show a bundled run of the recipe, if there is one: the page is never empty."""
        if not self.isVisible():
            return
        own, films = self._run.last_button.run, paths.resources_folder() / _FILMS
        name = self._state.recipe.name
        kept = films / (name if name and (films / name).is_dir() else _FIRST_RECIPE)
        self._state.reading.show_film(own or str(kept))

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._state.watch.set_watched(False)
        self._timer.stop()

    @cached_property
    def _curves(self) -> "CurvesView":
        """The plots, created when the page is first shown: the plotting library is slow to import."""
        from attnscope.widgets.training.curves_view import CurvesView

        curves = CurvesView(lambda: self._state.runs.shown)
        curves.hover_text.connect(self.hover_text)
        curves.step_pointed.connect(self._inside.stand_at)
        curves.step_chosen.connect(self._state.watch.replay.go_to_step)
        curves.height_changed.connect(self._ask_for_room)
        self._curves_place.addWidget(curves)
        return curves

    def _build(self) -> None:
        run = self._run
        self.addActions([run.start_action, run.hold_action, run.stop_action])  # wherever on it one types
        upper, lower = self.curves_half, self.watch_half = QWidget(), QWidget()
        curves = QWidget()
        self._curves_place = column(on=curves)
        self.upper_tabs, self.lower_tabs = SideTabs(), SideTabs()
        self.upper_tabs.add("Curves", curves, tip="Loss, accuracy and learning rate, step by step")
        self.upper_tabs.add(SCALING, self.scaling, tip=_SCALING_TIP)
        self.upper_tabs.add(INSIDE, self._inside, label="Gradients and updates", tip=_INSIDE_TIP)
        self._show_upper_tabs()
        self.lower_tabs.add("Attention", self._watch, tip="The maps of a sentence while the model learns")
        self.lower_tabs.add("Runs", self._runs, tip="Runs side by side: curves, recipes and what differs")
        for panel in (self._watch, self._runs):
            panel.setContentsMargins(0, 8, 0, 0)
        for part, tabs in ((upper, self.upper_tabs), (lower, self.lower_tabs)):
            column(tabs, on=part, margins=12)
        down, across = Qt.Orientation.Vertical, Qt.Orientation.Horizontal
        self._down = split(down, upper, lower, sizes=(326, 410), stretches=(1, 1))
        self._across = split(across, self._run, self._down, sizes=(336, 900), stretches=(0, 1))
        column(self._across, on=self)

    @Slot()
    def _ask_for_room(self) -> None:
        QTimer.singleShot(0, self, self._make_room)  # once the plots know their heights

    def _make_room(self) -> None:
        """Give the curves room from the half below if large type would cut them."""
        if not self.isVisible():
            return
        above, below = self._down.sizes()
        given = min(_missing_px(self._curves.parentWidget()), -_missing_px(self._watch))
        if given > 0:
            self._down.setSizes([above + given, below - given])

    def _open_first_recipe(self) -> None:
        recipes = offered_recipes()
        if recipes and not self._state.recipe.text:
            first = next((recipe for recipe in recipes if recipe.name == _FIRST_RECIPE), recipes[0])
            self._state.open_recipe(first.path)

    def _follow(self) -> None:
        state, runs = self._state, self._state.runs
        when(self, self._run.show_recipe, state.changed.recipe)
        when(self, self._watch.show_state, state.changed.recipe, state.watch.changed)
        when(self, self._show_film, state.changed.recipe)
        when(self, self._run.show_status, state.changed.status)
        when(self, self._rest, state.changed.status)
        when(self, self._run.show_devices, state.changed.devices)
        when(self, self._run.show_plan, state.planning.changed.plan)
        when(self, self._runs.show_runs, runs.changed)
        when_seen(self.scaling, self.scaling.show_runs, runs.changed)
        when(self, self._inside.show_history, runs.inspections.changed)
        when(self, self._show_upper_tabs, runs.changed, runs.inspections.changed)

    def _rest(self) -> None:
        """No run is active: draw the last one's data without waiting."""
        if not self._state.run.is_active and self._timer.interval() != _AT_REST_MS:
            self._timer.setInterval(_AT_REST_MS)

    def _show_upper_tabs(self) -> None:
        """Offer *Inside* if steps were inspected."""
        runs = self._state.runs
        if self._wanted_inside:
            runs.choose(self._wanted_inside)
        is_inside = runs.inspections.history is not None
        self.upper_tabs.tabs[INSIDE].setVisible(is_inside)
        if not is_inside and self.upper_tabs.is_shown(INSIDE):
            self.upper_tabs.show_panel("Curves")
        if is_inside and self._wanted_inside == runs.inspections.folder:
            self._wanted_inside = ""
            self.upper_tabs.show_panel(INSIDE)

    def _loss_at(self, step: float) -> str:
        """The training loss of the inspected run, at a step."""
        curve = self._state.runs.drawn.curves_of(self._state.runs.inspections.folder).train_loss
        places = curve.steps
        if not len(places):
            return ""
        i = min(int(places.searchsorted(step)), len(places) - 1)
        return f"loss {number_text(float(curve.values[i]))}"

    @Slot(float)
    def _on_step_pointed(self, step: float) -> None:
        self._curves.stand_at(step)

    @Slot()
    def _on_tick(self) -> None:
        self._state.tick()
        self._run.show_progress()
        self._curves.set_n_steps(self._state.run.n_steps)
        self._curves.redraw()
        checkpoint = self._state.watch.replay.checkpoint
        self._curves.mark_step(checkpoint.step if checkpoint is not None else None)
        worked_s, self._worked_s = thread_time() - self._worked_s, thread_time()
        is_on = self._state.run.is_active
        self._timer.setInterval(redraw_after_ms(1000 * worked_s) if is_on else _AT_REST_MS)


def redraw_after_ms(worked_ms: float) -> int:
    """Delay to the next redraw, after `worked_ms` of processor time of the window's thread since the last."""
    return round(max(REDRAW_MS, min(_MOST_REDRAW_MS, worked_ms / _DRAWING)))


def _missing_px(panel: QWidget | None) -> int:
    """Height by which a scrolling panel exceeds its viewport; below 0: room to spare."""
    view = panel.parentWidget() if panel is not None else None
    return panel.minimumSizeHint().height() - view.height() if panel is not None and view is not None else 0

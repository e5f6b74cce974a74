"""The training page: recipe and controls at the left, curves above, the watched sentence below."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAction, QHideEvent, QShowEvent
from PySide6.QtWidgets import QSplitter, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.spec import Caption, FigureSpec
from attnscope.figures.style import MapStyle
from attnscope.viewmodels.training import TrainingState
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import listen
from attnscope.widgets.run_panel import RunPanel
from attnscope.widgets.watch_panel import WatchPanel

if TYPE_CHECKING:
    from attnscope.widgets.curves_view import CurvesView

REDRAW_MS = 40
"""Shortest time between two redraws of the curves; slow redraws stretch it."""


class TrainingPage(QWidget):
    """Shows a TrainingState; curves are pulled by a timer, never pushed by events.

    `open_checkpoint` is called with a checkpoint's folder when the person wants it in Explore.
    """

    hover_text = Signal(str)
    failed = Signal(str)

    def __init__(
        self,
        state: TrainingState,
        palette: Palette,
        parent: QWidget | None = None,
        *,
        open_checkpoint: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(parent)
        self._state = state
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._run = RunPanel(state, palette)
        self._palette = palette
        self._curves: CurvesView | None = None
        self._watch = WatchPanel(state, palette, open_checkpoint)
        self._run.failed.connect(self.failed)
        self._watch.hover_text.connect(self.hover_text)
        self._build()
        self._timer = QTimer(self)
        self._timer.setInterval(REDRAW_MS)
        self._timer.timeout.connect(self._on_tick)
        listen(self, state, self._on_changed)
        self._open_first_recipe()

    @property
    def actions_of_run(self) -> tuple[QAction, ...]:
        """What can be done here, for menus: start, pause or resume, stop, open and save."""
        run = self._run
        return (
            run.start_action,
            run.hold_action,
            run.stop_action,
            run.open_run_action,
            run.open_recipe_action,
            run.save_recipe_action,
        )

    def set_theme(self, palette: Palette) -> None:
        """Take the colours of another theme."""
        self._palette = palette
        self._run.set_theme(palette)
        if self._curves is not None:
            self._curves.set_theme(palette)
        self._watch.set_theme(palette)

    def set_style(self, style: MapStyle) -> None:
        """Draw the watched heads in another way."""
        self._watch.set_style(style)

    def figure_spec(self) -> FigureSpec | None:
        """The curves as a figure, None when there are none yet."""
        charts = self._curves.charts() if self._curves is not None else ()
        if not charts:
            return None
        name = self._state.run_folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return FigureSpec(
            view="curves",
            charts=charts,
            title=f"Training of {name}" if name else "Training",
            caption=Caption(model=name, step=self._state.step, note=self._state.run_note),
        )

    def splitters(self) -> tuple[QSplitter, ...]:
        """The splitters whose places are worth remembering."""
        return (self._across, self._down, self._watch.splitter())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._add_curves()
        self._state.watch.set_watched(True)
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._state.watch.set_watched(False)
        self._timer.stop()

    def _add_curves(self) -> None:
        """Build the plots when they are first seen: the plotting library is slow to import."""
        if self._curves is None:
            from attnscope.widgets.curves_view import CurvesView

            self._curves = CurvesView(self._state.curves, self._palette)
            self._curves.hover_text.connect(self.hover_text)
            self._upper.addWidget(self._curves)

    def _build(self) -> None:
        upper, lower = QWidget(), QWidget()
        self._upper = column(upper, margin=12)
        column(lower, margin=12).addWidget(self._watch)
        self._down = QSplitter(Qt.Orientation.Vertical)
        self._across = QSplitter(Qt.Orientation.Horizontal)
        for splitter, parts in ((self._down, (upper, lower)), (self._across, (self._run, self._down))):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
            for part in parts:
                splitter.addWidget(part)
        self._run.setMinimumWidth(300)
        self._across.setStretchFactor(1, 1)
        self._across.setSizes([336, 900])
        self._down.setSizes([350, 386])
        self._down.setStretchFactor(0, 1)
        self._down.setStretchFactor(1, 1)
        column(self).addWidget(self._across)

    def _open_first_recipe(self) -> None:
        recipes = self._state.recipes
        if recipes and not self._state.recipe.text:
            self._state.open_recipe(recipes[0].path)

    def _on_changed(self, name: str) -> None:
        match name:
            case "recipe":
                self._run.show_recipe()
                self._watch.show_state()
            case "status":
                self._run.show_status()
            case "devices":
                self._run.show_devices()
            case "watch" | "checkpoints":
                self._watch.show_state()
            case _:
                pass

    @Slot()
    def _on_tick(self) -> None:
        self._state.tick()
        self._run.show_progress()
        if self._curves is None:
            return
        self._curves.set_n_steps(self._state.n_steps)
        self._curves.redraw()
        self._timer.setInterval(max(REDRAW_MS, min(500, round(4 * self._curves.last_redraw_ms))))

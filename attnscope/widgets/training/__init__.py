"""The training page."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.training.curves_view import CurvesView
    from attnscope.widgets.training.page import INSIDE, SCALING, TrainingPage, redraw_after_ms
    from attnscope.widgets.training.recipe_editor import CostBar, CostDialog, RateStrip, RecipeEditor
    from attnscope.widgets.training.run_panel import *
    from attnscope.widgets.training.runs_panel import RunsPanel, RunsTable, SweepDialog, SweepLine
    from attnscope.widgets.training.watch_panel import ReplayBar, WatchPanel
else:
    __getattr__, __dir__ = door_of(__name__)

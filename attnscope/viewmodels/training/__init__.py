"""The state of the training page."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.training.planning import *
    from attnscope.viewmodels.training.recipe_text import *
    from attnscope.viewmodels.training.run_curves import *
    from attnscope.viewmodels.training.runs_compared import *
    from attnscope.viewmodels.training.runs_list import RunRow, sorted_rows
    from attnscope.viewmodels.training.state import RunPlace, TrainingState
    from attnscope.viewmodels.training.status import IDLE, StepPace, existing_folder, find_folder
    from attnscope.viewmodels.training.sweeping import *
    from attnscope.viewmodels.training.watch import *
else:
    __getattr__, __dir__ = door_of(__name__)

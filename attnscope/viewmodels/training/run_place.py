"""Where the next run is written: the folder, whether a person chose it, and what it holds.

Must not import Qt.
"""

import os
from collections.abc import Callable

from attnscope import paths
from attnscope.viewmodels.new_folder import place_problem
from attnscope.viewmodels.training.recipe_draft import RecipeDraft
from attnscope.viewmodels.training.recipe_text import fresh_folder


class RunPlace:
    """One folder at a time; empty before the first, which is then made up."""

    def __init__(self, recipe: RecipeDraft, changed: Callable[[], None]) -> None:
        self._recipe, self._changed = recipe, changed
        self._is_chosen = False
        self.folder = ""

    @property
    def fresh(self) -> str:
        """A run folder that does not exist yet, named after the recipe."""
        return str(fresh_folder(paths.runs_folder(), self._recipe.name))

    @property
    def holds_run(self) -> bool:
        """Whether a run in it would go on with one."""
        return bool(self.folder) and os.path.isfile(os.path.join(self.folder, "recipe.toml"))

    @property
    def problem(self) -> str:
        """Why no run can be written there; empty where one can, or where the engine is to say."""
        is_open = not self.folder or os.path.isdir(self.folder)
        return "" if is_open else place_problem(self.folder, "run")

    def choose(self, folder: str) -> None:
        """Put the next run where a person wants it."""
        self.stand_at(folder.strip())
        self._changed()

    def stand_at(self, folder: str) -> None:
        """Stay at the folder of a run that was opened, as if it had been chosen; nobody is told."""
        self.folder, self._is_chosen = folder, bool(folder)

    def take_fresh(self) -> None:
        """Put the next run into a folder of its own."""
        self.folder, self._is_chosen = self.fresh, False
        self._changed()

    def offer(self, shown: str) -> None:
        """A folder of its own for another recipe, unless a person chose one that is not the `shown` run's."""
        if not self._is_chosen or self.folder == shown:
            self.take_fresh()

    def settle(self) -> str:
        """The folder that a run begins in."""
        self.folder = self.folder or self.fresh
        return self.folder

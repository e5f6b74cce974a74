"""How long recipes that are offered would train here: the Train page's own estimate, asked for one by one.

Must not import Qt.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from psygnal import Signal

from attnscope.errors import LoadError
from attnscope.records.messages import Failed
from attnscope.records.plans import Plan, PlanRecipe, RecipePlanned
from attnscope.records.requests import Reply, Request
from attnscope.settings import known_run_folders
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.training.recipe_text import RecipeFile, read_recipe_text


class RecipeTimes:
    """`plans` are by the names of recipes, as far as their times are known; `changed`: there is one more."""

    changed = Signal()

    def __init__(self, post: Callable[[Request], None], numbers: Numbers) -> None:
        self._post, self._numbers = post, numbers
        self._waiting: list[RecipeFile] = []
        self._number = 0
        self._device = "auto"
        self._folders: tuple[str, ...] = ()
        self.plans: dict[str, Plan] = {}

    def ask(self, recipes: Iterable[RecipeFile], device: str, out: str) -> None:
        """Have their times worked out, again where they are known: runs since then tell the speed better.

        `device` and `out`, the folder of the next run, are those of the Train page.
        """
        self._waiting, self._device, self._folders = list(recipes), device, known_run_folders(out)
        self._ask_next()

    def handle(self, reply: Reply) -> bool:
        """Take a reply; True when it was for this state."""
        match reply:
            case RecipePlanned() if reply.number == self._number:
                if reply.plan is None or reply.plan.pace is not None:  # else the same with its time follows
                    self._take(reply.plan)
            case Failed() if reply.number and reply.number == self._number:
                self._waiting.clear()
            case _:
                return False
        return True

    def _take(self, plan: Plan | None) -> None:
        name = self._waiting.pop(0).name
        if plan is not None:
            self.plans[name] = plan
            self.changed.emit()
        self._ask_next()

    def _ask_next(self) -> None:
        """One at a time: the worker answers the newest question only."""
        while self._waiting:
            path = Path(self._waiting[0].path)
            try:
                text = read_recipe_text(path)
            except LoadError:
                self._waiting.pop(0)
                continue
            self._number = self._numbers.next()
            self._post(
                PlanRecipe(
                    number=self._number,
                    recipe=text,
                    device=self._device,
                    base_folder=str(path.parent),
                    run_folders=self._folders,
                    place="offered",
                )
            )
            return

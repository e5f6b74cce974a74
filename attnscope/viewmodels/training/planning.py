"""What the recipe being edited costs, asked for when the person pauses; and the presets of the literature.

Time comes from a clock that is passed in.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from psygnal import Signal, SignalGroup

from attnscope.errors import LoadError
from attnscope.records.messages import Failed
from attnscope.records.plans import (
    BatchShown,
    FirstBatch,
    Plan,
    PlanRecipe,
    PresetRow,
    PresetsShown,
    RecipePlanned,
    ShowBatch,
    ShowPresets,
)
from attnscope.records.requests import Reply
from attnscope.settings import known_run_folders
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.training.recipe_text import RecipeDraft, RecipeFile, read_recipe_text

# How long recipes that are offered would train here: the Train page's own estimate, asked for one by one.


class RecipeTimes:
    """`plans` are by the names of recipes, as far as their times are known; `changed`: there is one more."""

    changed = Signal()

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
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
            self._number = self._requests.send(
                PlanRecipe(
                    recipe=text,
                    device=self._device,
                    base_folder=str(path.parent),
                    run_folders=self._folders,
                    place="offered",
                )
            )
            return


PAUSE_S = 0.25
"""How long the person must have stopped typing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a plan is made of; without a device nothing is wished for."""

    recipe: str = ""
    out: str = ""
    device: str = ""
    base_folder: str = ""


_NO_WISH = Wish()


class PlanChanges(SignalGroup):
    """What of planning can change."""

    plan = Signal()
    presets = Signal()
    batch = Signal()


class PlanState:
    """`times` are those of recipes that are offered elsewhere, a state of its own."""

    def __init__(
        self,
        requests: Requests,
        recipe: RecipeDraft,
        clock: Callable[[], float],
    ) -> None:
        self._requests = requests
        self._recipe, self._clock = recipe, clock
        self.changed = PlanChanges()
        self.times = RecipeTimes(requests)
        self._plan = Query(RecipePlanned, requests)
        self._presets = Query(PresetsShown, requests)
        self._batch = Query(BatchShown, requests)
        self._plan.is_watched = self._presets.is_watched = self._batch.is_watched = True
        self._asked = self._wanted = _NO_WISH
        self._due_at = 0.0
        self._is_old = False

    @property
    def plan(self) -> Plan | None:
        """What the recipe costs; None while that is not known."""
        return self._plan.answer.plan if self._plan.answer is not None else None

    @property
    def problem(self) -> str:
        """Why there is no plan."""
        return self._plan.answer.problem if self._plan.answer is not None else self._plan.error

    @property
    def presets(self) -> tuple[PresetRow, ...]:
        """The models of the literature, once they were asked for."""
        return self._presets.answer.rows if self._presets.answer is not None else ()

    @property
    def available_bytes(self) -> int:
        """How much memory is free on the best device."""
        return self._presets.answer.available_bytes if self._presets.answer is not None else 0

    @property
    def batch(self) -> FirstBatch | None:
        """What the recipe reads first; None while that is not known."""
        return self._batch.answer.batch if self._batch.answer is not None else None

    @property
    def batch_problem(self) -> str:
        """Why there is no first batch."""
        return self._batch.answer.problem if self._batch.answer is not None else self._batch.error

    @property
    def is_sample_batch(self) -> bool:
        """Whether the batch is of the text that comes with the program."""
        return self._batch.answer is not None and self._batch.answer.is_sample

    @property
    def is_refused(self) -> bool:
        """Whether the recipe as it now stands cannot run; `problem` says why."""
        answer = self._plan.answer
        return answer is not None and answer.plan is None and self._asked == self._wanted

    def want(self, wish: Wish) -> None:
        """The recipe, its folder or its device may have changed."""
        if wish == self._wanted:
            return
        self._wanted = wish
        self._due_at = self._clock() + (0.0 if self._asked == _NO_WISH else PAUSE_S)

    def tick(self) -> None:
        """Ask when the person has paused; called some times a second while the page is shown."""
        wish = self._wanted
        is_answered = wish == self._asked and not self._is_old
        if wish == _NO_WISH or is_answered or self._clock() < self._due_at:
            return
        self._asked, self._is_old = wish, False
        if not self._recipe.is_ready:
            self._plan.forget()
            self.changed.plan.emit()
            return
        self._plan.renew()
        self._plan.ask(
            wish,
            PlanRecipe(
                recipe=wish.recipe,
                out=wish.out,
                device=wish.device,
                base_folder=wish.base_folder,
                run_folders=known_run_folders(wish.out),
            ),
        )

    def ask_again(self) -> None:
        """Plan once more: the machine's speed and its memory may be known better, as after a run."""
        self._is_old = True
        self._due_at = 0.0

    def ask_presets(self) -> None:
        """Have the presets listed, once."""
        self._presets.ask("all", ShowPresets())

    @property
    def has_asked_batch(self) -> bool:
        """Whether a batch was asked for at all."""
        return self._batch.about is not None

    @property
    def is_batch_old(self) -> bool:
        """Whether the batch was asked for, if at all, when the recipe was another."""
        return self._batch.about != self._wanted

    def ask_batch(self) -> None:
        """Read the data of the recipe as it stands, for its first batch."""
        wish = self._wanted
        if wish == _NO_WISH or not self._recipe.is_ready:
            return
        self._batch.forget()
        self._batch.ask(wish, ShowBatch(recipe=wish.recipe, base_folder=wish.base_folder))
        self.changed.batch.emit()

    def handle(self, reply: Reply) -> bool:
        """Take a reply; True when it was for this state."""
        if self.times.handle(reply):
            return True
        if isinstance(reply, RecipePlanned) and self._plan.owns(reply) and self._lacks_time(reply):
            return True  # while one types: the same with its time follows
        for query, changed in (
            (self._plan, self.changed.plan),
            (self._presets, self.changed.presets),
            (self._batch, self.changed.batch),
        ):
            if query.take(reply):
                changed.emit()
                return True
        return False

    def _lacks_time(self, reply: RecipePlanned) -> bool:
        """Whether only the time is missing of a plan, which one of the same name has that is shown."""
        plan, shown = reply.plan, self.plan
        if plan is None or shown is None or plan.pace is not None:
            return False
        return shown.pace is not None and shown.name == plan.name

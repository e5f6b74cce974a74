"""A guided tour in progress: which step, whether the window is there yet, the numbers, and the way back.

Must not import Qt.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from psygnal import Signal, SignalGroup

from attnscope.errors import LoadError, UserError
from attnscope.viewmodels.session.file import SavedSession
from attnscope.viewmodels.tours.numbers import number_named
from attnscope.viewmodels.tours.spot import SceneJob, Spot, holds, jobs_of
from attnscope.viewmodels.tours.states import TourStates
from attnscope.viewmodels.tours.tours import Tour, TourStep

Phase = Literal["off", "moving", "shown", "failed"]
_IGNORED = frozenset({"cell", "pointer", "hovered_head", "highlight", "history", "pace", "folded"})


class TourChanges(SignalGroup):
    """What of a tour can change."""

    tour = Signal()
    """It was begun or left."""
    step = Signal()
    numbers = Signal()
    progress = Signal()


class TourState:
    """At most one tour at a time. `bring_back` opens what was open before, when its model has gone.

    Another model than the tour asked for ends it, and stays.
    """

    def __init__(
        self,
        tours: tuple[Tour, ...],
        states: TourStates,
        bring_back: Callable[[SavedSession], None],
        progress: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.tours, self._states, self._bring_back = tours, states, bring_back
        self.changed = TourChanges()
        known = {tour.name: len(tour.steps) for tour in tours}
        self.progress = {name: min(max(n, 0), known[name]) for name, n in progress.items() if name in known}
        self.tour: Tour | None = None
        self.index = 0
        self.phase: Phase = "off"
        self.error = ""
        self.is_task_done = False
        self._before: SavedSession | None = None
        self._recipe_before = ""
        self._jobs: list[SceneJob] = []
        self._is_working = False
        self._own_source = ""
        self._is_other_coming = False
        states.session.changed.busy.connect(self._watch_opening, max_args=0)
        states.session.changed.model.connect(self._make_way, max_args=0)
        watched = (states.session, states.view, states.inside, states.heads)
        for state in (*watched, states.curves, states.training, states.positions):
            for name, signal in state.changed.signals.items():
                if name not in _IGNORED:
                    signal.connect(self._on_changed, max_args=0)

    # What can be read

    @property
    def step(self) -> TourStep | None:
        """The step that is shown."""
        return self.tour.steps[self.index] if self.tour is not None else None

    @property
    def is_last(self) -> bool:
        """Whether no step follows."""
        return self.tour is not None and self.index == len(self.tour.steps) - 1

    @property
    def doing(self) -> str:
        """What the window is being brought to do; empty when it is there."""
        return self._jobs[0].what if self.phase == "moving" and self._jobs else ""

    @property
    def numbers(self) -> Mapping[str, str | None]:
        """The numbers of the step by name; None for what is not there."""
        step, spot = self.step, self._spot()
        if step is None or spot is None:
            return {}
        return {name: number_named(name, spot) for name in step.placeholders}

    @property
    def unmet(self) -> tuple[str, ...]:
        """What the step claims of its numbers and is not so."""
        step, spot = self.step, self._spot()
        claims = step.expect if step is not None and spot is not None else ()
        found = [(claim, number_named(claim.name, spot)) for claim in claims if spot is not None]
        return tuple(f"{c.name} {c.sign} {c.value}: it is {is_}" for c, is_ in found if not c.is_met(is_))

    def _spot(self) -> Spot | None:
        if self.tour is None:
            return None
        scene = self.tour.scene(self.index)
        return Spot(states=self._states, query=scene.query, key=scene.key)

    def find(self, name: str) -> Tour | None:
        return next((tour for tour in self.tours if tour.name == name), None)

    def steps_seen(self, tour: Tour) -> int:
        """How many steps of a tour have been looked at."""
        return self.progress.get(tour.name, 0)

    # Intents

    def start(self, name: str, at: int | None = None) -> None:
        """Begin a tour where it was left, or `at` a step; a finished one begins anew. Unknown: nothing."""
        tour = self.find(name)
        if tour is None:
            return
        if self.tour is None:
            self._own_source = ""
            self._remember()
        seen = self.steps_seen(tour)
        first = max(seen - 1, 0) if seen < len(tour.steps) else 0
        self.tour = tour
        self.changed.tour.emit()
        self._go(min(max(first if at is None else at, 0), len(tour.steps) - 1))

    def next(self) -> None:
        """Go to the next step; after the last one the tour is over."""
        if self.tour is not None and self.is_last:
            self.leave()
        elif self.tour is not None:
            self._go(self.index + 1)

    def back(self) -> None:
        """Go to the step before."""
        if self.tour is not None and self.index > 0:
            self._go(self.index - 1)

    def do_task(self) -> None:
        """Do what the person is asked to do."""
        step = self.step
        if self.tour is not None and step is not None and step.ask is not None:
            scene = self.tour.scene(self.index).then(step.ask)
            self._begin(list(jobs_of(scene, self._states, f"tour: {step.title}")))

    def leave(self, *, is_keeping: bool = False) -> None:
        """End the tour; what was there before comes back, unless the person keeps what there is."""
        before, self._before = self._before, None
        if self.tour is None:
            return
        self.tour, self.index, self.phase, self.error, self._jobs = None, 0, "off", "", []
        if before is not None and not is_keeping:
            self._restore(before)
        self.changed.tour.emit()

    # Within

    def _go(self, index: int) -> None:
        if self.tour is None:
            return
        self.index, self.is_task_done = index, False
        if index + 1 > self.progress.get(self.tour.name, 0):
            self.progress[self.tour.name] = index + 1
            self.changed.progress.emit()
        title = self.tour.steps[index].title
        self._begin(list(jobs_of(self.tour.scene(index), self._states, f"tour: {title}")))

    def _begin(self, jobs: list[SceneJob]) -> None:
        self._jobs, self.phase, self.error = jobs, "moving", ""
        self._work()
        self._check_task()
        self.changed.step.emit()

    def _work(self) -> None:
        """Do what can be done now; what must be waited for goes on when a state tells that it changed."""
        if self._is_working or self.phase != "moving":
            return
        self._is_working = True
        jobs = self._jobs
        try:
            while jobs and jobs is self._jobs and jobs[0].run():
                jobs.pop(0)
        except (UserError, KeyError) as error:
            self.phase, self.error = "failed", str(error) if isinstance(error, LoadError | UserError) else ""
            self.error = self.error or f"The window has no part {error}."
        finally:
            self._is_working = False
        if self.phase == "moving" and not self._jobs:
            self.phase = "shown"

    def _check_task(self) -> None:
        step = self.step
        if step is not None and step.ask is not None and self.phase == "shown" and not self.is_task_done:
            self.is_task_done = holds(step.ask, self._states)

    def _make_way(self) -> None:
        """The model that another opened is there."""
        if self._is_other_coming and not self._is_working:
            self.leave(is_keeping=True)

    def _on_changed(self) -> None:
        if self.tour is None or self._is_working:
            return
        phase = self.phase
        self._work()
        self._check_task()
        (self.changed.numbers if phase == self.phase else self.changed.step).emit()

    def _watch_opening(self) -> None:
        """Who has a model opened: the tour while it works, a person at any other time."""
        busy = self._states.session.busy
        if busy is not None and self._is_working:
            self._own_source = busy.source
        self._is_other_coming = busy is not None and busy.source != self._own_source

    def _remember(self) -> None:
        session, view = self._states.session, self._states.view
        self._recipe_before = self._states.training.recipe.path
        model = session.model
        self._before = SavedSession(
            source=model.source if model else "",
            model=model.name if model else "",
            sha256=model.sha256 if model else "",
            setting=session.setting,
            look=view.look,
        )

    def _restore(self, before: SavedSession) -> None:
        states = self._states
        training, model = states.training, states.session.model
        if self._recipe_before and not training.is_active and training.recipe.path != self._recipe_before:
            training.open_recipe(self._recipe_before)
        is_same = model is not None and model.source == before.source and states.session.busy is None
        if is_same:
            states.session.restore(before.setting, "leave the tour")
        elif before.source:
            self._bring_back(before)
        states.view.show_saved(before.look)

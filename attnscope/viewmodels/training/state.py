"""The state of the training page: the recipe, the run in progress, its curves and what it is watching.

Must not import Qt. Requests go out through `requests`; replies come in through `handle`.
"""

import dataclasses
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from psygnal import Signal, SignalGroup

from attnscope import paths
from attnscope.counting import time_left
from attnscope.records.messages import (
    ControlTraining,
    Failed,
    OpenRun,
    Progress,
    Ready,
    RunOpened,
    StartTraining,
    TrainingNews,
)
from attnscope.records.requests import Reply
from attnscope.records.runs import RunNews, RunWriter
from attnscope.records.training import Finished, Saved, SaveFailed, Started, TrainingEvent, Watched
from attnscope.viewmodels.new_folder import place_problem
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.training.follower import Follower
from attnscope.viewmodels.training.planning import PlanState, Wish
from attnscope.viewmodels.training.recipe_draft import RecipeDraft
from attnscope.viewmodels.training.recipe_text import (
    RecipeFile,
    fresh_folder,
    offered_recipes,
    watched_sentences,
)
from attnscope.viewmodels.training.run_curves import RunCurves
from attnscope.viewmodels.training.runs_list import RunsState
from attnscope.viewmodels.training.status import (
    ACTIVE,
    IDLE,
    PAUSING,
    STOPPING,
    TrainingStatus,
    failed_status,
    film_status,
    finished_status,
    following_status,
    lost_status,
    opened_status,
    paused_status,
    running_status,
    starting_status,
    unopened_status,
    unsaved_words,
)
from attnscope.viewmodels.training.watch import WatchState

# Where the next run is written: the folder, whether a person chose it, and what it holds.


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


# How fast a run goes, and how long it will still take.

_WINDOW_S, _LEAST_S = 30.0, 2.0
"""Over how long the speed is measured, and how much of it must have passed: the first steps are slow."""


class StepPace:
    """Steps per second over the last half minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Forget the past: the run was held, or begins."""
        self._seen.clear()

    def note(self, step: int) -> None:
        """The run has reached `step`."""
        now = self._clock()
        self._seen.append((now, step))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()

    @property
    def steps_per_s(self) -> float | None:
        """The present speed, None until it can be told."""
        if len(self._seen) < 2:
            return None
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s - first_s >= _LEAST_S and last > first else None

    def remaining(self, n_steps: int) -> str:
        """How long `n_steps` more will take, in words; empty while that is not known."""
        speed = self.steps_per_s
        return time_left(n_steps / speed) if speed and n_steps > 0 else ""


class TrainingChanges(SignalGroup):
    """What of a run and its recipe can change."""

    recipe = Signal()
    """Or the folder it is to run in."""
    status = Signal()
    curves = Signal()
    """Maybe many times a second: who draws looks at `curves.version` on a timer instead."""
    devices = Signal()


class TrainingState:
    """The recipe and the run; `watch`, `planning` and `runs` are states of their own."""

    def __init__(
        self,
        requests: Requests,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = requests
        self.changed = TrainingChanges()
        self.curves = RunCurves()
        self.watch = WatchState(requests, clock)
        self._pace = StepPace(clock)
        self.recipe = RecipeDraft(self._on_recipe_changed)
        self.place = RunPlace(self.recipe, self.changed.recipe.emit)
        self.follower = Follower(requests, clock)
        self.planning = PlanState(requests, self.recipe, clock)
        self.runs = RunsState(requests, self.follower, clock)
        self.writer: RunWriter | None = None
        self.runs.set_own("", self.curves, is_live=False)
        self.device = "auto"
        self.devices: tuple[str, ...] = ("auto",)
        self.status = IDLE
        self.step = self.n_steps = 0
        self.run_folder = self.run_note = ""
        self._save_failure: SaveFailed | None = None
        self._run_number = self._open_number = self._control_number = self._history_number = 0
        self._film_number, self._film = 0, ""
        self._shown_film = ""

    # --- where it runs ----------------------------------------------------------------------------

    @property
    def recipes(self) -> tuple[RecipeFile, ...]:
        """The recipes that come with the program."""
        return offered_recipes()

    def open_recipe(self, path: str) -> None:
        """Take a recipe file and, unless the person chose one, a run folder of its name. Raises LoadError."""
        self.recipe.open(path)
        self.place.offer(self.run_folder)

    def take_recipe(self, text: str, name: str) -> None:
        """Take the recipe of another run; a run of it goes into a folder of its own."""
        self.recipe.take(text, name)
        self.place.offer(self.run_folder)

    def set_device(self, device: str) -> None:
        self.device = device

    def _on_recipe_changed(self) -> None:
        self.watch.suggest_text(self.recipe.watched)
        self.changed.recipe.emit()

    # --- the run ----------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether a run is in progress, or about to be."""
        return self.status.phase in ACTIVE

    @property
    def can_start(self) -> bool:
        """Whether Start would do something."""
        return self._is_free and not self.is_complete

    @property
    def can_lengthen(self) -> bool:
        """Whether the run that is shown is complete, and could be given more steps."""
        return self._is_free and self.is_complete

    @property
    def _is_free(self) -> bool:
        is_free = not self.is_active and not self.is_followed
        is_free = is_free and not self.place.problem
        return is_free and self.recipe.can_run and not self.planning.is_refused

    @property
    def is_followed(self) -> bool:
        """Whether another process writes the run that is shown, into the folder that Start would use."""
        return self.writer is not None and self.is_here

    @property
    def is_here(self) -> bool:
        """Whether the run folder is that of the run that is shown."""
        return bool(self.place.folder) and self.place.folder == self.run_folder

    @property
    def is_complete(self) -> bool:
        """Whether the run folder holds the run that is shown, and that run has made all of its steps."""
        return self.fraction == 1.0 and not self.is_active and self.is_here

    @property
    def fraction(self) -> float | None:
        """How much of the run is done, None while that is not known."""
        return min(1.0, self.step / self.n_steps) if self.n_steps else None

    @property
    def remaining(self) -> str:
        """How long the run will still take, empty while that is not known."""
        return self._pace.remaining(self.n_steps - self.step) if self.status.phase == "running" else ""

    @property
    def save_warning(self) -> str:
        """Which checkpoint could not be saved and why; empty once one has been saved again."""
        return "" if self._save_failure is None else unsaved_words(self._save_failure, self.is_active)

    def start(self) -> None:
        """Start (or go on with) the run in its folder; does nothing while one is in progress."""
        if self.can_start:
            self._start()

    def lengthen(self, n_more: int) -> None:
        """Go on with the complete run for more steps; its recipe says so from then on."""
        if self.can_lengthen:
            self.recipe.set_n_steps(self.step + n_more)
            self._start(may_lengthen=True)

    def _start(self, *, may_lengthen: bool = False) -> None:
        out, holds_run = self.place.settle(), self.place.holds_run
        is_known = self.is_here and len(self.curves.train_loss) > 0
        if holds_run and not is_known:
            self._history_number = self._requests.send(OpenRun(folder=out))
        if not (holds_run and is_known):
            self._clear_run()
        self.watch.take_suggestion()
        self.watch.replay.keep(self.recipe.watched)
        wish = dataclasses.asdict(self._wish)
        self._run_number = self._requests.send(StartTraining(**wish, may_lengthen=may_lengthen))
        self.run_folder, self._save_failure = out, None
        self._show_status(starting_status("Checking the recipe and reading the data."))
        self.changed.curves.emit()
        self.changed.recipe.emit()

    def pause(self) -> None:
        """Hold the run after its present step."""
        if self.status.can_pause:
            self._show_status(PAUSING)
            self._control("pause")

    def resume(self) -> None:
        """Go on with the paused run."""
        if self.status.can_resume:
            self._pace.restart()
            self._set_running()
            self._control("resume")

    def stop(self) -> None:
        """Save a checkpoint and end the run; it can be continued later."""
        if self.status.can_stop:
            self._show_status(STOPPING)
            self._control("stop")

    def open_run(self, folder: str) -> None:
        """Read a run folder and follow it where another process writes it; not while a run is in progress."""
        if not self.is_active:
            self._open_number = self._requests.send(OpenRun(folder=folder))

    def show_film(self, folder: str) -> None:
        """Show how a kept run went while no other run is shown; recipe and folder of the next run stay."""
        if self._takes_film and folder != self._film:
            self._film, self._film_number = folder, self._requests.send(OpenRun(folder=folder))

    def tick(self) -> None:
        """Called some times a second while the page is shown."""
        self.watch.tick()
        self.follower.tick()
        self.runs.set_own(self.run_folder, self.curves, is_live=self.is_active or self.writer is not None)
        self.runs.tick()
        self.planning.want(self._wish)
        self.planning.tick()
        if self.status.tried not in (None, self._wish):
            self._show_status(IDLE)

    def handle(self, reply: Reply) -> None:
        """Take a reply; those of other parts of the window are passed over."""
        if any(part.handle(reply) for part in (self.planning, self.runs, self.follower)):
            return
        match reply:
            case TrainingNews() if reply.number == self._run_number:
                self._take_news(reply)
            case RunOpened() if reply.number == self._history_number:
                self._take_history(reply)
            case RunOpened() if reply.number == self._open_number:
                self._take_run(reply)
            case RunOpened() if reply.number == self._film_number:
                if self._takes_film:
                    self._shown_film = reply.folder
                    self._take_run(reply, is_film=True)
            case Progress() if reply.number == self._run_number and self.status.phase == "starting":
                self._show_status(starting_status(reply.what))
            case Failed():
                self._take_failure(reply)
            case Ready():
                self.devices = ("auto", *(name for name in reply.devices if name != "auto"))
                self.changed.devices.emit()
            case _:
                self.watch.handle(reply)

    @property
    def _takes_film(self) -> bool:
        """Whether nothing is shown yet, or another kept run."""
        if self.run_folder:
            return self.run_folder == self._shown_film and not self.is_active
        return self.status is IDLE

    @property
    def _wish(self) -> Wish:
        recipe, out = self.recipe, self.place.folder
        return Wish(recipe=recipe.text, out=out, device=self.device, base_folder=recipe.folder)

    def _control(self, action: str) -> None:
        self._control_number = self._requests.send(ControlTraining(action=action))

    def _clear_run(self) -> None:
        self.follower.unfollow("page", self.run_folder)
        self.writer = None
        self.curves.clear()
        self.watch.begin_run(is_live=False)
        self.step, self.n_steps, self.run_note = 0, 0, ""
        self._pace.restart()

    def _take_history(self, told: RunOpened | RunNews, *, is_whole: bool = True) -> None:
        if is_whole:
            self.curves.clear()
        self.curves.add(told.events)
        self.step = self.curves.last_step
        for event in told.events:
            if isinstance(event, Started):
                self.n_steps = event.n_steps
        self.watch.replay.add_told(told)
        self.changed.curves.emit()

    def _take_run(self, reply: RunOpened, *, is_film: bool = False) -> None:
        if self.is_active:
            return
        self._clear_run()
        self.run_folder = reply.folder
        self.watch.replay.keep(watched_sentences(reply.recipe))
        if is_film:
            self.watch.suggest_text(watched_sentences(reply.recipe))
        else:
            self.place.stand_at(reply.folder)
            self.recipe.take(reply.recipe, Path(reply.folder).name)
        self._take_history(reply)
        self.watch.replay.set_live(False)
        self.watch.suggest_text(self.recipe.watched)  # for the next run
        name, n, is_complete = Path(reply.folder).name, len(reply.checkpoints), self.fraction == 1.0
        opened = opened_status(self.step, self.n_steps, n, is_complete=is_complete)
        self._show_status(film_status(name, self.step) if is_film else opened)
        self.changed.recipe.emit()
        self.watch.pump()
        self.follower.follow("page", reply.folder, self._on_followed)

    def _on_followed(self, news: RunNews) -> None:
        """What another process writes into the run that is shown; nothing where nobody does."""
        if news.folder != self.run_folder or self.is_active:
            return
        was_followed, self.writer = self.writer is not None, news.writer
        if news.writer is None and not was_followed:
            return
        self._take_history(news, is_whole=news.is_restart)
        self.watch.replay.set_live(False)
        self._show_status(following_status(self.step, self.n_steps, news.writer))

    def _take_news(self, news: TrainingNews) -> None:
        self.curves.add(news.events)
        for event in news.events:
            self._take_event(event)
        if news.events:
            self.watch.note_news()
            self.step = max(self.step, self.curves.last_step)
            self._pace.note(self.step)
            self.changed.curves.emit()
        if self.is_active and self.status.phase != "stopping":
            if news.is_paused:
                self._pace.restart()
                self._show_status(paused_status(self.step))
            elif self.status.phase not in ("pausing", "starting"):
                self._set_running()
        self.watch.pump()

    def _take_event(self, event: TrainingEvent) -> None:
        match event:
            case Started():
                self.step, self.n_steps = event.step, event.n_steps
                self.run_folder = event.folder or self.run_folder
                self.run_note = event.note
                self.watch.replay.forget_after(event.step)
                self.watch.replay.set_live(True)
                self._pace.restart()
                if self.status.phase == "starting":
                    self._set_running()
            case Saved():
                self._save_failure = None
                self.watch.replay.add_checkpoint(event.step, event.folder)
            case Watched():
                self.watch.replay.add_checkpoint(event.step, event.file, has_model=False)
            case SaveFailed():
                self._save_failure = event
                self.changed.status.emit()
            case Finished():
                self._finish(event)
            case _:
                pass

    def _finish(self, event: Finished) -> None:
        self.step, self._run_number = event.step, 0
        self._show_status(finished_status(event, self.curves.last_accuracy))
        self.watch.replay.set_live(False)
        self.planning.ask_again()

    def _take_failure(self, failure: Failed) -> None:
        log = f" The log is {failure.crash_log}." if failure.crash_log else ""
        if failure.number and failure.number == self._run_number:
            self._run_number = 0
            tried = self._wish if self.status.phase == "starting" else None
            self._show_status(failed_status(failure.message + log, self.step, tried))
            self.watch.replay.set_live(False)
            if tried is not None:
                self.run_folder = self.run_folder if self.place.holds_run else ""
                self.recipe.mark_blamed_line(failure.message)
        elif failure.number and failure.number == self._open_number:
            self._show_status(unopened_status(failure.message + log))
        elif failure.number and failure.number == self._control_number:
            if self.status.phase in ("pausing", "stopping"):
                self._show_status(lost_status(failure.message))
        elif failure.number != self._history_number:
            self.watch.handle(failure)

    def _set_running(self) -> None:
        self._show_status(running_status(self.step, self.n_steps, self.run_note))

    def _show_status(self, status: TrainingStatus) -> None:
        if status != self.status:
            self.status = status
            self.changed.status.emit()

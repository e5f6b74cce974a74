"""The state of the training page: the recipe, the run in progress, its curves and its watched sentence."""

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

from psygnal import Signal, SignalGroup

from attnscope import paths
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
from attnscope.records.runs import Finished, RunNews, Saved, SaveFailed, Started, TrainingEvent, Watched
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.training.planning import PlanState, Wish
from attnscope.viewmodels.training.recipe_text import (
    RecipeDraft,
    fresh_folder,
    watched_head,
    watched_sentences,
)
from attnscope.viewmodels.training.runs_list import Follower, RunsState
from attnscope.viewmodels.training.status import (
    IDLE,
    PAUSING,
    STOPPING,
    PageRun,
    TrainingStatus,
    failed_status,
    failure_words,
    film_status,
    finished_status,
    following_status,
    lost_status,
    opened_status,
    paused_status,
    place_problem,
    starting_status,
    unopened_status,
)
from attnscope.viewmodels.training.watch import WatchState

# Where the next run is trained and written: device and folder, whether a person chose it, and what it holds.


class RunPlace:
    """One folder at a time; empty before the first, which is then generated."""

    def __init__(self, recipe: RecipeDraft, changed: Callable[[], None]) -> None:
        self._recipe, self._changed = recipe, changed
        self._is_chosen = False
        self.folder = ""
        self.device = "auto"

    @property
    def wish(self) -> Wish:
        """The run that Start would request."""
        recipe = self._recipe
        return Wish(recipe=recipe.text, out=self.folder, device=self.device, base_folder=recipe.folder)

    @property
    def fresh(self) -> str:
        """A new run folder, named after the recipe."""
        return str(fresh_folder(paths.runs_folder(), self._recipe.name))

    @property
    def holds_run(self) -> bool:
        """Whether a run in it would continue an earlier one."""
        return bool(self.folder) and os.path.isfile(os.path.join(self.folder, "recipe.toml"))

    @property
    def problem(self) -> str:
        """Why no run can be written there; empty if one can, or if the engine is to decide."""
        is_open = not self.folder or os.path.isdir(self.folder)
        return "" if is_open else place_problem(self.folder, "run")

    def choose(self, folder: str) -> None:
        """Set the user's folder for the next run."""
        self.stand_at(folder.strip())
        self._changed()

    def stand_at(self, folder: str) -> None:
        """Select an opened run's folder without emitting a signal."""
        self.folder, self._is_chosen = folder, bool(folder)

    def take_fresh(self) -> None:
        """Use a new folder for the next run."""
        self.folder, self._is_chosen = self.fresh, False
        self._changed()

    def offer(self, shown: str) -> None:
        """A new folder for another recipe, unless the user chose one that is not the `shown` run's."""
        if not self._is_chosen or self.folder == shown:
            self.take_fresh()

    def set_device(self, device: str) -> None:
        self.device = device

    def settle(self) -> str:
        """The folder in which a run begins."""
        self.folder = self.folder or self.fresh
        return self.folder


# Runs that are not trained here: opened from their folder, followed while another process writes them.


class ReadRuns:
    """Shows runs on the page of a TrainingState; a bundled run on display is called a film."""

    _number: int = 0
    _history_number: int = 0
    _film_number: int = 0
    _film: str = ""
    _shown_film: str = ""

    def __init__(self, page: "TrainingState", requests: Requests) -> None:
        self._page, self._requests = page, requests

    def open(self, folder: str) -> None:
        """Read a run folder, and follow it if another process writes it; not while a run is in progress."""
        if not self._page.run.is_active:
            self._number = self._requests.send(OpenRun(folder=folder))

    def show_film(self, folder: str) -> None:
        """Show a bundled run while no other run is shown; recipe and folder of the next run stay."""
        if not self._takes_film:
            return
        if folder != self._film:
            self._film, self._film_number = folder, self._requests.send(OpenRun(folder=folder))
        elif folder == self._shown_film and self._page.run.status != self._film_words():
            self._page.run.show(self._film_words())  # the recipe is another one now

    def read_history(self, folder: str) -> None:
        """Read the history of the run that continues here."""
        self._history_number = self._requests.send(OpenRun(folder=folder))

    def handle(self, reply: Reply) -> bool:
        """Handle a reply; False if it was for another."""
        match reply:
            case RunOpened() if reply.number == self._history_number:
                self._add(reply, is_whole=True)
            case RunOpened() if reply.number == self._number:
                self._take(reply)
            case RunOpened() if reply.number == self._film_number:
                if self._takes_film:
                    self._shown_film = reply.folder
                    self._take(reply, is_film=True)
            case Failed() if reply.number and reply.number == self._number:
                self._page.run.show(unopened_status(failure_words(reply)))
            case Failed() if reply.number == self._history_number:
                pass  # the run goes on without its history
            case _:
                return False
        return True

    @property
    def _takes_film(self) -> bool:
        """Whether nothing is shown yet, or another bundled run."""
        run = self._page.run
        if run.folder:
            return run.folder == self._shown_film and not run.is_active
        return run.status is IDLE

    def _film_words(self) -> TrainingStatus:
        page = self._page
        return film_status(Path(page.run.folder).name, page.run.step, page.recipe.name)

    def _take(self, reply: RunOpened, *, is_film: bool = False) -> None:
        page, run, watch = self._page, self._page.run, self._page.watch
        if run.is_active:
            return
        page.clear_run()
        run.folder = reply.folder
        watch.replay.keep(watched_sentences(reply.recipe))
        watch.open_on(watched_head(reply.recipe))
        if is_film:
            watch.suggest_text(watched_sentences(reply.recipe))
        else:
            page.place.stand_at(reply.folder)
            page.recipe.take(reply.recipe, Path(reply.folder).name)
        self._add(reply, is_whole=True)
        watch.replay.set_live(False)
        watch.suggest_text(page.recipe.watched)  # for the next run
        n = len(reply.checkpoints)
        opened = opened_status(run.step, run.n_steps, n, run.n_bad_lines, is_complete=run.is_complete)
        run.show(self._film_words() if is_film else opened)
        page.changed.recipe.emit()
        watch.pump()
        page.follower.follow("page", reply.folder, self._on_followed)

    def _on_followed(self, news: RunNews) -> None:
        """React to another process's writing into the run shown."""
        run = self._page.run
        if news.folder != run.folder or run.is_active:
            return
        was_followed, run.writer = run.writer is not None, news.writer
        if news.writer is None and not was_followed:
            return
        self._add(news, is_whole=news.is_restart)
        self._page.watch.replay.set_live(False)
        run.show(following_status(run.step, run.n_steps, news.writer, run.n_bad_lines))

    def _add(self, told: RunOpened | RunNews, *, is_whole: bool) -> None:
        self._page.run.add_told(told, is_whole=is_whole)
        self._page.watch.replay.add_told(told)
        self._page.changed.curves.emit()


class TrainingChanges(SignalGroup):
    """Signals of TrainingState."""

    recipe = Signal()
    """Or the folder it is to run in."""
    status = Signal()
    curves = Signal()
    """Maybe many times a second: who draws looks at `curves.version` on a timer instead."""
    devices = Signal()


class TrainingState:
    """The next run (`recipe`, `place`), and the `run` shown: trained here, or only read (`reading`).

    `watch`, `planning` and `runs` are states of their own.
    """

    def __init__(
        self,
        requests: Requests,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = requests
        self.changed = TrainingChanges()
        self.run = PageRun(clock, self.changed.status)
        self.watch = WatchState(requests, clock)
        self.recipe = RecipeDraft(self._on_recipe_changed)
        self.place = RunPlace(self.recipe, self.changed.recipe.emit)
        self.follower = Follower(requests, clock)
        self.reading = ReadRuns(self, requests)
        self.planning = PlanState(requests, self.recipe, clock)
        self.runs = RunsState(requests, self.follower, clock)
        self.runs.set_own("", self.run.curves, is_live=False)
        self.devices: tuple[str, ...] = ("auto",)
        self._run_number = self._control_number = 0

    # --- where it runs ----------------------------------------------------------------------------

    def open_recipe(self, path: str) -> None:
        """Open a recipe file and, unless the user chose one, set a run folder. Raises LoadError."""
        self.recipe.open(path)
        self.place.offer(self.run.folder)

    def take_recipe(self, text: str, name: str) -> None:
        """Take the recipe of another run; its new run goes into a folder of its own."""
        self.recipe.take(text, name)
        self.place.offer(self.run.folder)

    def _on_recipe_changed(self) -> None:
        self.watch.suggest_text(self.recipe.watched)
        self.changed.recipe.emit()

    # --- the run ----------------------------------------------------------------------------------

    @property
    def can_start(self) -> bool:
        """Whether Start would have an effect."""
        return self._is_free and not self.is_complete

    @property
    def can_lengthen(self) -> bool:
        """Whether the run shown is complete, and could be given more steps."""
        return self._is_free and self.is_complete

    @property
    def _is_free(self) -> bool:
        is_free = not self.run.is_active and not self.is_followed
        is_free = is_free and not self.place.problem
        return is_free and self.recipe.can_run and not self.planning.is_refused

    @property
    def is_followed(self) -> bool:
        """Whether another process writes the run shown, into the folder that Start would use."""
        return self.run.writer is not None and self.is_here

    @property
    def is_here(self) -> bool:
        """Whether the run folder is that of the run shown."""
        return bool(self.place.folder) and self.place.folder == self.run.folder

    @property
    def is_complete(self) -> bool:
        """Whether the run folder holds the run shown, and that run is complete."""
        return self.run.is_complete and not self.run.is_active and self.is_here

    def start(self) -> None:
        """Start (or continue) the run in its folder; no effect while one is in progress."""
        if self.can_start:
            self._start()

    def lengthen(self, n_more: int) -> None:
        """Continue the complete run for more steps; its recipe is changed accordingly."""
        if self.can_lengthen:
            self.recipe.set_n_steps(self.run.step + n_more)
            self._start(may_lengthen=True)

    def _start(self, *, may_lengthen: bool = False) -> None:
        out, holds_run = self.place.settle(), self.place.holds_run
        is_known = self.is_here and len(self.run.curves.train_loss) > 0
        if holds_run and not is_known:
            self.reading.read_history(out)
        if not (holds_run and is_known):
            self.clear_run()
        self.watch.take_suggestion()
        self.watch.replay.keep(self.recipe.watched)
        self.watch.open_on(watched_head(self.recipe.text))
        wish = dataclasses.asdict(self.place.wish)
        self._run_number = self._requests.send(StartTraining(**wish, may_lengthen=may_lengthen))
        self.run.folder, self.run.save_failure = out, None
        self.run.show(starting_status("Checking the recipe and reading the data."))
        self.changed.curves.emit()
        self.changed.recipe.emit()

    def pause(self) -> None:
        """Pause the run after its current step."""
        if self.run.status.can_pause:
            self.run.show(PAUSING)
            self._control("pause")

    def resume(self) -> None:
        """Resume the paused run."""
        if self.run.status.can_resume:
            self.run.pace.restart()
            self.run.show_running()
            self._control("resume")

    def stop(self) -> None:
        """Save a checkpoint and end the run; it can be continued later."""
        if self.run.status.can_stop:
            self.run.show(STOPPING)
            self._control("stop")

    def tick(self) -> None:
        """Called several times a second while the page is visible."""
        self.watch.tick()
        self.follower.tick()
        run = self.run
        self.runs.set_own(run.folder, run.curves, is_live=run.is_active or run.writer is not None)
        self.runs.tick()
        self.planning.want(self.place.wish)
        self.planning.tick()
        if self.run.status.tried not in (None, self.place.wish):
            self.run.show(IDLE)

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
        if any(part.handle(reply) for part in (self.planning, self.runs, self.follower, self.reading)):
            return
        match reply:
            case TrainingNews() if reply.number == self._run_number:
                self._take_news(reply)
            case Progress() if reply.number == self._run_number and self.run.status.phase == "starting":
                self.run.show(starting_status(reply.what))
            case Failed():
                self._take_failure(reply)
            case Ready():
                self.devices = ("auto", *(name for name in reply.devices if name != "auto"))
                self.changed.devices.emit()
            case _:
                self.watch.handle(reply)

    def _control(self, action: str) -> None:
        self._control_number = self._requests.send(ControlTraining(action=action))

    def clear_run(self) -> None:
        """Show no run, until another is shown."""
        self.follower.unfollow("page", self.run.folder)
        self.run.clear()
        self.watch.begin_run(is_live=False)

    def _take_news(self, news: TrainingNews) -> None:
        self.run.curves.add(news.events)
        for event in news.events:
            self._take_event(event)
        if news.events:
            self.watch.note_news()
            self.run.reach()
            self.changed.curves.emit()
        if self.run.is_active and self.run.status.phase != "stopping":
            if news.is_paused:
                self.run.pace.restart()
                self.run.show(paused_status(self.run.step))
            elif self.run.status.phase not in ("pausing", "starting"):
                self.run.show_running()
        self.watch.pump()

    def _take_event(self, event: TrainingEvent) -> None:
        match event:
            case Started():
                self.run.begin(event)
                self.watch.replay.forget_after(event.step)
                self.watch.replay.set_live(True)
                if self.run.status.phase == "starting":
                    self.run.show_running()
            case Saved():
                self.run.note_save(None)
                self.watch.replay.add_checkpoint(event.step, event.folder)
            case Watched():
                self.watch.replay.add_checkpoint(event.step, event.file, has_model=False)
            case SaveFailed():
                self.run.note_save(event)
            case Finished():
                self._finish(event)
            case _:
                pass

    def _finish(self, event: Finished) -> None:
        self.run.step, self._run_number = event.step, 0
        self.run.show(finished_status(event, self.run.curves.last_accuracy))
        self.watch.replay.set_live(False)
        self.planning.ask_again()

    def _take_failure(self, failure: Failed) -> None:
        if failure.number and failure.number == self._run_number:
            self._run_number = 0
            tried = self.place.wish if self.run.status.phase == "starting" else None
            self.run.show(failed_status(failure_words(failure), self.run.step, tried))
            self.watch.replay.set_live(False)
            if tried is not None:
                self.run.folder = self.run.folder if self.place.holds_run else ""
                self.recipe.mark_blamed_line(failure.message)
        elif failure.number and failure.number == self._control_number:
            if self.run.status.phase in ("pausing", "stopping"):
                self.run.show(lost_status(failure.message))
        else:
            self.watch.handle(failure)

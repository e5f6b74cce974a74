"""The state of the training page: the recipe, the run in progress, its curves and what it is watching.

Must not import Qt. Requests go out through `post`; replies come in through `handle`.
"""

import time
from collections.abc import Callable
from pathlib import Path

from attnscope import paths
from attnscope.errors import LoadError
from attnscope.records.messages import (
    ControlTraining,
    Failed,
    OpenRun,
    Progress,
    Ready,
    Reply,
    Request,
    RunOpened,
    StartTraining,
    TrainingNews,
)
from attnscope.records.training import Finished, Saved, SaveFailed, Started, TrainingEvent
from attnscope.viewmodels.listeners import Listener, Listeners
from attnscope.viewmodels.numbers import Numbers
from attnscope.viewmodels.pace import Pace
from attnscope.viewmodels.recipe_draft import RecipeDraft
from attnscope.viewmodels.recipe_text import RecipeFile, list_recipes, watched_sentence
from attnscope.viewmodels.run_curves import RunCurves
from attnscope.viewmodels.training_status import ACTIVE, IDLE, Phase, TrainingStatus
from attnscope.viewmodels.watch import WatchState


class TrainingState:
    """Tells its listeners `recipe`, `status`, `curves`, `devices`, `checkpoints` or `watch`.

    Curves may change many times a second: look at `curves.version` on a timer instead of redrawing at
    each `curves`.
    """

    def __init__(
        self,
        post: Callable[[Request], None],
        numbers: Numbers,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._post = post
        self._numbers = numbers
        self._listeners = Listeners()
        self.curves = RunCurves()
        self.watch = WatchState(post, numbers, self._listeners, clock)
        self._pace = Pace(clock)
        self.recipe = RecipeDraft(self._on_recipe_changed)
        self.out = ""
        self.device = "auto"
        self.devices: tuple[str, ...] = ("auto",)
        self.status = IDLE
        self.step = 0
        self.n_steps = 0
        self.run_folder = ""
        self.run_note = ""
        self._save_failure: SaveFailed | None = None
        self._has_own_out = False
        self._run_number = 0
        self._open_number = 0
        self._control_number = 0
        self._history_number = 0

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` the name of what changed; the function given back ends it."""
        return self._listeners.add(callback)

    # --- where it runs ----------------------------------------------------------------------------

    @property
    def recipes(self) -> tuple[RecipeFile, ...]:
        """The recipes that come with the program."""
        try:
            return list_recipes(paths.resources_folder() / "recipes")
        except LoadError:
            return ()

    def open_recipe(self, path: str) -> None:
        """Take a recipe file and, unless the person chose one, a run folder named after it.

        Raises LoadError; everything is then as it was.
        """
        self.recipe.open(path)
        if not self._has_own_out:
            self.out = str(self.fresh_out())
            self._listeners.tell("recipe")

    def set_out(self, folder: str) -> None:
        """Put the run somewhere else."""
        self.out = folder.strip()
        self._has_own_out = bool(self.out)
        self._listeners.tell("recipe")

    def fresh_out(self) -> Path:
        """A run folder that does not exist yet, named after the recipe."""
        name = Path(self.recipe.path).stem or "run"
        folder = paths.runs_folder() / name
        number = 2
        while folder.exists():
            folder = paths.runs_folder() / f"{name}-{number}"
            number += 1
        return folder

    def take_fresh_out(self) -> None:
        """Put the next run into a folder of its own."""
        self.out, self._has_own_out = str(self.fresh_out()), False
        self._listeners.tell("recipe")

    @property
    def out_holds_run(self) -> bool:
        """Whether Start would go on with a run instead of beginning one."""
        return bool(self.out) and (Path(self.out) / "recipe.toml").is_file()

    def set_device(self, device: str) -> None:
        """Train there."""
        self.device = device

    def _on_recipe_changed(self) -> None:
        watched = watched_sentence(self.recipe.text)
        if watched:
            self.watch.suggest_text(*watched)
        self._listeners.tell("recipe")

    # --- the run ----------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether a run is in progress, or about to be."""
        return self.status.phase in ACTIVE

    @property
    def can_start(self) -> bool:
        """Whether Start would do something."""
        return not self.is_active and self.recipe.is_ready and not self.is_complete

    @property
    def is_complete(self) -> bool:
        """Whether the run folder holds the run that is shown, and that run has made all of its steps."""
        is_shown = bool(self.out) and self.out == self.run_folder
        return is_shown and self.fraction == 1.0 and self.status.phase in ("finished", "opened")

    @property
    def can_pause(self) -> bool:
        """Whether Pause would do something."""
        return self.status.phase == "running"

    @property
    def can_resume(self) -> bool:
        """Whether Resume would do something."""
        return self.status.phase == "paused"

    @property
    def can_stop(self) -> bool:
        """Whether Stop would do something."""
        return self.status.phase in ("running", "pausing", "paused")

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
        failure = self._save_failure
        if failure is None:
            return ""
        what = f"The checkpoint of step {failure.step:,} could not be saved: {failure.reason}"
        return f"{what} Training goes on and saving is tried again." if self.is_active else what

    def start(self) -> None:
        """Start (or go on with) the run in `out`; does nothing while one is in progress."""
        if not self.can_start:
            return
        self.out = self.out or str(self.fresh_out())
        is_known = self.out == self.run_folder and len(self.curves.train_loss) > 0
        if self.out_holds_run and not is_known:
            self._history_number = self._numbers.next()
            self._post(OpenRun(number=self._history_number, folder=self.out))
        if not (self.out_holds_run and is_known):
            self._clear_run()
        self._run_number = self._numbers.next()
        self.run_folder, self._save_failure = self.out, None
        self._set_status("starting", "Starting…", "The recipe is checked and the data is read.")
        base = str(Path(self.recipe.path).parent) if self.recipe.path else ""
        self._post(
            StartTraining(
                number=self._run_number,
                recipe=self.recipe.text,
                out=self.out,
                device=self.device,
                base_folder=base,
            )
        )
        self._listeners.tell("curves", "recipe")

    def pause(self) -> None:
        """Hold the run after its present step."""
        if self.can_pause:
            self._set_status("pausing", "Pausing…", "The step in progress is being finished.")
            self._control("pause")

    def resume(self) -> None:
        """Go on with the paused run."""
        if self.can_resume:
            self._pace.restart()
            self._set_running()
            self._control("resume")

    def stop(self) -> None:
        """Save a checkpoint and end the run; it can be continued later."""
        if self.can_stop:
            self._set_status("stopping", "Stopping…", "The step in progress is finished and saved.")
            self._control("stop")

    def open_run(self, folder: str) -> None:
        """Read a run folder: its recipe, curves and checkpoints; does nothing while a run is in progress."""
        if not self.is_active:
            self._open_number = self._numbers.next()
            self._post(OpenRun(number=self._open_number, folder=folder))

    def tick(self) -> None:
        """Called some times a second while the page is shown."""
        self.watch.tick()

    def handle(self, reply: Reply) -> None:
        """Take a reply; those of other parts of the window are passed over."""
        match reply:
            case TrainingNews() if reply.number == self._run_number:
                self._take_news(reply)
            case RunOpened() if reply.number == self._history_number:
                self._take_history(reply.events, reply.checkpoints)
            case RunOpened() if reply.number == self._open_number:
                self._take_run(reply)
            case Progress() if reply.number == self._run_number and self.status.phase == "starting":
                self._set_status("starting", "Starting…", reply.what)
            case Failed():
                self._take_failure(reply)
            case Ready():
                self.devices = ("auto", *(name for name in reply.devices if name != "auto"))
                self._listeners.tell("devices")
            case _:
                self.watch.handle(reply)

    def _control(self, action: str) -> None:
        self._control_number = self._numbers.next()
        self._post(ControlTraining(number=self._control_number, action=action))

    def _clear_run(self) -> None:
        self.curves.clear()
        self.watch.begin_run(is_live=False)
        self.step, self.n_steps, self.run_note = 0, 0, ""
        self._pace.restart()

    def _take_history(
        self, events: tuple[TrainingEvent, ...], checkpoints: tuple[tuple[int, str], ...]
    ) -> None:
        self.curves.clear()
        self.curves.add(events)
        self.step = self.curves.last_step
        for event in events:
            if isinstance(event, Started):
                self.n_steps = event.n_steps
        for step, folder in checkpoints:
            self.watch.add_checkpoint(step, folder)
        self._listeners.tell("curves", "checkpoints")

    def _take_run(self, reply: RunOpened) -> None:
        if self.is_active:
            return
        self._clear_run()
        self.out = self.run_folder = reply.folder
        self._has_own_out = True
        self.recipe.take(reply.recipe)
        self._take_history(reply.events, reply.checkpoints)
        self.watch.set_live(False)
        of = f" of {self.n_steps:,}" if self.n_steps else ""
        onwards = "It is complete." if self.fraction == 1.0 else "Continue goes on with it in its folder."
        self._set_status(
            "opened",
            f"Run opened: {self.step:,}{of} steps",
            f"Checkpoints to replay below: {len(self.watch.checkpoints)}. {onwards}",
        )
        self._listeners.tell("recipe")
        self.watch.pump()

    def _take_news(self, news: TrainingNews) -> None:
        self.curves.add(news.events)
        for event in news.events:
            self._take_event(event)
        if news.events:
            self.watch.note_news()
            self.step = max(self.step, self.curves.last_step)
            self._pace.note(self.step)
            self._listeners.tell("curves")
        if self.is_active and self.status.phase != "stopping":
            if news.is_paused:
                self._pace.restart()
                self._set_status(
                    "paused",
                    f"Paused at step {self.step:,}",
                    "Resume goes on from here. Stop saves and ends the run.",
                )
            elif self.status.phase not in ("pausing", "starting"):
                self._set_running()
        self.watch.pump()

    def _take_event(self, event: TrainingEvent) -> None:
        match event:
            case Started():
                self.step, self.n_steps = event.step, event.n_steps
                self.run_folder = event.folder or self.run_folder
                self.run_note = event.note
                self.watch.forget_after(event.step)
                self.watch.set_live(True)
                self._pace.restart()
                if self.status.phase == "starting":
                    self._set_running()
            case Saved():
                self._save_failure = None
                self.watch.add_checkpoint(event.step, event.folder)
            case SaveFailed():
                self._save_failure = event
                self._listeners.tell("status")
            case Finished():
                self._finish(event)
            case _:
                pass

    def _finish(self, event: Finished) -> None:
        self.step = event.step
        match event.reason:
            case "done":
                phase, title = "finished", f"Finished: {event.step:,} steps"
                detail = "Replay its checkpoints below, or open one in Explore."
            case "stopped":
                phase, title = "finished", f"Stopped at step {event.step:,}"
                detail = "Everything is saved. Continue goes on from here."
            case "diverged":
                phase, title = "diverged", f"Diverged at step {event.step:,}"
                detail = (
                    "The loss is no longer a number. The last good checkpoint is kept; try a lower "
                    "learning rate or a longer warm-up."
                )
        self._run_number = 0
        self._set_status("diverged" if phase == "diverged" else "finished", title, event.note or detail)
        self.watch.set_live(False)

    def _take_failure(self, failure: Failed) -> None:
        log = f" The log is {failure.crash_log}." if failure.crash_log else ""
        if failure.number and failure.number == self._run_number:
            self._run_number = 0
            has_begun = self.status.phase != "starting"
            title = f"The run broke off at step {self.step:,}" if has_begun else "The run did not start"
            self._set_status("failed", title, failure.message + log)
            self.watch.set_live(False)
            if not has_begun:
                self.recipe.mark_blamed_line(failure.message)
        elif failure.number and failure.number == self._open_number:
            self._set_status("failed", "The run could not be opened", failure.message + log)
        elif failure.number and failure.number == self._control_number:
            if self.status.phase in ("pausing", "stopping"):
                self._set_status("failed", "The run is no longer in progress", failure.message)
        elif failure.number != self._history_number:
            self.watch.handle(failure)

    def _set_running(self) -> None:
        of = f" of {self.n_steps:,}" if self.n_steps else ""
        self._set_status("running", f"Step {self.step:,}{of}", self.run_note)

    def _set_status(self, phase: Phase, title: str, detail: str) -> None:
        status = TrainingStatus(phase=phase, title=title, detail=detail)
        if status != self.status:
            self.status = status
            self._listeners.tell("status")

"""The run on the Train page: its status in words; its folder, progress and speed, its curves.

It may be trained here, be written by another process, or have ended long ago.
"""

import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from psygnal import SignalInstance

from attnscope.counting import percent, plural, time_left
from attnscope.errors import SaveError
from attnscope.files import refuse_foreign_content
from attnscope.records.messages import Failed, RunOpened
from attnscope.records.runs import Finished, RunNews, RunWriter, SaveFailed, Started
from attnscope.viewmodels.training.planning import Wish
from attnscope.viewmodels.training.run_curves import RunCurves

_MAX_NAME_BYTES = 255
"""Of a name, on every common file system."""
Purpose = Literal["model", "run", "runs"]
"""What the folder will hold: a model, which replaces an older one, or runs, which are gone on with."""
_GOES_ON: dict[Purpose, tuple[tuple[str, ...], str]] = {
    "model": ((), ""),
    "run": (("recipe.toml",), "It contains a run, which will be continued."),
    "runs": (("sweep.toml", "*/recipe.toml"), "It contains runs: complete ones are kept."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFound:
    """A folder named by the user, and a sentence on the effect of saving there."""

    path: str
    words: str
    is_possible: bool = True
    is_replaced: bool = False


def find_folder(place: str, name: str, purpose: Purpose) -> FolderFound:
    """Effect of saving to the folder `name` of `place`."""
    name = name.strip()
    if words := _wrong_in(name, place):
        return FolderFound(path="", words=words, is_possible=False)
    path = Path(place.strip() or ".").expanduser().absolute() / name
    try:
        return _look(path, purpose)
    except SaveError as error:
        return FolderFound(path=str(path), words=str(error), is_possible=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return FolderFound(
            path=str(path), words=f"No such folder can be made here: {reason}.", is_possible=False
        )


def _wrong_in(name: str, place: str) -> str:
    """Why no folder of that name is possible anywhere; empty if one is."""
    if not name:
        return "Give the folder a name."
    if name in (".", "..") or "/" in name or "\\" in name:
        return "A name cannot contain / or \\, nor be . or .. alone."
    odd = next((mark for mark in name + place if ord(mark) < 32 or "\ud800" <= mark <= "\udfff"), "")
    return f"The name of a folder cannot contain the character U+{ord(odd):04X}." if odd else ""


def existing_folder(typed: str) -> Path:
    """The folder typed, or its nearest existing parent; else the home folder."""
    try:
        path = Path(typed.strip() or ".").expanduser().absolute()
        return next((folder for folder in (path, *path.parents) if folder.is_dir()), Path.home())
    except (OSError, ValueError, RuntimeError):
        return Path.home()


def place_problem(folder: str, purpose: Purpose) -> str:
    """Why nothing can be written into a typed folder; empty if it can."""
    path = Path(folder.strip())
    found = find_folder(str(path.parent), path.name, purpose)
    return "" if found.is_possible else found.words


def _look(path: Path, purpose: Purpose) -> FolderFound:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        _refuse_closed(path)
        return FolderFound(path=str(path), words=f"A new folder: {path}")
    marks, words = _GOES_ON[purpose]
    if any(next(path.glob(mark), None) for mark in marks):
        return FolderFound(path=str(path), words=words)
    is_empty = path.is_dir() and next(path.iterdir(), None) is None
    if not marks or is_empty:
        refuse_foreign_content(path)
        words = "It is empty." if is_empty else "It contains a model saved by AttnScope. Saving replaces it."
        return FolderFound(path=str(path), words=words, is_replaced=not is_empty)
    return FolderFound(
        path=str(path),
        words=f"{path.name} exists already and contains no AttnScope run. Choose another name.",
        is_possible=False,
    )


def _refuse_closed(path: Path) -> None:
    """Raise SaveError if no folder can be created: the nearest existing one is a file, or closed."""
    long = next((part for part in path.parts if len(os.fsencode(part)) > _MAX_NAME_BYTES), "")
    if long:
        raise SaveError(
            f"The name {long[:40]}… is too long.",
            expected=f"at most {_MAX_NAME_BYTES} bytes",
            action="Give a shorter one.",
        )
    nearest = next(parent for parent in path.parents if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise SaveError(
            f"No folder can be made in {nearest}.",
            expected="a folder that may be written to",
            action="Choose another folder.",
        )


Phase = Literal[
    "idle", "starting", "running", "pausing", "paused", "stopping", "finished", "diverged", "failed", "opened"
]
ACTIVE: frozenset[Phase] = frozenset({"starting", "running", "pausing", "paused", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStatus:
    """Status of the run in words: a short title, and its meaning or the next step."""

    phase: Phase
    title: str
    detail: str
    tried: Wish | None = None
    """What was to be started and could not be: with another recipe, folder or device it may be."""

    @property
    def can_pause(self) -> bool:
        """Whether Pause would have an effect."""
        return self.phase == "running"

    @property
    def can_resume(self) -> bool:
        """Whether Resume would have an effect."""
        return self.phase == "paused"

    @property
    def can_stop(self) -> bool:
        """Whether Stop would have an effect."""
        return self.phase in ("running", "pausing", "paused")


IDLE = TrainingStatus(
    phase="idle",
    title="No run yet",
    detail="Choose a recipe and press Start. The curves, and the attention of your sentence, are drawn here "
    "while the model learns.",
)


PAUSING = TrainingStatus(phase="pausing", title="Pausing…", detail="Finishing the current step.")
STOPPING = TrainingStatus(
    phase="stopping", title="Stopping…", detail="Finishing and saving the current step."
)


def starting_status(what: str) -> TrainingStatus:
    """A run in preparation; `what` is the current step."""
    return TrainingStatus(phase="starting", title="Starting…", detail=what)


def lost_status(message: str) -> TrainingStatus:
    """A run that could not be paused or stopped, because it is gone."""
    return TrainingStatus(phase="failed", title="The run is no longer in progress", detail=message)


def several_status(what: str) -> TrainingStatus:
    """Status while runs train in processes of their own and none is shown here."""
    where = "They are listed under Runs at the right, where Stop saves them."
    return TrainingStatus(
        phase="idle", title="Several runs in training", detail=f"{what}. {where}" if what else where
    )


def finished_status(event: Finished, accuracy: float = math.nan) -> TrainingStatus:
    """End of a run, with the last `accuracy` on held-out data, and the next steps."""
    match event.reason:
        case "done":
            title = f"Finished: {plural(event.step, 'step')}"
            detail = "Replay its checkpoints below, open one in Explore, or use Go on… for more steps."
        case "stopped":
            title = f"Stopped at step {event.step:,}"
            detail = "Everything is saved. Continue resumes from here."
        case "diverged":
            title = f"Diverged at step {event.step:,}"
            detail = (
                "The loss is no longer a number. The last good checkpoint is kept; try a lower "
                "learning rate or a longer warm-up."
            )
        case "out-of-memory":
            title = f"Out of memory at step {event.step:,}"
            detail = "A smaller training.batch_size needs less. The last checkpoint is kept."
    if math.isfinite(accuracy):
        title += f" · accuracy {percent(accuracy, 1)}"
    phase: Phase = "finished" if event.reason in ("done", "stopped") else "diverged"
    return TrainingStatus(phase=phase, title=title, detail=event.note or detail)


def following_status(
    step: int, n_steps: int, writer: RunWriter | None, n_bad_lines: int = 0
) -> TrainingStatus:
    """Status of a run that another process writes, or wrote until now."""
    of, bad = f" of {n_steps:,}" if n_steps else "", bad_lines_words(n_bad_lines)
    if writer is None:
        return TrainingStatus(
            phase="opened",
            title=f"Ended at step {step:,}{of}",
            detail=f"The process that wrote it has ended. Its checkpoints can be replayed below.{bad}",
        )
    return TrainingStatus(
        phase="opened",
        title=f"Following: step {step:,}{of}",
        detail=f"Written by {writer.words}; its progress is drawn here live. To train alongside it, "
        f"choose a new folder.{bad}",
    )


def bad_lines_words(n: int) -> str:
    """Note on missing parts of a run's curves; empty if there are none."""
    are = "is" if n == 1 else "are"
    return f" {plural(n, 'line')} of its metrics.jsonl cannot be read and {are} left out." if n else ""


def opened_status(
    step: int, n_steps: int, n_checkpoints: int, n_bad_lines: int = 0, *, is_complete: bool
) -> TrainingStatus:
    """Status of a run read from its folder."""
    of = f" of {n_steps:,}" if n_steps else ""
    onwards = (
        "It is complete; Go on… gives it more steps." if is_complete else "Continue resumes it in its folder."
    )
    return TrainingStatus(
        phase="opened",
        title=f"Run opened: {step:,}{of} steps",
        detail=f"Checkpoints to replay below: {n_checkpoints}. {onwards}{bad_lines_words(n_bad_lines)}",
    )


def film_status(name: str, step: int, recipe: str) -> TrainingStatus:
    """A bundled run is shown, of another recipe if there is none of this one: something to see at once."""
    of_another = f"There is none of {recipe}. " if recipe and recipe != name else ""
    return TrainingStatus(
        phase="idle",
        title=f"An earlier run: {name}",
        detail=f"{of_another}Replay below how it learned in {plural(step, 'step')}. Start trains the "
        f"recipe above in a new folder.",
    )


def unopened_status(message: str) -> TrainingStatus:
    """A run could not be opened; the one shown is unchanged."""
    title = "The run could not be opened"
    return TrainingStatus(phase="failed", title=title, detail=message)


def failed_status(message: str, step: int, tried: Wish | None) -> TrainingStatus:
    """A run that broke off after `step`, or one that was `tried` and could not be started."""
    title = f"The run was interrupted at step {step:,}" if tried is None else "The run did not start"
    return TrainingStatus(phase="failed", title=title, detail=message, tried=tried)


def running_status(step: int, n_steps: int, note: str) -> TrainingStatus:
    """A run that is training."""
    of = f" of {n_steps:,}" if n_steps else ""
    return TrainingStatus(phase="running", title=f"Step {step:,}{of}", detail=note)


def paused_status(step: int) -> TrainingStatus:
    """A paused run."""
    return TrainingStatus(
        phase="paused",
        title=f"Paused at step {step:,}",
        detail="Resume continues from here. Stop saves and ends the run.",
    )


def failure_words(failure: Failed) -> str:
    """The error, and where to find more about it."""
    return f"{failure.message} The log is {failure.crash_log}." if failure.crash_log else failure.message


def unsaved_words(failure: SaveFailed, is_active: bool) -> str:
    """Note on a checkpoint that could not be saved, and what happens now."""
    what = f"The checkpoint of step {failure.step:,} could not be saved: {failure.reason}"
    return f"{what} Training continues and saving will be tried again." if is_active else what


# How fast a run goes, and how long it will still take.

_WINDOW_S, _LEAST_S = 30.0, 2.0
"""Over how long the speed is measured, and how much of it must have passed: the first steps are slow."""


class StepPace:
    """Steps per second over the last half minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Reset: the run was paused, or begins."""
        self._seen.clear()

    def note(self, step: int) -> None:
        """Note that the run has reached `step`."""
        now = self._clock()
        self._seen.append((now, step))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()

    @property
    def steps_per_s(self) -> float | None:
        """The current speed, None until known."""
        if len(self._seen) < 2:
            return None
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s - first_s >= _LEAST_S and last > first else None

    def remaining(self, n_steps: int) -> str:
        """Time for `n_steps` more, in words; empty if unknown."""
        speed = self.steps_per_s
        return time_left(n_steps / speed) if speed and n_steps > 0 else ""


class PageRun:
    """Filled by whatever trains or reads the run; without a `folder` there is none.

    `writer` is the other process that writes it. `save_failure` is the checkpoint that could not be saved,
    until one is saved again. `status_changed` is emitted with each other status.
    """

    folder: str = ""
    note: str = ""
    step: int = 0
    n_steps: int = 0
    status: TrainingStatus = IDLE
    writer: RunWriter | None = None
    save_failure: SaveFailed | None = None
    n_bad_lines: int = 0
    """Of its metrics, which could not be read."""

    def __init__(self, clock: Callable[[], float], status_changed: SignalInstance) -> None:
        self.curves = RunCurves()
        self.pace = StepPace(clock)
        self._status_changed = status_changed

    @property
    def is_active(self) -> bool:
        """Whether it is in progress here, or about to be."""
        return self.status.phase in ACTIVE

    @property
    def fraction(self) -> float | None:
        """Share done, None if unknown."""
        return min(1.0, self.step / self.n_steps) if self.n_steps else None

    @property
    def is_complete(self) -> bool:
        """Whether it has made all of its steps."""
        return self.fraction == 1.0

    @property
    def remaining(self) -> str:
        """Time left, empty if unknown."""
        return self.pace.remaining(self.n_steps - self.step) if self.status.phase == "running" else ""

    @property
    def save_warning(self) -> str:
        """Warning about a checkpoint that could not be saved; empty once one has been saved again."""
        return "" if self.save_failure is None else unsaved_words(self.save_failure, self.is_active)

    def show(self, status: TrainingStatus) -> None:
        """Show another status."""
        if status != self.status:
            self.status = status
            self._status_changed.emit()

    def show_running(self) -> None:
        """Show that it makes steps."""
        self.show(running_status(self.step, self.n_steps, self.note))

    def note_save(self, failure: SaveFailed | None) -> None:
        """Note that a checkpoint was saved, or could not be."""
        self.save_failure = failure
        if failure is not None:
            self._status_changed.emit()

    def clear(self) -> None:
        """Reset for another run, whose folder is set afterwards."""
        self.writer = None
        self.curves.clear()
        self.step, self.n_steps, self.note, self.n_bad_lines = 0, 0, "", 0
        self.pace.restart()

    def begin(self, event: Started) -> None:
        """Begin or continue a run here."""
        self.step, self.n_steps, self.note = event.step, event.n_steps, event.note
        self.folder = event.folder or self.folder
        self.pace.restart()

    def reach(self) -> None:
        """Note the latest step of the curves and its time."""
        self.step = max(self.step, self.curves.last_step)
        self.pace.note(self.step)

    def add_told(self, told: RunOpened | RunNews, *, is_whole: bool) -> None:
        """Add the folder's data, from its beginning or since the last reading."""
        if is_whole:
            self.curves.clear()
            self.n_bad_lines = 0
        self.n_bad_lines += told.n_bad_lines
        self.curves.add(told.events)
        self.step = self.curves.last_step
        for event in told.events:
            if isinstance(event, Started):
                self.n_steps = event.n_steps

"""How a run stands, in words. Must not import Qt."""

import math
from dataclasses import dataclass
from typing import Literal

from attnscope.counting import plural
from attnscope.records.runs import RunWriter
from attnscope.records.training import Finished, SaveFailed
from attnscope.viewmodels.training.planning import Wish

Phase = Literal[
    "idle", "starting", "running", "pausing", "paused", "stopping", "finished", "diverged", "failed", "opened"
]
ACTIVE: frozenset[Phase] = frozenset({"starting", "running", "pausing", "paused", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStatus:
    """How the run stands, in words: a short title, and what it means or what to do."""

    phase: Phase
    title: str
    detail: str
    tried: Wish | None = None
    """What was to be started and could not be: with another recipe, folder or device it may be."""

    @property
    def can_pause(self) -> bool:
        """Whether Pause would do something."""
        return self.phase == "running"

    @property
    def can_resume(self) -> bool:
        """Whether Resume would do something."""
        return self.phase == "paused"

    @property
    def can_stop(self) -> bool:
        """Whether Stop would do something."""
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
    """A run that is being made ready; `what` is being done for it."""
    return TrainingStatus(phase="starting", title="Starting…", detail=what)


def lost_status(message: str) -> TrainingStatus:
    """A run that could not be paused or stopped, because it is not there any more."""
    return TrainingStatus(phase="failed", title="The run is no longer in progress", detail=message)


def several_status(what: str) -> TrainingStatus:
    """While runs train in processes of their own and none is shown here."""
    where = "They are listed under Runs at the right, where Stop saves them."
    return TrainingStatus(
        phase="idle", title="Several runs in training", detail=f"{what}. {where}" if what else where
    )


def finished_status(event: Finished, accuracy: float = math.nan) -> TrainingStatus:
    """How a run ended, with the last `accuracy` on held-out data, and what can be done next."""
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
        title += f" · accuracy {accuracy:.1%}"
    phase: Phase = "finished" if event.reason in ("done", "stopped") else "diverged"
    return TrainingStatus(phase=phase, title=title, detail=event.note or detail)


def following_status(step: int, n_steps: int, writer: RunWriter | None) -> TrainingStatus:
    """How a run stands that another process writes, or wrote until now."""
    of = f" of {n_steps:,}" if n_steps else ""
    if writer is None:
        return TrainingStatus(
            phase="opened",
            title=f"Ended at step {step:,}{of}",
            detail="The process that wrote it has ended. Its checkpoints can be replayed below.",
        )
    return TrainingStatus(
        phase="opened",
        title=f"Following: step {step:,}{of}",
        detail=f"Written by {writer.words}; its progress is drawn here live. To train alongside it, "
        f"choose a new folder.",
    )


def opened_status(step: int, n_steps: int, n_checkpoints: int, *, is_complete: bool) -> TrainingStatus:
    """How a run stands that was read from its folder."""
    of = f" of {n_steps:,}" if n_steps else ""
    onwards = (
        "It is complete; Go on… gives it more steps." if is_complete else "Continue resumes it in its folder."
    )
    return TrainingStatus(
        phase="opened",
        title=f"Run opened: {step:,}{of} steps",
        detail=f"Checkpoints to replay below: {n_checkpoints}. {onwards}",
    )


def film_status(name: str, step: int) -> TrainingStatus:
    """A run that was kept is shown, so that there is something to see before one is begun."""
    return TrainingStatus(
        phase="idle",
        title=f"An earlier run: {name}",
        detail=f"Replay below how its attention formed in {plural(step, 'step')}. Start trains the "
        f"recipe above in a new folder.",
    )


def unopened_status(message: str) -> TrainingStatus:
    """A run could not be opened; the one that is shown stands as it did."""
    title = "The run could not be opened"
    return TrainingStatus(phase="failed", title=title, detail=message)


def failed_status(message: str, step: int, tried: Wish | None) -> TrainingStatus:
    """A run that broke off after `step`, or where one was `tried`, that could not be started."""
    title = f"The run was interrupted at step {step:,}" if tried is None else "The run did not start"
    return TrainingStatus(phase="failed", title=title, detail=message, tried=tried)


def running_status(step: int, n_steps: int, note: str) -> TrainingStatus:
    """A run that makes its steps."""
    of = f" of {n_steps:,}" if n_steps else ""
    return TrainingStatus(phase="running", title=f"Step {step:,}{of}", detail=note)


def paused_status(step: int) -> TrainingStatus:
    """A run that waits."""
    return TrainingStatus(
        phase="paused",
        title=f"Paused at step {step:,}",
        detail="Resume continues from here. Stop saves and ends the run.",
    )


def unsaved_words(failure: SaveFailed, is_active: bool) -> str:
    """Which checkpoint could not be saved, and what happens now."""
    what = f"The checkpoint of step {failure.step:,} could not be saved: {failure.reason}"
    return f"{what} Training continues and saving will be tried again." if is_active else what

"""What is under way: every long job of the window with how far it is and how to stop it.

The states of the pages know their own jobs; here they are collected, in the order they began. Must not
import Qt.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from psygnal import Signal, SignalGroup, SignalInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTask:
    """One job. `name` says what it is for, `what` what is being done now; `fraction` 0…1, None: not known.

    `stop` ends it; None for what cannot be ended, or ends by itself in a moment. `is_waited_for`: the person
    waits for it, and Esc ends it; other jobs run beside what the person does. `tells_what`: the line in the
    status bar says `what`, too.
    """

    name: str
    what: str = ""
    fraction: float | None = None
    stop: Callable[[], None] | None = field(default=None, compare=False)
    is_waited_for: bool = False
    tells_what: bool = False

    @property
    def percent(self) -> str:
        """How far it is, in words; empty while that is not known."""
        return "" if self.fraction is None else f"{100 * min(max(self.fraction, 0.0), 1.0):.0f} %"


FindTasks = Callable[[], Iterable[BackgroundTask]]


class WorkState:
    """The jobs under way, the oldest first."""

    changed = Signal()

    def __init__(self) -> None:
        self._found: dict[FindTasks, tuple[BackgroundTask, ...]] = {}
        self.jobs: tuple[BackgroundTask, ...] = ()

    def watch(self, changed: SignalGroup | SignalInstance, find: FindTasks) -> None:
        """Collect the jobs that `find` gives whenever the state has `changed` that they are of."""
        self._found[find] = ()
        changed.connect(partial(self._look, find), max_args=0)

    @property
    def summary(self) -> str:
        """Everything under way in a few words; empty when nothing is."""
        if not self.jobs:
            return ""
        first = self.jobs[0]
        named = f"{first.name} {first.percent}".strip()
        if len(self.jobs) > 1:
            return f"{len(self.jobs)} tasks: {named}"
        return f"{named} · {first.what}" if first.tells_what and first.what else named

    def stop(self, name: str) -> None:
        """End the job of this name, where it can be ended."""
        for job in self.jobs:
            if job.name == name and job.stop is not None:
                job.stop()
                return

    @property
    def waited_for(self) -> BackgroundTask | None:
        """The job that Esc ends."""
        return next((job for job in self.jobs if job.is_waited_for and job.stop is not None), None)

    def _look(self, find: FindTasks) -> None:
        jobs = tuple(find())
        if jobs == self._found[find]:
            return
        self._found[find] = jobs
        found = {job.name: job for jobs in self._found.values() for job in jobs}
        kept = [job.name for job in self.jobs if job.name in found]
        self.jobs = tuple(found[name] for name in (*kept, *(name for name in found if name not in kept)))
        self.changed.emit()

"""Long work that runs between views: passes, one of each kind, and a training run. No Qt.

Passes take turns; the run is advanced one event at a time.
"""

import time
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from attnscope.models import Model
from attnscope.records.messages import TrainingNews
from attnscope.records.requests import Reply
from attnscope.records.runs import Finished, Started, Step, TrainingEvent
from attnscope.workers.mailbox import MAX_PER_S, RateLimit

MakeFailed = Callable[[int, str, BaseException], Reply]
"""Makes the reply for a pass that ended with an error: its number, its kind, the error."""


class BackgroundJob(Protocol):
    """One long pass, done piece by piece."""

    number: int
    is_active: bool

    def advance(self) -> Reply | None:
        """Do one piece of work; gives what is to be told now. What it raises ends the job."""
        ...

    def stop(self) -> None:
        """Give the pass up."""
        ...


class StepsJob:
    """A pass whose pieces of work are the steps of a generator.

    What only tells how far the pass is (`Reply.is_passing`) is given at most `max_per_s` times a second,
    everything else always.
    """

    def __init__(
        self,
        number: int,
        steps: Generator[Reply, None, None],
        *,
        max_per_s: float = MAX_PER_S,
    ) -> None:
        self.number = number
        self.is_active = True
        self._steps = steps
        self._limit = RateLimit(max_per_s)

    def advance(self) -> Reply | None:
        """Do one piece of work; gives what is to be told now. What it raises ends the job."""
        try:
            news = next(self._steps)
        except StopIteration:
            self.is_active = False
            return None
        except BaseException:
            self.is_active = False
            raise
        return news if not news.is_passing or self._limit.take() else None

    def stop(self) -> None:
        self._steps.close()
        self.is_active = False


class BackgroundJobs:
    """The passes in progress by the name of the request that began them."""

    def __init__(self) -> None:
        self._jobs: dict[str, BackgroundJob] = {}

    @property
    def is_active(self) -> bool:
        """Whether there is anything to do."""
        return any(job.is_active for job in self._jobs.values())

    def start(self, kind: str, job: BackgroundJob) -> None:
        """Begin a pass; the one before of its kind is given up."""
        self.stop(kind)
        self._jobs[kind] = job

    def stop(self, kind: str) -> None:
        """Give up the pass of a kind, if there is one."""
        job = self._jobs.pop(kind, None)
        if job is not None:
            job.stop()

    def stop_all(self) -> None:
        """Give up every pass."""
        for kind in tuple(self._jobs):
            self.stop(kind)

    def advance(self, make_failed: MakeFailed) -> Iterator[Reply]:
        """One piece of work of the pass whose turn it is; never raises."""
        kind = next((kind for kind, job in self._jobs.items() if job.is_active), None)
        if kind is None:
            return
        job = self._jobs.pop(kind)
        self._jobs[kind] = job  # the others come first next time
        try:
            news = job.advance()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  an edge: panics of native libraries end here
            self._jobs.pop(kind, None)
            yield make_failed(job.number, kind, error)
            return
        if not job.is_active:
            self._jobs.pop(kind, None)
        if news is not None:
            yield news


class Run(Protocol):
    """What the job needs of `training.TrainingRun`."""

    @property
    def model(self) -> Model:
        """The model in training."""
        ...

    def events(self) -> Iterator[TrainingEvent]:
        """The events of the run, one for each short piece of work."""
        ...

    def request_stop(self) -> None:
        """Ask the run to save and finish."""
        ...


class TrainingJob:
    """Advances a run, gathers its events and tells them at most 20 times a second."""

    def __init__(self, number: int, run: Run, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = number
        self.is_paused = False
        self.is_finished = False
        self.step = 0
        self._run = run
        self._events = run.events()
        self._pending: list[TrainingEvent] = []
        self._limit = RateLimit(MAX_PER_S, clock)

    @property
    def model(self) -> Model:
        return self._run.model

    @property
    def is_active(self) -> bool:
        """Whether `advance` would make progress."""
        return not (self.is_paused or self.is_finished)

    def advance(self) -> TrainingNews | None:
        """Do one piece of work; returns the news when it is time to tell them.

        What the run raises passes through; the job is then finished.
        """
        try:
            event = next(self._events, None)
        except BaseException:
            self.is_finished = True
            raise
        if event is None:
            self.is_finished = True
        else:
            self._note(event)
        is_milestone = event is None or isinstance(event, Started | Finished)
        if self._pending and (self._limit.take() or is_milestone):
            return self.news()
        return None

    def news(self) -> TrainingNews:
        """Everything that happened since the last news."""
        events, self._pending = tuple(self._pending), []
        return TrainingNews(number=self.number, events=events, is_paused=self.is_paused)

    def pause(self) -> TrainingNews:
        """Stop advancing until `resume`."""
        self.is_paused = True
        return self.news()

    def resume(self) -> TrainingNews:
        """Go on after `pause`."""
        self.is_paused = False
        return self.news()

    def stop(self) -> None:
        """Ask the run to save and finish; it goes on advancing until it has."""
        self._run.request_stop()
        self.is_paused = False

    def _note(self, event: TrainingEvent) -> None:
        self._pending.append(event)
        if isinstance(event, Started | Step | Finished):
            self.step = event.step
        if isinstance(event, Finished):
            self.is_finished = True
            self._events = iter(())

"""A training run in progress, advanced one event at a time between other work. No Qt."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from attnscope.models import Model
from attnscope.records.messages import TrainingNews
from attnscope.records.training import Finished, Started, Step, TrainingEvent
from attnscope.workers.mailbox import MAX_PER_S, RateLimit


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

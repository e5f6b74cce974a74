"""Long passes that run between views, one of each kind; they take turns. No Qt."""

from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from attnscope.records.requests import Reply
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
        """Give the pass up."""
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

"""How a state asks the worker: about the current view (`Query`), or for a long pass (`Job`)."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Generic, Literal, TypeVar

from attnscope.records.messages import Failed
from attnscope.records.requests import News, Reply, Request, StopWork


class Requests:
    """Requests of one part of the window to the worker: each has a number, and so does its reply.

    Numbers count up from `first` in steps; 0 belongs to nobody. `post` hands a request over that bears its
    number, `cancel` gives one up by its number.
    """

    def __init__(
        self,
        post: Callable[[Request], None],
        cancel: Callable[[int], None] = lambda _number: None,
        *,
        first: int = 1,
        step: int = 1,
    ) -> None:
        self.post, self.cancel = post, cancel
        self._count = count(first, step)

    def next(self) -> int:
        """The next unused number."""
        return next(self._count)

    def send(self, request: Request) -> int:
        """Send a request under a number of its own, and return the number."""
        number = next(self._count)
        self.post(replace(request, number=number))
        return number


Answer = TypeVar("Answer", bound=Reply)


class Query(Generic[Answer]):
    """One question, asked again for each subject; only the newest answer counts.

    `answer` stays until a newer one has come, or the question fails with `error`. Nothing is asked while
    nobody looks (`is_watched`).
    """

    def __init__(self, kind: type[Answer], requests: Requests) -> None:
        self._kind, self._requests = kind, requests
        self.answer: Answer | None = None
        self.error = ""
        self.is_watched = False
        self._number = 0
        self._is_answered = True
        self._about: object = None

    @property
    def about(self) -> object:
        """Subject of the last question; None before the first."""
        return self._about

    @property
    def is_busy(self) -> bool:
        """Whether an answer is pending."""
        return not self._is_answered

    def ask(self, about: object, request: Request) -> bool:
        """Ask about something, under a number of its own; False if that was done already."""
        if not self.is_watched or about == self._about:
            return False
        self._about, self._is_answered = about, False
        self._number = self._requests.send(request)
        return True

    def owns(self, reply: Reply) -> bool:
        """Whether a reply is to the last request."""
        return self._number != 0 and reply.number == self._number

    def take(self, reply: Reply) -> bool:
        """Accept a reply; False if it comes too late, or was for another request."""
        if not self.owns(reply):
            return False
        if isinstance(reply, Failed):
            self.answer, self.error = None, reply.message
        elif isinstance(reply, self._kind):
            self.answer, self.error = reply, ""
        else:
            return False
        self._is_answered = True
        return True

    def renew(self) -> None:
        """Ask again next time, even about the same; what is known stays until then."""
        self.give_up()
        self._about = None

    def waiting(self, words: str) -> str:
        """`words` while there is no answer; empty once there is one."""
        return words if self.answer is None else ""

    def give_up(self) -> int:
        """Stop waiting; what is known stays. Returns the number to cancel, 0: none."""
        number = self._number if self.is_busy else 0
        self._number, self._is_answered = 0, True
        return number

    def forget(self) -> bool:
        """Reset: another model is open, or there is nothing to ask about. Returns whether it did."""
        was_known = self.answer is not None
        self.renew()
        self.answer, self.error = None, ""
        return was_known


Told = TypeVar("Told", bound=News)
Phase = Literal["empty", "running", "done", "stopped", "failed"]


class Job(Generic[Told, Answer]):
    """One long pass at a time; its findings stay until there are more, or until they are reset.

    `news` is the newest of the pass under way, `error` why the last one failed. A pass that answers more
    than once is done with the answer that `is_last`.
    """

    def __init__(
        self,
        told: type[Told],
        kind: type[Answer],
        requests: Requests,
        *,
        is_last: Callable[[Answer], bool] = lambda _: True,
    ) -> None:
        self._told, self._kind, self._is_last = told, kind, is_last
        self._requests = requests
        self.phase: Phase = "empty"
        self.news: Told | None = None
        self.answer: Answer | None = None
        self.error = ""
        self._number = 0
        self.asked = Request()
        """What the newest pass was asked for; nothing of a kind before the first."""

    @property
    def is_running(self) -> bool:
        """Whether a pass is in progress."""
        return self.phase == "running"

    @property
    def fraction(self) -> float | None:
        """Share done, 0…1; None if unknown."""
        return self.news.fraction if self.news is not None else None

    def start(self, request: Request) -> None:
        """Begin a pass, under a number of its own; the worker cancels the one before."""
        self.phase, self.news, self.error = "running", None, ""
        self.asked, self._number = request, self._requests.send(request)

    def stop(self) -> bool:
        """Cancel the pass; False if none is in progress."""
        if not self.is_running:
            return False
        self._requests.send(StopWork(work=self.asked.work))
        self._end("stopped")
        return True

    def give_up(self) -> int:
        """Stop waiting, as if nothing had begun; returns the number to cancel, 0: none."""
        number = self._number
        if self.is_running:
            self._end("empty")
        return number

    def owns(self, reply: Reply) -> bool:
        """Whether a reply is of the current pass."""
        return self.is_running and reply.number == self._number

    def take(self, reply: Reply) -> bool:
        """Accept a reply; False if it comes too late, was for another request, or is of an unknown kind."""
        if not self.owns(reply):
            return False
        if isinstance(reply, Failed):
            self.error = reply.message
            self._end("failed")
        elif isinstance(reply, self._kind):
            self.answer = reply
            if self._is_last(reply):
                self._end("done")
        elif isinstance(reply, self._told):
            self.news = reply
        else:
            return False
        return True

    def forget(self) -> None:
        """Reset, and cancel the pass in progress: another model is open."""
        self.stop()
        self.phase, self.answer, self.error, self.asked = "empty", None, "", Request()

    def _end(self, phase: Phase) -> None:
        self.phase, self.news, self._number = phase, None, 0

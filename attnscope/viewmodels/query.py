"""Asking the worker for what is looked at. No Qt."""

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from attnscope.records.messages import Failed
from attnscope.records.requests import Reply, Request
from attnscope.viewmodels.request_ids import RequestIds

Answer = TypeVar("Answer", bound=Reply)


class Query(Generic[Answer]):
    """One question, asked anew for each thing that is looked at; the newest answer alone counts.

    `answer` stays until a newer one has come, or the question fails with `error`. Nothing is asked while
    nobody looks (`is_watched`).
    """

    def __init__(self, kind: type[Answer], post: Callable[[Request], None], numbers: RequestIds) -> None:
        self._kind, self._post, self._numbers = kind, post, numbers
        self.answer: Answer | None = None
        self.error = ""
        self.is_watched = False
        self._number = 0
        self._is_answered = True
        self._about: object = None

    @property
    def about(self) -> object:
        """What was asked about last; None while nothing was."""
        return self._about

    @property
    def is_busy(self) -> bool:
        """Whether an answer is on its way."""
        return not self._is_answered

    def ask(self, about: object, request: Request) -> bool:
        """Ask about something, under a number of its own; False where that was done already."""
        if not self.is_watched or about == self._about:
            return False
        self._about, self._number, self._is_answered = about, self._numbers.next(), False
        self._post(replace(request, number=self._number))
        return True

    def owns(self, reply: Reply) -> bool:
        """Whether a reply is to what was asked last."""
        return self._number != 0 and reply.number == self._number

    def take(self, reply: Reply) -> bool:
        """Take a reply; False when it comes too late, or was for another."""
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
        """Ask again next time, though it be about the same; what is known stays until then."""
        self.give_up()
        self._about = None

    def give_up(self) -> None:
        """Wait for nothing any more; what is known stays."""
        self._number, self._is_answered = 0, True

    def forget(self) -> None:
        """Know nothing any more: another model is open, or there is nothing to ask about."""
        self.renew()
        self.answer, self.error = None, ""

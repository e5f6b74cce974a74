"""Asking run folders for what is new, one at a time, the most overdue first.

Must not import Qt. Time comes from a clock that is passed in.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from attnscope.records.messages import Failed
from attnscope.records.requests import Reply
from attnscope.records.runs import FollowRun, RunMark, RunNews
from attnscope.viewmodels.query import Requests

LIVE_EVERY_S, QUIET_EVERY_S = 0.3, 10.0
_PATIENCE_S = 30.0
Sink = Callable[[RunNews], None]
Key = tuple[str, str]


@dataclass(slots=True)
class _Place:
    """How far one folder was read for one listener, and when to ask again."""

    folder: str
    sink: Sink
    due_at: float
    mark: RunMark = field(default_factory=RunMark)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is under way: of which folder and listener, and since when; number 0: nothing is."""

    number: int = 0
    key: Key = ("", "")
    at: float = -math.inf


class Follower:
    """Follows folders for several listeners; what a folder says reaches its listener in order."""

    def __init__(self, requests: Requests, clock: Callable[[], float]) -> None:
        self._requests, self._clock = requests, clock
        self._places: dict[Key, _Place] = {}
        self._asked = _Asked()

    def follow(self, owner: str, folder: str, sink: Sink) -> None:
        """Tell `sink` what happens in `folder`, from its beginning on; does nothing if it is told already."""
        if (owner, folder) not in self._places:
            self._places[owner, folder] = _Place(folder=folder, sink=sink, due_at=self._clock())

    def unfollow(self, owner: str, folder: str) -> None:
        """Ask no more."""
        self._places.pop((owner, folder), None)

    def folders(self, owner: str) -> tuple[str, ...]:
        """What is followed for a listener."""
        return tuple(folder for name, folder in self._places if name == owner)

    def tick(self) -> None:
        """Ask the folder that has waited longest, when one is due and no answer is under way."""
        now = self._clock()
        if now - self._asked.at < _PATIENCE_S:
            return
        key = min(self._places, key=lambda key: self._places[key].due_at, default=None)
        if key is None or self._places[key].due_at > now:
            return
        place = self._places[key]
        number = self._requests.send(FollowRun(folder=place.folder, mark=place.mark))
        self._asked = _Asked(number=number, key=key, at=now)

    def handle(self, reply: Reply) -> bool:
        """Take the answer to what was asked last; True when it was that."""
        number = self._asked.number
        place = self._places.get(self._asked.key)
        match reply:
            case RunNews() if number and reply.number == number:
                self._asked = replace(self._asked, at=self._clock()) if reply.has_more else _Asked()
                if place is not None:
                    place.mark = reply.mark
                    place.due_at = self._clock() + (LIVE_EVERY_S if reply.writer else QUIET_EVERY_S)
                    place.sink(reply)
            case Failed() if number and reply.number == number:
                self._asked = _Asked()
                if place is not None:
                    place.due_at = self._clock() + QUIET_EVERY_S
            case _:
                return False
        return True

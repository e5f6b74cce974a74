"""Handing every reply of the worker to the part of the window that asked, and to nobody else. No Qt."""

from collections import defaultdict
from collections.abc import Callable
from typing import Protocol, TypeVar

from attnscope.records.requests import Reply
from attnscope.viewmodels.numbers import Numbers

MOST_PARTS = 64


class Part(Protocol):
    """A part of the window that asks."""

    def handle(self, reply: Reply) -> object:
        """Take a reply."""
        ...


PartT = TypeVar("PartT", bound=Part)


class Replies:
    """Part k of n asks under the numbers k, k + n, k + 2n …, so that a reply's number tells whose it is.

    What nobody asked for, under number 0, goes to the part that joined first.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._heard: dict[type[Reply], list[Part]] = defaultdict(list)

    def join(self, make: Callable[[Numbers], PartT], *hears: type[Reply]) -> PartT:
        """Make a part with numbers of its own; it also gets every reply of the kinds that it `hears`."""
        place = len(self._parts)
        if place == MOST_PARTS:
            raise RuntimeError(f"at most {MOST_PARTS} parts")
        part = make(Numbers(place or MOST_PARTS, MOST_PARTS))
        self._parts.append(part)
        for kind in hears:
            self._heard[kind].append(part)
        return part

    def deliver(self, reply: Reply) -> None:
        """Hand a reply to who asked, then to who hears of such replies."""
        place = reply.number % MOST_PARTS
        owner = self._parts[place] if place < len(self._parts) else None
        if owner is not None:
            owner.handle(reply)
        for part in self._heard.get(type(reply), ()):
            if part is not owner:
                part.handle(reply)

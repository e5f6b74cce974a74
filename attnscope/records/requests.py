"""Shared by all requests to the worker and all replies."""

from dataclasses import dataclass
from typing import ClassVar

RequestKey = tuple[str, str]
"""A kind of request and the place of the window it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a thread of the engine. It captures everything needed to answer it.

    A view wants the newest alone: a new one takes the place of the one that waits, for each `place`.
    Every other request keeps its order.
    """

    is_view: ClassVar[bool] = False
    needs_model: ClassVar[str] = ""
    """Part that needs a running model, in words; empty if recorded attention can answer too."""

    number: int = 0
    """Number of its reply; 0 until it is sent, or if no reply is expected."""

    @property
    def place(self) -> str:
        """The view it is for, or the model."""
        return ""

    @property
    def key(self) -> RequestKey | None:
        """Key shared by requests of which only the newest is answered; None if all are."""
        return (type(self).__name__, self.place) if self.is_view else None

    @property
    def work(self) -> str:
        """Key of a long pass: at most one of each runs at a time."""
        return type(self).__name__

    @property
    def is_idle(self) -> bool:
        """Whether it waits until nothing else is requested, yields to other requests, and then begins
        again.
        """
        return False

    @property
    def beyond_recordings(self) -> str:
        """Part of it that only a running model can answer; empty if recorded attention can too."""
        return self.needs_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply; `number` is that of the request, 0 if nobody asked."""

    number: int

    @property
    def is_passing(self) -> bool:
        """Whether it only reports progress of a long pass; such replies are limited in rate."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class News(Reply):
    """Progress of a long pass."""

    @property
    def is_passing(self) -> bool:
        return True

    @property
    def fraction(self) -> float | None:
        """Share done, 0…1; None if unknown."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedNews(News):
    """Progress counted in pieces of work: done, and in all."""

    n_done: int
    n_total: int

    @property
    def fraction(self) -> float | None:
        """The share of finished pieces; None while their number is unknown."""
        return self.n_done / self.n_total if self.n_total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWork(Request):
    """Cancel a pass in the background: the `work` of the request that began it."""

    work: str

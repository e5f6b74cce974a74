"""The desk of the download thread: the shelf, what the Hub offers, and one download at a time. No Qt."""

import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace

from attnscope.errors import UserError
from attnscope.hub.asking import ask_hub
from attnscope.hub.fetching import fetch, forget_parts
from attnscope.hub.here import bytes_here, shelf_rows
from attnscope.hub.library import hub_host
from attnscope.records.messages import Failed
from attnscope.records.shelf import (
    AskModel,
    FetchEnded,
    FetchModel,
    FetchNews,
    FetchStep,
    ModelOffered,
    ShelfReply,
    ShelfRequest,
    ShelfShown,
    ShowShelf,
    StopFetching,
)

NEWS_EVERY_S = 0.1
Replies = tuple[ShelfReply | Failed, ...]


class FetchDesk:
    """Works on requests step by step; not safe for use from two threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._requests: deque[ShelfRequest] = deque()
        self._job: Generator[FetchStep, None, None] | None = None
        self._fetching: FetchModel | None = None
        self._due_at = float("-inf")

    def take(self, request: ShelfRequest) -> None:
        """Serve a request at the next step; requests keep their order."""
        self._requests.append(request)

    @property
    def wait_s(self) -> float | None:
        """Seconds until `step` would get something done: 0 for at once, None while there is nothing to do."""
        if self._requests:
            return 0.0
        return None if self._job is None else max(0.0, self._due_at - self._clock())

    def step(self) -> Replies:
        """Answer the oldest request, else go on with the download until there is news to tell."""
        if self._requests:
            request = self._requests.popleft()
            try:
                return self._serve(request)
            except UserError as error:
                return (_failed(request, error),)
        if self._fetching is None or self._job is None or self._clock() < self._due_at:
            return ()
        try:
            return self._advance(self._fetching, self._job)
        except UserError as error:
            request = self._fetching
            self._end()
            return (_failed(request, error), _ended(request))
        except BaseException:
            self._end()
            raise

    def _serve(self, request: ShelfRequest) -> Replies:
        match request:
            case ShowShelf():
                return (ShelfShown(number=request.number, rows=shelf_rows(), host=_host()),)
            case AskModel():
                return (ModelOffered(number=request.number, offer=ask_hub(request.name)),)
            case FetchModel():
                if self._fetching is not None:
                    raise UserError(
                        f"{self._fetching.offer.name} is being downloaded.",
                        action="Pause or cancel it first.",
                    )
                self._fetching, self._job = request, fetch(request.offer)
                self._due_at = float("-inf")
                return ()
            case StopFetching():
                return self._stop(request)
            case _:
                raise TypeError(f"unknown request {type(request).__name__}")

    def _stop(self, request: StopFetching) -> Replies:
        fetching = self._fetching
        if fetching is None or fetching.offer.name != request.name:
            if not request.keeps:
                forget_parts(request.name)
            return (FetchEnded(number=request.number, name=request.name),)
        self._end()
        if not request.keeps:
            forget_parts(request.name)
        return (_ended(fetching),)

    def _advance(self, request: FetchModel, job: Generator[FetchStep, None, None]) -> Replies:
        """Work until the next news are due."""
        until = self._clock() + NEWS_EVERY_S
        name = request.offer.name
        for step in job:
            if step.wait_s:
                self._due_at = self._clock() + step.wait_s
            if step.wait_s or self._clock() >= until:
                return (FetchNews(number=request.number, name=name, step=step),)
        self._end()
        return (FetchEnded(number=request.number, name=name, is_whole=True),)

    def _end(self) -> None:
        if self._job is not None:
            self._job.close()
        self._job = self._fetching = None


def _failed(request: ShelfRequest, error: UserError) -> Failed:
    return Failed(number=request.number, request=type(request).__name__, message=str(error))


def _ended(request: FetchModel) -> FetchEnded:
    """A download is over before its end; says how much is here."""
    offer = request.offer
    n_here = sum(bytes_here(offer.name, file) for file in offer.files)
    return FetchEnded(number=request.number, name=offer.name, offer=replace(offer, n_here=n_here))


def _host() -> str:
    """Who would be asked; empty where the library is missing or the address is none, which asking tells."""
    try:
        return hub_host()
    except UserError:
        return ""

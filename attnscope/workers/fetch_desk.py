"""The desk of the download thread: the shelf, the Hub's offers, and one download at a time. No Qt."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace

from attnscope.errors import UserError
from attnscope.hub.fetching import ask_hub, fetch, forget_parts
from attnscope.hub.shelf import bytes_here, hub_host, shelf_rows
from attnscope.records.messages import Failed
from attnscope.records.models import (
    AskModel,
    FetchEnded,
    FetchModel,
    FetchNews,
    FetchStep,
    ModelOffer,
    ModelOffered,
    ShelfReply,
    ShelfRequest,
    ShelfShown,
    ShowShelf,
    StopFetching,
)

NEWS_EVERY_S = 0.1
Replies = tuple[ShelfReply | Failed, ...]


_NO_MODEL = FetchModel(offer=ModelOffer(name="", host="", commit="", licence="", files=()))


def _no_steps() -> Generator[FetchStep, None, None]:
    yield from ()


@dataclass(slots=True, kw_only=True)
class _Download:
    """The download in progress, and the time of its next action; without a model: never."""

    request: FetchModel = _NO_MODEL
    steps: Generator[FetchStep, None, None] = field(default_factory=_no_steps)
    due_at: float = math.inf

    @property
    def name(self) -> str:
        """The model's; empty for none."""
        return self.request.offer.name


class FetchDesk:
    """Handles requests step by step; not safe for use from two threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._requests: deque[ShelfRequest] = deque()
        self._download = _Download()

    def take(self, request: ShelfRequest) -> None:
        """Take a request for the next step; requests keep their order."""
        self._requests.append(request)

    @property
    def wait_s(self) -> float | None:
        """Seconds until `step` has something to do: 0 for at once, None if there is nothing to do."""
        if self._requests:
            return 0.0
        return max(0.0, self._download.due_at - self._clock()) if self._download.name else None

    def step(self) -> Replies:
        """Handle the oldest request, else continue the download until there is news."""
        if self._requests:
            request = self._requests.popleft()
            try:
                return self._serve(request)
            except UserError as error:
                return (_failed(request, error),)
        download = self._download
        if self._clock() < download.due_at:
            return ()
        try:
            return self._advance(download)
        except UserError as error:
            self._end()
            return (_failed(download.request, error), _ended(download.request))
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
                if self._download.name:
                    raise UserError(
                        f"{self._download.name} is being downloaded.", action="Pause or cancel it first."
                    )
                self._download = _Download(request=request, steps=fetch(request.offer), due_at=-math.inf)
                return ()
            case StopFetching():
                return self._stop(request)
            case _:
                raise TypeError(f"unknown request {type(request).__name__}")

    def _stop(self, request: StopFetching) -> Replies:
        download = self._download
        if download.name != request.name:
            if not request.keeps:
                forget_parts(request.name)
            return (FetchEnded(number=request.number, name=request.name),)
        self._end()
        if not request.keeps:
            forget_parts(request.name)
        return (_ended(download.request),)

    def _advance(self, download: _Download) -> Replies:
        """Work until the next news is due."""
        until = self._clock() + NEWS_EVERY_S
        number, name = download.request.number, download.name
        for step in download.steps:
            if step.wait_s:
                download.due_at = self._clock() + step.wait_s
            if step.wait_s or self._clock() >= until:
                return (FetchNews(number=number, name=name, step=step),)
        self._end()
        return (FetchEnded(number=number, name=name, is_whole=True),)

    def _end(self) -> None:
        self._download.steps.close()
        self._download = _Download()


def _failed(request: ShelfRequest, error: UserError) -> Failed:
    return Failed(number=request.number, request=type(request).__name__, message=str(error))


def _ended(request: FetchModel) -> FetchEnded:
    """Report a download that ended early, with the bytes present."""
    offer = request.offer
    n_here = sum(bytes_here(offer.name, file) for file in offer.files)
    return FetchEnded(number=request.number, name=offer.name, offer=replace(offer, n_here=n_here))


def _host() -> str:
    """Host to ask; empty if the library is missing or the address is invalid, which asking will report."""
    try:
        return hub_host()
    except UserError:
        return ""

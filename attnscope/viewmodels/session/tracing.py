"""The trace a session waits for: whether there is one, giving it up, asking for it again. No Qt."""

from collections.abc import Callable
from typing import Protocol

from attnscope.records.messages import Progress, Traced
from attnscope.viewmodels.session.asking import Asking

STOPPED = "Tracing was stopped: the pictures are of what was traced before."
STOPPED_AT = "Tracing was stopped: {}."


class Waiting(Protocol):
    """What is needed of a session."""

    is_stale: bool
    traced: Traced | None

    def tell_person(self, message: str, *, is_error: bool = False, action: str = "", about: str = "") -> None:
        """Show a message."""
        ...


class Tracing:
    """Belongs to one session; `trace` asks for a trace of what is chosen now."""

    def __init__(
        self,
        session: Waiting,
        asking: Asking,
        trace: Callable[[], None],
        tell: Callable[[], None],
    ) -> None:
        self._session, self._asking, self._trace, self._tell = session, asking, trace, tell
        self.progress: Progress | None = None
        self.is_growing = False
        """Whether the maps that are there are of the newest text, though not all are known."""

    @property
    def is_waiting(self) -> bool:
        """Whether a trace is on its way."""
        return self._session.is_stale and self._asking.trace_number != 0

    def hear(self, progress: Progress) -> None:
        """The worker says how far the trace is."""
        if progress.number == self._asking.trace_number:
            self.progress = progress
            self._tell()

    def give_up(self) -> int:
        """Wait for the trace no more; the number of the request, which the worker is to give up.

        The pictures of the trace before stay, dimmed.
        """
        number, self._asking.trace_number, self.progress = self._asking.trace_number, 0, None
        self._tell()
        part = self._session.traced if self.is_growing else None
        said = STOPPED_AT.format(part.part_words) if part is not None else STOPPED
        self._session.tell_person(said, action="trace-again", about="TraceText")
        return number

    def again(self) -> None:
        """Ask for the trace that was given up, or failed."""
        if self._session.is_stale and not self.is_waiting:
            self._trace()

"""What a session tells the person: one message at a time, and what stands in place of the pictures."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from psygnal import SignalInstance

from attnscope.viewmodels.session.typed_text import words_told

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session


OPENING = ("Open", "LoadModel", "OpenText")
"""What notices of something that could not be opened are about: they go when the next thing is opened."""

QUESTIONS = ("restore-session", "locate-model", "download-model", "reload-model", "trace-again")
"""Actions that wait for an answer; any other only helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to tell the person; `request` names what it is about, `action` one that helps."""

    message: str
    request: str = ""
    is_error: bool = True
    crash_log: str = ""
    action: str = ""

    @property
    def is_lasting(self) -> bool:
        """Whether it stays until it is dismissed or its cause is over: an error or a question."""
        return self.is_error or self.action in QUESTIONS


class Notices:
    """Keeps the message that is shown; `changed` is emitted with each other one, and when it goes."""

    shown: Notice | None = None

    def __init__(self, changed: SignalInstance) -> None:
        self._changed = changed

    def say(self, message: str, *, is_error: bool = False, action: str = "", about: str = "") -> None:
        """Show a message until it is dismissed or out of date; `about` is the notice's request."""
        self.show(Notice(message=message, is_error=is_error, action=action, request=about))

    def show(self, notice: Notice | None) -> None:
        self.shown = notice
        self._changed.emit()

    def dismiss(self) -> None:
        """The person has read the message."""
        self.show(None)

    def drop(self, *requests: str) -> None:
        """Dismiss the message when it is about one of `requests`."""
        if self.shown and self.shown.request in requests:
            self.dismiss()


StageKind = Literal["starting", "loading", "failed", "no-model", "empty", "waiting", "shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """One state of the page; `fraction` is None when progress is under way but cannot be known."""

    kind: StageKind
    title: str = ""
    hint: str = ""
    is_working: bool = False
    fraction: float | None = None


NO_ATTENTION = Placeholder(
    kind="empty",
    title="This model has no attention",
    hint="There are no weights to draw. If a recurrence or a convolution stands in its place, ask for the "
    "Hidden attention (tab Ask, on the right): the map that it would be. Output and Generate work as for "
    "any other model.",
)


def stage_of(session: "Session") -> Placeholder:
    """The stage the session is in; the pictures of an open model stay while another one loads."""
    if session.model is None:
        return _without_model(session)
    if not session.text.strip():
        words = session.model.words[0]
        told = words_told(words, 12) if words else ""
        hint = f"{told}{'' if told.endswith('…') else '.'} " if told else ""
        return Placeholder(
            kind="empty",
            title=wanted_input(session.model.reads),
            hint=f"{hint}Every head of every layer is drawn as you type. Try a sample to start with.",
        )
    if session.traced is None:
        notice = session.notices.shown
        if notice and notice.request == "TraceText":
            return Placeholder(kind="failed", title="Nothing to show", hint=notice.message)
        return Placeholder(kind="waiting", title="Tracing…", is_working=True)
    return Placeholder(kind="shown") if session.model.sites else NO_ATTENTION


def wanted_input(reads: Literal["text", "picture", "recording", "attention"]) -> str:
    """What a person is asked to type for a model."""
    if reads == "attention":
        return "The recorded text"
    return "Type a sentence…" if reads == "text" else f"Type the path of a {reads}…"


def _without_model(session: "Session") -> Placeholder:
    busy, notice = session.opening.busy, session.notices.shown
    if busy:
        return Placeholder(
            kind="loading",
            title=busy.what,
            hint="Attention appears here as soon as the model is open.",
            is_working=True,
            fraction=busy.fraction,
        )
    if not session.is_ready:
        return Placeholder(kind="starting", title="Starting…", hint="Loading the engine.", is_working=True)
    if notice and notice.is_error:
        return Placeholder(kind="failed", title="No model is open", hint=notice.message)
    return Placeholder(
        kind="no-model",
        title="No model is open",
        hint="Choose a demo model from the menu above, or open a model folder (Ctrl+O).",
    )

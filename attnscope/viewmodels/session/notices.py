"""What a session tells the person: one message at a time."""

from dataclasses import dataclass

from psygnal import SignalInstance

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

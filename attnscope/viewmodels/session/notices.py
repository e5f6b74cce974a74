"""What a session tells the person: something to know, and what is being opened."""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A model is being opened: what is happening, and how far it is (0…1, None when unknown)."""

    source: str
    what: str
    fraction: float | None = None


def short_name(source: str) -> str:
    """The last part of a path, or the whole of a plain name."""
    return source.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or source

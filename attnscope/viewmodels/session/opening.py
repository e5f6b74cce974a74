"""Opening a model (the open one stays until then), recently opened items, and the window's messages: one at a
time, and placeholders for the pictures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from psygnal import Signal, SignalInstance

from attnscope import paths
from attnscope.errors import LoadError
from attnscope.records.messages import LoadModel, ModelLoaded, Progress
from attnscope.records.models import InputKind, ModelInfo, Sample
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.typed_text import words_told

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session
    from attnscope.viewmodels.view_state import ViewState

OPENING = ("Open", "LoadModel", "OpenText")
"""Subject of notices about failed openings: they go when the next item is opened."""

QUESTIONS = ("restore-session", "locate-model", "download-model", "reload-model", "trace-again")
"""Actions that wait for an answer; any other only helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message to the user; `request` names its subject, `action` a helpful action."""

    message: str
    request: str = ""
    is_error: bool = True
    crash_log: str = ""
    action: str = ""

    @property
    def is_lasting(self) -> bool:
        """Whether it stays until dismissed or its cause is over: an error or a question."""
        return self.is_error or self.action in QUESTIONS


class Notices:
    """Keeps the current message; `changed` is emitted with each new one, and when it goes."""

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
        """Dismiss the message."""
        self.show(None)

    def drop(self, *requests: str) -> None:
        """Dismiss the message if it is about one of `requests`."""
        if self.shown and self.shown.request in requests:
            self.dismiss()


StageKind = Literal["starting", "loading", "failed", "no-model", "empty", "waiting", "shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """One placeholder of the page; `fraction` is None if the progress cannot be known."""

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
    """The session's current stage; the pictures of an open model stay while another one loads."""
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


def wanted_input(reads: InputKind) -> str:
    """Prompt for a model's input."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A model is being opened: the current step, and its progress (0…1, None if unknown)."""

    source: str
    what: str
    fraction: float | None = None


def short_name(source: str) -> str:
    """The last part of a path, or the whole of a plain name."""
    return source.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or source


# Whether what is shown is a sample's: its text goes with the model, its target goes with the text.


class SampleKept:
    """The relevant samples: those of the open model, and the last `given` one.

    `to_come` is what the model that is being opened is to begin with, `head_to_come` the head.
    """

    given: Sample | None = None
    to_come: Sample | None = None
    head_to_come: HeadRef | None = None

    def take(self, sample: Sample | None) -> None:
        """Note that the program shows this sample, or the user's own text; nothing else is to come."""
        self.given, self.to_come = sample, None

    def is_text(self, model: ModelInfo | None, text: str, target: str | None) -> bool:
        """Whether a text is a sample's, read alone or with the sample's own target; or is empty."""
        return not text.strip() or any(
            s.text == text and target in (None, s.target) for s in self._samples(model)
        )

    def target_after(self, model: ModelInfo | None, text: str, target: str | None) -> str | None:
        """The target that stays when another text comes: one typed by the user, not a sample's."""
        is_sample = any((s.text, s.target) == (text, target) for s in self._samples(model))
        return None if is_sample else target

    def _samples(self, model: ModelInfo | None) -> tuple[Sample, ...]:
        return (*(model.samples if model else ()), *((self.given,) if self.given else ()))


class Opening:
    """Requests models; `take` is called with each that is to be the open one."""

    busy: Busy | None = None
    number: int = 0
    """Of the request for the newest model."""
    _meanwhile: ModelInfo | None = None
    """An older one that came since; the newest may not come."""

    def __init__(
        self,
        requests: Requests,
        notices: Notices,
        samples: SampleKept,
        take: Callable[[ModelInfo], None],
        changed: SignalInstance,
    ) -> None:
        self._requests, self._notices, self._samples = requests, notices, samples
        self._take, self._changed = take, changed

    def load(
        self,
        source: str,
        device: str = "auto",
        *,
        sample: Sample | None = None,
        head: HeadRef | None = None,
    ) -> None:
        """Open a model, with `sample` and `head` if given; the current one stays until it is complete."""
        self._samples.to_come, self._samples.head_to_come = sample, head
        self.busy = Busy(source=source, what=f"Loading {short_name(source)}…")
        self.number = self._requests.send(LoadModel(source=source, device=device))
        self._notices.drop(*OPENING)
        self._changed.emit()

    def give_up(self) -> int:
        """Stop waiting for a model; returns the number of the request to cancel."""
        self.busy = None
        self._changed.emit()
        if self._meanwhile is not None:
            self._samples.to_come = None
            self._open(self._meanwhile)
        return self.number

    def handle(self, reply: Reply) -> None:
        """Handle a model, or progress of the pending one."""
        match reply:
            case ModelLoaded() if reply.number == self.number or self.busy is None:
                self._open(reply.info)
            case ModelLoaded():
                self._meanwhile = reply.info
            case Progress() if self.busy:
                self.busy = Busy(source=self.busy.source, what=reply.what, fraction=reply.fraction)
                self._changed.emit()

    def _open(self, info: ModelInfo) -> None:
        self.busy = self._meanwhile = None
        self._take(info)


def open_and_explore(session: "Session", view: "ViewState", source: str, device: str = "auto") -> None:
    """Load a model and switch to Explore once it is open; at once if none was open before."""
    session.opening.load(source, device)
    if session.model is None:
        view.show_page("explore")
        return

    told = session.changed

    def end() -> None:
        told.model.disconnect(explore)
        told.busy.disconnect(look)

    def explore() -> None:
        end()
        view.show_page("explore")

    def look() -> None:
        if session.opening.busy is None or session.opening.busy.source != source:
            end()  # it failed, was given up, or another is opened instead

    told.model.connect(explore, max_args=0)
    told.busy.connect(look, max_args=0)


MAX_RECENT = 12


class Recents:
    """Short lists for menus, the palette and the welcome, kept in the settings."""

    changed = Signal()

    def __init__(
        self, models: tuple[str, ...] = (), sessions: tuple[str, ...] = (), runs: tuple[str, ...] = ()
    ) -> None:
        self.models = tuple(dict.fromkeys(map(short_source, models)))[:MAX_RECENT]
        self.sessions = sessions[:MAX_RECENT]
        self.runs = runs[:MAX_RECENT]

    def add_model(self, source: str) -> None:
        """Add a model that was opened."""
        self.models = with_first(self.models, short_source(source))
        self.changed.emit()

    def add_session(self, path: str) -> None:
        """Add a session that was opened or saved."""
        self.sessions = with_first(self.sessions, path)
        self.changed.emit()

    def add_run(self, folder: str) -> None:
        """Add a training run that was opened or begun."""
        if folder and self.runs[:1] != (folder,):
            self.runs = with_first(self.runs, folder)
            self.changed.emit()

    def forget(self, name: str) -> None:
        """Stop offering an entry that could not be opened."""
        self.models = tuple(other for other in self.models if other != name)
        self.sessions = tuple(other for other in self.sessions if other != name)
        self.runs = tuple(other for other in self.runs if other != name)
        self.changed.emit()


def with_first(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names with `name` first and once, at most MAX_RECENT of them."""
    return (name, *(other for other in names if other != name))[:MAX_RECENT] if name else names


def short_source(source: str) -> str:
    """The name of a bundled model, for its folder; any other source unchanged."""
    try:
        folder = paths.resources_folder() / "models"
    except LoadError:
        return source
    path = Path(source)
    return path.name if path.parent == folder else source

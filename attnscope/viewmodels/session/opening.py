"""Opening a model: the one being opened (the open one stays until then), samples, what was open lately."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from psygnal import Signal, SignalInstance

from attnscope import paths
from attnscope.errors import LoadError
from attnscope.records.messages import LoadModel, ModelLoaded, Progress
from attnscope.records.models import ModelInfo, Sample
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.notices import OPENING, Notices

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session
    from attnscope.viewmodels.view_state import ViewState


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A model is being opened: what is happening, and how far it is (0…1, None when unknown)."""

    source: str
    what: str
    fraction: float | None = None


def short_name(source: str) -> str:
    """The last part of a path, or the whole of a plain name."""
    return source.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] or source


# Whether what is shown is a sample's: its text goes with the model, its target goes with the text.


class SampleKept:
    """The samples that count: those of the open model, and the one that was `given` last.

    `to_come` is what the model that is being opened is to begin with, `head_to_come` the head.
    """

    given: Sample | None = None
    to_come: Sample | None = None
    head_to_come: HeadRef | None = None

    def take(self, sample: Sample | None) -> None:
        """The program shows this sample, or what a person made; nothing else is to come."""
        self.given, self.to_come = sample, None

    def is_text(self, model: ModelInfo | None, text: str, target: str | None) -> bool:
        """Whether a text is a sample's, read alone or with the sample's own target; or is none at all."""
        return not text.strip() or any(
            s.text == text and target in (None, s.target) for s in self._samples(model)
        )

    def target_after(self, model: ModelInfo | None, text: str, target: str | None) -> str | None:
        """The target that stays when another text comes: one that a person typed, not a sample's."""
        is_sample = any((s.text, s.target) == (text, target) for s in self._samples(model))
        return None if is_sample else target

    def _samples(self, model: ModelInfo | None) -> tuple[Sample, ...]:
        return (*(model.samples if model else ()), *((self.given,) if self.given else ()))


class Opening:
    """Asks for models; `take` is called with each that is to be the open one."""

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
        """Open a model, on `sample` and `head` when given; the present one stays until it is complete."""
        self._samples.to_come, self._samples.head_to_come = sample, head
        self.busy = Busy(source=source, what=f"Loading {short_name(source)}…")
        self.number = self._requests.send(LoadModel(source=source, device=device))
        self._notices.drop(*OPENING)
        self._changed.emit()

    def give_up(self) -> int:
        """Wait for no model any more; the number of the request, which the worker is to give up."""
        self.busy = None
        self._changed.emit()
        if self._meanwhile is not None:
            self._samples.to_come = None
            self._open(self._meanwhile)
        return self.number

    def handle(self, reply: Reply) -> None:
        """Take a model, or news of the one that is awaited."""
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
    """Load a model and turn to Explore once it is open; at once while none was open before."""
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
    """Short lists that menus, the palette and the welcome show and the settings keep."""

    changed = Signal()

    def __init__(
        self, models: tuple[str, ...] = (), sessions: tuple[str, ...] = (), runs: tuple[str, ...] = ()
    ) -> None:
        self.models = tuple(dict.fromkeys(map(short_source, models)))[:MAX_RECENT]
        self.sessions = sessions[:MAX_RECENT]
        self.runs = runs[:MAX_RECENT]

    def add_model(self, source: str) -> None:
        """A model was opened."""
        self.models = with_first(self.models, short_source(source))
        self.changed.emit()

    def add_session(self, path: str) -> None:
        """A session was opened or saved."""
        self.sessions = with_first(self.sessions, path)
        self.changed.emit()

    def add_run(self, folder: str) -> None:
        """A training run was opened or begun."""
        if folder and self.runs[:1] != (folder,):
            self.runs = with_first(self.runs, folder)
            self.changed.emit()

    def forget(self, name: str) -> None:
        """What could not be opened is offered no more."""
        self.models = tuple(other for other in self.models if other != name)
        self.sessions = tuple(other for other in self.sessions if other != name)
        self.runs = tuple(other for other in self.runs if other != name)
        self.changed.emit()


def with_first(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The names with `name` first and once, at most MAX_RECENT of them."""
    return (name, *(other for other in names if other != name))[:MAX_RECENT] if name else names


def short_source(source: str) -> str:
    """The name of a model that comes with the program, for its folder; every other source as it is."""
    try:
        folder = paths.resources_folder() / "models"
    except LoadError:
        return source
    path = Path(source)
    return path.name if path.parent == folder else source

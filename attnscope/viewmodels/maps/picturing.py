"""States of the picture view: the picture that a vision model reads, and the query whose weights it shows.

That of Explore asks only while somebody looks, once for each text; that of the watched text of a run is given
the picture along with the maps.
"""

from abc import ABC, abstractmethod
from typing import Protocol

from psygnal import Signal, SignalGroup

from attnscope.records.maps import HeadMap, Picture, PictureShown, ShowPicture
from attnscope.records.requests import Reply
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.training.watch import WatchState


class PictureChanges(SignalGroup):
    """Signals of the picture view."""

    picture = Signal()
    query = Signal()


class ShowsPicture(Protocol):
    """Provides the picture view's content, and receives the chosen query."""

    changed: PictureChanges

    @property
    def shown(self) -> tuple[Picture, HeadMap] | None:
        """The picture and a head's map of it; None unless both are there and agree."""
        ...

    @property
    def query(self) -> int:
        """The token whose weights are shown."""
        ...

    @property
    def note(self) -> str:
        """Message in place of the picture if there is none."""
        ...

    def watch(self, is_watched: bool) -> None:
        """Note whether the view is visible."""
        ...

    def choose_query(self, token: int) -> None:
        """Show the weights of another token."""
        ...

    def walk(self, rows: int, columns: int) -> None:
        """Go to the patch so many rows and columns away; up from the first row to the special tokens."""
        ...


def walked(picture: Picture, query: int, rows: int, columns: int) -> int:
    """The token so many rows and columns from another; up from the first row are the special tokens."""
    place = picture.place(query)
    if place is None:
        return min(max(query + rows + columns, 0), picture.n_first)
    if place[0] + rows < 0 and picture.n_first:
        return picture.n_first - 1
    row = min(max(place[0] + rows, 0), picture.n_rows - 1)
    column = min(max(place[1] + columns, 0), picture.n_columns - 1)
    return picture.token(row, column)


class _ChosenPatch(ABC):
    """The selected token of a picture: the one before all patches until another is chosen."""

    def __init__(self) -> None:
        self.changed = PictureChanges()
        self._query = 0

    @abstractmethod
    def _looked_at(self) -> Picture | None:
        """The picture in which a token is selected; None while it is missing."""

    @property
    def query(self) -> int:
        """The token whose weights are shown."""
        picture = self._looked_at()
        return min(self._query, picture.n_tokens - 1) if picture is not None else 0

    def choose_query(self, token: int) -> None:
        """Show the weights of another token."""
        picture = self._looked_at()
        if picture is not None and 0 <= token < picture.n_tokens and token != self._query:
            self._query = token
            self.changed.query.emit()

    def walk(self, rows: int, columns: int) -> None:
        """Go to the patch so many rows and columns away; up from the first row to the special tokens."""
        picture = self._looked_at()
        if picture is not None:
            self.choose_query(walked(picture, self.query, rows, columns))


class PictureState(_ChosenPatch):
    """The head is the session's; the chosen query stays while pictures have as many tokens."""

    def __init__(self, session: Session, requests: Requests) -> None:
        super().__init__()
        self._session = session
        self._asking = Query(PictureShown, requests)
        told = session.changed
        told.model.connect(self._on_model, max_args=0)
        for signal in (told.traced, told.selection, told.heads, told.text):
            signal.connect(self._on_session, max_args=0)

    @property
    def is_offered(self) -> bool:
        """Whether the open model reads pictures."""
        model = self._session.model
        return model is not None and model.reads == "picture"

    @property
    def picture(self) -> Picture | None:
        """The picture as the model sees it, once known."""
        return self._asking.answer.picture if self._asking.answer is not None else None

    @property
    def shown(self) -> tuple[Picture, HeadMap] | None:
        """The picture and the selected head's map of it; None unless both are there and agree."""
        head_map = self._session.maps.of(self._session.primary)
        picture, traced = self.picture, self._session.traced
        if picture is None or head_map is None or head_map.weights.shape != (picture.n_tokens,) * 2:
            return None
        if traced is None or picture.text != traced.source.text:  # another picture of as many patches
            return None
        return picture, head_map

    def _looked_at(self) -> Picture | None:
        return self.picture

    @property
    def note(self) -> str:
        """Message in place of the picture if there is none."""
        if self._asking.error:
            return self._asking.error
        if not self.is_offered:
            return "This model reads text. Open a vision model, such as a ViT, to see this."
        if not self._session.text.strip():
            return "Type the path of a picture above, or choose a sample."
        traced = self._session.traced
        is_of_text = (
            self.picture is not None and traced is not None and self.picture.text == traced.source.text
        )
        if is_of_text and self._session.maps.of(self._session.primary) is not None:
            return "These weights are not between single patches. Show a single head, patch by patch."
        return "Reading the picture…"

    def watch(self, is_watched: bool) -> None:
        """Note whether the view is visible."""
        self._asking.is_watched = is_watched
        self._ask()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        if self._asking.take(reply):
            self.changed.picture.emit()

    def _on_model(self) -> None:
        self._asking.forget()
        self._query = 0
        self.changed.picture.emit()
        self._ask()

    def _on_session(self) -> None:
        if self.is_offered:
            self.changed.picture.emit()
            self._ask()

    def _ask(self) -> None:
        """Request the picture of the trace, unless that was done already."""
        traced = self._session.tracing.settled if self.is_offered else None
        if traced is not None:
            self._asking.ask(traced.number, ShowPicture(text=self._session.text))


class WatchedPicture(_ChosenPatch):
    """The picture named by a run's watched text, and the head shown for it."""

    def __init__(self, watch: WatchState) -> None:
        super().__init__()
        self._watch = watch
        watch.changed.connect(self._on_watch)

    @property
    def is_offered(self) -> bool:
        """Whether the watched text names a picture."""
        return self._watch.traced is not None and self._watch.traced.picture is not None

    @property
    def shown(self) -> tuple[Picture, HeadMap] | None:
        """See `ShowsPicture`, as all these."""
        traced, head_map = self._watch.traced, self._watch.head_map
        picture = traced.picture if traced is not None else None
        if picture is None or head_map is None or head_map.weights.shape != (picture.n_tokens,) * 2:
            return None
        return picture, head_map

    def _looked_at(self) -> Picture | None:
        shown = self.shown
        return shown[0] if shown is not None else None

    @property
    def note(self) -> str:
        """Why there is none."""
        return "These weights are not between single patches."

    def watch(self, is_watched: bool) -> None:
        """Nothing to request here."""

    def _on_watch(self) -> None:
        if self.is_offered:
            self.changed.picture.emit()

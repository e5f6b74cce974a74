"""The state of the positions page: which encodings, how large, and the tables that have come.

Must not import Qt. Requests go out through `post`; replies come in through `handle`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from psygnal import Signal, SignalGroup

from attnscope.records.messages import Failed, ModelLoaded, PositionsShown, ShowPositions
from attnscope.records.models import ModelInfo
from attnscope.records.positions import PositionTable
from attnscope.records.requests import Reply, Request
from attnscope.schemes.positions import POSITIONS
from attnscope.viewmodels.request_ids import RequestIds

_TITLES = {scheme.name: scheme.page_title for scheme in POSITIONS.values() if scheme.page_title}
SCHEMES = (*_TITLES, "model")
"""The encodings that can be chosen, in the order they are shown; `model` is the open model's own."""
TITLES = {**_TITLES, "model": "This model's own"}
POSITIONS_RANGE = (2, 2048)
D_MODEL_RANGE = (2, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    names: tuple[str, ...]
    n_positions: int
    d_model: int


class PositionsChanges(SignalGroup):
    """What of the page can change."""

    choice = Signal()
    tables = Signal()
    model = Signal()
    busy = Signal()
    view = Signal()


class PositionsState:
    """At most one request is under way."""

    def __init__(self, post: Callable[[Request], None], numbers: RequestIds) -> None:
        self._post = post
        self._numbers = numbers
        self.changed = PositionsChanges()
        self.names: tuple[str, ...] = SCHEMES[:-1]
        self.n_positions = 64
        self.d_model = 128
        self.view = "positions"
        self.only = ""
        self.model: ModelInfo | None = None
        self.tables: tuple[PositionTable, ...] = ()
        self.error = ""
        self.model_note = ""
        self._shown: _Wish | None = None
        self._pending: tuple[int, _Wish] | None = None
        self._is_watched = False

    @property
    def is_busy(self) -> bool:
        """Whether tables are being worked out."""
        return self._pending is not None

    @property
    def is_stale(self) -> bool:
        """Whether the tables shown are not those asked for now."""
        return self._wish() != self._shown

    def open(self) -> None:
        """The page has become visible: from now on ask for what is missing."""
        self._is_watched = True
        self._pump()

    def choose(self, name: str, is_chosen: bool) -> None:
        """Show an encoding, or no longer."""
        if name not in SCHEMES or is_chosen == (name in self.names):
            return
        chosen = {*self.names, name} if is_chosen else {*self.names} - {name}
        self.names = tuple(n for n in SCHEMES if n in chosen)
        self._changed()

    def set_n_positions(self, n_positions: int) -> None:
        """Show more or fewer positions."""
        self._set_size(min(max(n_positions, POSITIONS_RANGE[0]), POSITIONS_RANGE[1]), self.d_model)

    def set_d_model(self, d_model: int) -> None:
        """Show more or fewer dimensions; made even."""
        self._set_size(self.n_positions, min(max(d_model - d_model % 2, D_MODEL_RANGE[0]), D_MODEL_RANGE[1]))

    def show(self, view: str, only: str = "") -> None:
        """Show the tables in another view, and `only` a part of them."""
        if (view, only) != (self.view, self.only):
            self.view, self.only = view, only
            self.changed.view.emit()

    def _set_size(self, n_positions: int, d_model: int) -> None:
        if (n_positions, d_model) != (self.n_positions, self.d_model):
            self.n_positions, self.d_model = n_positions, d_model
            self._changed()

    def title(self, name: str) -> str:
        """The encoding as people call it."""
        if name == "model" and self.model:
            return f"{self.model.name}'s own"
        return TITLES.get(name, name)

    def short_title(self, name: str) -> str:
        """The encoding in one word, for the end of a line."""
        return "Own" if name == "model" else self.title(name).partition(" ")[0]

    def handle(self, reply: Reply) -> None:
        """Take a reply; those of other parts of the window are passed over."""
        match reply:
            case PositionsShown() if self._pending and reply.number == self._pending[0]:
                self._take_tables(reply.tables)
            case Failed() if self._pending and reply.number == self._pending[0]:
                self._take_failure(reply.message)
            case ModelLoaded():
                self.model, self.model_note = reply.info, ""
                if "model" in self.names:
                    self._shown = None
                self.changed.model.emit()
                self._pump()
            case _:
                pass

    def _take_tables(self, tables: tuple[PositionTable, ...]) -> None:
        self._shown = self._pending[1] if self._pending else None
        self._pending = None
        self.tables, self.error = tables, ""
        self.changed.tables.emit()
        self._pump()

    def _take_failure(self, message: str) -> None:
        wish = self._pending[1] if self._pending else None
        self._pending = None
        if wish and "model" in wish.names:
            self.model_note = message
        else:
            self.error, self.tables, self._shown = message, (), wish
        self.changed.tables.emit()
        self._pump()

    def _changed(self) -> None:
        self.model_note = ""
        self.changed.choice.emit()
        self._pump()

    def _wish(self) -> _Wish:
        has_own = self.model is not None and not self.model_note
        names = tuple(n for n in self.names if n != "model" or has_own)
        return _Wish(names=names, n_positions=self.n_positions, d_model=self.d_model)

    def _pump(self) -> None:
        wish = self._wish()
        if not self._is_watched or self._pending or wish == self._shown:
            return
        if not wish.names:
            self.tables, self._shown, self.error = (), wish, ""
            self.changed.tables.emit()
            return
        number = self._numbers.next()
        self._pending = (number, wish)
        self._post(
            ShowPositions(number=number, names=wish.names, n_positions=wish.n_positions, d_model=wish.d_model)
        )
        self.changed.busy.emit()

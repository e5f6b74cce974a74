"""The state of the positions page: which encodings, of what size, and the received tables."""

from dataclasses import dataclass

from psygnal import Signal, SignalGroup

from attnscope.records.maps import PositionCheck, PositionTable
from attnscope.records.messages import ModelLoaded, PositionsShown, ShowPositions
from attnscope.records.requests import Reply
from attnscope.schemes.positions import POSITIONS
from attnscope.viewmodels.query import Query, Requests

_TITLES = {scheme.name: scheme.page_title for scheme in POSITIONS.values() if scheme.page_title}
SCHEMES = (*_TITLES, "model")
"""The encodings that can be chosen, in the order they are shown; `model` is the open model's own."""
_SHOWN_FIRST = tuple(name for name in _TITLES if not POSITIONS[name].reads_row)
"""Those of a text's own tree are shown when they are asked for."""
TITLES = {**_TITLES, "model": "This model's own"}
POSITIONS_RANGE = (2, 2048)
D_MODEL_RANGE = (2, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    names: tuple[str, ...]
    n_positions: int
    d_model: int
    has_checks: bool


class PositionsChanges(SignalGroup):
    """Signals of PositionsState."""

    choice = Signal()
    tables = Signal()
    model = Signal()
    busy = Signal()
    view = Signal()


class PositionsState:
    """At most one request at a time."""

    def __init__(self, requests: Requests) -> None:
        self.query = Query(PositionsShown, requests)
        self.changed = PositionsChanges()
        self.names: tuple[str, ...] = _SHOWN_FIRST
        self.n_positions = 64
        self.d_model = 128
        self.view = "positions"
        self.only = ""
        self.has_checks = False
        self.checks: tuple[PositionCheck, ...] = ()
        self.model_name = ""
        """Of the open model; empty while none is open."""
        self.tables: tuple[PositionTable, ...] = ()
        self.model_note = ""

    @property
    def is_stale(self) -> bool:
        """Whether the current tables are not those requested now."""
        return self.query.is_busy or self.query.about != self._wish()

    def open(self) -> None:
        """The page has become visible: from now on request what is missing."""
        self.query.is_watched = True
        self._pump()

    def choose(self, name: str, is_chosen: bool) -> None:
        """Show or hide an encoding."""
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

    def show(self, view: str, only: str = "", *, has_checks: bool = False) -> None:
        """Show the tables in another view, and `only` a part of them; `has_checks`: schemes are measured."""
        if (view, only) != (self.view, self.only):
            self.view, self.only, self.has_checks = view, only, has_checks
            self.changed.view.emit()
            self._pump()

    def _set_size(self, n_positions: int, d_model: int) -> None:
        if (n_positions, d_model) != (self.n_positions, self.d_model):
            self.n_positions, self.d_model = n_positions, d_model
            self._changed()

    def title(self, name: str) -> str:
        """Title of the encoding."""
        if name == "model" and self.model_name:
            return f"{self.model_name}'s own"
        return TITLES.get(name, name)

    def heading(self, name: str) -> str:
        """Heading of the encoding above its maps, where a note gives the rest."""
        return self.title(name).partition(" (")[0]

    def short_title(self, name: str) -> str:
        """The encoding in one word, for the end of a line."""
        return "Own" if name == "model" else self.title(name).partition(" ")[0]

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
        match reply:
            case ModelLoaded():
                self.model_name, self.model_note = reply.info.name, ""
                if "model" in self.names:
                    self.query.renew()
                self.changed.model.emit()
                self._pump()
            case _ if self.query.take(reply):
                self._take()

    def _take(self) -> None:
        """Show the received tables; if the model's own is not available, the others are requested."""
        wish, answer = self.query.about, self.query.answer
        if answer is None and isinstance(wish, _Wish) and "model" in wish.names:
            self.model_note = self.query.error
            self.query.forget()
        else:
            self.tables = answer.tables if answer is not None else ()
            self.checks = answer.checks or self.checks if answer is not None else ()
        self.changed.tables.emit()
        self._pump()

    def _changed(self) -> None:
        self.model_note = ""
        self.changed.choice.emit()
        self._pump()

    def _wish(self) -> _Wish:
        has_own = bool(self.model_name) and not self.model_note
        names = tuple(n for n in self.names if n != "model" or has_own)
        has_checks = self.has_checks or bool(self.checks)
        return _Wish(names=names, n_positions=self.n_positions, d_model=self.d_model, has_checks=has_checks)

    def _pump(self) -> None:
        """Request what is wanted, unless that was done or an answer is pending."""
        wish = self._wish()
        if self.query.is_busy or not self.query.is_watched:
            return
        if not wish.names:
            self.query.forget()
            self.tables = ()
            self.changed.tables.emit()
        elif self.query.ask(
            wish,
            ShowPositions(
                names=wish.names,
                n_positions=wish.n_positions,
                d_model=wish.d_model,
                has_checks=wish.has_checks and not self.checks,
            ),
        ):
            self.changed.busy.emit()

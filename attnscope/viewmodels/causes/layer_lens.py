"""The state of the layers panel: what each layer would say of the session's text.

Asks only while somebody looks, once for each trace.
"""

import math
from typing import Literal, get_args

from psygnal import Signal, SignalGroup

from attnscope.records.causes import LensShown, LensTable, ShowLens
from attnscope.records.requests import Reply
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session

LensColour = Literal["probability", "kl"]
LENS_COLOURS: dict[str, str] = {
    "probability": "top tokens, coloured by probability",
    "kl": "KL to the output in nats, coloured by closeness",
}
LENS_SHORT: dict[LensColour, str] = {"probability": "tokens", "kl": "KL, nats"}


class LensChanges(SignalGroup):
    """What of it can change."""

    table = Signal()
    busy = Signal()
    colour = Signal()


class LensState:
    """What each layer would say; at most one request is under way."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.query = Query(LensShown, requests)
        self.changed = LensChanges()
        self.colour: LensColour = "probability"
        session.changed.model.connect(self._on_model, max_args=0)
        session.changed.traced.connect(self._ask, max_args=0)

    @property
    def table(self) -> LensTable | None:
        """What each layer would say, when it is known."""
        return self.query.answer.table if self.query.answer is not None else None

    @property
    def note(self) -> str:
        """What belongs in the panel when there is no table."""
        session = self._session
        if self.query.error:
            return self.query.error
        if session.model is not None and session.model.body:
            return (
                f"A recurrent model ({session.model.body}) has no stream that layers add to: nothing to read."
            )
        if not session.text.strip():
            return "Enter a text to see what the model would predict after each layer."
        return self.query.waiting("Reading the layers…")

    def watch(self, is_watched: bool) -> None:
        """Somebody looks at the panel, or nobody does."""
        self.query.is_watched = is_watched
        self._ask()

    def choose_colour(self, colour: str) -> None:
        """Colour the cells by another number."""
        if colour in get_args(LensColour) and colour != self.colour:
            self.colour = colour  # type: ignore[assignment]  # checked in the line above
            self.changed.colour.emit()

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
        if self.query.take(reply):
            self.changed.table.emit()

    def _on_model(self) -> None:
        self.query.forget()
        self.changed.table.emit()
        self._ask()

    def _ask(self) -> None:
        """Ask for the text that was traced last, unless that was done already."""
        session = self._session
        if not self.query.is_watched or session.model is None:
            return
        if session.model.body:
            self.changed.busy.emit()
            return
        if session.traced is None or session.tracing.is_stale or not session.text.strip():
            self.changed.busy.emit()
            return
        changes = session.interventions
        wish = (session.model.sha256, session.text, session.target, session.gates, changes)
        text, target, gates = session.text, session.target, session.gates
        self.query.ask(
            wish,
            ShowLens(text=text, target=target, gates=gates, interventions=changes),
        )
        self.changed.busy.emit()


def lens_cell_text(table: LensTable, level: int, column: int, colour: LensColour) -> str:
    """What stands in a cell: the layer's first token, or how far it is from the output."""
    if colour == "kl":
        return f"{table.kl_nats[level, column]:.2f}"
    candidates = table.candidates[level][column]
    return candidates[0].token.piece if candidates else ""


def cell_share(table: LensTable, level: int, column: int, colour: LensColour) -> float:
    """How strongly a cell is coloured, 0…1: a probability, or nearness to the output, exp(−KL)."""
    if colour == "kl":
        return math.exp(-float(table.kl_nats[level, column]))
    candidates = table.candidates[level][column]
    return candidates[0].probability if candidates else 0.0


def cell_sentences(table: LensTable, level: int, column: int) -> str:
    """Everything about a cell, for a tooltip."""
    where = f'{table.levels[level]}, at "{table.tokens[column].piece}" ({table.positions[column]})'
    lines = [f"{one.token.piece}  {one.probability:.4f}" for one in table.candidates[level][column]]
    final = table.candidates[-1][column]
    said = final[0].token.piece if final else ""
    facts = (
        f'the model\'s own "{said}": {table.probability[level, column]:.4f}, '
        f"number {int(table.rank[level, column]) + 1} here",
        f"KL(output ‖ layer) {table.kl_nats[level, column]:.4g} nats, "
        f"entropy {table.entropy[level, column]:.4g} nats",
    )
    return "\n".join((where, *lines, *facts))


def rows_name(table: LensTable) -> str:
    """What the rows are: the token that stands before what is told, or at its place."""
    return "at" if table.stack == "encoder" else "after"


def level_name(level: int) -> str:
    """The head of a column: `in` for what enters the first layer, then the layers' numbers."""
    return "in" if level == 0 else str(level - 1)

"""The state of the view into one head: which query, which step, which key, and the numbers.

Asks only while somebody looks, once for each trace, head and query. Must not import Qt.
"""

from typing import NamedTuple

from psygnal import Signal, SignalGroup

from attnscope.fields import Value
from attnscope.records.interventions import MakeMean
from attnscope.records.maps import HeadInside, InsideShown, ShowInside
from attnscope.records.messages import Traced
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef, Stack
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.across_layers import ChosenToken
from attnscope.viewmodels.causes.inside_words import STEPS, Step
from attnscope.viewmodels.maps.aggregation import stack_tokens
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import sides_of

_STACKS: dict[Stack, str] = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder"}
"""Whose stream the queries of a stack of heads are."""


class Pointed(NamedTuple):
    """What a person points at: a key by its place in the text, and one dimension of it."""

    key: int | None = None
    dimension: int | None = None


NOWHERE = Pointed()


class InsideChanges(SignalGroup):
    """What of it can change."""

    inside = Signal()
    query = Signal()
    step = Signal()
    key = Signal()
    busy = Signal()


class InsideState:
    """The head is the session's; the chosen query stays while the text does."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.asking = Query(InsideShown, requests)
        self.changed = InsideChanges()
        self.step: Step = "product"
        self.pointed = NOWHERE
        """The key and the dimension whose numbers are written out."""
        self._chosen = ChosenToken()
        self._awaited_query: int | None = None
        session.changed.model.connect(self._on_model, max_args=0)
        session.changed.text.connect(self._on_text, max_args=0)
        session.changed.traced.connect(self._look_again, max_args=0)
        session.changed.selection.connect(self._look_again, max_args=0)

    # What can be read

    @property
    def inside(self) -> HeadInside | None:
        """The numbers, when they are known."""
        return self.asking.answer.inside if self.asking.answer is not None else None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The queries that can be chosen."""
        traced, head = self._session.traced_text, self._session.primary
        if traced is None or head is None:
            return ()
        return stack_tokens(traced, head.stack)[0]

    @property
    def query(self) -> int:
        """The chosen query; at first the last one that is a token of the text."""
        tokens = self.tokens
        if self._chosen.is_of(tokens):
            return self._chosen.place
        plain = [place for place, token in enumerate(tokens) if not token.is_special]
        return plain[-1] if plain else max(len(tokens) - 1, 0)

    @property
    def row(self) -> int | None:
        """The row of the key whose numbers are written out: the one pointed at, or the strongest."""
        inside = self.inside
        if inside is None:
            return None
        key = self.pointed.key
        return inside.keys.index(key) if key in inside.keys else inside.strongest()

    @property
    def note(self) -> str:
        """What belongs in the view when there are no numbers, or what they leave out."""
        session = self._session
        if self.asking.error:
            return self.asking.error
        if not session.text.strip():
            return "Enter a text to see a head step by step."
        if self.inside is None:
            return "Computing the steps…"
        head = self.inside.head
        if any(isinstance(change, MakeMean) and change.head == head for change in session.interventions):
            return "The head gives its mean over all queries instead of this output."
        return ""

    @property
    def rest_of_layer(self) -> dict[str, Value] | None:
        """The options of *Layer step by step* that go on from here; None where no model can go on."""
        model, head = self._session.model, self._session.primary
        if model is None or model.is_recorded or head is None or head.stack not in _STACKS or not self.tokens:
            return None
        return {"layer": head.layer, "token": self.query, "stack": _STACKS[head.stack]}

    # Intents

    def watch(self, is_watched: bool) -> None:
        """Somebody looks at the view, or nobody does."""
        self.asking.is_watched = is_watched
        self._ask()

    def choose_query(self, query: int) -> None:
        """Look at another query."""
        tokens = self.tokens
        if 0 <= query < len(tokens) and query != self.query:
            self._chosen = ChosenToken(place=query, tokens=tokens)
            self.changed.query.emit()
            self._ask()

    def bring_back(self, step: str, query: int) -> None:
        """Look at what was looked at before: at once, or when the trace is there that is on its way."""
        self.choose_step(step)
        self._awaited_query = query
        self._take_awaited()

    def choose_token(self, side: str, place: int) -> None:
        """Look at a token of one text as the query, if queries are of that text."""
        head, session = self._session.primary, self._session
        has_target = session.traced is not None and session.traced.target is not None
        sides = sides_of(head.stack if head else None, session.sites, has_target=has_target)
        if side == sides[0] and not session.aspect.is_by_word:
            self.choose_query(place)

    def walk_queries(self, n: int) -> None:
        """Go `n` queries on or back, as far as there are any."""
        self.choose_query(min(max(self.query + n, 0), max(len(self.tokens) - 1, 0)))

    def choose_step(self, step: str) -> None:
        """Look at another step."""
        found = next((known for known in STEPS if known == step), None)
        if found is not None and found != self.step:
            self.step = found
            self.changed.step.emit()

    def walk_steps(self, n: int) -> None:
        """Go `n` steps on or back."""
        self.choose_step(STEPS[min(max(STEPS.index(self.step) + n, 0), len(STEPS) - 1)])

    def point_at(self, row: int | None, dimension: int | None = None) -> None:
        """Write out the numbers of the key in a row (None: of the strongest), and of one dimension."""
        inside = self.inside
        key = inside.keys[row] if inside is not None and row is not None else None
        if (key, dimension) != self.pointed:
            self.pointed = Pointed(key, dimension)
            self.changed.key.emit()

    def point_at_key(self, key: int | None) -> None:
        """The same for a key by its place in the text, where it is shown."""
        inside = self.inside
        if inside is not None and key != self.pointed.key and (key is None or key in inside.keys):
            self.point_at(None if key is None else inside.keys.index(key))

    def walk_keys(self, n: int) -> None:
        """Go `n` rows down or up."""
        inside, row = self.inside, self.row
        if inside is not None and inside.keys:
            self.point_at(0 if row is None else min(max(row + n, 0), len(inside.keys) - 1))

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
        if self.asking.take(reply):
            self.changed.inside.emit()

    # Inside

    def _on_model(self) -> None:
        self._forget()
        self._look_again()

    def _on_text(self) -> None:
        if not self._session.text.strip():
            self._forget()

    def _forget(self) -> None:
        self.asking.forget()
        self._chosen = ChosenToken()
        self.pointed, self._awaited_query = NOWHERE, None
        self.changed.inside.emit()

    def _look_again(self) -> None:
        self._take_awaited()
        self.changed.query.emit()
        self._ask()

    def _take_awaited(self) -> None:
        if self._awaited_query is not None and not self._session.tracing.is_stale and self.tokens:
            query, self._awaited_query = self._awaited_query, None
            self.choose_query(query)

    def _ask(self) -> None:
        """Ask for what is looked at, unless that was done already."""
        if not self.asking.is_watched:
            return
        session, traced, head = self._session, self._session.traced_text, self._session.primary
        if traced is None or head is None or session.tracing.is_stale or not self.tokens:
            return
        about = (traced.number, head, self.query)
        if self.asking.ask(about, self._request(traced, head)):
            self.changed.busy.emit()

    def _request(self, traced: Traced, head: HeadRef) -> ShowInside:
        session = self._session
        return ShowInside(
            head=head,
            query=self.query,
            text=session.text,
            target=session.target,
            gates=traced.gates,
            interventions=traced.interventions,
            past_trained=session.texts.is_past_trained,
        )

"""How the layers process a text: the prediction of each (`LensState`), and the inputs' influence on one
output token, by four methods (`AcrossState`) and as a graph (`GraphState`).

Each asks only while somebody looks, once for each trace.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from psygnal import Signal, SignalGroup

from attnscope.counting import fixed, number_text, percent
from attnscope.records.causes import (
    DEFAULT_THRESHOLD,
    METHODS,
    THRESHOLDS,
    AttentionGraph,
    GraphShown,
    InfluenceRow,
    InfluenceShown,
    LensShown,
    LensTable,
    Method,
    ShowGraph,
    ShowInfluence,
    ShowLens,
)
from attnscope.records.messages import Traced
from attnscope.records.requests import Reply, StopWork
from attnscope.records.tokens import Token, Tokens
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session

LensColour = Literal["probability", "kl"]
LENS_COLOURS: dict[str, str] = {
    "probability": "top tokens, coloured by probability",
    "kl": "KL to the output in nats, coloured by closeness",
}
LENS_SHORT: dict[LensColour, str] = {"probability": "tokens", "kl": "KL, nats"}


class LensChanges(SignalGroup):
    """Signals of LensState."""

    table = Signal()
    busy = Signal()
    colour = Signal()


class LensState:
    """The prediction of each layer; at most one request at a time."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session = session
        self.query = Query(LensShown, requests)
        self.changed = LensChanges()
        self.colour: LensColour = "probability"
        session.changed.model.connect(self._on_model, max_args=0)
        session.changed.traced.connect(self._ask, max_args=0)

    @property
    def table(self) -> LensTable | None:
        """The prediction of each layer, once known."""
        return self.query.answer.table if self.query.answer is not None else None

    @property
    def note(self) -> str:
        """Message for the panel if there is no table."""
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
        """Note whether the panel is visible."""
        self.query.is_watched = is_watched
        self._ask()

    def choose_colour(self, colour: str) -> None:
        """Colour the cells by another number."""
        if colour in get_args(LensColour) and colour != self.colour:
            self.colour = colour  # type: ignore[assignment]  # checked in the line above
            self.changed.colour.emit()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        if self.query.take(reply):
            self.changed.table.emit()

    def _on_model(self) -> None:
        self.query.forget()
        self.changed.table.emit()
        self._ask()

    def _ask(self) -> None:
        """Request the last traced text, unless that was done already."""
        session = self._session
        if not self.query.is_watched or session.model is None:
            return
        if session.tracing.settled is not None and not session.model.body:
            text, target, gates, changes = session.text, session.target, session.gates, session.interventions
            request = ShowLens(text=text, target=target, gates=gates, interventions=changes)
            self.query.ask((session.model.sha256, request), request)
        self.changed.busy.emit()


def lens_cell_text(table: LensTable, level: int, column: int, colour: LensColour) -> str:
    """Text of a cell: the layer's first token, or its distance from the output."""
    if colour == "kl":
        return f"{table.kl_nats[level, column]:.2f}"
    candidates = table.candidates[level][column]
    return candidates[0].token.piece if candidates else ""


def cell_share(table: LensTable, level: int, column: int, colour: LensColour) -> float:
    """Strength of a cell's colour, 0…1: a probability, or nearness to the output, exp(−KL)."""
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
        f"KL(output ‖ layer) {number_text(float(table.kl_nats[level, column]))} nats, "
        f"entropy {number_text(float(table.entropy[level, column]))} nats",
    )
    return "\n".join((where, *lines, *facts))


def rows_name(table: LensTable) -> str:
    """Name of the rows: the token before the predicted one, or at its position."""
    return "at" if table.stack == "encoder" else "after"


def level_name(level: int) -> str:
    """The column heading: `in` for the input of the first layer, then the layers' numbers."""
    return "in" if level == 0 else str(level - 1)


MAX_TOKENS = 1024
METHOD_TIPS: dict[Method, str] = {
    "raw": "The last attention module's weights, mean over heads, as if it read the inputs themselves."
    " They ignore all mixing in the layers before.",
    "rollout": "Attention through all layers: the product of ½ mean attention + ½ identity, layer upon layer."
    " (Abnar & Zuidema 2020)",
    "flow": "Attention through all layers as a network of pipes: the maximum flow from the input to the"
    " output token, each layer a capacity of ½ mean attention + ½ identity."
    " (Abnar & Zuidema 2020)\nFor texts of up to 256 tokens: the time grows with their third power.",
    "relevance": "Attention weighted by its gradient, (∇a ∘ a)⁺, mean over heads, through all layers: how"
    " much the input contributes to the logit of the token shown; without the 1 that each token starts with."
    " (Chefer, Gur & Wolf 2021)",
}
"""Each method's description and source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenToken:
    """A token chosen by the user; it counts as long as the text has the same tokens."""

    place: int = 0
    tokens: tuple[Token, ...] = ()

    def is_of(self, tokens: tuple[Token, ...]) -> bool:
        """Whether it was chosen among these tokens."""
        return bool(self.tokens) and tokens == self.tokens


class AcrossChanges(SignalGroup):
    """Signals of AcrossState."""

    rows = Signal()
    choice = Signal()
    """Of the output token."""
    busy = Signal()


class AcrossState:
    """At most one request at a time; the chosen token stays while the text does."""

    def __init__(self, session: Session, requests: Requests) -> None:
        self._session, self._requests = session, requests
        self.changed = AcrossChanges()
        self.query = Query(InfluenceShown, requests)
        self.has_shares = True
        self._chosen = ChosenToken()
        session.changed.model.connect(self._on_model, max_args=0)
        session.changed.traced.connect(self._on_traced, max_args=0)

    # What can be read

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The output tokens to choose from: those of the stack that predicts."""
        traced = self._session.traced_text
        return _predicting(traced).tokens if traced is not None else ()

    @property
    def position(self) -> int:
        """The output token chosen; initially one at which the model gives an output."""
        tokens, traced = self.tokens, self._session.traced_text
        if self._chosen.is_of(tokens):
            return self._chosen.place
        if traced is None or not tokens:
            return 0
        told = [prediction.position for prediction in traced.comparison.after.predictions]
        is_written = traced.comparison.after.kind == "translation"
        first = told[min(1, len(told) - 1)] if told and is_written else told[0] if told else len(tokens) - 1
        return min(max(first, 0), len(tokens) - 1)

    @property
    def whole_at(self) -> int | None:
        """Position of the single class of the whole input; None for outputs at tokens."""
        traced = self._session.traced_text
        if traced is None or traced.comparison.after.kind != "class":
            return None
        told = traced.comparison.after.predictions
        return told[0].position if len(told) == 1 and len(self.tokens) > 1 else None

    @property
    def whole_words(self) -> str:
        """The subject of that class."""
        model = self._session.model
        return f"class of the whole {model.reads if model is not None else 'input'}"

    @property
    def heading(self) -> str:
        """The output explained: after a token, or at its position."""
        tokens, traced = self.tokens, self._session.traced_text
        if traced is None or not tokens:
            return ""
        word = "at" if _is_encoder(traced) else "after"
        return f"output {word} “{tokens[self.position].piece}”"

    def method_words(self, method: Method) -> str:
        """Description of a method, and the logit explained if it explains one."""
        answer = self.query.answer
        explained = answer.explained if answer is not None and method == "relevance" else ""
        return METHOD_TIPS[method] + (f"\nExplained here: {explained}." if explained else "")

    @property
    def is_followed(self) -> bool:
        """Whether there is a text short enough to be followed across layers."""
        traced = self._session.traced_text
        return traced is not None and bool(self.tokens) and _n_keys(traced) <= MAX_TOKENS

    @property
    def note(self) -> str:
        """Message for the panel if there are no rows, and why methods are missing."""
        session = self._session
        if self.query.error:
            return self.query.error
        if not session.text.strip():
            return "Enter a text to see how much each input contributes to an output token."
        traced = self._session.traced_text
        if traced is not None and _n_keys(traced) > MAX_TOKENS:
            return (
                f"These are {_n_keys(traced):,} tokens; up to {MAX_TOKENS:,} can be followed across layers."
            )
        if self.query.answer is None:
            return "Computing rollout and flow…"
        reasons: dict[str, list[str]] = {}
        for row in self.query.answer.rows:
            if row.refusal:
                reasons.setdefault(row.refusal, []).append(row.method)
        said = [f"{', '.join(methods)}: {reason}" for reason, methods in reasons.items()]
        if self.query.answer.flow_done:
            said.append(f"flow: {self.query.answer.flow_done:,} of {len(self.query.answer.keys):,} inputs")
        return "\n".join(said)

    def row(self, method: Method) -> InfluenceRow | None:
        """Row of a method; None while pending."""
        rows = self.query.answer.rows if self.query.answer is not None else ()
        return next((row for row in rows if row.method == method), None)

    def numbers(self, method: Method) -> NDArray[np.float64] | None:
        """A method's numbers as shown: shares of their sum, or unscaled."""
        row = self.row(method)
        if row is None or row.weights is None:
            return None
        weights = row.weights.astype(np.float64)
        total = float(np.nansum(np.abs(weights)))
        return weights / total if self.has_shares and total > 0 else weights

    # Intents

    def watch(self, is_watched: bool) -> None:
        """Note whether the panel is visible."""
        self.query.is_watched = is_watched
        self._ask()

    def choose(self, position: int) -> None:
        """Explain another output token."""
        tokens = self.tokens
        if 0 <= position < len(tokens) and position != self.position:
            self._chosen = ChosenToken(place=position, tokens=tokens)
            self.changed.choice.emit()
            self._ask()

    def show_shares(self, has_shares: bool) -> None:
        """Show each method's numbers as shares of their sum, or unscaled."""
        if has_shares != self.has_shares:
            self.has_shares = has_shares
            self.changed.rows.emit()

    @property
    def flow_fraction(self) -> float | None:
        """Progress of the flow; None if it is not running."""
        shown = self.query.answer
        return shown.flow_done / len(shown.keys) if shown is not None and shown.flow_done else None

    def stop(self) -> None:
        """Cancel the flow; the other methods stay."""
        shown = self.query.answer
        if shown is not None and shown.flow_done:
            self._requests.send(StopWork(work="ShowInfluence"))
            stopped = InfluenceRow(method="flow", refusal="stopped")
            self.query.give_up()
            self.query.answer = replace(shown, flow_done=0, rows=(*shown.rows, stopped))
            self.changed.rows.emit()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        if self.query.take(reply):
            self.changed.rows.emit()

    # Inside

    def _on_model(self) -> None:
        self._chosen = ChosenToken()
        self.query.forget()
        self.changed.rows.emit()
        self._on_traced()

    def _on_traced(self) -> None:
        self.changed.choice.emit()
        self._ask()

    def _ask(self) -> None:
        """Request the current trace, unless that was done already."""
        session = self._session
        traced = session.tracing.settled if self.query.is_watched else None
        if traced is None:
            return
        if _n_keys(traced) > MAX_TOKENS or not self.tokens:
            self.query.forget()
            self.changed.rows.emit()
            return
        if self.query.answer is not None and self.query.answer.keys != _keys(traced):
            self.query.answer = None
        request = ShowInfluence(
            trace=traced.number,
            position=self.position,
            text=session.text,
            target=session.target or traced.target_text,
            gates=traced.gates,
            interventions=traced.interventions,
        )
        if self.query.ask((traced.number, self.position), request):
            self.changed.busy.emit()


def number_words(value: float) -> str:
    """A number of the table: two decimals, a dot for zero."""
    if not math.isfinite(value):
        return ""
    if value == 0:
        return "·"
    return fixed(value, 2 if abs(value) < 9.995 else 0)


def tip_words(state: AcrossState, key: int) -> str:
    """Values of all methods for one input, with four digits."""
    shown = state.query.answer
    if shown is None:
        return ""
    lines = [f"{shown.keys[key].piece}  ({_place_words(shown, key)})"]
    for method in METHODS:
        row = state.row(method)
        if row is None or row.weights is None:
            continue
        value, total = float(row.weights[key]), float(np.nansum(np.abs(row.weights)))
        if math.isfinite(value):
            share = f", {percent(value / total, 1)} of the sum" if total > 0 else ""
            lines.append(f"{method}  {number_text(value)}{share}")
    return "\n".join(lines)


def _place_words(shown: InfluenceShown, key: int) -> str:
    if not shown.n_source:
        return f"token {key}"
    return f"source {key}" if key < shown.n_source else f"target {key - shown.n_source}"


def _is_encoder(traced: Traced) -> bool:
    return all(grid.site.stack not in ("decoder", "cross") for grid in traced.grids)


def _predicting(traced: Traced) -> Tokens:
    has_cross = any(grid.site.stack == "cross" for grid in traced.grids)
    return traced.target if has_cross and traced.target is not None else traced.source


def _keys(traced: Traced) -> tuple[Token, ...]:
    own = _predicting(traced)
    return own.tokens if own is traced.source else (*traced.source.tokens, *own.tokens)


def _n_keys(traced: Traced) -> int:
    own = _predicting(traced)
    return len(own) if own is traced.source else len(traced.source) + len(own)


class GraphChanges(SignalGroup):
    """Signals of GraphState."""

    graph = Signal()


class GraphState:
    """Follows the token of `AcrossState`; at most one request counts."""

    def __init__(self, session: Session, across: AcrossState, requests: Requests) -> None:
        self._session, self._across = session, across
        self.query = Query(GraphShown, requests)
        self.changed = GraphChanges()
        self.threshold = DEFAULT_THRESHOLD
        across.changed.choice.connect(self._ask, max_args=0)
        session.changed.model.connect(self._on_model, max_args=0)

    @property
    def graph(self) -> AttentionGraph | None:
        """The graph, once known."""
        return self.query.answer.graph if self.query.answer is not None else None

    def watch(self, is_watched: bool) -> None:
        """Note whether the graph is visible."""
        self.query.is_watched = is_watched
        self._ask()

    def choose_threshold(self, threshold: float) -> None:
        """Show edges that carry at least this share of the output."""
        if threshold in THRESHOLDS and threshold != self.threshold:
            self.threshold = threshold
            self.changed.graph.emit()
            self._ask()

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
        if self.query.take(reply):
            self.changed.graph.emit()

    def _on_model(self) -> None:
        self.query.forget()
        self.changed.graph.emit()

    def _ask(self) -> None:
        """Request the current view, unless that was done already."""
        session, across = self._session, self._across
        traced = session.traced
        if not self.query.is_watched or traced is None or session.tracing.is_stale:
            return
        if not across.is_followed:
            if self.query.forget():
                self.changed.graph.emit()
            return
        trace, position, threshold = wish = (traced.number, across.position, self.threshold)
        self.query.ask(wish, ShowGraph(trace=trace, position=position, threshold=threshold))


def node_words(graph: AttentionGraph, node: int) -> str:
    """Meaning of a node, and its strongest input."""
    one = graph.nodes[node]
    place = f"“{one.token.piece}” at {graph.levels[one.level]}: {percent(one.influence, 1)} of the output"
    below = sorted((e for e in graph.edges if e.upper == node), key=lambda e: -e.weight)
    read = [
        f"“{graph.nodes[e.lower].token.piece}” {e.weight:.2f}" + (" (its own stream)" if e.is_stream else "")
        for e in below[:4]
    ]
    return f"{place}; reads " + ", ".join(read) + (" …" if len(below) > 4 else "") if read else place

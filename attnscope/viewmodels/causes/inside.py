"""The six steps inside a head, each as a formula with the numbers of one key."""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from psygnal import Signal, SignalGroup

from attnscope.counting import number_text, plural, short_words
from attnscope.fields import Value
from attnscope.records.interventions import MakeMean
from attnscope.records.maps import HeadInside, InsideShown, ShowInside
from attnscope.records.messages import Traced
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef, Rows, Stack, gate_note
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.across_layers import ChosenToken
from attnscope.viewmodels.maps.aspect import stack_tokens
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import sides_of

Step = Literal["product", "scale", "mask", "softmax", "values", "output"]
STEPS: tuple[Step, ...] = get_args(Step)
STEP_TIPS: dict[Step, str] = {
    "product": "The query and a key, compared dimension by dimension; their sum",
    "scale": "The sum times the scale; capped and with a bias where the model does so",
    "mask": "Keys the query may not see get the score −∞",
    "softmax": "exp(score), divided so that the row sums to 1",
    "values": "Each key's value times its weight",
    "output": "The sum of the weighted values: what the head gives for this query",
}


def step_words(
    inside: HeadInside, step: Step, row: int | None, dimension: int | None = None
) -> tuple[str, str]:
    """The formula of a step with the numbers of the key in `row`, and further notes.

    `dimension` is the one under the cursor: of q and k, or of the values in the last two steps.
    """
    if inside.is_blind:
        return ("The mask hides every key from this query.", "Its output is 0.")
    if step == "output":
        return _output_words(inside, dimension)
    if row is None:
        return ("", "")
    match step:
        case "product":
            return _product_words(inside, row, dimension)
        case "scale":
            return _scale_words(inside, row)
        case "mask":
            return _mask_words(inside, row)
        case "softmax":
            return _softmax_words(inside, row)
        case "values":
            return _value_words(inside, row, dimension)


def rest_words(inside: HeadInside) -> str:
    """The weight not shown: of the other keys, and of the sink."""
    parts = []
    if inside.n_rest:
        more = plural(inside.n_rest, "more key")
        parts.append(f"{more}: weight {number_text(inside.rest_weight)}")
    if inside.sink is not None:
        parts.append(f"sink: weight {number_text(inside.sink_weight)}")
    return " · ".join(parts)


def check_words(inside: HeadInside) -> str:
    """Distance of the recomputed output from the model's own, if the numbers cannot be trusted."""
    return "" if inside.is_exact else f"⚠ off by {max(inside.output_error, inside.row_sum_error):.0e}"


def column_words(inside: HeadInside) -> dict[str, str]:
    """The heading of every column of this head, from left to right."""
    heads = {"k": "k"}
    heads["products"] = {"product": "q ∘ k", "additive": "w tanh(q+k)", "kernel": "q ∘ k"}[inside.comparison]
    heads["dot"] = "sum" if inside.comparison == "additive" else "q · k"
    heads["scaled"] = f"× {inside.scale:.3g}"
    if inside.logged is not None:
        heads["logged"] = "ln"
    if inside.capped is not None:
        heads["capped"] = f"cap {inside.softcap:g}"
    if inside.bias is not None:
        heads["bias"] = "bias"
    return {**heads, "score": "score", "weight": "weight", "weighted": "weight · v"}


def title_words(inside: HeadInside) -> str:
    """Stack and query, for the line beside the head's name."""
    return f"{inside.head.stack}{gate_note(inside.gate)} · query {inside.query}"


def _product_words(inside: HeadInside, row: int, dimension: int | None) -> tuple[str, str]:
    left = {"product": "q · k", "additive": "Σ w tanh(q + k)", "kernel": "φ(q) · φ(k)"}[inside.comparison]
    products = inside.products[row]
    largest = np.argsort(-np.abs(products), kind="stable")
    terms = [short_words(products[d]) for d in largest[:3]]
    terms = terms[:1] + [f"({term})" if term.startswith("−") else term for term in terms[1:]]
    more = " + …" if len(products) > len(terms) else ""
    formula = f"{left} = {' + '.join(terms)}{more} = {number_text(inside.dot[row])}"
    if dimension is not None and dimension < len(products):
        return (formula, f"dimension {dimension}: {_term_words(inside, row, dimension)}")
    first = int(largest[0]) if len(products) else 0
    words = _term_words(inside, row, first) if len(products) else ""
    return (formula, f"{len(products)} terms, the largest in dimension {first}: {words}")


def _term_words(inside: HeadInside, row: int, d: int) -> str:
    q, k, product = inside.q[d], inside.k[row, d], number_text(inside.products[row, d])
    if inside.comparison == "additive":
        return f"w · tanh({number_text(q)} + {_operand(k)}) = {product}"
    return f"{number_text(q)} · {_operand(k)} = {product}"


def _scale_words(inside: HeadInside, row: int) -> tuple[str, str]:
    dot, scaled = float(inside.dot[row]), float(inside.scaled[row])
    formula = f"score = {number_text(inside.scale)} · {_operand(dot)} = {number_text(scaled)}"
    last = scaled
    if inside.logged is not None:
        formula += f", ln = {number_text(inside.logged[row])}"
        last = float(inside.logged[row])
    if inside.capped is not None and inside.softcap is not None:
        cap, capped = number_text(inside.softcap), float(inside.capped[row])
        formula += f" → {cap} · tanh({number_text(last)} / {cap}) = {number_text(capped)}"
        last = capped
    if inside.bias is not None:
        bias = float(inside.bias[row])
        words = f"{number_text(last)} + {_operand(bias)} = {number_text(last + bias)}"
        return (formula, f"then the bias: {words}")
    d = len(inside.q)
    is_root = math.isclose(inside.scale, d**-0.5, rel_tol=1e-6)
    return (formula, f"{number_text(inside.scale)} = 1 / √{d}" if is_root else "")


def _mask_words(inside: HeadInside, row: int) -> tuple[str, str]:
    seen = f"{inside.n_allowed:,} of {inside.n_keys:,} keys are allowed"
    if inside.is_allowed(row):
        return (f"allowed: the score stays {number_text(inside.score[row])}", seen)
    return ("not allowed: the score becomes −∞, the weight 0", seen)


def _softmax_words(inside: HeadInside, row: int) -> tuple[str, str]:
    over = plural(inside.n_allowed, "key") + (" and the sink" if inside.sink is not None else "")
    note = f"{number_text(inside.lse)} = ln Σ exp(score) over {over}"
    is_linear = inside.comparison == "kernel" and inside.bias is None and inside.capped is None
    if is_linear and inside.is_allowed(row):
        share = f"{number_text(inside.scaled[row])} ÷ {number_text(math.exp(inside.lse))}"
        formula = f"weight = {share} = {number_text(inside.weight[row])}"
        return (formula, f"φ(q) · φ(k) by its sum over {over}: linear attention has no exponential")
    if not inside.is_allowed(row):
        return ("weight = exp(−∞) = 0", note)
    score, weight = number_text(inside.score[row]), number_text(inside.weight[row])
    return (f"weight = exp({score} − {_operand(inside.lse)}) = {weight}", note)


def _value_words(inside: HeadInside, row: int, dimension: int | None) -> tuple[str, str]:
    if not inside.is_allowed(row):
        return ("weight · v = 0", f"not allowed; ‖v‖ = {number_text(inside.value_norms[row])}")
    weight, norm = float(inside.weight[row]), float(inside.value_norms[row])
    product = number_text(weight * norm)
    formula = f"‖weight · v‖ = {number_text(weight)} · {number_text(norm)} = {product}"
    if dimension is None or dimension >= inside.v.shape[1]:
        return (formula, "the norm of this key's contribution to the output")
    v, term = inside.v[row, dimension], inside.weighted[row, dimension]
    return (formula, f"dimension {dimension}: {number_text(weight)} · {_operand(v)} = {number_text(term)}")


def _output_words(inside: HeadInside, dimension: int | None) -> tuple[str, str]:
    length = float(np.linalg.norm(inside.output.astype(np.float64)))
    over = f"{inside.n_allowed:,} keys" if inside.n_allowed != 1 else "1 key"
    formula = f"‖output‖ = ‖Σ weight · v‖ = {number_text(length)}"
    if inside.gate != 1:
        formula += f", × gate {number_text(inside.gate)} = {number_text(inside.gate * length)}"
    if dimension is not None and dimension < len(inside.output):
        return (formula, f"dimension {dimension}: {number_text(inside.output[dimension])}")
    return (formula, f"over {over}; at most {inside.output_error:.0e} from the model's own output")


def _operand(value: float) -> str:
    """A number after an operator: a negative one in brackets."""
    words = number_text(value)
    return f"({words})" if words.startswith("−") else words


_STACKS: dict[Stack, str] = {"encoder": "encoder", "decoder": "decoder", "cross": "decoder"}
"""Whose stream the queries of a stack of heads are."""


class Pointed(NamedTuple):
    """The item pointed at: a key by its index in the text, and one dimension of it."""

    key: int | None = None
    dimension: int | None = None


NOWHERE = Pointed()


class InsideChanges(SignalGroup):
    """Signals of InsideState."""

    inside = Signal()
    query = Signal()
    step = Signal()
    key = Signal()
    busy = Signal()


def queries_of(session: Session, rows: Rows) -> tuple[Token, ...]:
    """Row labels of the selected head; none without a text."""
    traced, head = session.traced_text, session.primary
    return stack_tokens(traced, head.stack, rows)[0] if traced is not None and head is not None else ()


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
        session.changed.aspect.connect(self._look_again, max_args=0)

    # What can be read

    @property
    def inside(self) -> HeadInside | None:
        """The numbers, once known; the query is named as rows of maps are."""
        answer = self.asking.answer
        return None if answer is None else answer.inside.called_after(self._session.aspect.rows)

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The queries to choose from, as tokens."""
        return queries_of(self._session, "read")

    @property
    def query(self) -> int:
        """The chosen query; initially the last one that is a token of the text."""
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
        """Message for the view if there are no numbers, or a note on those omitted."""
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
        """The options of *Layer step by step* that continue from here; None if unsupported."""
        model, head = self._session.model, self._session.primary
        if model is None or model.is_recorded or head is None or head.stack not in _STACKS or not self.tokens:
            return None
        return {"layer": head.layer, "token": self.query, "stack": _STACKS[head.stack]}

    # Intents

    def watch(self, is_watched: bool) -> None:
        """Note whether the view is visible."""
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
        """Restore an earlier view: at once, or when the pending trace arrives."""
        self.choose_step(step)
        self._awaited_query = query
        self._take_awaited()

    def choose_token(self, side: str, place: int) -> None:
        """Use a token of one text as the query, if queries are of that text."""
        head, session = self._session.primary, self._session
        has_target = session.traced is not None and session.traced.target is not None
        sides = sides_of(head.stack if head else None, session.sites, has_target=has_target)
        if side == sides[0] and not session.aspect.is_by_word:
            self.choose_query(place)

    def walk_queries(self, n: int) -> None:
        """Move `n` queries on or back, as far as there are any."""
        self.choose_query(min(max(self.query + n, 0), max(len(self.tokens) - 1, 0)))

    def choose_step(self, step: str) -> None:
        """Look at another step."""
        found = next((known for known in STEPS if known == step), None)
        if found is not None and found != self.step:
            self.step = found
            self.changed.step.emit()

    def walk_steps(self, n: int) -> None:
        """Move `n` steps on or back."""
        self.choose_step(STEPS[min(max(STEPS.index(self.step) + n, 0), len(STEPS) - 1)])

    def point_at(self, row: int | None, dimension: int | None = None) -> None:
        """Write out the numbers of the key in a row (None: of the strongest), and of one dimension."""
        inside = self.inside
        key = inside.keys[row] if inside is not None and row is not None else None
        if (key, dimension) != self.pointed:
            self.pointed = Pointed(key, dimension)
            self.changed.key.emit()

    def point_at_key(self, key: int | None) -> None:
        """The same for a key by its position in the text, if shown."""
        inside = self.inside
        if inside is not None and key != self.pointed.key and (key is None or key in inside.keys):
            self.point_at(None if key is None else inside.keys.index(key))

    def walk_keys(self, n: int) -> None:
        """Move `n` rows down or up."""
        inside, row = self.inside, self.row
        if inside is not None and inside.keys:
            self.point_at(0 if row is None else min(max(row + n, 0), len(inside.keys) - 1))

    def handle(self, reply: Reply) -> None:
        """Handle a reply of the worker; late ones are ignored."""
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
        """Request the current view, unless that was done already."""
        if not self.asking.is_watched:
            return
        traced, head = self._session.tracing.settled, self._session.primary
        if traced is None or head is None or not self.tokens:
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

"""The state of the parts behind one output: what each of them adds to the difference of two logits.

Asks only while somebody looks, once for each trace, token and pair of answers. Must not import Qt.
"""

from typing import Literal

from psygnal import Signal, SignalGroup

from attnscope.counting import number_text
from attnscope.records.causes import (
    AttributeOutput,
    Attribution,
    Contribution,
    OutputAttributed,
    WishedToken,
)
from attnscope.records.maps import Picture
from attnscope.records.models import ModelInfo
from attnscope.records.outputs import Candidate
from attnscope.records.requests import Reply
from attnscope.records.sites import HeadRef
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.across_layers import AcrossState
from attnscope.viewmodels.query import Query, Requests
from attnscope.viewmodels.session.state import Session

PartOrder = Literal["size", "model"]
TELLING = ("causal", "masked", "translation", "classification")
"""What models of another library are for that tell tokens or classes."""
PART_ORDERS: dict[str, str] = {"size": "by size", "model": "by layer"}


class AttributingChanges(SignalGroup):
    """What of it can change."""

    choice = Signal()
    order = Signal()
    parts = Signal()


class AttributingState:
    """The output token is that of `across`; the answers hold for it alone."""

    automatic = ("its prediction", "its runner-up")
    """What an answer stands for that nobody has chosen."""
    refusal_title = "No attribution for this model"
    """What the `reason` is a reason against."""

    def __init__(
        self,
        session: Session,
        across: AcrossState,
        requests: Requests,
    ) -> None:
        self._session, self._across = session, across
        self._query = Query(OutputAttributed, requests)
        self.changed = AttributingChanges()
        self.answer: WishedToken = None
        self.other: WishedToken = None
        self.order: PartOrder = "size"
        self.candidates: tuple[Candidate, ...] = ()
        session.changed.model.connect(self._on_model, max_args=0)
        session.changed.text.connect(self._forget_answers, max_args=0)
        session.changed.traced.connect(self._ask, max_args=0)
        across.changed.choice.connect(self._on_position, max_args=0)

    # What can be read

    @property
    def found(self) -> Attribution | None:
        """The parts, when they are known."""
        return self._query.answer.attribution if self._query.answer is not None else None

    @property
    def picture(self) -> Picture | None:
        """What the parts lie over, where the model reads a picture."""
        return self._query.answer.picture if self._query.answer is not None else None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The output tokens that can be chosen; none where there is one class of the whole input."""
        return self._across.tokens if self._across.whole_at is None else ()

    @property
    def position(self) -> int:
        """The output token whose parts are shown."""
        return self._across.position if self._across.whole_at is None else self._across.whole_at

    @property
    def heading(self) -> str:
        """Which output is explained."""
        return self._across.heading if self._across.whole_at is None else self._across.whole_words

    @property
    def compared(self) -> tuple[Token | None, Token | None]:
        """The two tokens whose logits are shown, None while that is unknown."""
        found = self.found
        return (found.answer, found.other) if found is not None else (None, None)

    @property
    def selected(self) -> tuple[HeadRef, ...]:
        """The heads that the session has selected."""
        return self._session.selection

    @property
    def parts(self) -> tuple[Contribution, ...]:
        """The parts in the chosen order."""
        if self.found is None:
            return ()
        parts = self.found.contributions
        return parts if self.order == "model" else tuple(sorted(parts, key=lambda one: -abs(one.value)))

    @property
    def reason(self) -> str:
        """Why there can be no parts; empty while there are some, or some to come."""
        return refusal_of(self._session.model) or self._query.error

    @property
    def note(self) -> str:
        """What is under way or to be done while there are no parts, or what they leave out."""
        session = self._session
        if self.reason:
            return ""
        if not session.text.strip():
            is_picture = session.model is not None and session.model.reads == "picture"
            what = "Type the path of a picture" if is_picture else "Enter a text"
            return f"{what} to see which parts of the model made an output."
        if self.found is None:
            return "Adding up the parts…"
        changes = "Changes inside heads are ignored; gates count." if session.interventions else ""
        return " ".join(part for part in (changes, self.found.note) if part)

    @property
    def statement(self) -> str:
        """The difference that is taken apart."""
        found = self.found
        if found is None:
            return ""
        return f"logit({found.answer.piece}) − logit({found.other.piece}) = {number_text(found.difference)}"

    @property
    def sum_words(self) -> str:
        """What all parts add up to."""
        found = self.found
        return f"{len(found.contributions)} parts: {number_text(found.total)}" if found is not None else ""

    def gate(self, head: HeadRef) -> float:
        return self._session.gates.value(head)

    # Intents

    def watch(self, is_watched: bool) -> None:
        """Somebody looks at the parts, or nobody does."""
        self._query.is_watched = is_watched
        self._ask()

    def choose_position(self, position: int) -> None:
        """Explain another output token, here and in the panel across layers."""
        self._across.choose(position)

    def choose_answers(self, answer: WishedToken, other: WishedToken) -> None:
        """Compare other tokens; None is what the model says."""
        wished = (clean_wish(answer), clean_wish(other))
        if wished != (self.answer, self.other):
            self.answer, self.other = wished
            self.changed.choice.emit()
            self._ask()

    def choose_order(self, order: str) -> None:
        """Sort the parts."""
        if order in PART_ORDERS and order != self.order:
            self.order = "model" if order == "model" else "size"
            self.changed.order.emit()

    def select(self, head: HeadRef, *, is_added: bool = False) -> None:
        """Select a head for the whole window."""
        self._session.select_heads((head,), is_added)

    def handle(self, reply: Reply) -> None:
        """Take a reply of the worker; those that come too late change nothing."""
        if self._query.take(reply):
            if self._query.answer is not None:
                self.candidates = self._query.answer.candidates
            self.changed.parts.emit()

    # Inside

    def _on_model(self) -> None:
        self._forget_answers()
        self._query.forget()
        self.candidates = ()
        self.changed.parts.emit()
        self._ask()

    def _forget_answers(self) -> None:
        self.answer = self.other = None

    def _on_position(self) -> None:
        found = self.found
        if found is not None and found.position != self.position:
            self._forget_answers()
        self.changed.choice.emit()
        self._ask()

    def _ask(self) -> None:
        """Ask for the text that is shown, unless that was done already."""
        session, traced = self._session, self._session.traced
        if not self._query.is_watched or session.model is None or refusal_of(session.model):
            return
        if traced is None or session.tracing.is_stale or not self._across.tokens:
            return
        request = AttributeOutput(
            position=self.position,
            text=session.text,
            target=session.target or traced.target_text,
            answer=self.answer,
            other=self.other,
            gates=traced.gates,
        )
        about = (traced.number, self.position, self.answer, self.other)
        self._query.ask(about, request)


def refusal_of(model: ModelInfo | None) -> str:
    """Why nothing can be taken apart in a model; empty where it can be tried, and without a model."""
    if model is None:
        return ""
    if model.is_recorded:
        return "This is recorded attention: it has no output to attribute."
    if model.body:
        return f"The model is recurrent ({model.body}): it has no stream that layers add to."
    if model.labels:
        return f"{model.name} predicts labels of whole texts, not tokens that could be compared."
    if model.architecture and (model.objective not in TELLING or model.reads == "recording"):
        if model.reads == "picture":
            return f"{model.name} has no output layer: it predicts no classes that could be compared."
        if model.reads == "recording":
            return f"{model.name} reads recordings, whose parts cannot be separated here."
        return f"{model.name} predicts no tokens of a text that could be compared."
    return ""


def part_words(part: Contribution, total: float) -> str:
    """One part in words: what it adds, and its share of the whole difference."""
    share = f", {part.value / total:.1%} of the difference".replace("-", "−") if total else ""
    is_named = part.kind != "head" or part.label.startswith(f"{part.stack} ")
    kind = part.label if is_named else f"{part.stack} {part.label}"
    return f"{kind}: {number_text(part.value)} logits{share}"


def clean_wish(wish: WishedToken) -> WishedToken:
    """A wished token, None where nothing was typed."""
    return (wish or None) if isinstance(wish, str) else wish

"""The two sides of a comparison: the choice for each, and its traces, requested one at a time for each."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from psygnal import Signal, SignalGroup

from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, Which
from attnscope.records.messages import OPEN_MODEL, Failed, HeadsShown, Progress, ShowHeads, Traced, TraceText
from attnscope.records.models import Sample
from attnscope.records.outputs import OutputWritten
from attnscope.records.requests import Reply
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.records.tiles import is_long
from attnscope.viewmodels.causes.attribution_and_patching import counterpart
from attnscope.viewmodels.query import Requests
from attnscope.viewmodels.session.changes import (
    DEFAULT_COMPARING,
    Comparing,
    Kept,
    SideChoice,
    changes_words,
    short_checkpoint,
)
from attnscope.viewmodels.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class SideWish:
    """Everything that a trace of one side depends on; `model` is as in requests."""

    source: str
    model: str
    text: str
    target: str | None
    gates: Gates
    interventions: Interventions
    is_past_trained: bool = False


@dataclass(slots=True)
class Side:
    """One side with the worker's results for it. `view` names it in requests and never changes."""

    view: str
    choice: SideChoice
    wish: SideWish | None = None
    number: int = 0
    heads_number: int = 0
    traced: Traced | None = None
    shown: SideWish | None = None
    progress: str = ""
    error: str = ""
    maps: dict[HeadRef, HeadMap] = field(default_factory=dict)

    def forget(self) -> None:
        """Clear the results of this side."""
        self.traced, self.shown, self.wish, self.number = None, None, None, 0
        self.heads_number, self.progress, self.error = 0, "", ""
        self.maps.clear()

    @property
    def is_waiting(self) -> bool:
        """Whether a trace is pending."""
        return self.number != 0

    @property
    def takes_target(self) -> bool:
        """Whether the traced model reads a second text."""
        info = self.traced.info if self.traced else None
        return info.takes_target if info else False

    def has(self, head: HeadRef) -> bool:
        """Whether the traced model has such a head."""
        traced = self.traced
        return traced is not None and any(head in grid.site.heads for grid in traced.grids)


def wish_of(choice: SideChoice, session: Session) -> SideWish | None:
    """The trace to request for a side; None while there is no model or no text."""
    is_open = session.model is not None and choice.model in (None, session.model.source)
    source = session.model.source if is_open and session.model else choice.model
    text = (example_for(choice, session).text or session.text) if choice.text is None else choice.text
    if source is None or not text.strip():
        return None
    target = session.target if choice.text is None and text == session.text else choice.target
    gates, interventions = changes_of(choice, session)
    return SideWish(
        source=source,
        model=OPEN_MODEL if is_open else source,
        text=text,
        target=target,
        gates=gates,
        interventions=interventions,
        is_past_trained=session.texts.is_past_trained,
    )


@dataclass(frozen=True, slots=True)
class Companion:
    """A text that one side reads to allow a comparison; `words` describe it."""

    text: str
    words: str


NO_COMPANION = Companion("", "")


def example_for(choice: SideChoice, session: Session) -> Companion:
    """Default text for the side that follows Explore, if nothing is chosen and the sides would be equal."""
    model, sides = session.model, (session.compared.first, session.compared.second)
    is_changed = sides not in (_UNTOUCHED, _UNTOUCHED[::-1]) or session.gates or session.interventions
    if choice.changes != "explore" or is_changed or model is None or model.reads != "text":
        return NO_COMPANION
    return companion(session.text, model.samples)


_UNTOUCHED = (DEFAULT_COMPARING.first, DEFAULT_COMPARING.second)
_SAMPLE = "another sample"
_WORD = re.compile(r"<[^<>]*>|\[[A-Z]+\]|(\w+)")
"""A word, or a special token as people type it, which is none."""


@lru_cache(maxsize=32)
def companion(text: str, samples: tuple[Sample, ...]) -> Companion:
    """Default text for a comparison with a text.

    A sample's pair, or the sample most like it. For a text of one's own the sample that differs in one word,
    or itself with two neighbouring words exchanged, else some sample.
    """
    own = next((sample for sample in samples if sample.text == text), None)
    others = [sample.text for sample in samples if sample.text != text]
    pair = own.pair if own is not None else ""
    near = pair or counterpart(text, samples)
    if near or not text.strip():
        return Companion(near, _SAMPLE if near else "")
    if own is None and (exchanged := with_words_exchanged(text)).text:
        return exchanged
    words = text.split()
    nearest = max(others, key=lambda other: SequenceMatcher(None, words, other.split()).ratio(), default="")
    return Companion(nearest, _SAMPLE if nearest else "")


def with_words_exchanged(text: str) -> Companion:
    """The text with two neighbouring words exchanged, long ones if there are; empty if no two differ.

    Neighbours, so that most tokens keep a partner to be compared with.
    """
    words = [word for word in _WORD.finditer(text[:_MOST_READ]) if word[1]]
    pairs = [(a, b) for a, b in pairwise(words) if a[1].lower() != b[1].lower()]
    if not pairs:
        return NO_COMPANION
    first, second = max(pairs, key=lambda pair: min(len(pair[0][1]), len(pair[1][1])))
    between = text[first.end() : second.start()]
    exchanged = text[: first.start()] + second[1] + between + first[1] + text[second.end() :]
    return Companion(exchanged, f"“{first[1]}” and “{second[1]}” exchanged")


_MOST_READ = 2_000


def changes_of(choice: SideChoice, session: Session) -> tuple[Gates, Interventions]:
    if choice.changes == "explore":
        return session.gates, session.interventions
    if choice.changes == "kept" and choice.kept is not None:
        return choice.kept.gates, choice.kept.interventions
    return NO_GATES, ()


def missing_head(head: HeadRef, heads: Mapping[Which, HeadRef], sides: Mapping[Which, Side]) -> str:
    """Note on the side without the selected head; `heads` names the head for each side."""
    lacking = [which for which, named in heads.items() if not sides[which].has(named)]
    if not lacking:
        return ""
    who = "Neither A nor B has a" if len(lacking) == 2 else f"{lacking[0]} has no"
    return f"{who} head {head.label} in the stack {head.stack}."


def side_words(side: Side, other: Side, which: Which) -> str:
    """Description of a side: only what distinguishes it from the other."""
    wish, against = side.shown, other.shown
    if wish is None:
        return which
    name = side.traced.info.name if side.traced and side.traced.info else short_checkpoint(wish.source)
    parts = []
    if against is None or wish.source != against.source:
        parts.append(name)
    if against is not None and wish.text != against.text:
        parts.append(f"“{wish.text}”")
    changes = changes_words(wish.gates, wish.interventions)
    if against is None or (wish.gates, wish.interventions) != (against.gates, against.interventions):
        parts.append(changes)
    return " · ".join(parts)


def keep_now(session: Session) -> Kept | None:
    """The current view of Explore, to be compared later; None without a model or a text."""
    if session.model is None or not session.text.strip():
        return None
    return Kept(
        source=session.model.source,
        text=session.text,
        target=session.target,
        gates=session.gates,
        interventions=session.interventions,
    )


WHICH: tuple[Which, Which] = ("A", "B")
HeadOf = Callable[[Which], HeadRef | None]


class CompareChanges(SignalGroup):
    """Signals of CompareState."""

    sides = Signal()
    kept = Signal()
    look = Signal()
    """The display: alignment, order, colours."""
    traced = Signal()
    head = Signal()
    """Another head is looked at."""
    heads = Signal()
    """Its full maps."""
    compared = Signal()
    output = Signal()
    """The generated texts."""
    busy = Signal()


class SideTraces:
    """Holds both sides; `head_of` gives the selected head of each, `changed` is notified of results."""

    def __init__(
        self,
        session: Session,
        requests: Requests,
        head_of: HeadOf,
        changed: CompareChanges,
    ) -> None:
        self._session, self._requests, self._head_of = session, requests, head_of
        self._changed = changed
        self.sides: dict[Which, Side] = {
            "A": Side(view="compare A", choice=session.compared.first),
            "B": Side(view="compare B", choice=session.compared.second),
        }

    @property
    def is_waiting(self) -> bool:
        return self.sides["A"].is_waiting or self.sides["B"].is_waiting

    @property
    def is_shown(self) -> bool:
        """Whether there are two traces to compare."""
        return all(side.traced is not None for side in self.sides.values())

    @property
    def is_same_wish(self) -> bool:
        """Whether both sides request the same thing, so that nothing can differ."""
        return self.wish("A") is not None and self.wish("A") == self.wish("B")

    @property
    def progress(self) -> str:
        """Progress, in words."""
        return next((side.progress for side in self.sides.values() if side.progress), "")

    def wish(self, which: Which) -> SideWish | None:
        """The trace to request for a side; None while there is no model or no text."""
        return wish_of(self.sides[which].choice, self._session)

    def name(self, which: Which) -> str:
        """Name of a side: only what distinguishes it from the other."""
        other: Which = "B" if which == "A" else "A"
        words = side_words(self.sides[which], self.sides[other], which)
        return f"{which} · {words}" if words and words != which else which

    @property
    def both(self) -> tuple[Traced, Traced] | None:
        """The traces of both sides, if both are there and no newer one is pending."""
        first, second = self.sides["A"].traced, self.sides["B"].traced
        return None if first is None or second is None or self.is_waiting else (first, second)

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the current traces; 0: none."""
        first, second = (side.traced.number if side.traced else 0 for side in self.sides.values())
        return first, second

    def map_of(self, which: Which) -> HeadMap | None:
        """The selected head in full, once received."""
        head = self._head_of(which)
        return self.sides[which].maps.get(head) if head is not None else None

    def take(self, compared: Comparing) -> bool:
        """Set the choice for both sides; sides that are swapped keep all their results.

        Whether they have changed places.
        """
        present = self.sides["A"].choice, self.sides["B"].choice
        wanted = compared.first, compared.second
        is_swapped = present != wanted and present == (compared.second, compared.first)
        if is_swapped:
            self.sides = {"A": self.sides["B"], "B": self.sides["A"]}
        for which, choice in zip(WHICH, wanted, strict=True):
            self.sides[which].choice = choice
        return is_swapped

    def forget_open_model(self) -> None:
        """Drop the results for the previous model."""
        for side in self.sides.values():
            if side.choice.model is None or (side.wish and side.wish.model == OPEN_MODEL):
                side.forget()

    def pump(self) -> bool:
        """Request what is missing; returns whether a side has lost its results."""
        is_lost = False
        for which, side in self.sides.items():
            wish = wish_of(side.choice, self._session)
            if side.is_waiting or wish == side.wish:
                continue
            if wish is None:
                side.forget()
                is_lost = True
                continue
            self._trace(which, side, wish)
        return is_lost

    def give_up(self) -> tuple[int, ...]:
        """Stop waiting for traces; returns the numbers of the requests to cancel."""
        numbers = []
        for side in self.sides.values():
            if side.is_waiting:
                numbers.append(side.number)
                wish = side.wish
                side.forget()
                side.wish, side.error = wish, "Tracing was stopped."
        return tuple(numbers)

    def again(self) -> None:
        """Allow stopped or failed requests to be sent again."""
        for side in self.sides.values():
            if side.error:
                side.forget()

    def fetch_heads(self) -> None:
        """Request the selected head from each side, unless it is there or impossible."""
        for which, side in self.sides.items():
            head = self._head_of(which)
            if head is None or side.is_waiting or head in side.maps:
                continue  # a trace on its way may bring it
            if side.has(head) and not self.is_too_long(which, head):
                trace = side.traced.number if side.traced else 0
                request = ShowHeads(heads=(head,), view=side.view, trace=trace)
                side.heads_number = self._requests.send(request)

    def is_too_long(self, which: Which, head: HeadRef) -> bool:
        """Whether the map of a head is too large to be held whole."""
        traced = self.sides[which].traced
        grids = traced.grids if traced else ()
        return any(is_long(g.n_queries, g.n_keys) for g in grids if head in g.site.heads)

    def handle(self, reply: Reply) -> bool:
        """Handle a reply to one of the sides; True if a trace has come, or failed."""
        for side in self.sides.values():
            match reply:
                case Traced() | Failed() if reply.number == side.number != 0:
                    self._take(side, reply)
                    return True
                case Progress() if reply.number == side.number != 0:
                    side.progress = reply.what
                    self._changed.busy.emit()
                    break
                case HeadsShown() if reply.number == side.heads_number != 0:
                    side.heads_number = 0
                    side.maps.update({found.head: found for found in reply.maps})
                    self._changed.heads.emit()
                    break
                case OutputWritten() if side.traced is not None and side.traced.number == reply.number:
                    side.traced = replace(side.traced, comparison=reply.comparison)
                    self._changed.output.emit()
                    break
        return False

    def _take(self, side: Side, reply: Traced | Failed) -> None:
        """Accept a trace requested for one side, or its failure."""
        wish = side.wish
        if isinstance(reply, Failed):
            side.forget()
            side.wish, side.error = wish, reply.message
            return
        side.number, side.progress, side.error = 0, "", ""
        side.traced, side.shown = reply, wish
        side.maps = {found.head: found for found in reply.maps}

    def _trace(self, which: Which, side: Side, wish: SideWish) -> None:
        head = self._head_of(which)
        is_known = side.shown is not None and side.shown.source == wish.source
        side.wish, side.error = wish, ""
        side.number = self._requests.send(
            TraceText(
                text=wish.text,
                target=wish.target,
                gates=wish.gates,
                interventions=wish.interventions,
                heads=(head,) if head is not None and is_known and side.has(head) else (),
                model=wish.model,
                thumbnail_px=1,
                past_trained=wish.is_past_trained,
                view=side.view,
            )
        )

"""The two sides of a comparison: what each is to be, and what has come of it.

Must not import Qt.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, Which
from attnscope.records.messages import OPEN_MODEL, Traced
from attnscope.records.models import Sample
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.viewmodels.causes.patch_words import counterpart
from attnscope.viewmodels.session.comparing import (
    DEFAULT_COMPARING,
    Kept,
    SideChoice,
    changes_words,
    short_checkpoint,
)
from attnscope.viewmodels.session.state import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class SideWish:
    """Everything a trace of one side depends on; `model` is as requests name it."""

    source: str
    model: str
    text: str
    target: str | None
    gates: Gates
    interventions: Interventions
    is_past_trained: bool = False


@dataclass(slots=True)
class Side:
    """One side with what the worker has sent of it. `view` names it in requests and never changes."""

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
        """Nothing is there to be shown of this side."""
        self.traced, self.shown, self.wish, self.number = None, None, None, 0
        self.heads_number, self.progress, self.error = 0, "", ""
        self.maps.clear()

    @property
    def is_waiting(self) -> bool:
        """Whether a trace is on its way."""
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
    """What to trace for a side; None while there is no model or no text."""
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
    """A text that one side reads so that there is something to compare; `words` say what it is."""

    text: str
    words: str


NO_COMPANION = Companion("", "")


def example_for(choice: SideChoice, session: Session) -> Companion:
    """What the side that follows Explore reads as long as nothing is chosen and nothing would differ."""
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
    """What a text is to be compared with while nothing else is chosen.

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
    """The text with two neighbouring words exchanged, long ones if there are; empty where no two differ.

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
    """The gates and interventions of a side."""
    if choice.changes == "explore":
        return session.gates, session.interventions
    if choice.changes == "kept" and choice.kept is not None:
        return choice.kept.gates, choice.kept.interventions
    return NO_GATES, ()


def missing_head(head: HeadRef, heads: Mapping[Which, HeadRef], sides: Mapping[Which, Side]) -> str:
    """Which side lacks the head that is looked at, in words; `heads` is it as each side names it."""
    lacking = [which for which, named in heads.items() if not sides[which].has(named)]
    if not lacking:
        return ""
    who = "Neither A nor B has a" if len(lacking) == 2 else f"{lacking[0]} has no"
    return f"{who} head {head.label} in the stack {head.stack}."


def side_words(side: Side, other: Side, which: Which) -> str:
    """What a side is, naming only what tells it from the other one."""
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
    """What Explore shows now, to be compared later; None without a model or a text."""
    if session.model is None or not session.text.strip():
        return None
    return Kept(
        source=session.model.source,
        text=session.text,
        target=session.target,
        gates=session.gates,
        interventions=session.interventions,
    )

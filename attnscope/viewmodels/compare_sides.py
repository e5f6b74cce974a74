"""The two sides of a comparison: what each is to be, and what has come of it.

Must not import Qt.
"""

from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from attnscope.records.compare import Which
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap
from attnscope.records.messages import OPEN_MODEL, Traced
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.viewmodels.session import Session

Changes = Literal["untouched", "explore", "kept"]
CHANGES: dict[Changes, str] = {"untouched": "untouched", "explore": "as now in Explore"}
_N_NAMED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Gates and interventions remembered at some moment, with the model and texts they belonged to."""

    source: str
    text: str
    target: str | None
    gates: Gates = NO_GATES
    interventions: Interventions = ()

    @property
    def label(self) -> str:
        """What it is, in a few words."""
        return changes_words(self.gates, self.interventions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideChoice:
    """What a side is to be. `model` None is the open one; `text` None the text in Explore, with its target.

    With a text of its own, `target` None lets the model write its own.
    """

    model: str | None = None
    text: str | None = None
    target: str | None = None
    changes: Changes = "untouched"
    kept: Kept | None = None


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
    text = session.text if choice.text is None else choice.text
    if source is None or not text.strip():
        return None
    target = session.target if choice.text is None else choice.target
    gates, interventions = changes_of(choice, session)
    return SideWish(
        source=source,
        model=OPEN_MODEL if is_open else source,
        text=text,
        target=target,
        gates=gates,
        interventions=interventions,
        is_past_trained=session.is_past_trained,
    )


def changes_of(choice: SideChoice, session: Session) -> tuple[Gates, Interventions]:
    """The gates and interventions of a side."""
    if choice.changes == "explore":
        return session.gates, session.interventions
    if choice.changes == "kept" and choice.kept is not None:
        return choice.kept.gates, choice.kept.interventions
    return NO_GATES, ()


def changes_words(gates: Gates, interventions: Interventions) -> str:
    """Gates and interventions in a few words; `untouched` when there are none."""
    off = [f"{h.stack} {h.label}" for h in gates.off()]
    dimmed = [f"{h.stack} {h.label} × {v:g}" for h, v in gates.values if v]
    parts = [f"{_listed(off)} off"] if off else []
    parts += [_listed(dimmed)] if dimmed else []
    n = len(interventions)
    parts += [interventions[0].sentence if n == 1 else f"{n} head changes"] if n else []
    return " · ".join(parts) or "untouched"


def side_words(side: Side, other: Side, which: Which) -> str:
    """What a side is, naming only what tells it from the other one."""
    wish, against = side.shown, other.shown
    if wish is None:
        return which
    name = side.traced.info.name if side.traced and side.traced.info else short_source(wish.source)
    parts = []
    if against is None or wish.source != against.source:
        parts.append(name)
    if against is not None and wish.text != against.text:
        parts.append(f"“{wish.text}”")
    changes = changes_words(wish.gates, wish.interventions)
    if against is None or (wish.gates, wish.interventions) != (against.gates, against.interventions):
        parts.append(changes)
    return " · ".join(parts)


def short_source(source: str) -> str:
    """The last part of a path or an id; of a checkpoint with its run: `run, step 2000`."""
    path = PurePath(source.rstrip("/"))
    if path.name.isdecimal() and path.parent.name == "checkpoints":
        return f"{path.parent.parent.name}, step {int(path.name):,}"
    return path.name or source


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


def choice_of(kept: Kept) -> SideChoice:
    """A side that is what was kept, whatever Explore shows later."""
    return SideChoice(model=kept.source, text=kept.text, target=kept.target, changes="kept", kept=kept)


def with_text(choice: SideChoice, text: str) -> SideChoice:
    """The side with a text of its own; an empty one follows Explore again."""
    if not text.strip():
        return replace(choice, text=None, target=None)
    return replace(choice, text=text, target=None if choice.text is None else choice.target)


def _listed(names: list[str]) -> str:
    more = len(names) - _N_NAMED
    return ", ".join(names[:_N_NAMED]) + (f" and {more} more" if more > 0 else "")

"""What the person has chosen on the Compare page: both sides and how they are compared.

Part of the setting that undo brings back and session files keep, so nothing here knows of a session.
Must not import Qt.
"""

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Annotated, Literal

from attnscope.codec import At
from attnscope.records.interventions import Interventions
from attnscope.records.maps import Which
from attnscope.records.sites import NO_GATES, Gates
from attnscope.viewmodels.maps.alignment import WAYS, Way
from attnscope.viewmodels.session.typed_text import Typed, named_text

SOURCE_HERE = "source here"
SourceHere = Annotated[str, SOURCE_HERE]
"""A model's source that a file names and that is opened without asking: never one that is downloaded."""
Changes = Literal["untouched", "explore", "kept"]
CHANGES: dict[Changes, str] = {"untouched": "untouched", "explore": "as now in Explore"}
Limit = Literal["head", "every", "unit"]
LIMITS: dict[Limit, str] = {
    "head": "to this head's largest difference",
    "every": "to the largest difference of all heads",
    "unit": "−1 to 1",
}
Order = Literal["layers", "changed"]
ORDERS: dict[Order, str] = {"layers": "by layer", "changed": "most changed first"}
_N_NAMED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Gates and interventions remembered at some moment, with the model and texts they belonged to."""

    source: SourceHere
    text: Typed
    target: Typed | None
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

    model: SourceHere | None = None
    text: Typed | None = None
    target: Typed | None = None
    changes: Changes = "untouched"
    kept: Kept | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """Both sides, how tokens are aligned, what the ends of the colours stand for, and the order of heads."""

    first: Annotated[SideChoice, At("A")] = SideChoice()
    second: Annotated[SideChoice, At("B")] = SideChoice(changes="explore")
    way: Way = "pairs"
    limit: Limit = "head"
    order: Order = "layers"
    has_all_stacks: bool = False

    def side(self, which: Which) -> SideChoice:
        return self.first if which == "A" else self.second

    def with_side(self, which: Which, choice: SideChoice) -> "Comparing":
        """The same with another side."""
        return replace(self, first=choice) if which == "A" else replace(self, second=choice)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What was kept and is one of the sides now."""
        return tuple(c.kept for c in (self.first, self.second) if c.changes == "kept" and c.kept is not None)

    @property
    def swapped(self) -> "Comparing":
        """A as B and B as A."""
        return replace(self, first=self.second, second=self.first)


DEFAULT_COMPARING = Comparing()


def choice_of(kept: Kept) -> SideChoice:
    """A side that is what was kept, whatever Explore shows later."""
    return SideChoice(model=kept.source, text=kept.text, target=kept.target, changes="kept", kept=kept)


def with_text(choice: SideChoice, text: str) -> SideChoice:
    """The side with a text of its own; an empty one follows Explore again."""
    if not text.strip():
        return replace(choice, text=None, target=None)
    return replace(choice, text=text, target=None if choice.text is None else choice.target)


def choice_words(before: SideChoice, after: SideChoice, which: Which) -> str:
    """One side chosen anew, as a step of the history names it."""
    name = f"compare: {which}"
    if before.model != after.model and after.changes == before.changes:
        return f"{name} is {'the open model' if after.model is None else short_checkpoint(after.model)}"
    if (before.changes, before.kept) != (after.changes, after.kept):
        kept = f"kept, {after.kept.label}" if after.kept is not None else CHANGES[after.changes]
        return f"{name} {kept}"
    if before.text != after.text:
        return f"{name} {'reads the text in Explore' if after.text is None else named_text(after.text)}"
    return f"{name} {named_text(after.target or 'its own', 'target')}"


def look_words(before: Comparing, after: Comparing) -> str:
    """Another way of comparing, as a step of the history names it."""
    if before.way != after.way:
        return f"compare: align {WAYS[after.way]}"
    if before.limit != after.limit:
        return f"compare: Δ scale {LIMITS[after.limit]}"
    if before.order != after.order:
        return f"compare: heads {ORDERS[after.order]}"
    return f"compare: heads of {'all stacks' if after.has_all_stacks else 'one stack'}"


def changes_words(gates: Gates, interventions: Interventions) -> str:
    """Gates and interventions in a few words; `untouched` when there are none."""
    off = [f"{h.stack} {h.label}" for h in gates.off()]
    dimmed = [f"{h.stack} {h.label} × {v:g}" for h, v in gates.values if v]
    parts = [f"{_listed(off)} off"] if off else []
    parts += [_listed(dimmed)] if dimmed else []
    n = len(interventions)
    parts += [interventions[0].sentence if n == 1 else f"{n} head changes"] if n else []
    return " · ".join(parts) or "untouched"


def short_checkpoint(source: str) -> str:
    """The last part of a path or an id; of a checkpoint with its run: `run, step 2000`."""
    path = PurePath(source.rstrip("/"))
    if path.name.isdecimal() and path.parent.name == "checkpoints":
        return f"{path.parent.parent.name}, step {int(path.name):,}"
    return path.name or source


def _listed(names: list[str]) -> str:
    more = len(names) - _N_NAMED
    return ", ".join(names[:_N_NAMED]) + (f" and {more} more" if more > 0 else "")

"""Undo and redo of what the person did: gates, heads, texts, what is compared; with readable names."""

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Annotated, Generic, Literal, Protocol, TypeVar

from attnscope.codec import At, Once
from attnscope.records.interventions import Interventions
from attnscope.records.maps import Which
from attnscope.records.models import ModelInfo
from attnscope.records.sites import NO_GATES, Gates, HeadRef
from attnscope.viewmodels.compare.difference import WAYS, Way
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect
from attnscope.viewmodels.session.typed_text import Typed, named_text

T = TypeVar("T")
_N_STEPS = 100


class UndoStack(Generic[T]):
    """Values that were left, the latest last; those of one non-empty `group` in a row are one step."""

    def __init__(self) -> None:
        self._before: list[T] = []
        self._after: list[T] = []
        self._group = ""

    @property
    def can_undo(self) -> bool:
        """Whether there is something to go back to."""
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        """Whether there is something to go forward to."""
        return bool(self._after)

    def leave(self, value: T, group: str = "") -> None:
        """A person is about to change `value`; what was undone before is forgotten."""
        if not (group and group == self._group and self._before and not self._after):
            self._before.append(value)
            del self._before[:-_N_STEPS]
        self._after.clear()
        self._group = group

    def close_group(self) -> None:
        """Let the next change be a step of its own, for instance when a drag ends."""
        self._group = ""

    def undo(self, now: T) -> T:
        """The value before the last change; `now` can be gone forward to. The same when there is none."""
        return self._turn(now, self._before, self._after)

    def redo(self, now: T) -> T:
        """The value after the change that was undone last. The same when there is none."""
        return self._turn(now, self._after, self._before)

    def forget(self) -> None:
        """There is nothing to go back to any more."""
        self._before.clear()
        self._after.clear()
        self._group = ""

    def _turn(self, now: T, taken: list[T], given: list[T]) -> T:
        if not taken:
            return now
        given.append(now)
        self._group = ""
        return taken.pop()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What undo brings back."""

    gates: Gates = NO_GATES
    selection: tuple[HeadRef, ...] = ()
    aspect: Annotated[Aspect, Once({})] = PLAIN
    text: Typed = ""
    target: Typed | None = None
    interventions: Interventions = ()
    compared: Annotated[Comparing, At("compare")] = DEFAULT_COMPARING


class Settled(Protocol):
    """What has everything of a setting: a session."""

    gates: Gates
    selection: tuple[HeadRef, ...]
    aspect: Aspect
    text: str
    target: str | None
    interventions: Interventions
    compared: Comparing


def setting_of(shown: Settled) -> Setting:
    return Setting(
        gates=shown.gates,
        selection=shown.selection,
        aspect=shown.aspect,
        text=shown.text,
        target=shown.target,
        interventions=shown.interventions,
        compared=shown.compared,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of the history; steps with the same non-empty `group` in a row become one."""

    label: str
    before: Setting
    after: Setting
    group: str = ""


class History:
    """A stack of changes with a place in it; at most `n_steps` are kept."""

    def __init__(self, n_steps: int = 200) -> None:
        self._n_steps = n_steps
        self._done: list[Change] = []
        self._undone: list[Change] = []
        self._is_open = False

    def record(self, change: Change) -> None:
        """Add a change that has just been made; whatever was undone before is forgotten."""
        if change.before == change.after:
            return
        last = self._done[-1] if self._done else None
        if last and self._is_open and change.group and last.group == change.group:
            change = Change(label=change.label, before=last.before, after=change.after, group=change.group)
            self._done.pop()
        if change.before != change.after:
            self._done.append(change)
        del self._done[: -self._n_steps]
        self._undone.clear()
        self._is_open = change.before != change.after

    def reopen(self, label: str, before: Setting, now: Setting) -> None:
        """The model is open again: that is a step from how it was before, with the same heads selected."""
        self._is_open = False
        after = replace(now, selection=before.selection)
        self.record(Change(label=label, before=before, after=after, group="open"))

    def close_group(self) -> None:
        """Let the next change be a step of its own, for instance when a drag ends."""
        self._is_open = False

    def undo(self) -> Setting | None:
        """Step back; gives what to bring back, or None at the beginning."""
        if not self._done:
            return None
        change = self._done.pop()
        self._undone.append(change)
        self._is_open = False
        return change.before

    def redo(self) -> Setting | None:
        """Step forward again; gives what to bring back, or None at the end."""
        if not self._undone:
            return None
        change = self._undone.pop()
        self._done.append(change)
        self._is_open = False
        return change.after

    def go_to(self, n_steps: int) -> Setting | None:
        """Step back or forward until `n_steps` are done; gives what to bring back, None when nothing is."""
        setting = None
        n_steps = min(max(n_steps, 0), len(self._done) + len(self._undone))
        while len(self._done) != n_steps:
            setting = self.undo() if len(self._done) > n_steps else self.redo()
        return setting

    @property
    def labels(self) -> tuple[str, ...]:
        """Every step, the oldest first, with those that were undone at the end."""
        return tuple(change.label for change in (*self._done, *reversed(self._undone)))

    @property
    def done(self) -> tuple[Change, ...]:
        """The steps that are done, the oldest first."""
        return tuple(self._done)

    @property
    def n_done(self) -> int:
        """How many of the labels are done; the rest is undone."""
        return len(self._done)

    @property
    def undoing(self) -> Change | None:
        """The step that undo would take back."""
        return self._done[-1] if self._done else None

    @property
    def redoing(self) -> Change | None:
        """The step that redo would do again."""
        return self._undone[-1] if self._undone else None

    @property
    def undo_label(self) -> str:
        """What undo would take back, or an empty text."""
        return self._done[-1].label if self._done else ""

    @property
    def redo_label(self) -> str:
        """What redo would do again, or an empty text."""
        return self._undone[-1].label if self._undone else ""


class Histories:
    """One history for each model, by its source and the hash of its weights; the latest models' are kept."""

    def __init__(self, n_models: int = 16) -> None:
        self._n_models = n_models
        self._kept: dict[tuple[str, str], History] = {}
        self._left: dict[tuple[str, str], Setting] = {}

    def of(self, model: ModelInfo) -> History:
        """The history of a model: the one it had when it was open before, else a new one."""
        key = _key_of(model)
        history = self._kept.pop(key, None) or History()
        self._kept[key] = history
        for old in [*self._kept][: -self._n_models]:
            del self._kept[old]
            self._left.pop(old, None)
        return history

    def leave(self, model: ModelInfo, setting: Setting) -> None:
        """A model is closed, with this setting."""
        self._left[_key_of(model)] = setting

    def left(self, model: ModelInfo, now: Setting) -> Setting:
        """The setting that a model was closed with; `now` where it never was."""
        return self._left.pop(_key_of(model), now)


def _key_of(model: ModelInfo) -> tuple[str, str]:
    return model.source, model.sha256

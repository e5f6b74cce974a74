"""The user's changes: gates, removed edges, replaced patterns; and undo and redo of all."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Generic, Literal, Protocol, TypeVar

from attnscope.codec import At, Once
from attnscope.counting import few_listed, plural
from attnscope.records.interventions import (
    MAX_MASK_TOKENS,
    CopyPattern,
    Intervention,
    Interventions,
    MakeMean,
    MakeUniform,
    RemoveEdge,
    UseMask,
    maskable_stack,
)
from attnscope.records.maps import Which
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Rows, Site, Stack
from attnscope.records.tokens import Token
from attnscope.viewmodels.compare.difference import WAYS, Way
from attnscope.viewmodels.maps.aspect import PLAIN, Aspect, stack_tokens
from attnscope.viewmodels.session.typed_text import Typed, named_text

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session

T = TypeVar("T")
_N_STEPS = 100


class UndoStack(Generic[T]):
    """Earlier values, the latest last; consecutive ones of one non-empty `group` are one step."""

    def __init__(self) -> None:
        self._before: list[T] = []
        self._after: list[T] = []
        self._group = ""

    @property
    def can_undo(self) -> bool:
        """Whether there is a value to return to."""
        return bool(self._before)

    @property
    def can_redo(self) -> bool:
        """Whether there is an undone value."""
        return bool(self._after)

    def leave(self, value: T, group: str = "") -> None:
        """Record `value` before the user changes it; undone values are dropped."""
        if not (group and group == self._group and self._before and not self._after):
            self._before.append(value)
            del self._before[:-_N_STEPS]
        self._after.clear()
        self._group = group

    def close_group(self) -> None:
        """Make the next change a step of its own, for instance when a drag ends."""
        self._group = ""

    def undo(self, now: T) -> T:
        """The value before the last change; `now` can be redone. The same if there is none."""
        return self._turn(now, self._before, self._after)

    def redo(self, now: T) -> T:
        """The value after the last undone change. The same if there is none."""
        return self._turn(now, self._after, self._before)

    def forget(self) -> None:
        """Clear the stack."""
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
    """Gates and interventions kept at some moment, with the model and texts they belonged to."""

    source: SourceHere
    text: Typed
    target: Typed | None
    gates: Gates = NO_GATES
    interventions: Interventions = ()

    @property
    def label(self) -> str:
        """Description, in a few words."""
        return changes_words(self.gates, self.interventions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideChoice:
    """The choice for a side. `model` None is the open one; `text` None the text in Explore.

    With a text of its own, `target` None lets the model write its own.
    """

    model: SourceHere | None = None
    text: Typed | None = None
    target: Typed | None = None
    changes: Changes = "untouched"
    kept: Kept | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """Both sides, the method of alignment, the ends of the colours, and the order of heads."""

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
        """The kept view that is now one of the sides."""
        return tuple(c.kept for c in (self.first, self.second) if c.changes == "kept" and c.kept is not None)

    @property
    def swapped(self) -> "Comparing":
        """A as B and B as A."""
        return replace(self, first=self.second, second=self.first)


DEFAULT_COMPARING = Comparing()


def choice_of(kept: Kept) -> SideChoice:
    """A side made of a kept view, whatever Explore shows later."""
    return SideChoice(model=kept.source, text=kept.text, target=kept.target, changes="kept", kept=kept)


def with_text(choice: SideChoice, text: str) -> SideChoice:
    """The side with a text of its own; an empty one follows Explore again."""
    if not text.strip():
        return replace(choice, text=None, target=None)
    return replace(choice, text=text, target=None if choice.text is None else choice.target)


def choice_words(before: SideChoice, after: SideChoice, which: Which) -> str:
    """A new choice for one side, as the name of a step in the history."""
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
    """A new look of the comparison, as the name of a step in the history."""
    if before.way != after.way:
        return f"compare: align {WAYS[after.way]}"
    if before.limit != after.limit:
        return f"compare: Δ scale {LIMITS[after.limit]}"
    if before.order != after.order:
        return f"compare: heads {ORDERS[after.order]}"
    return f"compare: heads of {'all stacks' if after.has_all_stacks else 'one stack'}"


def changes_words(gates: Gates, interventions: Interventions) -> str:
    """Gates and interventions in a few words; `untouched` if there are none."""
    off = [f"{h.stack} {h.label}" for h in gates.off()]
    dimmed = [f"{h.stack} {h.label} × {v:g}" for h, v in gates.values if v]
    parts = [f"{few_listed(off, _N_NAMED)} off"] if off else []
    parts += [few_listed(dimmed, _N_NAMED)] if dimmed else []
    n = len(interventions)
    parts += [interventions[0].sentence if n == 1 else f"{n} head changes"] if n else []
    return " · ".join(parts) or "untouched"


def short_checkpoint(source: str) -> str:
    """The last part of a path or an id; of a checkpoint with its run: `run, step 2000`."""
    path = PurePath(source.rstrip("/"))
    if path.name.isdecimal() and path.parent.name == "checkpoints":
        return f"{path.parent.parent.name}, step {int(path.name):,}"
    return path.name or source


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The state restored by undo."""

    gates: Gates = NO_GATES
    selection: tuple[HeadRef, ...] = ()
    aspect: Annotated[Aspect, Once({})] = PLAIN
    text: Typed = ""
    target: Typed | None = None
    interventions: Interventions = ()
    compared: Annotated[Comparing, At("compare")] = DEFAULT_COMPARING


class Settled(Protocol):
    """An object with all attributes of a setting: a session."""

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
    """One step of the history; consecutive steps with the same non-empty `group` are merged."""

    label: str
    before: Setting
    after: Setting
    group: str = ""


class History:
    """A stack of changes with a current position; at most `n_steps` are kept."""

    def __init__(self, n_steps: int = 200) -> None:
        self._n_steps = n_steps
        self._done: list[Change] = []
        self._undone: list[Change] = []
        self._is_open = False

    def record(self, change: Change) -> None:
        """Add a change just made; undone steps are dropped."""
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
        """Record that the model was reopened, as a step, with the same heads selected."""
        self._is_open = False
        after = replace(now, selection=before.selection)
        self.record(Change(label=label, before=before, after=after, group="open"))

    def close_group(self) -> None:
        """Make the next change a step of its own, for instance when a drag ends."""
        self._is_open = False

    def undo(self) -> Setting | None:
        """Step back; returns the state to restore, or None at the beginning."""
        if not self._done:
            return None
        change = self._done.pop()
        self._undone.append(change)
        self._is_open = False
        return change.before

    def redo(self) -> Setting | None:
        """Step forward again; returns the state to restore, or None at the end."""
        if not self._undone:
            return None
        change = self._undone.pop()
        self._done.append(change)
        self._is_open = False
        return change.after

    def go_to(self, n_steps: int) -> Setting | None:
        """Step until `n_steps` are done; returns the state to restore, None if nothing changes."""
        setting = None
        n_steps = min(max(n_steps, 0), len(self._done) + len(self._undone))
        while len(self._done) != n_steps:
            setting = self.undo() if len(self._done) > n_steps else self.redo()
        return setting

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all steps, the oldest first, with the undone ones at the end."""
        return tuple(change.label for change in (*self._done, *reversed(self._undone)))

    @property
    def done(self) -> tuple[Change, ...]:
        """Labels of the steps done, the oldest first."""
        return tuple(self._done)

    @property
    def n_done(self) -> int:
        """Number of labels that are done; the rest is undone."""
        return len(self._done)

    @property
    def undoing(self) -> Change | None:
        """The step that undo would take back."""
        return self._done[-1] if self._done else None

    @property
    def redoing(self) -> Change | None:
        """The step that redo would repeat."""
        return self._undone[-1] if self._undone else None

    @property
    def undo_label(self) -> str:
        """Label of the step that undo would take back; empty if none."""
        return self._done[-1].label if self._done else ""

    @property
    def redo_label(self) -> str:
        """Label of the step that redo would repeat; empty if none."""
        return self._undone[-1].label if self._undone else ""


class Histories:
    """One history for each model, by source and hash; those of the latest models are kept."""

    def __init__(self, n_models: int = 16) -> None:
        self._n_models = n_models
        self._kept: dict[tuple[str, str], History] = {}
        self._left: dict[tuple[str, str], Setting] = {}

    def of(self, model: ModelInfo) -> History:
        """The history of a model: the one from before, if it was open, else a new one."""
        key = _key_of(model)
        history = self._kept.pop(key, None) or History()
        self._kept[key] = history
        for old in [*self._kept][: -self._n_models]:
            del self._kept[old]
            self._left.pop(old, None)
        return history

    def leave(self, model: ModelInfo, setting: Setting) -> None:
        """Record the setting with which a model is closed."""
        self._left[_key_of(model)] = setting

    def left(self, model: ModelInfo, now: Setting) -> Setting:
        """The setting with which a model was closed; `now` if it never was."""
        return self._left.pop(_key_of(model), now)


def _key_of(model: ModelInfo) -> tuple[str, str]:
    return model.source, model.sha256


READ_ONLY = "recorded: no model that could read another text"
"""The notes beside the text."""
READ_ONLY_TIP = (
    "This attention was recorded, or given as arrays. There is no model behind it: it cannot read another "
    "text, and its heads cannot be changed."
)
_TOLD = "This is recorded attention without a model: it cannot read another text, nor can heads be changed."


def is_recorded(model: ModelInfo | None) -> bool:
    """Whether recorded attention is open."""
    return model is not None and model.is_recorded


def fixed_heads(model: ModelInfo | None) -> str:
    """Why no head of the open model can be changed, in a sentence; empty if each can, or nothing is open."""
    return model.fixed_heads if model is not None else ""


def why_no_inside(model: ModelInfo | None) -> str:
    """Why no head of the open model can be stepped through; empty if each can, or nothing is open."""
    if model is None or (model.has_gates and model.reads != "attention"):  # asked at every key: calls nothing
        return ""
    return model.no_inside


def possible(session: "Session", after: Setting) -> Setting:
    """A setting limited to what is possible: with recorded attention texts, gates and changes of heads stay
    as they are, in a model whose attention is out of reach gates and changes of heads; the user is told so.
    """
    model = session.model
    if model is None or (model.has_gates and model.reads != "attention"):  # asked at every key: calls nothing
        return after
    now = session.setting
    kept = replace(after, gates=now.gates, interventions=now.interventions)
    if model.is_recorded:
        kept = replace(kept, text=now.text, target=now.target)
    if kept != after:
        session.notices.say(_TOLD if model.is_recorded else model.fixed_heads, about="Recorded")
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternClip:
    """A head's pattern on one text, copied for another head or another text."""

    head: HeadRef
    text: str
    target: str | None = None

    def onto(self, head: HeadRef) -> CopyPattern:
        """The intervention that gives `head` this pattern."""
        return CopyPattern(head=head, from_head=self.head, text=self.text, target=self.target)


def with_or_without(interventions: Interventions, change: Intervention) -> Interventions:
    """With `change`, or without it if it is there. One head has one pattern: a new one replaces the old."""
    if change in interventions:
        return without(interventions, change)
    replaced = () if isinstance(change, RemoveEdge) else _of_whole_head(interventions, change.head)
    return (*(kept for kept in interventions if kept not in replaced), change)


def without(interventions: Interventions, change: Intervention) -> Interventions:
    return tuple(kept for kept in interventions if kept != change)


def of_head(interventions: Interventions, head: HeadRef) -> Interventions:
    """Changes to one head; a drawn mask belongs to every head of its stack."""
    return tuple(
        change for change in interventions if change.head == head and not isinstance(change, UseMask)
    )


def of_single_heads(interventions: Interventions) -> Interventions:
    """Changes to single heads: all but a drawn mask."""
    return tuple(change for change in interventions if not isinstance(change, UseMask))


def knocked_out(interventions: Interventions, head: HeadRef) -> frozenset[tuple[int, int]]:
    """The (query, key) of every edge removed from a head."""
    return frozenset(
        (change.query, change.key)
        for change in interventions
        if isinstance(change, RemoveEdge) and change.head == head
    )


def label_of(before: Interventions, after: Interventions) -> str:
    """Label of the step from one list to the other."""
    added = [change for change in after if change not in before]
    if added:
        return added[-1].sentence
    gone = [change for change in before if change not in after]
    if len(gone) == 1:
        return f"undo: {gone[0].sentence}"
    return f"undo {len(gone)} changes of heads"


def changes_counted(interventions: Interventions) -> str:
    """Number of changes, in words; empty for none."""
    n = len(of_single_heads(interventions))
    heads = [plural(n, "head change")] if n else []
    masks = ["a drawn mask"] if n < len(interventions) else []
    return " · ".join((*masks, *heads))


def in_words(change: Intervention, traced: Traced | None, rows: Rows = "read") -> str:
    """A change with its tokens, if known; for a mask first the number of allowed cells."""
    if isinstance(change, UseMask):
        return f"mask: {change.seen_sentence} · {change.name}"
    if traced is None or not isinstance(change, RemoveEdge):
        return change.sentence
    queries, keys = stack_tokens(traced, change.head.stack, rows)
    if change.query >= len(queries) or change.key >= len(keys):
        return change.sentence
    return f"{change.head.label}: “{queries[change.query].piece}” ↛ “{keys[change.key].piece}”"


def fitting(interventions: Interventions, sites: tuple[Site, ...], *, is_same_text: bool) -> Interventions:
    """Changes that still apply: heads that exist, and positions only in the same text."""
    if not interventions:
        return ()
    heads = {head for site in sites for head in site.heads}
    return tuple(
        change
        for change in interventions
        if change.head in heads and (is_same_text or isinstance(change, MakeUniform | MakeMean))
    )


def mask_in(interventions: Interventions) -> UseMask | None:
    """The mask among some changes."""
    return next((change for change in interventions if isinstance(change, UseMask)), None)


def with_mask(interventions: Interventions, mask: UseMask | None) -> Interventions:
    """The changes with another mask, or without one."""
    others = tuple(change for change in interventions if not isinstance(change, UseMask))
    return others if mask is None else (*others, mask)


def _of_whole_head(interventions: Interventions, head: HeadRef) -> Interventions:
    return tuple(change for change in of_head(interventions, head) if not isinstance(change, RemoveEdge))


def every_head(sites: Iterable[Site]) -> tuple[HeadRef, ...]:
    """Every head of every site, in the model's order."""
    return tuple(head for site in sites for head in site.heads)


def toggled_gates(gates: Gates, heads: Iterable[HeadRef]) -> Gates:
    """All of `heads` off, or all on if they are all off."""
    chosen = tuple(heads)
    value = 0.0 if any(gates.value(head) > 0.0 for head in chosen) else 1.0
    return Gates.of({**dict(gates.values), **dict.fromkeys(chosen, value)})


def all_but(sites: Iterable[Site], kept: Iterable[HeadRef]) -> Gates:
    """Every head off except `kept`, which are fully on."""
    keep = frozenset(kept)
    return Gates.of({head: 0.0 for head in every_head(sites) if head not in keep})


def inverted(gates: Gates, sites: Iterable[Site]) -> Gates:
    """Each gate g becomes 1 − g."""
    set_gates = dict(gates.values)
    return Gates.of({head: round(1.0 - set_gates.get(head, 1.0), 9) for head in every_head(sites)})


def joined_selection(selection: tuple[HeadRef, ...], heads: tuple[HeadRef, ...]) -> tuple[HeadRef, ...]:
    """The selection with `heads` added, without those it had already; never empty."""
    kept = tuple(head for head in selection if head not in heads)
    return (kept + tuple(head for head in heads if head not in selection)) or selection


def label_of_heads(heads: tuple[HeadRef, ...]) -> str:
    """Heads in a label: one by name and stack, many by number."""
    if len(heads) == 1:
        return f"{heads[0].label} ({heads[0].stack})"
    return f"{len(heads)} heads"


class HeadChanges:
    """The user's changes to heads; `pattern_clip` is the last copied pattern."""

    pattern_clip: PatternClip | None = None

    def __init__(self, session: "Session") -> None:
        self._session = session

    def toggle_gate(self, head: HeadRef) -> None:
        """Switch one head off, or fully on if it is off."""
        self.toggle_gates((head,))

    def toggle_gates(self, heads: tuple[HeadRef, ...]) -> None:
        """Switch heads off, or fully on if all of them are off."""
        if heads:
            gates = toggled_gates(self._gates, heads)
            verb = "switch off" if gates.value(heads[0]) == 0.0 else "switch on"
            self.set_gates(f"{verb} {label_of_heads(heads)}", gates)

    def set_gate(self, head: HeadRef, value: float) -> None:
        """Move one gate; consecutive moves of one gate are one step for undo until `end_drag`."""
        gates = self._gates.with_value(head, min(max(value, 0.0), 1.0))
        label = f"gate of {label_of_heads((head,))} to {gates.value(head):.2f}"
        after = replace(self._session.setting, gates=gates)
        self._session.change(label, after, group=f"gate {head}", is_drag=True)

    def end_drag(self) -> None:
        """End a drag: the next move is a step of its own."""
        self._session.history.close_group()

    def set_gates(self, label: str, gates: Gates) -> None:
        """Set all gates at once; `label` names the step."""
        self._session.change(label, replace(self._session.setting, gates=gates))

    def prune_all_but(self, heads: tuple[HeadRef, ...]) -> None:
        """Switch off every other head of these heads' stacks; other stacks stay."""
        if self._session.model and heads:
            stacks = {head.stack for head in heads}
            others = [(head, value) for head, value in self._gates.values if head.stack not in stacks]
            sites = [site for site in self._session.model.sites if site.stack in stacks]
            gates = Gates.of([*others, *all_but(sites, heads).values])
            kept = heads[0].label if len(heads) == 1 else label_of_heads(heads)
            self.set_gates(f"prune all of the {' and '.join(sorted(stacks))} but {kept}", gates)

    def invert_gates(self) -> None:
        """Each gate g becomes 1 − g."""
        if self._session.model:
            self.set_gates("invert gates", inverted(self._gates, self._session.model.sites))

    def reset_gates(self) -> None:
        """Every head fully on."""
        self.set_gates("reset gates", NO_GATES)

    def intervene(self, interventions: Interventions) -> None:
        """Change single heads in the middle of the pass; `viewmodels.intervening` makes the list."""
        setting = self._session.setting
        label = label_of(setting.interventions, interventions)
        self._session.change(label, replace(setting, interventions=interventions))

    def leave_out_unfit_mask(self, traced: Traced) -> None:
        """Drop a mask for another number of tokens, which was not used for a trace."""
        session, setting = self._session, self._session.setting
        mask = mask_in(setting.interventions)
        if mask is None or traced.text != setting.text or mask.n_tokens == len(traced.source):
            return
        left = with_mask(setting.interventions, None)
        session.change("the model's own mask", replace(setting, interventions=left))
        session.notices.say(
            f"The mask is drawn for {plural(mask.n_tokens, 'token')}, this text has {len(traced.source)}: "
            "it is left out."
        )

    def copy_pattern(self, head: HeadRef) -> None:
        """Copy the pattern of `head` on this text, for another head or text."""
        setting = self._session.setting
        self.pattern_clip = PatternClip(head=head, text=setting.text, target=setting.target)
        self._session.changed.interventions.emit()

    def forget(self) -> None:
        """Reset for another model, for which old patterns are meaningless."""
        self.pattern_clip = None

    @property
    def _gates(self) -> Gates:
        return self._session.setting.gates


def stack_to_mask(model: ModelInfo | None) -> Stack | None:
    """The stack of a model that a drawn mask is for; see `maskable_stack`."""
    return maskable_stack(model.sites) if model is not None else None


def tokens_to_mask(session: "Session") -> tuple[Token, ...]:
    """The tokens of the text, none while there is no trace of it."""
    traced = session.traced
    return traced.source.tokens if traced is not None and session.text.strip() else ()


def why_no_mask(session: "Session") -> str:
    """Why no mask can be drawn for the open text; empty if one can."""
    model, n_tokens = session.model, len(tokens_to_mask(session))
    if model is None:
        return "Open a model first."
    if model.is_recorded:
        return "This is recorded attention: a different mask needs a model."
    if model.fixed_heads:
        return f"{model.name} computes attention in code of its own: it takes no other mask."
    if stack_to_mask(model) is None:
        return f"{model.name} has no self-attention over its text that a mask could change."
    if not n_tokens:
        return "Type a text to draw a mask for."
    if n_tokens > MAX_MASK_TOKENS:
        return (
            f"The text has {n_tokens:,} tokens; masks are drawn for up to {MAX_MASK_TOKENS}. "
            "Model.trace(pattern=) takes larger ones."
        )
    return ""

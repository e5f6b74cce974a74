"""What the person does to heads: gates turned and switched, edges knocked out, patterns replaced."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attnscope.counting import plural
from attnscope.records.interventions import (
    CopyPattern,
    Intervention,
    Interventions,
    MakeMean,
    MakeUniform,
    RemoveEdge,
    UseMask,
)
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Rows, Site
from attnscope.viewmodels.maps.aspect import stack_tokens
from attnscope.viewmodels.session.history import Setting

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session

READ_ONLY = "recorded: no model that could read another text"
"""What stands beside the text."""
READ_ONLY_TIP = (
    "This attention was recorded, or given as arrays. There is no model behind it: it cannot read another "
    "text, and its heads cannot be changed."
)
NO_INSIDE = "Recorded attention has queries and keys but no values: the steps need a model"
"""Why a head cannot be stepped through."""
_TOLD = "This is recorded attention without a model: it cannot read another text, nor can heads be changed."


def is_recorded(model: ModelInfo | None) -> bool:
    """Whether recorded attention is open."""
    return model is not None and model.is_recorded


def fixed_heads(model: ModelInfo | None) -> str:
    """Why no head of what is open can be changed, in a sentence; empty where each can, or nothing is open."""
    return model.fixed_heads if model is not None else ""


def possible(session: "Session", after: Setting) -> Setting:
    """A setting as far as it can be: with recorded attention texts, gates and changes of heads stay, in a
    model whose attention is out of reach gates and changes of heads; the person is told so.
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
    """A head's pattern on one text, copied to be put onto another head or another text."""

    head: HeadRef
    text: str
    target: str | None = None

    def onto(self, head: HeadRef) -> CopyPattern:
        """The intervention that gives `head` this pattern."""
        return CopyPattern(head=head, from_head=self.head, text=self.text, target=self.target)


def with_or_without(interventions: Interventions, change: Intervention) -> Interventions:
    """With `change`, or without it when it is there. One head has one pattern: a new one replaces the old."""
    if change in interventions:
        return without(interventions, change)
    replaced = () if isinstance(change, RemoveEdge) else _of_whole_head(interventions, change.head)
    return (*(kept for kept in interventions if kept not in replaced), change)


def without(interventions: Interventions, change: Intervention) -> Interventions:
    return tuple(kept for kept in interventions if kept != change)


def of_head(interventions: Interventions, head: HeadRef) -> Interventions:
    """What is done to one head; a drawn mask is of every head of its stack."""
    return tuple(
        change for change in interventions if change.head == head and not isinstance(change, UseMask)
    )


def of_single_heads(interventions: Interventions) -> Interventions:
    """What is done to single heads: everything but a drawn mask."""
    return tuple(change for change in interventions if not isinstance(change, UseMask))


def knocked_out(interventions: Interventions, head: HeadRef) -> frozenset[tuple[int, int]]:
    """The (query, key) of every edge that is taken out of a head."""
    return frozenset(
        (change.query, change.key)
        for change in interventions
        if isinstance(change, RemoveEdge) and change.head == head
    )


def label_of(before: Interventions, after: Interventions) -> str:
    """What a step from one list to the other is called."""
    added = [change for change in after if change not in before]
    if added:
        return added[-1].sentence
    gone = [change for change in before if change not in after]
    if len(gone) == 1:
        return f"undo: {gone[0].sentence}"
    return f"undo {len(gone)} changes of heads"


def changes_counted(interventions: Interventions) -> str:
    """How many changes there are, in words; empty for none."""
    n = len(of_single_heads(interventions))
    heads = [plural(n, "head change")] if n else []
    masks = ["a drawn mask"] if n < len(interventions) else []
    return " · ".join((*masks, *heads))


def in_words(change: Intervention, traced: Traced | None, rows: Rows = "read") -> str:
    """A change with the tokens it is about, where they are known; of a mask how much it allows, first."""
    if isinstance(change, UseMask):
        return f"mask: {change.seen_sentence} · {change.name}"
    if traced is None or not isinstance(change, RemoveEdge):
        return change.sentence
    queries, keys = stack_tokens(traced, change.head.stack, rows)
    if change.query >= len(queries) or change.key >= len(keys):
        return change.sentence
    return f"{change.head.label}: “{queries[change.query].piece}” ↛ “{keys[change.key].piece}”"


def fitting(interventions: Interventions, sites: tuple[Site, ...], *, is_same_text: bool) -> Interventions:
    """What can stay for another model or text: heads that exist, and places only in the same text."""
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
    """All of `heads` off, or all on when none of them lets anything through."""
    chosen = tuple(heads)
    value = 0.0 if any(gates.value(head) > 0.0 for head in chosen) else 1.0
    return Gates.of({**dict(gates.values), **dict.fromkeys(chosen, value)})


def all_but(sites: Iterable[Site], kept: Iterable[HeadRef]) -> Gates:
    """Every head off except `kept`, which are fully on."""
    keep = frozenset(kept)
    return Gates.of({head: 0.0 for head in every_head(sites) if head not in keep})


def inverted(gates: Gates, sites: Iterable[Site]) -> Gates:
    """Each gate g becomes 1 − g: what was off is on, and the other way round."""
    set_gates = dict(gates.values)
    return Gates.of({head: round(1.0 - set_gates.get(head, 1.0), 9) for head in every_head(sites)})


def joined_selection(selection: tuple[HeadRef, ...], heads: tuple[HeadRef, ...]) -> tuple[HeadRef, ...]:
    """The selection with `heads` added, without those it had already; never empty."""
    kept = tuple(head for head in selection if head not in heads)
    return (kept + tuple(head for head in heads if head not in selection)) or selection


def label_of_heads(heads: tuple[HeadRef, ...]) -> str:
    """Heads as a label names them: one by name and stack, many by number."""
    if len(heads) == 1:
        return f"{heads[0].label} ({heads[0].stack})"
    return f"{len(heads)} heads"


class HeadChanges:
    """The intents that change heads; `pattern_clip` is the pattern copied last."""

    pattern_clip: PatternClip | None = None

    def __init__(self, session: "Session") -> None:
        self._session = session

    def toggle_gate(self, head: HeadRef) -> None:
        """Switch one head off, or fully on when it is off."""
        self.toggle_gates((head,))

    def toggle_gates(self, heads: tuple[HeadRef, ...]) -> None:
        """Switch heads off, or fully on when all of them are off."""
        if heads:
            gates = toggled_gates(self._gates, heads)
            verb = "switch off" if gates.value(heads[0]) == 0.0 else "switch on"
            self.set_gates(f"{verb} {label_of_heads(heads)}", gates)

    def set_gate(self, head: HeadRef, value: float) -> None:
        """Move one gate; moves of one gate in a row are one step for undo until `end_drag`."""
        gates = self._gates.with_value(head, min(max(value, 0.0), 1.0))
        label = f"gate of {label_of_heads((head,))} to {gates.value(head):.2f}"
        after = replace(self._session.setting, gates=gates)
        self._session.change(label, after, group=f"gate {head}", is_drag=True)

    def end_drag(self) -> None:
        """The gate is let go: the next move is a step of its own."""
        self._session.history.close_group()

    def set_gates(self, label: str, gates: Gates) -> None:
        """Take over all gates at once; `label` names the step."""
        self._session.change(label, replace(self._session.setting, gates=gates))

    def prune_all_but(self, heads: tuple[HeadRef, ...]) -> None:
        """Switch off every other head of the stacks that these are in; other stacks stay as they are."""
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
        """A mask for another number of tokens, of a file for instance, was not used for a trace."""
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
        """Remember the pattern of `head` on this text, to be put onto another head or text."""
        setting = self._session.setting
        self.pattern_clip = PatternClip(head=head, text=setting.text, target=setting.target)
        self._session.changed.interventions.emit()

    def forget(self) -> None:
        """Another model has come: patterns of the old one mean nothing."""
        self.pattern_clip = None

    @property
    def _gates(self) -> Gates:
        return self._session.setting.gates

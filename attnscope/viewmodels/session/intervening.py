"""Changes of single heads beyond gates: the list of them, as pure functions, and how steps name them."""

from dataclasses import dataclass

from attnscope.counting import plural
from attnscope.records.axes import Rows
from attnscope.records.interventions import (
    CopyPattern,
    Intervention,
    Interventions,
    MakeMean,
    MakeUniform,
    RemoveEdge,
)
from attnscope.records.masks import UseMask
from attnscope.records.messages import Traced
from attnscope.records.sites import HeadRef, Site
from attnscope.viewmodels.maps.segments import stack_tokens


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
    own = (change for change in interventions if change.head == head)
    return frozenset((change.query, change.key) for change in own if isinstance(change, RemoveEdge))


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

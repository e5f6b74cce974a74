"""What is said beside the small heads of a comparison: which are off, what the stripes mean.

Must not import Qt.
"""

from dataclasses import replace

from attnscope.counting import counted
from attnscope.records.sites import HeadRef
from attnscope.viewmodels.compare.state import CompareState

ALIKE_BUT_OFF = "These heads look the same; what they add is gone, so weights change in later layers only."


def heads_off(state: CompareState) -> frozenset[HeadRef]:
    """The heads that are off in A or in B, as A names them."""
    first, second = (state.sides[which].shown for which in ("A", "B"))
    own = {aligned.second_stack: aligned.stack for aligned in state.stacks}
    found = set(first.gates.off()) if first else set()
    for head in second.gates.off() if second else ():
        found.add(replace(head, stack=own.get(head.stack, head.stack)))
    return frozenset(found)


def alike_words(state: CompareState) -> str:
    """Why a head that is off on one side only has the same map on both; empty where it has not."""
    shown, sides = state.maps, [state.sides[which].shown for which in ("A", "B")]
    if shown is None or not shown.is_same or None in sides:
        return ""
    named = (state.head_of("A"), state.head_of("B"))
    is_off = [side is not None and head in side.gates.off() for side, head in zip(sides, named, strict=True)]
    return ALIKE_BUT_OFF if is_off[0] != is_off[1] else ""


def grid_words(state: CompareState, top: float) -> str:
    """What the stripes stand for, up to `top`, and which heads are not there to be compared."""
    compared = state.compared
    if compared is None:
        return ""
    parts = [
        f"stripe: mean change of a weight, up to {top:.2g}" if top else "the same weights everywhere here"
    ]
    parts = parts if state.grids else []
    for which, heads in (("A", compared.only_first), ("B", compared.only_second)):
        if heads:
            parts.append(f"{counted(len(heads), 'head')} only in {which}")
    if compared.too_long:
        parts.append(f"{len(compared.too_long)} too long")
    return " · ".join(parts)

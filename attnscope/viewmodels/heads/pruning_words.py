"""Points of pruning curves in words. Pure functions."""

from collections.abc import Sequence

from attnscope.counting import short_number
from attnscope.records.importance import CurvePoint
from attnscope.records.sites import STACKS, HeadRef, Stack


def value_words(point: CurvePoint) -> str:
    """The metric with its interval, to three significant digits."""
    if not point.low <= point.high:
        return short_number(point.value)
    return f"{short_number(point.value)} ({short_number(point.low)}–{short_number(point.high)})"


def taken_words(heads: Sequence[HeadRef]) -> str:
    """Heads by stack, one line each: `encoder  L0H1, L0H3`."""
    stacks: dict[Stack, list[str]] = {}
    for head in sorted(heads, key=lambda head: (STACKS.index(head.stack), head.layer, head.head)):
        stacks.setdefault(head.stack, []).append(head.label)
    return "\n".join(f"{stack}  {', '.join(labels)}" for stack, labels in stacks.items())

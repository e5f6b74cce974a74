"""Heads that a model's training left closed: named in its config.json, and off when it is opened.

    "training": {…, "closed_heads": ["encoder L0H1", "cross L2H3"]}

The weights of such heads are still there; pruning removes them for good (`models/pruning`).
"""

import re
from collections.abc import Iterable, Mapping

from attnscope.counting import counted
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site

CLOSED_HEADS = "closed_heads"
"""The key in what a card remembers of its model's training."""
_NAMED = re.compile(r"(encoder|decoder|cross|pool) L(\d{1,6})H(\d{1,6})")


def closed_names(heads: Iterable[HeadRef]) -> list[str]:
    """Heads as config.json names them."""
    return [f"{head.stack} {head.label}" for head in heads]


def closed_gates(training: Mapping[str, object], sites: tuple[Site, ...]) -> Gates:
    """The gates that a card asks for: 0 for each closed head; names of no head are passed over."""
    names = training.get(CLOSED_HEADS)
    if not isinstance(names, list | tuple) or not names:
        return NO_GATES
    wanted = {match[0] for match in map(_NAMED.fullmatch, map(str, names)) if match is not None}
    heads = [head for site in sites for head in site.heads]
    return Gates.of({head: 0.0 for head in heads if f"{head.stack} {head.label}" in wanted})


def closed_note(gates: Gates) -> str:
    """What a person should know about a model that is opened with such gates."""
    n = len(gates.values)
    return f"Its training closed {counted(n, 'head: it is', 'heads: they are')} off." if n else ""


def without_closed(training: Mapping[str, object]) -> dict[str, object]:
    """The same memory for a model from which heads were removed: the numbers no longer hold."""
    return {key: value for key, value in training.items() if key != CLOSED_HEADS}

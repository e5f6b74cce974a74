"""What a head was measured to do, in a word or two: its role, or in brackets what it leans to. No Qt."""

from collections.abc import Iterable

from attnscope.records.roles import HeadCard, RoleName
from attnscope.records.sites import Site

ROLE_NAMES: dict[RoleName, str] = {
    "positional": "one offset",
    "identity": "itself",
    "induction": "induction",
    "duplicate": "duplicates",
    "first": "rests on first",
    "separator": "rests on separators",
    "syntactic": "syntax",
    "rare": "rare words",
    "broad": "broad",
    "aligns": "aligns words",
    "none": "–",
}
_LEANINGS = {
    "first": "first token",
    "separator": "separators",
    "duplicate_mul": ROLE_NAMES["duplicate"],
    "stripe": ROLE_NAMES["induction"],
    "entropy": ROLE_NAMES["broad"],
}


def role_words(card: HeadCard, offset: int | None, sites: Iterable[Site]) -> str:
    """The role of a head whose heaviest offset is `offset`; `sites` tell whose columns are no tokens."""
    if card.roles:
        role = card.roles[0].name
        return _offset_name(offset) if role == "positional" else ROLE_NAMES[role]
    match card.leaning:
        case "":
            return ROLE_NAMES["none"]
        case "first" if not any(s.stack == card.head.stack and s.keys == "tokens" for s in sites):
            return "(first column)"
        case "offset":
            return f"({_offset_name(offset)})"
        case leaning:
            return f"({_LEANINGS.get(leaning, leaning)})"


def _offset_name(offset: int | None) -> str:
    """The offset that a head gives most weight."""
    names = {None: ROLE_NAMES["positional"], -1: "previous token", 0: "itself", 1: "next token"}
    return names.get(offset, f"offset {offset or 0:+d}")

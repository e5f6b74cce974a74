"""Labs, a file each: `LABS` has them by name, in the order of the list."""

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from attnscope.errors import UserError, shown
from attnscope.labs.lab import GROUPS, AnyLab, Lab, LabEntry, LabGroup, LabWords
from attnscope.schemes import schemes_of

__all__ = ["GROUPS", "LABS", "AnyLab", "Lab", "LabEntry", "LabGroup", "LabWords", "find_labs", "lab_named"]


def find_labs() -> dict[str, LabEntry]:
    """Every lab of this folder by name, sorted by group."""
    found = schemes_of(__name__, LabEntry)
    return dict(sorted(found.items(), key=lambda pair: GROUPS.index(pair[1].group)))


if TYPE_CHECKING:
    LABS: dict[str, LabEntry]
else:

    def __getattr__(wanted: str) -> object:
        """`LABS`, found on first use: a window shows its first page without it."""
        if wanted != "LABS":
            raise AttributeError(f"module {__name__!r} has no attribute {wanted!r}")
        return globals().setdefault(wanted, find_labs())


def lab_named(name: str) -> LabEntry:
    """The lab of a typed name: in any case, with spaces or hyphens, sqrt for √, or just its beginning if that
    is unique. Raises UserError with the nearest for any other.
    """
    from attnscope.labs import LABS

    wanted = _typed(name[:100])
    names = {_typed(known): lab for known, lab in LABS.items()}
    begun = [lab for known, lab in names.items() if wanted and f"{known} ".startswith(f"{wanted} ")]
    found = names.get(wanted) or (begun[0] if len(begun) == 1 else None)
    if found is not None:
        return found
    near = get_close_matches(wanted, names, n=1, cutoff=0.5)
    raise UserError(
        f"There is no lab '{shown(name)}'.",
        expected=", ".join(LABS),
        action=f"Did you mean {names[near[0]].name}?" if near else "",
    )


def _typed(name: str) -> str:
    """A name without characters that are hard to type."""
    return " ".join(re.findall(r"[a-z0-9]+", name.lower().replace("√", "sqrt ")))

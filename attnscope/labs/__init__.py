"""Labs, a file each: `LABS` has them by name, in the order of the list."""

from difflib import get_close_matches

from attnscope.errors import UserError, shown
from attnscope.labs.lab import GROUPS, AnyLab, Lab, LabEntry, LabGroup, LabWords
from attnscope.schemes.registry import schemes_of

__all__ = ["GROUPS", "LABS", "AnyLab", "Lab", "LabEntry", "LabGroup", "LabWords", "find_labs", "lab_named"]


def find_labs() -> dict[str, LabEntry]:
    """Every lab of this folder by its name: by groups, in their order."""
    found = schemes_of(__name__, LabEntry)
    return dict(sorted(found.items(), key=lambda pair: GROUPS.index(pair[1].group)))


LABS = find_labs()


def lab_named(name: str) -> LabEntry:
    """The lab of a name, in capital letters or small; raises UserError with the nearest for another one."""
    names = {known.lower(): lab for known, lab in LABS.items()}
    found = names.get(name.strip().lower())
    if found is not None:
        return found
    near = get_close_matches(name.strip().lower()[:100], names, n=1, cutoff=0.5)
    raise UserError(
        f"There is no lab '{shown(name)}'.",
        expected=", ".join(LABS),
        action=f"Did you mean {names[near[0]].name}?" if near else "",
    )

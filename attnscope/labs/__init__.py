"""Labs, a file each: `LABS` has them by name, in the order of the list."""

from attnscope.labs.lab import GROUPS, AnyLab, Lab, LabEntry, LabGroup, LabWords
from attnscope.schemes.registry import schemes_of

__all__ = ["GROUPS", "LABS", "AnyLab", "Lab", "LabEntry", "LabGroup", "LabWords", "find_labs"]


def find_labs() -> dict[str, LabEntry]:
    """Every lab of this folder by its name: by groups, in their order."""
    found = schemes_of(__name__, LabEntry)
    return dict(sorted(found.items(), key=lambda pair: GROUPS.index(pair[1].group)))


LABS = find_labs()

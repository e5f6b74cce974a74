"""What the Positions page shows in one sentence, with the numbers of its tables. Must not import Qt."""

from collections.abc import Callable, Iterable

import numpy as np

from attnscope.counting import fixed
from attnscope.records.positions import PositionTable

FAR = 32
"""How many tokens are far, where there are so many positions."""


def position_point(tables: Iterable[PositionTable], title_of: Callable[[str], str]) -> str:
    """The point of the page; empty without an encoding whose rows are positions."""
    vectors = [t for t in tables if t.axes == ("dimension", "position") and t.by_offset.size > 2]
    far = min(FAR, min((table.by_offset.size for table in vectors), default=1) - 1)
    found = [t for t in vectors if np.isfinite(t.by_offset[[1, far]]).all()]
    if not found:
        return ""
    numbers = (f"{title_of(t.name)} {_cosine(t, 1)} and {_cosine(t, far)}" for t in found)
    return (
        "A code of places is useful when near ones are more alike than far ones: "
        f"mean cosine 1 token and {far} tokens apart, {', '.join(numbers)}."
    )


def _cosine(table: PositionTable, offset: int) -> str:
    return fixed(float(table.by_offset[offset]))

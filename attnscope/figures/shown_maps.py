"""Every map of a figure, whatever its view: each once, told apart by letters, on one scale."""

import numpy as np

from attnscope.figures.spec import FigureSpec
from attnscope.records.maps import HeadMap


def map_key(head_map: HeadMap) -> tuple[object, ...]:
    """What two maps share only when they are the same one: head, tokens and weights."""
    return (
        head_map.head, head_map.name, head_map.queries, head_map.keys, head_map.weights.tobytes()
    )  # fmt: skip


def shown_maps(spec: FigureSpec) -> tuple[HeadMap, ...]:
    """Every map of a figure once, in order: its own, or those of its panels."""
    return tuple(head_map for _, _, head_map in lettered_maps(spec))


def lettered_maps(spec: FigureSpec) -> tuple[tuple[str, str, HeadMap], ...]:
    """Every map of a figure once, with letter and title of the first panel that shows it.

    The letter is empty where heads alone tell the maps apart.
    """
    found: dict[tuple[object, ...], tuple[str, str, HeadMap]] = {}
    for letter, title, head_map in spec.titled_maps():
        found.setdefault(map_key(head_map), (letter, title, head_map))
    are_told_apart = len({(m.head, m.name) for _, _, m in found.values()}) == len(found)
    return tuple(("" if are_told_apart else letter, title, m) for letter, title, m in found.values())


def common_peak(spec: FigureSpec) -> float:
    """The weight that the end of the colours stands for in every panel; never 0."""
    maps = shown_maps(spec)
    if spec.style.scale != "head":
        return max((m.full for m in maps), default=1.0)
    peaks = [float(m.weights[np.isfinite(m.weights)].max(initial=0.0)) for m in maps]
    return max((*peaks, *spec.thumbnail_peaks()), default=1.0) or 1.0

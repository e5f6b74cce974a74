"""The maps of a figure, whatever its view: each once, told apart by letters, on one scale.

With special tokens or without their rows and columns; what they took of the weight is told then.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.spec import FigureSpec, FigureT
from attnscope.records.findings import GoldCell
from attnscope.records.maps import HeadMap
from attnscope.records.tokens import Token


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


def as_drawn(spec: FigureT) -> FigureT:
    """The figure as its style asks for it: its maps with special tokens, or without."""
    return spec if spec.style.has_special else spec.without_special()


def without_special_links(shown: HeadMap, gold: tuple[GoldCell, ...]) -> tuple[GoldCell, ...]:
    """The word links on a map, on what is left of it."""
    places = _kept(shown.queries), _kept(shown.keys)
    return tuple(cell for cell in (_moved(one, *places) for one in gold) if cell is not None)


def _kept(tokens: tuple[Token, ...]) -> NDArray[np.intp]:
    """The places of what is no special token; all of them where there is nothing else."""
    places = np.array([i for i, token in enumerate(tokens) if not token.is_special], dtype=np.intp)
    return places if len(places) else np.arange(len(tokens))


def without_special(shown: HeadMap) -> HeadMap:
    """The map without the rows and columns of special tokens, its note saying what they took."""
    rows, cols = _kept(shown.queries), _kept(shown.keys)
    if (len(rows), len(cols)) == shown.weights.shape:
        return shown
    of_rows = np.where(np.isfinite(shown.weights[rows]), shown.weights[rows], 0.0)
    total = float(of_rows.sum())
    share = 1 - float(of_rows[:, cols].sum()) / total if total else 0.0
    left_out = f"without special tokens, which take {share:.0%} of the weight"
    return replace(
        shown,
        queries=tuple(shown.queries[i] for i in rows),
        keys=tuple(shown.keys[j] for j in cols),
        weights=shown.weights[np.ix_(rows, cols)],
        note=" · ".join(filter(None, (shown.note, left_out))),
    )


def _moved(cell: GoldCell, rows: NDArray[np.intp], cols: NDArray[np.intp]) -> GoldCell | None:
    """A link on what is left of the map; None where nothing of it is."""
    ends = [np.searchsorted(places, part).tolist() for places, part in ((rows, cell.rows), (cols, cell.cols))]
    if any(first == end for first, end in ends):
        return None
    return replace(cell, rows=tuple(ends[0]), cols=tuple(ends[1]))

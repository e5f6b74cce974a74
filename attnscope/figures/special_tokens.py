"""A figure without the rows and columns of special tokens; what they took of the weight is told."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.spec import FigureT
from attnscope.records.alignment import GoldCell
from attnscope.records.maps import HeadMap
from attnscope.records.tokens import Token


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

"""The inside of one head: the steps from query and keys to the output, with all of their numbers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.paint_inside import inside_layout, paint_inside
from attnscope.figures.plain import plain_piece
from attnscope.figures.spec import FigureSpec
from attnscope.figures.words_and_numbers import change_words, exact_number_text, quoted, safe_cell
from attnscope.records.maps import HeadInside
from attnscope.viewmodels.causes.inside import Step

_HEADER = (
    "stack", "layer", "head", "query", "query token", "key", "key token", "quantity", "dimension", "value",
)  # fmt: skip
_OF_QUERY = ("q", "output", "own_output")
_OF_KEY = ("dot", "scaled", "logged", "capped", "bias", "score", "weight", "value_norms")
_OF_DIMENSION = ("k", "products", "v", "weighted")


@dataclass(frozen=True, slots=True, kw_only=True)
class InsidePart:
    """The inside of one head: which step is marked, and the row of the key whose numbers are written out."""

    inside: HeadInside
    step: Step = "softmax"
    row: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideFigure(FigureSpec):
    """Query, keys, scores, weights and values of one query, from left to right."""

    view = "inside"
    words = "one head step by step"
    order = 5
    follows_width = False

    inside: InsidePart

    @property
    def is_empty(self) -> bool:
        return False

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        shown = self.inside
        layout = inside_layout(rect, shown.inside, step=shown.step, is_paper=True)
        paint_inside(painter, layout, shown.inside, palette=palette, step=shown.step, row=shown.row)

    def shown_words(self) -> list[str]:
        inside = self.inside.inside
        query = f"query {inside.query} {quoted(inside.query_token.label)}"
        words = f"head {inside.head.stack} {inside.head.label}, {query}, step {self.inside.step}"
        return [words, *change_words(self.gates, self.interventions)]

    def name_parts(self) -> list[str]:
        inside = self.inside.inside
        return [inside.head.stack, inside.head.label, f"query {inside.query}"]

    def rows(self) -> Iterator[Iterable[str]]:
        yield _HEADER
        inside = self.inside.inside
        head = (inside.head.stack, str(inside.head.layer), str(inside.head.head))
        query = (str(inside.query), safe_cell(inside.query_token.piece))
        for key, token, name, d, value in _inside_rows(inside):
            yield (*head, *query, key, safe_cell(token), name, d, exact_number_text(value))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return _inside_arrays(self.inside.inside)

    def fits_together(self) -> bool:
        inside, row = self.inside.inside, self.inside.row
        return inside.q.size > 0 and (row is None or 0 <= row < len(inside.keys))


def _inside_rows(inside: HeadInside) -> Iterator[tuple[str, str, str, str, float]]:
    """Key, key token, quantity, dimension and value of each number; what does not apply is empty."""
    for name in ("scale", "lse", "gate", "rest_weight"):
        yield ("", "", name, "", float(getattr(inside, name)))
    for name in _OF_QUERY:
        for d, value in enumerate(getattr(inside, name).tolist()):
            yield ("", "", name, str(d), value)
    for row, (key, token) in enumerate(zip(inside.keys, inside.key_tokens, strict=True)):
        names = (str(key), plain_piece(token.piece))
        for name in _OF_KEY:
            if getattr(inside, name) is not None:
                yield (*names, name, "", float(getattr(inside, name)[row]))
        for name in _OF_DIMENSION:
            for d, value in enumerate(getattr(inside, name)[row].tolist()):
                yield (*names, name, str(d), value)


def _inside_arrays(inside: HeadInside) -> dict[str, NDArray[np.generic]]:
    """Every array under its own name, the shown keys' places and tokens, and the numbers of the score."""
    names = (*_OF_QUERY, *_OF_KEY, *_OF_DIMENSION)
    arrays: dict[str, NDArray[np.generic]] = {
        name: getattr(inside, name) for name in names if getattr(inside, name) is not None
    }
    arrays["keys"] = np.array(inside.keys, dtype=np.int64)
    arrays["key_tokens"] = np.array([token.piece for token in inside.key_tokens], dtype=np.str_)
    arrays["query"] = np.array(inside.query)
    for name in ("scale", "lse", "gate", "rest_weight"):
        arrays[name] = np.array(float(getattr(inside, name)))
    return arrays

"""One head on the picture that a vision model reads: where one patch looks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.paint_picture import natural_picture_height, paint_picture
from attnscope.figures.words_and_numbers import (
    MapsFigure,
    cell_header,
    change_words,
    heads_words,
    quoted,
    weight_rows,
)
from attnscope.records.maps import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturePart:
    """A picture that a vision model reads, and the token whose weights are laid over it."""

    picture: Picture
    query: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFigure(MapsFigure):
    """The weights of one query, from the first of `maps`, over the `picture`."""

    view = "picture"
    words = "one head on the picture"
    order = 4
    least_px = 150.0
    choices = frozenset({"colours", "bar", "badge"})
    text_name = "Picture"

    picture: PicturePart

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        part = self.picture
        paint_picture(
            painter, rect, part.picture, self.maps[0], part.query, style=self.style, palette=palette
        )

    def natural_height(self, width: float) -> float:
        return natural_picture_height(width, self.picture.picture, has_bar=self.style.has_bar)

    def shown_words(self) -> list[str]:
        part = self.picture
        token = self.maps[0].queries[part.query]
        height, width = part.picture.pixels.shape[:2]
        return [
            *heads_words(self.maps[:1]),
            f"query {part.query} {quoted(token.piece)}, colours to its largest patch",
            f"the picture as the model reads it, {width} × {height}; patches by row,column",
            *change_words(self.gates, self.interventions),
        ]

    def without_special(self) -> Self:
        return self  # patches are told by their number

    def rows(self) -> Iterator[Iterable[str]]:
        yield (*cell_header(), "weight")
        yield from weight_rows(self.maps[0], only=self.picture.query)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        head_map, part = self.maps[0], self.picture
        name = f"{head_map.head.stack}_{head_map.head.label}_query_{part.query}"
        picture = part.picture
        return {
            name: head_map.weights[part.query],
            "pixels": picture.pixels,
            "rows_columns_first": np.array([picture.n_rows, picture.n_columns, picture.n_first]),
        }

    def fits_together(self) -> bool:
        n_tokens = self.picture.picture.n_tokens
        return self.maps[0].weights.shape == (n_tokens, n_tokens) and 0 <= self.picture.query < n_tokens

"""Several heads as lines from queries to keys, as thick as their weights."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.paint_lines import (
    comparable,
    line_names,
    natural_lines_height,
    paint_lines,
    strong_lines,
)
from attnscope.figures.shown_maps import Wanted
from attnscope.figures.spec import FigureRequest
from attnscope.figures.words_and_numbers import MapsFigure, change_words, heads_words

_MANY_LINES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesFigure(MapsFigure):
    """Queries on one side, keys on the other, a colour for each head."""

    view = "lines"
    words = "lines of the selected heads"
    order = 3
    least_px = 170.0
    choices = frozenset({"every", "special", "axes"})
    reads_trace = True
    is_asked = True

    @classmethod
    def of_trace(cls, wanted: Wanted, **page: Any) -> "LinesFigure":
        return cls(maps=wanted.maps(), **page)

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        paint_lines(painter, rect, self.maps, palette=palette, style=self.style, is_paper=True)

    def paint_panel(self, painter: QPainter, rect: QRectF, palette: Palette, *, has_names: bool) -> None:
        """The lines with the names of their heads, or where other panels name them without."""
        paint_lines(
            painter,
            rect,
            self.maps,
            palette=palette,
            style=self.style,
            has_names=has_names,
            is_paper=True,
        )

    def natural_height(self, width: float) -> float:
        return self.lines_height(width, has_names=True)

    def lines_height(self, width: float, *, has_names: bool) -> float:
        """The height of the lines, and of the names of their heads."""
        return natural_lines_height(self.maps[0], width, names=line_names(self.maps) if has_names else ())

    def shown_words(self) -> list[str]:
        return [*heads_words(self.maps), *change_words(self.gates, self.interventions)]

    def suits_column(self) -> bool:
        return True

    def hint(self) -> str:
        """What to do where so many lines are drawn that none can be followed; empty otherwise."""
        style = self.style
        drawn = strong_lines(
            comparable(self.maps), least_weight=style.least_weight, n_strongest=style.n_strongest
        )
        n = len(drawn.weights)
        return f"{n:,} lines, --n-strongest 2 draws fewer" if n > _MANY_LINES else ""

    def asked(self) -> FigureRequest:
        heads = tuple(head_map.head for head_map in self.maps)
        return FigureRequest(heads=heads, stack=heads[0].stack)

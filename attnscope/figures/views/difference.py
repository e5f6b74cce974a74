"""One head of two texts, models or settings, and their difference, with the tokens aligned."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.errors import UserError
from attnscope.figures.colours import Palette
from attnscope.figures.paint_difference import difference_layout, natural_difference_height, paint_difference
from attnscope.figures.plain import plain_text
from attnscope.figures.shown_maps import Wanted
from attnscope.figures.spec import FigureSpec
from attnscope.figures.words_and_numbers import (
    cell_header,
    exact_number_text,
    safe_cell,
    scale_words,
    token_arrays,
)
from attnscope.records.maps import BOTH, NEITHER, NOWHERE, ONLY_A, ONLY_B
from attnscope.records.sites import check_heads, head_named
from attnscope.viewmodels.compare.difference import WAYS, ComparedMaps, align_tokens, compare_maps
from attnscope.viewmodels.maps.aspect import labelled

_ALLOWED_BY = {BOTH: "both", NEITHER: "neither", ONLY_A: "A", ONLY_B: "B", NOWHERE: "no such cell"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFigure(FigureSpec):
    """Head A, head B, and B − A, on shared axes."""

    view = "difference"
    words = "difference of two sides"
    order = 8
    least_px = 170.0
    choices = frozenset({"badge", "axes"})
    has_cells = True
    reads_trace = True

    compared: ComparedMaps

    @classmethod
    def of_trace(cls, wanted: Wanted, **page: Any) -> "DifferenceFigure":
        """One head of each trace on shared axes; raises UserError when the second has no such head."""
        side = wanted.other
        if side.trace is None:
            raise UserError(
                "A difference needs two traces.", expected="a second trace", action="Give it as `other`."
            )
        if side.align not in WAYS or not 0.0 <= side.delta_end < float("inf"):
            raise UserError(
                f"A difference cannot be drawn with align '{side.align}' and delta_end {side.delta_end}.",
                expected=f"{', '.join(WAYS)}; and a number from 0",
                action="Choose one of these.",
            )
        other = wanted.head if side.head is None else head_named(side.head, side.trace.sites)
        check_heads((other,), side.trace.sites)
        sides = wanted.trace.head_map(wanted.head), side.trace.head_map(other)
        first, second = (labelled(one, wanted.rows) for one in sides)
        axes = (
            align_tokens(first.queries, second.queries, side.align),
            align_tokens(first.keys, second.keys, side.align),
        )
        compared = compare_maps(
            first, second, *axes, names=side.names, limit=side.delta_end, row_names=wanted.rows
        )
        return cls(compared=compared, **page)

    @property
    def is_empty(self) -> bool:
        return False

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        layout = difference_layout(rect, self.compared)
        paint_difference(painter, layout, self.compared, style=self.style, palette=palette)

    def natural_height(self, width: float) -> float:
        return natural_difference_height(width, self.compared)

    def shown_words(self) -> list[str]:
        """Which head, what each side is, and what the difference is of."""
        compared = self.compared
        sides = [plain_text(name) for name in compared.names]
        end = "to the largest difference" if not compared.limit else f"±{compared.limit:.3g}"
        head = f"head {compared.head.stack} {compared.head.label}"
        return [head, *sides, f"B − A {end}, centred on 0", scale_words(self)]

    def name_parts(self) -> list[str]:
        return [self.compared.head.stack, self.compared.head.label]

    def rows(self) -> Iterator[Iterable[str]]:
        """One row for each cell of the shared axes; empty where a side has no such cell or no weight."""
        compared = self.compared
        head = (compared.head.stack, str(compared.head.layer), str(compared.head.head))
        has_written = any(query.read for query in compared.queries)
        yield (*cell_header(has_written=has_written), "weight A", "weight B", "B - A", "allowed by")
        for i, query in enumerate(compared.queries):
            written = (safe_cell(query.piece if query.read else ""),) if has_written else ()
            for j, key in enumerate(compared.keys):
                names = (str(i), safe_cell(query.read or query.piece), *written, str(j), safe_cell(key.piece))
                values = (compared.first[i, j], compared.second[i, j], compared.delta[i, j])
                yield (*head, *names, *map(exact_number_text, values), _ALLOWED_BY[int(compared.kinds[i, j])])

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Both maps and Δ on the shared axes; in A and B ∞ stands where a side has no such token."""
        compared = self.compared
        name = f"{compared.head.stack}_{compared.head.label}"
        return {
            f"{name}_A": compared.first,
            f"{name}_B": compared.second,
            f"{name}_difference": compared.delta,
            f"{name}_allowed": compared.kinds,
            **token_arrays(name, compared.queries, compared.keys),
        }

    def has_colour_bar(self) -> bool:
        return True

    def cell_px(self, body: QRectF) -> float:
        first = difference_layout(body, self.compared).panels[0]
        return min(first.rows.step, first.columns.step)

    def n_across(self, body: QRectF) -> int:
        return 2 * len(self.compared.keys)

    def widest_value(self) -> str:
        return "−.88"

    def fits_together(self) -> bool:
        shown = self.compared
        rows = (shown.queries, *shown.side_queries)
        cols = (shown.keys, *shown.side_keys)
        fits = {len(row) for row in rows} == {len(shown.rows)}
        fits &= {len(col) for col in cols} == {len(shown.cols)}
        return fits and shown.delta.size > 0 and shown.kinds.shape == shown.delta.shape and shown.limit >= 0

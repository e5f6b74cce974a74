"""All heads of a stack as thumbnails: a row for each layer, a column for each head."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from attnscope.figures.colours import Palette
from attnscope.figures.grid_painting import GridMarks, natural_grid_height, paint_grid
from attnscope.figures.map_painting import BAR_WIDTH_PX, MARGIN_PX, ColourBar, paint_colour_bar
from attnscope.figures.spec import FigureRequest, FigureSpec, Wanted
from attnscope.figures.words_and_numbers import change_words, exact_number_text, scale_words
from attnscope.records.maps import SelfCheck, SiteGrid
from attnscope.records.sites import HeadRef, some_sites

_GAP_PX = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFigure(FigureSpec):
    """`grids`, one for each layer; heads of the `selection` are marked.

    `exact` are the weights behind each grid, [n_heads, n_queries, n_keys], for tables; none where they are
    not known.
    """

    view = "grid"
    words = "grid of all heads"
    order = 1
    shows = "all heads"
    least_px = 120.0
    choices = frozenset({"colours", "scale", "bar"})
    reads_trace = True
    is_asked = True

    grids: tuple[SiteGrid, ...] = ()
    selection: tuple[HeadRef, ...] = ()
    exact: tuple[NDArray[np.float32], ...] = ()

    @classmethod
    def of_trace(cls, wanted: Wanted, **page: Any) -> "GridFigure":
        first = wanted.heads[0].stack if wanted.heads else wanted.trace.sites[0].stack
        grids = wanted.grids(wanted.stack or first)
        return cls(grids=grids, selection=wanted.heads, exact=wanted.exact(grids), **page)

    @property
    def is_empty(self) -> bool:
        return not self.grids

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        has_bar = self.style.has_bar
        field = rect.adjusted(0, 0, -BAR_WIDTH_PX - _GAP_PX if has_bar else 0.0, 0)
        marks = GridMarks(gates=self.gates, selection=self.selection)
        layout = paint_grid(
            painter, field, self.grids, style=self.style, palette=palette, marks=marks, is_paper=True
        )
        if not has_bar:
            return
        bottom = layout.area.bottom()
        left = min(field.right(), layout.box(0, layout.n_columns - 1).right() + MARGIN_PX)  # at the data
        bar = QRectF(left, layout.box(0, 0).top(), BAR_WIDTH_PX, bottom - layout.box(0, 0).top())
        ticks: tuple[tuple[float, str], ...] = tuple((t, f"{t:g}") for t in (0.0, 0.25, 0.5, 0.75, 1.0))
        if self.style.scale != "fixed":
            ticks = ((0.0, "0"), (1.0, f"{self.style.scale} max"))
        paint_colour_bar(
            painter,
            bar,
            ColourBar(
                colour_map=self.style.colour_map,
                title="weight",
                ticks=ticks,
                has_not_allowed=self.has_masked(),
            ),
            palette,
        )

    def paint_panel(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        """The thumbnails alone."""
        marks = GridMarks(gates=self.gates, selection=self.selection)
        paint_grid(painter, rect, self.grids, style=self.style, palette=palette, marks=marks, is_paper=True)

    def has_masked(self) -> bool:
        """Whether there are cells that the mask forbids."""
        return any(bool((grid.levels == 0).any()) for grid in self.grids)

    def natural_height(self, width: float) -> float:
        bar_px = BAR_WIDTH_PX + MARGIN_PX if self.style.has_bar else 0.0
        return min(natural_grid_height(width - bar_px, self.grids), width)

    def panel_height(self, width: float) -> float:
        """Preferred height of the thumbnails alone."""
        return min(natural_grid_height(width, self.grids), width)

    def shown_words(self) -> list[str]:
        words = [f"all heads, {self._stacks()}", f"mask {self._mask_word()}"]
        if any(grid.is_pooled for grid in self.grids):
            words.append("each pixel the largest of its weights")
        if any(grid.is_sampled for grid in self.grids):
            words.append("rough: see single heads for exact weights")
        return [*words, scale_words(self), *change_words(self.gates, self.interventions)]

    def subject(self) -> str:
        """Short description for its panel, beside the panel's letter."""
        return f"{self._stacks()}, all heads"

    def _stacks(self) -> str:
        return " and ".join(dict.fromkeys(grid.site.stack for grid in self.grids))

    def _mask_word(self) -> str:
        """The mask in a word, according to thumbnails: level 0 means not allowed, in every head."""
        is_not_allowed = [grid.levels[0] == 0 for grid in self.grids]
        if not any(f.any() for f in is_not_allowed):
            return "none"
        is_causal = all(np.array_equal(f, np.triu(np.ones(f.shape, np.bool_), 1)) for f in is_not_allowed)
        return "causal" if is_causal else "partial"

    def name_parts(self) -> list[str]:
        return list(dict.fromkeys(grid.site.stack for grid in self.grids))

    def heads(self) -> Iterator[HeadRef]:
        return iter(self.selection)

    def site_checks(self) -> tuple[SelfCheck, ...]:
        wrong = {grid.site: grid.check for grid in self.grids if grid.check is not None}
        where = some_sites([*wrong], len(self.grids))
        return tuple(replace(check, where=where) for check in wrong.values())

    def rows(self) -> Iterator[Iterable[str]]:
        """One row for each cell; weights known as levels only come with their maximum error."""
        off = () if self.exact else ("within",)
        yield ("stack", "layer", "head", "row", "column", "weight", *off, "gate")
        for grid, weights in zip(self.grids, self._weights(), strict=True):
            for k, head in enumerate(grid.site.heads):
                place = (head.stack, str(head.layer), str(head.head))
                within = (f"{grid.peaks[k] / (2 * 254):.2g}",) if off else ()
                for (i, j), weight in np.ndenumerate(weights[k]):
                    told = exact_number_text(weight)
                    yield (*place, str(i), str(j), told, *within, f"{self.gates.value(head):g}")

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        weights = zip(self.grids, self._weights(), strict=True)
        return {f"{grid.site.stack}_L{grid.site.layer}": of_site for grid, of_site in weights}

    def _weights(self) -> tuple[NDArray[np.float32], ...]:
        return self.exact or tuple(map(weights_of_grid, self.grids))

    def fits_together(self) -> bool:
        shapes = [(grid.site.n_heads, grid.n_queries, grid.n_keys) for grid in self.grids]
        is_exact = not self.exact or [weights.shape for weights in self.exact] == shapes
        return is_exact and all(map(_is_whole, self.grids))

    def asked(self) -> FigureRequest:
        return FigureRequest(heads=self.selection, stack=self.grids[0].site.stack)


def weights_of_grid(grid: SiteGrid) -> NDArray[np.float32]:
    """The weights behind a grid's levels, [n_heads, rows, cols], to 1/254 of each peak."""
    weights: NDArray[np.float32] = (
        (grid.levels.astype(np.float32) - 1) / np.float32(254) * grid.peaks[:, None, None]
    )
    weights[grid.levels == 0] = np.nan
    return weights


def _is_whole(grid: SiteGrid) -> bool:
    is_site = grid.site.layer >= 0 and grid.site.n_heads > 0
    return is_site and grid.levels.size > 0 and min(grid.n_queries, grid.n_keys) > 0

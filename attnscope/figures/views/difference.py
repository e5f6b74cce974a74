"""One head of two sides: A, B and the signed difference B − A on one scale around 0, cell under cell."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.counting import number_text, percent
from attnscope.errors import UserError
from attnscope.figures.colours import Palette, argb, difference_map
from attnscope.figures.map_painting import (
    BAR_WIDTH_PX,
    MARGIN_PX,
    ColourBar,
    MapLayout,
    cells_height,
    map_layout,
    paint_axis_names,
    paint_codes,
    paint_colour_bar,
    paint_highlight,
    paint_values,
)
from attnscope.figures.raster import (
    FIRST_COLOUR,
    NO_DATA,
    NOT_ALLOWED,
    Codes,
    ImageCache,
    code_colours,
    codes_from_weights,
    delta_codes,
    image_size,
    scale_peaks,
)
from attnscope.figures.spec import DrawnTrace, FigureSpec, Wanted
from attnscope.figures.style import (
    LARGE_PX,
    NORMAL_PX,
    SMALL_PX,
    MapStyle,
    font,
    plain_text,
    type_px,
    value_px,
)
from attnscope.figures.token_axis import PAD_PX, AxisLabels, axis_names, paint_columns, paint_rows
from attnscope.figures.words_and_numbers import (
    cell_header,
    exact_number_text,
    safe_cell,
    scale_words,
    token_arrays,
)
from attnscope.records.maps import BOTH, NEITHER, NOWHERE, ONLY_A, ONLY_B, Which, pooled_difference
from attnscope.records.sites import HeadRef, check_heads, head_named
from attnscope.records.tokens import Token
from attnscope.viewmodels.compare.difference import WAYS, ComparedMaps, align_tokens, compare_maps
from attnscope.viewmodels.maps.aspect import labelled
from attnscope.viewmodels.session.changes import changes_words

GAP = FIRST_COLOUR + 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceCodes:
    """The codes of the three maps, and the weight at the end of the colours."""

    first: Codes
    second: Codes
    delta: Codes
    top: float


def difference_codes(shown: ComparedMaps, style: MapStyle) -> DifferenceCodes:
    """The codes of the three maps; A and B on one scale, Δ from −end to end."""
    finite = [np.where(np.isfinite(weights), weights, 0.0) for weights in (shown.first, shown.second)]
    peaks = scale_peaks(np.maximum(*finite), style.scale)
    first, second = (
        codes_from_weights(np.asarray(weights / peaks, dtype=np.float32), "fixed")
        for weights in (shown.first, shown.second)
    )
    delta = delta_codes(shown.delta, shown.end)
    delta[(shown.kinds == ONLY_A) | (shown.kinds == ONLY_B)] = NO_DATA
    delta[shown.kinds == NOWHERE] = GAP
    top = float(peaks.max()) if style.scale == "head" and peaks.size else 1.0
    return DifferenceCodes(first=first, second=second, delta=delta, top=top)


_BAR_GAP_PX = 14.0
_PANEL_GAP_PX = 14.0
_LEAST_GAIN = 1.15
_BARS_APART = 1.8
_HIGHEST = 1.4
_GOOD_CELL_PX, _NARROW_PX, _LEAST_BAR_PX = 20.0, 520.0, 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceLayout:
    """The maps of A, of B and of B − A, and the bars of the weights and of the differences.

    All three show the same part of the same axes. `title_ends` are the x where their titles must end.
    """

    panels: tuple[MapLayout, MapLayout, MapLayout]
    weight_bar: QRectF
    delta_bar: QRectF
    title_ends: tuple[float, float, float]

    @property
    def cells(self) -> tuple[QRectF, QRectF, QRectF]:
        first, second, delta = self.panels
        return first.cells, second.cells, delta.cells

    def panel_at(self, position: QPointF) -> MapLayout | None:
        """The map whose cells are under a position."""
        return next((panel for panel in self.panels if panel.cells.contains(position)), None)

    def hit(self, position: QPointF) -> tuple[int, int] | None:
        """The (query slot, key slot) under a position in any of the maps."""
        panel = self.panel_at(position)
        return panel.hit(position) if panel is not None else None


def difference_layout(rect: QRectF, shown: ComparedMaps, *, view: QRectF | None = None) -> DifferenceLayout:
    """Lay the three maps out in `rect`; `view` is the visible part in slots (x keys, y queries)."""
    best, *others = (arranged(rect, shown, view) for arranged in _ARRANGEMENTS)
    for other in others:
        if _cell_px(other) > _LEAST_GAIN * max(_cell_px(best), 1e-6):
            best = other
    return best


def natural_difference_height(width: float, shown: ComparedMaps) -> float:
    """Preferred height of the maps at a width: readable cells, one map above the other in a column."""
    n_rows = 1
    for n_rows, arranged in enumerate(_ARRANGEMENTS, 1):
        high = _HIGHEST * width / (3, 2, 1)[n_rows - 1]
        found = arranged(QRectF(0.0, 0.0, width, high * n_rows), shown, None)
        if _cell_px(found) >= type_px(_GOOD_CELL_PX) or (n_rows == 2 and width >= _NARROW_PX):
            break
    first = found.panels[0]
    panel = first.cells.top() + max(cells_height(first), type_px(_LEAST_BAR_PX)) + MARGIN_PX
    return n_rows * panel


def _cell_px(layout: DifferenceLayout) -> float:
    return min(layout.panels[0].rows.step, layout.panels[0].columns.step)


def _in_a_row(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> DifferenceLayout:
    bar = type_px(BAR_WIDTH_PX) + _BAR_GAP_PX
    width = max((rect.width() - 2 * bar) / 3, 40.0)
    first = _panel(QRectF(rect.left(), rect.top(), width, rect.height()), shown, view)
    second = _moved(first, width, 0.0)
    delta = _moved(first, 2 * width + bar, 0.0)
    ends = (rect.left() + width, rect.left() + 2 * width + bar, rect.right())
    return _with_bars(first, second, delta, ends)


def _above_each_other(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> DifferenceLayout:
    """A and B beside each other, B − A below; both bars take the place of a fourth map."""
    width, height = max(rect.width() / 2, 40.0), rect.height() / 2
    first = _panel(QRectF(rect.left(), rect.top(), width, height), shown, view)
    ends = (rect.left() + width, rect.right(), rect.right())
    found = _with_bars(first, _moved(first, width, 0.0), _moved(first, 0.0, height), ends)
    left = found.delta_bar.left() + _BARS_APART * type_px(BAR_WIDTH_PX)
    weight_bar = found.delta_bar.translated(
        max(left, found.panels[1].cells.left()) - found.delta_bar.left(), 0.0
    )
    return dataclasses.replace(found, weight_bar=weight_bar)


def _in_a_column(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> DifferenceLayout:
    bar = type_px(BAR_WIDTH_PX) + _BAR_GAP_PX
    width, height = max(rect.width() - bar, 40.0), rect.height() / 3
    first = _panel(QRectF(rect.left(), rect.top(), width, height), shown, view)
    second, delta = _moved(first, 0.0, height), _moved(first, 0.0, 2 * height)
    return _with_bars(first, second, delta, (rect.right(), rect.right(), rect.right()))


_ARRANGEMENTS = (_in_a_row, _above_each_other, _in_a_column)


def _panel(rect: QRectF, shown: ComparedMaps, view: QRectF | None) -> MapLayout:
    """One map without a bar; turned labels may extend over the empty corner of its neighbour."""
    wider = rect.adjusted(0, 0, type_px(BAR_WIDTH_PX) + _PANEL_GAP_PX, 0)
    return map_layout(wider, shown.queries, shown.keys, view=view)


def _with_bars(
    first: MapLayout, second: MapLayout, delta: MapLayout, ends: tuple[float, float, float]
) -> DifferenceLayout:
    width = type_px(BAR_WIDTH_PX)
    bars = [
        QRectF(panel.cells.right() + _BAR_GAP_PX, panel.cells.top(), width, max(panel.cells.height(), 120.0))
        for panel in (second, delta)
    ]
    return DifferenceLayout(
        panels=(first, second, delta), weight_bar=bars[0], delta_bar=bars[1], title_ends=ends
    )


def _moved(layout: MapLayout, x: float, y: float) -> MapLayout:
    x, y = round(x), round(y)
    return dataclasses.replace(
        layout,
        cells=layout.cells.translated(x, y),
        bar=layout.bar.translated(x, y),
        title=layout.title.translated(x, y),
    )


_LEAST_LETTERED_PX = 16.0
_WIDEST_VALUE = "−.88"
_N_LETTERED = 4000
Highlight = tuple[int | None, int | None]
_OF_ROWS = " of their weight"


def paint_difference(
    painter: QPainter,
    layout: DifferenceLayout,
    shown: ComparedMaps,
    *,
    style: MapStyle,
    palette: Palette,
    highlight: Highlight = (None, None),
    cache: ImageCache | None = None,
    codes: DifferenceCodes | None = None,
) -> None:
    """Draw the three maps; `highlight` is a (query, key) slot of which either may be None.

    A and B share one scale.
    """
    codes = codes or difference_codes(shown, style)
    cache = cache or ImageCache()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    sides: tuple[tuple[Which, Codes], ...] = (("A", codes.first), ("B", codes.second))
    for k, (which, coded) in enumerate(sides):
        panel = layout.panels[k]
        words = np.append(code_colours(style.colour_map, palette), np.uint32(argb(palette.background)))
        words[NO_DATA] = argb(palette.background)
        _paint_title(painter, panel, layout.title_ends[k], which, _side_words(shown, k, style), palette)
        paint_codes(painter, panel, coded, words, palette, cache, (k, style))
        _paint_gaps(painter, panel, shown, which, palette)
    delta = layout.panels[2]
    _paint_title(painter, delta, layout.title_ends[2], "B − A", delta_words(shown), palette)
    _paint_delta(painter, delta, shown, codes.delta, palette, cache)
    _paint_letters(painter, delta, shown, palette)
    if style.show_values:
        _paint_values(painter, layout, shown, codes, style, palette)
    for k, panel in enumerate(layout.panels):
        paint_highlight(painter, panel, highlight, palette)
        names = (shown.queries, shown.keys) if k == 2 else (shown.side_queries[k], shown.side_keys[k])
        _paint_axes(painter, panel, names, style, palette, highlight)
    _paint_bars(painter, layout, shown, codes, style, palette)
    painter.restore()


def delta_words(shown: ComparedMaps) -> str:
    """Distance of the two maps, in words."""
    mean, moved = shown.mean_abs, shown.moved
    if np.isnan(mean):
        return "no cell in common"
    if few := shown.too_little_in_common:
        return few
    if shown.is_same:
        return "no difference"
    return f"mean |Δ| {number_text(mean, 3)} · rows move {percent(moved, 1)}{_OF_ROWS}"


def _side_words(shown: ComparedMaps, side: int, style: MapStyle) -> str:
    badge = shown.badges[side]
    is_told = style.has_badge or not badge.startswith("✓")
    name = shown.names[side].removeprefix("AB"[side]).removeprefix(" · ")
    return " · ".join(part for part in (name, badge if is_told else "") if part)


def _paint_title(
    painter: QPainter, panel: MapLayout, right: float, label: str, words: str, palette: Palette
) -> None:
    left = panel.cells.left() - panel.row_width - PAD_PX - 4
    baseline = panel.title.top() + type_px(17)
    face = font(LARGE_PX, is_bold=True)
    painter.setFont(face)
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(left, baseline), label)
    left += QFontMetricsF(face).horizontalAdvance(label) + 10
    painter.setFont(font(NORMAL_PX))
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(left, baseline), _fitting(plain_text(words), max(right - 8 - left, 40.0)))


def _fitting(words: str, room: float) -> str:
    """As many whole parts of `words` as fit; if only the first, its beginning."""
    metrics = QFontMetricsF(font(NORMAL_PX))
    short = words.removesuffix(_OF_ROWS)
    parts = short.split(" · ")
    fewer = [" · ".join(parts[:n]) for n in range(len(parts), 0, -1)]
    fitting = (one for one in (words, *fewer) if metrics.horizontalAdvance(one) <= room)
    return next(fitting, metrics.elidedText(parts[0], Qt.TextElideMode.ElideRight, room))


def _paint_delta(
    painter: QPainter,
    panel: MapLayout,
    shown: ComparedMaps,
    codes: Codes,
    palette: Palette,
    cache: ImageCache,
) -> None:
    """Paint the differences; where cells share a pixel, the largest of either sign."""
    words = np.append(code_colours(difference_map(palette), palette), np.uint32(argb(palette.background)))
    words[NO_DATA] = argb(palette.grid)
    (width, height), _ = image_size(painter, panel.cells, panel.view)
    view = panel.view
    if view.width() > width or view.height() > height:
        rows = slice(max(int(view.top()), 0), int(np.ceil(view.bottom())))
        cols = slice(max(int(view.left()), 0), int(np.ceil(view.right())))
        codes = delta_codes(pooled_difference(shown.delta[rows, cols], (height, width)), shown.end)
        panel = replace(panel, view=QRectF(0, 0, codes.shape[1], codes.shape[0]))
    paint_codes(painter, panel, codes, words, palette, cache, ("delta",))


def _paint_gaps(
    painter: QPainter, panel: MapLayout, shown: ComparedMaps, which: Which, palette: Palette
) -> None:
    """Paint rows and columns of tokens missing on one side: empty, with a thin line through them."""
    painter.save()
    painter.setClipRect(panel.cells)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    rows, columns = shown.rows.side(which), shown.cols.side(which)
    for row in panel.rows.visible():
        if rows[row] < 0:
            y = panel.rows.centre(row)
            painter.drawLine(QPointF(panel.cells.left(), y), QPointF(panel.cells.right(), y))
    for column in panel.columns.visible():
        if columns[column] < 0:
            x = panel.columns.centre(column)
            painter.drawLine(QPointF(x, panel.cells.top()), QPointF(x, panel.cells.bottom()))
    painter.restore()


def _paint_letters(painter: QPainter, panel: MapLayout, shown: ComparedMaps, palette: Palette) -> None:
    """Write the side that alone allows a cell, if cells have room for a letter."""
    rows, columns = panel.rows.visible(), panel.columns.visible()
    if min(panel.rows.step, panel.columns.step) < type_px(_LEAST_LETTERED_PX):
        return
    if len(rows) * len(columns) > _N_LETTERED:
        return
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    for query in rows:
        for key in columns:
            kind = shown.kinds[query, key]
            if kind in (ONLY_A, ONLY_B):
                letter = "A" if kind == ONLY_A else "B"
                painter.drawText(panel.cell_rect(query, key), Qt.AlignmentFlag.AlignCenter, letter)


def _paint_values(
    painter: QPainter,
    layout: DifferenceLayout,
    shown: ComparedMaps,
    codes: DifferenceCodes,
    style: MapStyle,
    palette: Palette,
) -> None:
    size_px = value_px(min(layout.panels[0].rows.step, layout.panels[0].columns.step), _WIDEST_VALUE)
    maps = (shown.first, shown.second, shown.delta)
    colours = (style.colour_map, style.colour_map, difference_map(palette))
    coded = (codes.first, codes.second, codes.delta)
    for panel, values, colour_map, codes_now in zip(layout.panels, maps, colours, coded, strict=True):
        paint_values(painter, panel, codes_now, values, colour_map, size_px)


def _paint_axes(
    painter: QPainter,
    panel: MapLayout,
    names: tuple[tuple[Token, ...], tuple[Token, ...]],
    style: MapStyle,
    palette: Palette,
    highlight: Highlight,
) -> None:
    bottom, right = panel.cells.top() - PAD_PX, panel.cells.left() - PAD_PX - 2
    queries, keys = names
    query, key = highlight
    columns = AxisLabels(tokens=keys, span=panel.columns, width=panel.column_width, highlight=key)
    paint_columns(painter, columns, bottom, panel.turn, palette)
    rows = AxisLabels(tokens=queries, span=panel.rows, width=panel.row_width, highlight=query)
    paint_rows(painter, rows, right, palette)
    paint_axis_names(painter, panel, axis_names(queries, style), palette)


def _paint_bars(
    painter: QPainter,
    layout: DifferenceLayout,
    shown: ComparedMaps,
    codes: DifferenceCodes,
    style: MapStyle,
    palette: Palette,
) -> None:
    ticks = tuple((t, f"{t * codes.top:.3g}") for t in (0.0, 0.5, 1.0))
    if style.scale == "row":
        ticks = ((0.0, "0"), (1.0, "row max"))
    has_mask = bool((codes.first == NOT_ALLOWED).any() or (codes.second == NOT_ALLOWED).any())
    paint_colour_bar(
        painter,
        layout.weight_bar,
        ColourBar(
            colour_map=style.colour_map,
            title="weight",
            ticks=ticks,
            note="row max of both" if style.scale == "row" else "",
            has_not_allowed=has_mask,
        ),
        palette,
    )
    end = shown.end
    paint_colour_bar(
        painter,
        layout.delta_bar,
        ColourBar(
            colour_map=difference_map(palette),
            title="B − A",
            ticks=((0.0, f"−{end:.2g}"), (0.5, "0"), (1.0, f"+{end:.2g}")),
            has_not_allowed=bool((codes.delta == NOT_ALLOWED).any()),
            has_no_data=bool((codes.delta == NO_DATA).any()),
            no_data_words="A or B only",
            no_data_colour=palette.grid,
        ),
        palette,
    )


def _side_names(*sides: tuple[DrawnTrace, HeadRef]) -> tuple[str, str]:
    """Names of A and B: only what distinguishes them."""
    is_one_text = len({trace.source.text for trace, _ in sides}) == 1
    told = [
        (
            f"target “{trace.target.text}”" if is_one_text and trace.target else f"“{trace.source.text}”",
            changes_words(trace.gates, trace.interventions),
            f"{head.stack} {head.label}",
        )
        for trace, head in sides
    ]
    differ = [len(set(both)) > 1 for both in zip(*told, strict=True)]
    first, second = (
        " · ".join((letter, *compress(words, differ))) for letter, words in zip("AB", told, strict=True)
    )
    return first, second


_ALLOWED_BY = {BOTH: "both", NEITHER: "neither", ONLY_A: "A", ONLY_B: "B", NOWHERE: "no such cell"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceFigure(FigureSpec):
    """Head A, head B, and B − A, on shared axes."""

    view = "difference"
    words = "difference of two sides"
    order = 8
    shows = "one head"
    options = frozenset(
        {"with_model", "with_text", "with_target", "with_gate", "with_stack", "align", "delta_end"}
    )
    least_px = 170.0
    choices = frozenset({"badge", "axes"})
    has_cells = True
    reads_trace, needs_other = True, True

    compared: ComparedMaps

    @classmethod
    def of_trace(cls, wanted: Wanted, **page: Any) -> "DifferenceFigure":
        """One head of each trace on shared axes; raises UserError if the second has no such head."""
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
        is_named = any(side.names)
        names = side.names if is_named else _side_names((wanted.trace, wanted.head), (side.trace, other))
        compared = compare_maps(
            first, second, *axes, names=names, limit=side.delta_end, row_names=wanted.rows
        )
        return cls(compared=compared, **page)

    @property
    def is_empty(self) -> bool:
        return False

    def row_tokens(self) -> tuple[Token, ...]:
        return self.compared.queries

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        layout = difference_layout(rect, self.compared)
        paint_difference(painter, layout, self.compared, style=self.style, palette=palette)

    def natural_height(self, width: float) -> float:
        return natural_difference_height(width, self.compared)

    def shown_words(self) -> list[str]:
        """The head, the sides, and the subject of the difference."""
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
        """Both maps and Δ on the shared axes; ∞ in A and B where a side has no such token."""
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

    def widest_value(self) -> str:
        return "−.88"

    def fits_together(self) -> bool:
        shown = self.compared
        rows = (shown.queries, *shown.side_queries)
        cols = (shown.keys, *shown.side_keys)
        fits = {len(row) for row in rows} == {len(shown.rows)}
        fits &= {len(col) for col in cols} == {len(shown.cols)}
        return fits and shown.delta.size > 0 and shown.kinds.shape == shown.delta.shape and shown.limit >= 0

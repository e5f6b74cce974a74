"""All heads of one stack as small maps: layers down, heads across, gates and selection on top."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPen

from attnscope.figures.colours import Palette
from attnscope.figures.raster import (
    Codes,
    ImageCache,
    cells_image,
    code_colours,
    codes_from_grid,
    has_vector_cells,
    image_from_codes,
    image_from_words,
    image_size,
    is_vector,
    paint_vector_cells,
    resample,
)
from attnscope.figures.style import SMALL_PX, MapStyle, font, text_width, type_px
from attnscope.records.maps import SiteGrid
from attnscope.records.sites import NO_GATES, Gates, HeadRef

ROW_HEADER_PX = 34.0
COLUMN_HEADER_PX = 24.0
_MARGIN_PX = 8.0
MAX_ZOOM = 40.0
LABEL_PX = 15.0
_LEAST_LABELLED_PX = 72.0
_LINES = (1, 2, 4, 8, 12)
_FEW_LINES, _LEAST_IN_MANY = 4, 8
"""More lines than a few only while each of them has so many heads."""
_SPECK_PX = 24.0
"""Narrower thumbnails are specks: a page is made high enough for more lines."""
_WRAP_GAIN = 1.15
_LEAST_WRAPPED_PX = 44.0
_LAYER_GAPS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GridLayout:
    """The rectangles of a grid. `area` is the room for thumbnails; headers lie left of and above it.

    `rows` are what the eye sees: `n_lines` of them make one layer.
    """

    area: QRectF
    origin: QPointF
    box_width: float
    box_height: float
    gap: float
    label_px: float
    rows: tuple[tuple[HeadRef, ...], ...]
    n_lines: int = 1

    @property
    def n_columns(self) -> int:
        """The largest number of heads in a row."""
        return max((len(row) for row in self.rows), default=0)

    def box(self, row: int, column: int) -> QRectF:
        """The rectangle of one thumbnail, on whole pixels."""
        left = round(self.origin.x() + column * self.pitch_x)
        down = row // self.n_lines * self.layer_pitch + row % self.n_lines * self.pitch_y
        top = round(self.origin.y() + down + self.label_px)
        return QRectF(left, top, max(1, round(self.box_width)), max(1, round(self.box_height)))

    @property
    def pitch_x(self) -> float:
        """Distance from one head to the next, in pixels."""
        return self.box_width + self.gap

    @property
    def pitch_y(self) -> float:
        """Distance from one row to the next within a layer, in pixels."""
        return self.box_height + self.gap + self.label_px

    @property
    def layer_pitch(self) -> float:
        """Distance from one layer to the next, in pixels."""
        return self.n_lines * self.pitch_y + (_LAYER_GAPS * self.gap if self.n_lines > 1 else 0.0)

    @property
    def n_layers(self) -> int:
        """Number of layers in the grid."""
        return len(self.rows) // self.n_lines

    @property
    def height(self) -> float:
        """The height of all rows, visible or not."""
        return self.n_layers * self.layer_pitch

    def layer_rect(self, layer: int) -> QRectF:
        """The rectangle around the first heads of all rows of one layer, counted from the top."""
        first = layer * self.n_lines
        return self.box(first, 0).united(self.box(first + self.n_lines - 1, 0))

    def step(self, place: tuple[int, int], step: tuple[int, int]) -> tuple[int, int]:
        """The neighbouring place: sideways continuing through the lines of a layer, never past an edge."""
        row, column = place[0] + step[0], place[1] + step[1]
        if column < 0 and row % self.n_lines:
            row, column = row - 1, len(self.rows[row - 1]) - 1
        elif step[1] > 0 and column >= len(self.rows[row]) and (row + 1) % self.n_lines:
            row, column = row + 1, 0
        row = min(max(row, 0), len(self.rows) - 1)
        return row, min(max(column, 0), len(self.rows[row]) - 1)

    def visible(self) -> list[tuple[int, int]]:
        """The (row, column) of every thumbnail that touches the area."""
        layers = self._range(
            self.area.top() - self.origin.y(), self.area.height(), self.layer_pitch, self.n_layers
        )
        rows = range(layers.start * self.n_lines, layers.stop * self.n_lines)
        columns = self._range(
            self.area.left() - self.origin.x(), self.area.width(), self.pitch_x, self.n_columns
        )
        return [(r, c) for r in rows for c in columns if c < len(self.rows[r])]

    def hit(self, position: QPointF) -> HeadRef | None:
        """The head whose thumbnail is under a position."""
        if not self.area.contains(position) or not self.rows:
            return None
        column = int((position.x() - self.origin.x()) // self.pitch_x)
        layer, rest = divmod(position.y() - self.origin.y(), self.layer_pitch)
        row = int(layer) * self.n_lines + min(int(rest // self.pitch_y), self.n_lines - 1)
        if not (0 <= row < len(self.rows) and 0 <= column < len(self.rows[row])):
            return None
        return self.rows[row][column] if self.box(row, column).contains(position) else None

    def place(self, head: HeadRef) -> tuple[int, int] | None:
        """The (row, column) of a head, or None if the grid does not show it."""
        for row, heads in enumerate(self.rows):
            if head in heads:
                return row, heads.index(head)
        return None

    @staticmethod
    def _range(start: float, length: float, pitch: float, n: int) -> range:
        first = int(start // pitch)
        return range(max(0, first), max(0, min(n, int((start + length) // pitch) + 1)))


def grid_layout(
    rect: QRectF, grids: tuple[SiteGrid, ...], *, zoom: float = 1.0, offset: QPointF | None = None
) -> GridLayout:
    """Lay a grid out in `rect`: at `zoom` 1 all of it fits; `offset` moves it, in pixels."""
    layers = tuple(grid.site.heads for grid in grids)
    aspect = _aspect(grids)
    fits = [_fit(rect, layers, aspect, n_lines) for n_lines in _LINES if _divides(layers, n_lines)]
    fit = fits[0]
    for other in fits[1:]:
        least = _SPECK_PX - 1e-6 if fit.width < _SPECK_PX else _LEAST_WRAPPED_PX
        if other.width > max(_WRAP_GAIN * fit.width, least):
            fit = other
    moved = offset or QPointF(0, 0)
    return GridLayout(
        area=fit.area,
        origin=QPointF(fit.area.left() + fit.gap / 2 + moved.x(), fit.area.top() + fit.gap / 2 + moved.y()),
        box_width=fit.width * zoom,
        box_height=fit.width * aspect * zoom,
        gap=fit.gap * min(zoom, 3.0),
        label_px=type_px(LABEL_PX)
        if fit.n_lines > 1 or fit.width * zoom >= type_px(_LEAST_LABELLED_PX)
        else 0.0,
        rows=tuple(line for heads in layers for line in _lines(heads, fit.n_lines)),
        n_lines=fit.n_lines,
    )


def natural_grid_height(width: float, grids: tuple[SiteGrid, ...]) -> float:
    """Height of a grid whose heads fill the width; layers take more lines if heads would be specks."""
    layers, aspect = tuple(grid.site.heads for grid in grids), _aspect(grids)
    rect = QRectF(0.0, 0.0, width, 1e6)
    fits = [_fit(rect, layers, aspect, n_lines) for n_lines in _LINES if _divides(layers, n_lines)]
    fit = next((fit for fit in fits if fit.width >= _SPECK_PX), fits[-1])
    is_labelled = fit.n_lines > 1 or fit.width >= type_px(_LEAST_LABELLED_PX)
    line_px = fit.width * aspect + fit.gap + (type_px(LABEL_PX) if is_labelled else 0.0)
    between = (len(layers) - 1) * _LAYER_GAPS * fit.gap if fit.n_lines > 1 else 0.0
    return fit.area.top() + len(layers) * fit.n_lines * line_px + between + _MARGIN_PX


@dataclass(frozen=True, slots=True)
class _Fit:
    """Size of thumbnails when every layer takes `n_lines` lines and all are visible."""

    n_lines: int
    area: QRectF
    gap: float
    width: float


def _fit(rect: QRectF, layers: tuple[tuple[HeadRef, ...], ...], aspect: float, n_lines: int) -> _Fit:
    header = type_px(COLUMN_HEADER_PX) if n_lines == 1 else 0.0
    left, top = rect.left() + _MARGIN_PX + type_px(ROW_HEADER_PX), rect.top() + _MARGIN_PX + header
    area = QRectF(
        left, top, max(8.0, rect.right() - _MARGIN_PX - left), max(8.0, rect.bottom() - _MARGIN_PX - top)
    )
    n_rows = max(1, len(layers)) * n_lines
    n_columns = -(-max((len(heads) for heads in layers), default=1) // n_lines)
    gap = 6.0 if max(n_rows, n_columns) <= 16 else 3.0
    between = (len(layers) - 1) * _LAYER_GAPS * gap if n_lines > 1 else 0.0
    cell_x, cell_y = area.width() / n_columns, (area.height() - between) / n_rows
    width = max(1.0, min(cell_x - gap, (cell_y - gap) / aspect))
    if n_lines > 1 or width >= type_px(_LEAST_LABELLED_PX):
        width = max(1.0, min(cell_x - gap, (cell_y - gap - type_px(LABEL_PX)) / aspect))
    return _Fit(n_lines, area, gap, width)


def _divides(layers: tuple[tuple[HeadRef, ...], ...], n_lines: int) -> bool:
    """Whether each layer splits into `n_lines` equal lines of two heads or more, of more with many lines."""
    least = 2 if n_lines <= _FEW_LINES else _LEAST_IN_MANY
    return n_lines == 1 or all(
        len(heads) % n_lines == 0 and len(heads) >= least * n_lines for heads in layers
    )


def _lines(heads: tuple[HeadRef, ...], n_lines: int) -> list[tuple[HeadRef, ...]]:
    n = len(heads) // n_lines
    return [heads] if n_lines == 1 else [heads[i * n : (i + 1) * n] for i in range(n_lines)]


def _aspect(grids: tuple[SiteGrid, ...]) -> float:
    """Height of a thumbnail for a width of 1: that of the maps, within 1:2 and 2:1."""
    if not grids or not grids[0].n_keys or not grids[0].n_queries:
        return 1.0
    return min(2.0, max(0.5, grids[0].n_queries / grids[0].n_keys))


_VECTOR_CELL_PX = 4
_CLEAR_PX = 3.0
"""Between two labels beside each other."""
_LEAST_ROLE = 6
"""So many letters of a role must have room beside a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridMarks:
    """Marks over the maps: gates, selected heads, the head under the cursor, coloured frames, roles."""

    gates: Gates = NO_GATES
    selection: tuple[HeadRef, ...] = ()
    hovered: HeadRef | None = None
    current: HeadRef | None = None
    frames: Mapping[HeadRef, str] = field(default_factory=dict)
    roles: Mapping[HeadRef, str] = field(default_factory=dict)


def paint_grid(
    painter: QPainter,
    rect: QRectF,
    grids: tuple[SiteGrid, ...],
    *,
    style: MapStyle,
    palette: Palette,
    marks: GridMarks | None = None,
    zoom: float = 1.0,
    offset: QPointF | None = None,
    cache: ImageCache | None = None,
    is_rough: bool = False,
    is_paper: bool = False,
) -> GridLayout:
    """Draw the grid into `rect` and return its layout.

    `is_rough` is for pictures in motion: maps with more cells than pixels are sampled, not pooled.
    `is_paper` is for files: cells that are not allowed are hatched, as in a map of its own.
    """
    layout = grid_layout(rect, grids, zoom=zoom, offset=offset)
    marks = marks or GridMarks()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
    if zoom != 1.0 or offset is not None:
        painter.setClipRect(layout.area)
    visible = layout.visible()
    boxes = {place: layout.box(*place) for place in visible}
    if is_paper and has_vector_cells(painter, sum(grid.levels.size for grid in grids)):
        codes, words = (
            [codes_from_grid(g, style.scale) for g in grids],
            code_colours(style.colour_map, palette),
        )
        for (row, column), box in boxes.items():
            shown = codes[row // layout.n_lines][layout.rows[row][column].head]
            paint_vector_cells(painter, box, shown, words, hatch=palette.hatch)
    else:
        images = (
            _paper_images(painter, layout, grids, style, palette)
            if is_paper
            else _grid_images(painter, layout, grids, style, palette, cache or ImageCache(), is_rough)
        )
        for (row, column), box in boxes.items():
            head = layout.rows[row][column].head
            painter.drawImage(box, images[row // layout.n_lines][head])
    _paint_frames(painter, boxes, palette)
    _paint_coloured(painter, layout, visible, marks.frames)
    _paint_gates(painter, layout, visible, marks.gates, palette)
    _paint_labels(painter, layout, boxes, marks, palette)
    _paint_marks(painter, layout, marks, palette)
    painter.setClipping(False)
    _paint_headers(painter, layout, grids, palette, marks)
    painter.restore()
    return layout


def _grid_images(
    painter: QPainter,
    layout: GridLayout,
    grids: tuple[SiteGrid, ...],
    style: MapStyle,
    palette: Palette,
    cache: ImageCache,
    is_rough: bool,
) -> list[list[QImage]]:
    """One image for each head, pooled to the pixels it will cover when it has more cells than that."""
    box = layout.box(0, 0)
    scale = 1.0 if is_vector(painter) else painter.deviceTransform().m11()
    size = (round(box.width() * scale), round(box.height() * scale))
    images = []
    for row, grid in enumerate(grids):
        n_rows, n_cols = grid.levels.shape[1:]
        width, height = min(n_cols, size[0]), min(n_rows, size[1])
        if is_vector(painter) or is_rough:
            width, height = n_cols, n_rows
        key = (id(grid), style, palette, width, height, is_vector(painter))
        found = []
        for head in range(grid.site.n_heads):
            image = cache.image((row, head, is_rough), key)
            if image is None:  # all heads of a site are made at once
                made = _site_images(grid, style, palette, (width, height), is_vector(painter))
                found = [cache.keep((row, k, is_rough), key, one) for k, one in enumerate(made)]
                break
            found.append(image)
        images.append(found)
    return images


def _paper_images(
    painter: QPainter, layout: GridLayout, grids: tuple[SiteGrid, ...], style: MapStyle, palette: Palette
) -> list[list[QImage]]:
    """One image for each head as drawn in a file, hatched where nothing is allowed."""
    words, box, images = code_colours(style.colour_map, palette), layout.box(0, 0), []
    for grid in grids:
        codes: Codes = codes_from_grid(grid, style.scale)
        if not codes[0].size:
            codes = np.ones((grid.site.n_heads, 1, 1), dtype=np.uint16)
        window = QRectF(0.0, 0.0, codes.shape[2], codes.shape[1])
        size, scale = image_size(painter, box, window)
        images.append(
            [cells_image(c, window, size, words, hatch=palette.hatch, hatch_scale=scale) for c in codes]
        )
    return images


def _site_images(
    grid: SiteGrid, style: MapStyle, palette: Palette, size_px: tuple[int, int], is_for_file: bool
) -> list[QImage]:
    codes: Codes = codes_from_grid(grid, style.scale)
    if codes.shape[1] == 0 or codes.shape[2] == 0:
        codes = np.ones((grid.site.n_heads, 1, 1), dtype=np.uint16)
        size_px = (1, 1)
    if (codes.shape[2], codes.shape[1]) != size_px:
        codes = resample(codes, (0, codes.shape[1]), max(1, size_px[1]), axis=1)
        codes = resample(codes, (0, codes.shape[2]), max(1, size_px[0]), axis=2)
    words = code_colours(style.colour_map, palette)
    if is_for_file:
        return [image_from_codes(head, words, _VECTOR_CELL_PX) for head in codes]
    return [image_from_words(head) for head in words[codes]]


def _paint_frames(painter: QPainter, boxes: Mapping[tuple[int, int], QRectF], palette: Palette) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(palette.line), 1.0))
    painter.drawRects([box.adjusted(-1, -1, 0, 0) for box in boxes.values()])


def _paint_coloured(
    painter: QPainter, layout: GridLayout, visible: list[tuple[int, int]], frames: Mapping[HeadRef, str]
) -> None:
    """Paint frames coloured by a number of each head, as thick as the gap allows."""
    width = _coloured_px(layout)
    for row, column in visible:
        colour = frames.get(layout.rows[row][column])
        if colour is not None:
            box = layout.box(row, column)
            painter.setPen(_frame_pen(colour, width))
            half = width / 2
            painter.drawRect(box.adjusted(-half, -half, half, half))


def _coloured_px(layout: GridLayout) -> float:
    return max(1.0, min(3.0, layout.gap / 2))


def _paint_gates(
    painter: QPainter,
    layout: GridLayout,
    visible: list[tuple[int, int]],
    gates: Gates,
    palette: Palette,
) -> None:
    """Paint gates: heads that are off are dimmed and struck through, partly open ones get a bar as high as
    the gate.
    """
    values = dict(gates.values)
    if not values:
        return
    for row, column in visible:
        value = values.get(layout.rows[row][column], 1.0)
        if value >= 1.0:
            continue
        box = layout.box(row, column)
        if value == 0.0:
            paint_off(painter, box, palette)
        else:
            _paint_gate_bar(painter, box, value, palette)


def paint_off(painter: QPainter, box: QRectF, palette: Palette) -> None:
    """Dim a small map and strike it through: its head is off."""
    veil = QColor(palette.background)
    veil.setAlphaF(0.72)
    painter.fillRect(box, veil)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(QColor(palette.muted), max(1.5, min(box.width() / 28, 3.0))))
    painter.drawLine(QLineF(box.bottomLeft(), box.topRight()))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_gate_bar(painter: QPainter, box: QRectF, value: float, palette: Palette) -> None:
    width = max(3.0, min(round(box.width() / 12), 8.0))
    track = QRectF(box.right() - width, box.top(), width, box.height())
    painter.fillRect(track.adjusted(-1, 0, 0, 0), QColor(palette.background))
    painter.fillRect(track, QColor(palette.grid))
    height = max(1.0, round(box.height() * value))
    painter.fillRect(QRectF(track.left(), box.bottom() - height, width, height), QColor(palette.accent))


def _paint_labels(
    painter: QPainter,
    layout: GridLayout,
    boxes: Mapping[tuple[int, int], QRectF],
    marks: GridMarks,
    palette: Palette,
) -> None:
    if not layout.label_px:
        return
    painter.setFont(font(SMALL_PX))
    values, metrics = dict(marks.gates.values), QFontMetricsF(font(SMALL_PX))
    chosen = set(marks.selection)
    room = layout.pitch_x - _CLEAR_PX
    has_layer = all(text_width(head.label) <= room for heads in layout.rows for head in heads[-1:])
    accent, muted = QColor(palette.accent), QColor(palette.muted)
    for (row, column), box in boxes.items():
        head = layout.rows[row][column]
        painter.setPen(accent if head in chosen else muted)
        label = head.label if has_layer else f"H{head.head}"  # the layer stands before the line
        painter.drawText(QPointF(box.left(), box.top() - 4), label)
        value = values.get(head, 1.0)
        note = "" if value == 1 else "off" if value == 0 else f"× {value:.2f}"
        if note and text_width(label) + text_width(note) + 4 <= box.width():
            painter.drawText(QPointF(box.right() - text_width(note), box.top() - 4), note)
        role = marks.roles.get(head, "")
        at = box.left() + text_width(label) + 6 if role else 0.0
        if role and not note and text_width(role[:_LEAST_ROLE]) <= box.left() + room - at:
            shown = metrics.elidedText(role, Qt.TextElideMode.ElideRight, box.left() + room - at)
            painter.setPen(muted)
            painter.drawText(QPointF(at, box.top() - 4), shown)


def _paint_marks(painter: QPainter, layout: GridLayout, marks: GridMarks, palette: Palette) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    away = round(_coloured_px(layout)) if marks.frames else 0
    for head in marks.selection:
        place = layout.place(head)
        if place is not None:
            box = layout.box(*place)
            painter.setPen(QPen(QColor(palette.background), 1.0))
            if not away:
                painter.drawRect(box.adjusted(0, 0, -1, -1))
            painter.setPen(_frame_pen(palette.accent, 2.0))
            painter.drawRect(box.adjusted(-1 - away, -1 - away, 1 + away, 1 + away))
    for marked, colour in ((marks.hovered, palette.text), (marks.current, palette.accent)):
        place = layout.place(marked) if marked is not None and marked not in marks.selection else None
        if place is not None:
            painter.setPen(_frame_pen(colour, 1.0))
            painter.drawRect(layout.box(*place).adjusted(-2, -2, 1, 1))


def _frame_pen(colour: str, width: float) -> QPen:
    pen = QPen(QColor(colour), width)
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    return pen


def _paint_headers(
    painter: QPainter,
    layout: GridLayout,
    grids: tuple[SiteGrid, ...],
    palette: Palette,
    marks: GridMarks,
) -> None:
    painter.setFont(font(SMALL_PX))
    near = marks.hovered or marks.current
    place = layout.place(near) if near is not None else None
    if layout.n_lines == 1:
        _paint_column_headers(painter, layout, palette, place)
    area = layout.area
    stacks = {grid.site.stack for grid in grids}
    stride = max(1, int(np.ceil(type_px(13.0) / layout.layer_pitch)))
    for row in range(0, layout.n_layers, stride):
        middle = layout.layer_rect(row).center().y()
        if not area.top() - 4 <= middle <= area.bottom() + 4:
            continue
        site = grids[row].site
        is_near = place is not None and place[0] // layout.n_lines == row
        painter.setPen(QColor(palette.text if is_near else palette.muted))
        label = QRectF(area.left() - 6 - type_px(38), middle - type_px(8), type_px(38), type_px(14))
        words = f"L{site.layer}" if len(stacks) == 1 else f"{site.stack[0].upper()} L{site.layer}"
        painter.drawText(label, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, words)


def _paint_column_headers(
    painter: QPainter, layout: GridLayout, palette: Palette, place: tuple[int, int] | None
) -> None:
    area = layout.area
    stride = max(1, int(np.ceil(type_px(26.0) / (layout.box_width + layout.gap))))
    for column in range(0, layout.n_columns, stride):
        box = layout.box(0, column)
        if area.left() - 4 <= box.center().x() <= area.right() + 4:
            is_near = place is not None and place[1] == column
            painter.setPen(QColor(palette.text if is_near else palette.muted))
            label = QRectF(box.center().x() - 40, area.top() - 4 - type_px(14), 80, type_px(14))
            painter.drawText(label, Qt.AlignmentFlag.AlignCenter, f"H{column}")

"""A picture overlaid with the attention of a patch: the query on one side, the keys on the other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.figures.colours import Palette, lut
from attnscope.figures.map_painting import BAR_WIDTH_PX, ColourBar, paint_colour_bar
from attnscope.figures.raster import (
    COLOUR_SHARE,
    blended_pixels,
    image_from_words,
    image_size,
    over_grey,
    pixel_words,
    sized_pixels,
)
from attnscope.figures.style import (
    LARGE_PX,
    NORMAL_PX,
    SMALL_PX,
    MapStyle,
    drawn_piece,
    font,
    plain_piece,
    text_width,
    type_px,
)
from attnscope.figures.words_and_numbers import (
    MapsFigure,
    cell_header,
    change_words,
    heads_words,
    quoted,
    weight_rows,
)
from attnscope.records.maps import HeadMap, Picture

Side = Literal["query", "key"]
_MARGIN_PX, _TITLE_PX, _HEADING_PX, _CHIP_PX, _GAP_PX = 12.0, 30.0, 24.0, 20.0, 16.0
_MIN_SIDE_PX = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLayout:
    """The rectangles of a picture; `chips` and `key_chips` are those of the special tokens, in order."""

    title: QRectF
    query: QRectF
    keys: QRectF
    bar: QRectF
    chips: tuple[QRectF, ...]
    key_chips: tuple[QRectF, ...]
    picture: Picture

    def patch(self, side: Side, token: int) -> QRectF:
        """Rectangle of a token's patch; raises ValueError for a special token."""
        place = self.picture.place(token)
        if place is None:
            raise ValueError(f"token {token} is not a patch")
        whole = self.query if side == "query" else self.keys
        width, height = whole.width() / self.picture.n_columns, whole.height() / self.picture.n_rows
        return QRectF(whole.left() + place[1] * width, whole.top() + place[0] * height, width, height)

    def hit(self, position: QPointF) -> tuple[Side, int] | None:
        """The side and the token at a position."""
        sides: tuple[tuple[Side, QRectF, tuple[QRectF, ...]], ...] = (
            ("query", self.query, self.chips),
            ("key", self.keys, self.key_chips),
        )
        for side, whole, chips in sides:
            for token, chip in enumerate(chips):
                if chip.contains(position):
                    return side, token
            if whole.contains(position):
                row = int((position.y() - whole.top()) / whole.height() * self.picture.n_rows)
                column = int((position.x() - whole.left()) / whole.width() * self.picture.n_columns)
                last = self.picture.n_rows - 1, self.picture.n_columns - 1
                return side, self.picture.token(min(row, last[0]), min(column, last[1]))
        return None


def picture_layout(
    rect: QRectF, picture: Picture, names: tuple[str, ...], *, has_bar: bool = True
) -> PictureLayout:
    """Lay both sides out in `rect`: beside each other, or stacked if that is larger.

    `names` are those of the special tokens.
    """
    heading, chip = type_px(_HEADING_PX), type_px(_CHIP_PX)
    bar_px = type_px(BAR_WIDTH_PX) + _GAP_PX if has_bar else 0.0
    below = chip + 8.0 if names else 0.0
    title = QRectF(
        rect.left() + _MARGIN_PX, rect.top() + 8.0, rect.width() - 2 * _MARGIN_PX, type_px(_TITLE_PX)
    )
    top = title.bottom()
    room_x = rect.width() - 2 * _MARGIN_PX - bar_px
    room_y = rect.bottom() - _MARGIN_PX - top
    aspect = picture.pixels.shape[1] / picture.pixels.shape[0]
    beside = _height((room_x - _GAP_PX) / 2, room_y - heading - below, aspect)
    stacked = _height(room_x, (room_y - _GAP_PX) / 2 - heading - below, aspect)
    height = max(beside, stacked)
    query = QRectF(title.left(), top + heading, height * aspect, height)
    if beside >= stacked:
        keys = query.translated(query.width() + _GAP_PX, 0)
    else:
        keys = query.translated(0, height + below + _GAP_PX + heading)
    bar = QRectF(keys.right() + _GAP_PX, keys.top(), type_px(BAR_WIDTH_PX), max(keys.height(), 60.0))
    return PictureLayout(
        title=title,
        query=query,
        keys=keys,
        bar=bar,
        chips=_chips(query, names, chip, extra=12.0),
        key_chips=_chips(keys, tuple(f"{name} 0.0000" for name in names), chip, extra=12.0),
        picture=picture,
    )


def natural_picture_height(width: float, picture: Picture, *, has_bar: bool = True) -> float:
    """Height of both sides beside each other at a width."""
    bar_px = type_px(BAR_WIDTH_PX) + _GAP_PX if has_bar else 0.0
    side = (width - 2 * _MARGIN_PX - bar_px - _GAP_PX) / 2
    below = type_px(_CHIP_PX) + 8.0 if picture.n_first else 0.0
    high = _height(side, 1e6, picture.pixels.shape[1] / picture.pixels.shape[0])
    return 8.0 + type_px(_TITLE_PX) + type_px(_HEADING_PX) + high + below + _MARGIN_PX


def _height(width: float, height: float, aspect: float) -> float:
    return max(min(width / aspect, height), _MIN_SIDE_PX)


def _chips(place: QRectF, names: tuple[str, ...], height: float, *, extra: float) -> tuple[QRectF, ...]:
    left, found = place.left(), []
    for name in names:
        found.append(QRectF(left, place.bottom() + 8.0, text_width(name) + extra, height))
        left = found[-1].right() + 6.0
    return tuple(found)


_MIN_GRID_PX = 6.0


def paint_picture(
    painter: QPainter,
    rect: QRectF,
    picture: Picture,
    head_map: HeadMap,
    query: int,
    *,
    style: MapStyle,
    palette: Palette,
    pointed: tuple[Side, int] | None = None,
) -> PictureLayout:
    """Draw both sides into `rect` and return the layout; `pointed` is the token under the cursor.

    Raises ValueError when the map is not one of the picture's tokens.
    """
    if head_map.weights.shape != (picture.n_tokens, picture.n_tokens) or not 0 <= query < picture.n_tokens:
        raise ValueError(f"a map {head_map.weights.shape} and query {query} for {picture.n_tokens} tokens")
    names = tuple(drawn_piece(token.piece) for token in head_map.queries[: picture.n_first])
    weights = head_map.weights[query]
    layout = picture_layout(rect, picture, names, has_bar=style.has_bar)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, False)
    if not style.is_plain:
        _paint_title(painter, layout, head_map, style, palette)
    _paint_heading(painter, layout.query, "Query", _query_words(picture, head_map, query), palette)
    _paint_heading(painter, layout.keys, "Its weights", patch_words(picture, weights), palette)
    for place, made in ((layout.query, picture.pixels), (layout.keys, None)):
        size, _scale = image_size(painter, place, QRectF(0, 0, *picture.pixels.shape[1::-1]))
        pixels = (
            sized_pixels(made, size)
            if made is not None
            else overlaid(picture, weights, size, style.colour_map)
        )
        painter.drawImage(place, image_from_words(pixel_words(pixels)))
    _paint_patch_lines(painter, layout.query, picture)
    if picture.place(query) is not None:
        _paint_frame(painter, layout.patch("query", query), palette.accent, 2.0)
        _paint_frame(painter, layout.patch("key", query), palette.accent, 1.0)
    _paint_chips(painter, layout, names, weights, query, palette)
    if pointed is not None and picture.place(pointed[1]) is not None:
        _paint_frame(painter, layout.patch(*pointed), palette.text, 1.0)
    if style.has_bar:
        top = f"{patch_peak(picture, weights):.3g}"
        paint_colour_bar(
            painter,
            layout.bar,
            ColourBar(
                colour_map=style.colour_map,
                title="weight",
                ticks=((0.0, "0"), (1.0, top)),
                note="over grey",
                words=pixel_words(over_grey(lut(style.colour_map).astype(np.uint8))),
            ),
            palette,
        )
    painter.restore()
    return layout


def patch_peak(picture: Picture, weights: NDArray[np.float32]) -> float:
    """The largest weight of a patch, at the end of the colours; 0 without any."""
    patches = weights[picture.n_first :]
    return float(np.where(np.isfinite(patches), patches, 0.0).max())


def overlaid(
    picture: Picture, weights: NDArray[np.float32], size: tuple[int, int], colour_map: str
) -> NDArray[np.uint8]:
    """The picture in grey under the colours of one query's weights [n_tokens]; uint8 [height, width, 3].

    A patch without a weight (not allowed, left out) keeps its grey.
    """
    patches = weights[picture.n_first :].reshape(picture.n_rows, picture.n_columns)
    share = np.nan_to_num(patches / (patch_peak(picture, weights) or 1.0), nan=0.0, posinf=0.0, neginf=0.0)
    codes = np.rint(np.clip(share, 0.0, 1.0) * 255).astype(np.intp)
    return blended_pixels(picture.pixels, lut(colour_map)[codes], COLOUR_SHARE * np.isfinite(patches), size)


def patch_words(picture: Picture, weights: NDArray[np.float32]) -> str:
    """Share of the row on patches, in words."""
    if not picture.n_first:
        return "of 1 over all patches"
    on_patches = float(np.where(np.isfinite(weights), weights, 0.0)[picture.n_first :].sum())
    return f"{on_patches:.2f} of 1 on patches"


def picture_words(picture: Picture) -> str:
    """Note that this is the picture as the model sees it, possibly squeezed or cropped, with its size in
    pixels.
    """
    height, width = picture.pixels.shape[:2]
    return f"as the model reads it, {width} × {height}"


def _query_words(picture: Picture, head_map: HeadMap, query: int) -> str:
    place = picture.place(query)
    return (
        plain_piece(head_map.queries[query].piece)
        if place is None
        else f"patch {place[0]},{place[1]} (row,column)"
    )


def _paint_title(
    painter: QPainter, layout: PictureLayout, head_map: HeadMap, style: MapStyle, palette: Palette
) -> None:
    label = head_map.name or head_map.head.label
    left, baseline = layout.title.left(), layout.title.top() + type_px(17)
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(left, baseline), label)
    left += text_width(label, LARGE_PX, is_bold=True) + 10
    painter.setFont(font(NORMAL_PX))
    painter.setPen(QColor(palette.muted))
    words = f"{head_map.head.stack} · {picture_words(layout.picture)}"
    room = layout.title.right() - left
    check = head_map.check
    badge = check.badge if check is not None and (style.has_badge or not check.is_good) else ""
    metrics = QFontMetricsF(font(NORMAL_PX))
    shown = metrics.elidedText(words, Qt.TextElideMode.ElideRight, room)
    painter.drawText(QPointF(left, baseline), shown)
    if check is not None and badge:
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.muted if check.is_good else palette.warning))
        painter.drawText(QPointF(layout.title.right() - text_width(badge), baseline), badge)


def _paint_heading(painter: QPainter, place: QRectF, title: str, words: str, palette: Palette) -> None:
    baseline = place.top() - type_px(7)
    painter.setFont(font(SMALL_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    painter.drawText(QPointF(place.left(), baseline), title)
    left = place.left() + text_width(title, is_bold=True) + 8
    room = place.right() - left
    words = words if text_width(words) <= room else words.partition(" on ")[0]  # rather than a cut word
    shown = QFontMetricsF(font(SMALL_PX)).elidedText(words, Qt.TextElideMode.ElideRight, room)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.muted))
    painter.drawText(QPointF(left, baseline), shown)


def _paint_patch_lines(painter: QPainter, place: QRectF, picture: Picture) -> None:
    """Paint faint lines between patches, if there is room."""
    step_x, step_y = place.width() / picture.n_columns, place.height() / picture.n_rows
    if min(step_x, step_y) < _MIN_GRID_PX:
        return
    painter.setPen(QPen(QColor(255, 255, 255, 70), 1.0))
    for column in range(1, picture.n_columns):
        x = place.left() + column * step_x
        painter.drawLine(QPointF(x, place.top()), QPointF(x, place.bottom()))
    for row in range(1, picture.n_rows):
        y = place.top() + row * step_y
        painter.drawLine(QPointF(place.left(), y), QPointF(place.right(), y))


def _paint_frame(painter: QPainter, place: QRectF, colour: str, width: float) -> None:
    """Paint a frame around a patch, with a white one outside to keep it visible on any picture."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor("#ffffff"), width + 2.0))
    painter.drawRect(place)
    painter.setPen(QPen(QColor(colour), width))
    painter.drawRect(place)


def _paint_chips(
    painter: QPainter,
    layout: PictureLayout,
    names: tuple[str, ...],
    weights: NDArray[np.float32],
    query: int,
    palette: Palette,
) -> None:
    """Paint special tokens: at the left as queries, at the right with their weight."""
    painter.setFont(font(SMALL_PX))
    for token, (chip, label) in enumerate(zip(layout.chips, layout.key_chips, strict=True)):
        is_query = token == query
        painter.setPen(QPen(QColor(palette.accent if is_query else palette.line), 1.0))
        painter.setBrush(QColor(palette.accent if is_query else palette.raised))
        painter.drawRoundedRect(chip, 4, 4)
        painter.setPen(QColor(palette.accent_text if is_query else palette.muted))
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, names[token])
        weight = f"{weights[token]:.3g}" if np.isfinite(weights[token]) else "–"
        painter.setPen(QColor(palette.muted))
        align = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(label, align, f"{names[token]} {weight}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturePart:
    """A picture read by a vision model, and the token whose weights are laid over it."""

    picture: Picture
    query: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFigure(MapsFigure):
    """The weights of one query, from the first of `maps`, over the `picture`."""

    view = "picture"
    words = "one head on the picture"
    order = 4
    shows = "one head"
    options = frozenset({"query"})
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
        return self  # patches are identified by their number

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

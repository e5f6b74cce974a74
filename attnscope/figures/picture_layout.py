"""Where a picture's two sides lie: the query, the keys, the special tokens below them, the colour bar."""

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QPointF, QRectF

from attnscope.figures.colour_bar import WIDTH_PX
from attnscope.figures.style import text_width, type_px
from attnscope.records.pictures import Picture

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
        """Where the patch of a token lies on a side; raises ValueError for a special token."""
        place = self.picture.place(token)
        if place is None:
            raise ValueError(f"token {token} is not a patch")
        whole = self.query if side == "query" else self.keys
        width, height = whole.width() / self.picture.n_columns, whole.height() / self.picture.n_rows
        return QRectF(whole.left() + place[1] * width, whole.top() + place[0] * height, width, height)

    def hit(self, position: QPointF) -> tuple[Side, int] | None:
        """The side and the token at a place."""
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
    """Lay both sides out in `rect`: beside each other, or one above the other where that is larger.

    `names` are those of the special tokens.
    """
    heading, chip = type_px(_HEADING_PX), type_px(_CHIP_PX)
    bar_px = type_px(WIDTH_PX) + _GAP_PX if has_bar else 0.0
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
    bar = QRectF(keys.right() + _GAP_PX, keys.top(), type_px(WIDTH_PX), max(keys.height(), 60.0))
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
    """How high both sides are beside each other at a width."""
    bar_px = type_px(WIDTH_PX) + _GAP_PX if has_bar else 0.0
    side = (width - 2 * _MARGIN_PX - bar_px - _GAP_PX) / 2
    below = type_px(_CHIP_PX) + 8.0 if picture.n_first else 0.0
    high = _height(side, 1e6, picture.pixels.shape[1] / picture.pixels.shape[0])
    return 8.0 + type_px(_TITLE_PX) + type_px(_HEADING_PX) + high + below + _MARGIN_PX


def _height(width: float, height: float, aspect: float) -> float:
    return max(min(width / aspect, height), _MIN_SIDE_PX)


def _chips(place: QRectF, names: tuple[str, ...], height: float, *, extra: float) -> tuple[QRectF, ...]:
    """A row of labels below a side."""
    left, found = place.left(), []
    for name in names:
        found.append(QRectF(left, place.bottom() + 8.0, text_width(name) + extra, height))
        left = found[-1].right() + 6.0
    return tuple(found)

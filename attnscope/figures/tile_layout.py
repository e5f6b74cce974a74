"""Where everything of a long map lies: cells, rulers with room for pieces, the small map, the colour bar.

The room for labels does not depend on what is seen, so that nothing jumps while the map is panned.
"""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

from attnscope.figures import colour_bar
from attnscope.figures.map_layout import MARGIN_PX, TITLE_PX
from attnscope.figures.style import text_width, type_px
from attnscope.viewmodels.maps.axis_ruler import widest_text

TICK_PX = 5.0
PIECE_STEP_PX = 10.6
"""Tokens are labelled with their pieces when they are at least this far apart."""
_PIECE_ROOM_PX = 62.0
_COLUMN_ROOM_PX = 52.0
_GAP_PX = 18.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLayout:
    """The rectangles of one long map; pieces stand next to the cells, numbers outside of them."""

    cells: QRectF
    bar: QRectF
    title: QRectF
    corner: QRectF
    piece_room: float
    column_room: float

    def local(self, position: QPointF) -> tuple[float, float]:
        """A position relative to the cells' corner."""
        return position.x() - self.cells.left(), position.y() - self.cells.top()


def tile_layout(rect: QRectF, n_queries: int, n_keys: int, *, has_pieces: bool = True) -> TileLayout:
    """Lay a long map out in `rect`; the cells take all the room that is left.

    `has_pieces` False leaves no room for pieces, for a figure that shows none.
    """
    inner = rect.adjusted(MARGIN_PX, MARGIN_PX, -MARGIN_PX, -MARGIN_PX)
    number_room = text_width(widest_text(max(n_queries, n_keys))) + TICK_PX + 6
    piece_room, column_room = type_px(_PIECE_ROOM_PX), type_px(_COLUMN_ROOM_PX)
    if not has_pieces:
        piece_room, column_room = type_px(10), 0.0
    left = inner.left() + number_room + piece_room
    top = inner.top() + TITLE_PX + type_px(14) + TICK_PX + column_room
    right = inner.right() - colour_bar.WIDTH_PX - _GAP_PX
    cells = QRectF(
        round(left), round(top), max(24.0, round(right - left)), max(24.0, round(inner.bottom() - top))
    )
    side = min(left - inner.left() - type_px(46), top - inner.top() - TITLE_PX - type_px(19))
    return TileLayout(
        cells=cells,
        bar=QRectF(cells.right() + _GAP_PX, cells.top(), colour_bar.WIDTH_PX, cells.height()),
        title=QRectF(inner.left(), inner.top(), inner.width(), TITLE_PX),
        corner=QRectF(round(inner.left()), round(inner.top() + TITLE_PX), round(side), round(side)),
        piece_room=piece_room,
        column_room=column_room,
    )

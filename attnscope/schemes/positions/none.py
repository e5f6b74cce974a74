"""No positions: only a mask can say what stands before what."""

from attnscope.schemes.positions.scheme import PositionScheme


class NoPositions(PositionScheme):
    name, title, order = "none", "none", 7
    words = "nothing: only the mask reveals the order"
    is_compared = True

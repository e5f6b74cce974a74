"""No positions: only a mask can reveal the order."""

from attnscope.schemes.positions.scheme import PositionScheme


class NoPositions(PositionScheme):
    name, title, order = "none", "none", 7
    words, source = "nothing: only the mask reveals the order", "Haviv et al. 2022"
    formula = "x_t = e_t"
    is_compared = True

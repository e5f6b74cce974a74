"""Position schemes, a file each: `POSITIONS` has them by name, in the order in which messages list them."""

from attnscope.schemes import schemes_of
from attnscope.schemes.positions.scheme import PositionScheme

__all__ = ["POSITIONS", "PositionScheme"]

POSITIONS = schemes_of(__name__, PositionScheme)

"""Position schemes, a file each: `POSITIONS` has them by name, in the order in which messages list them."""

from attnscope.schemes.positions.scheme import PositionScheme
from attnscope.schemes.registry import schemes_of

__all__ = ["POSITIONS", "PositionScheme"]

POSITIONS = schemes_of(__name__, PositionScheme)

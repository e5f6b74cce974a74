"""The Positions page."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.positions.page import PositionColumn, PositionsPage, position_point
    from attnscope.widgets.positions.position_map import PositionMap, colour_words, ticks
else:
    __getattr__, __dir__ = door_of(__name__)

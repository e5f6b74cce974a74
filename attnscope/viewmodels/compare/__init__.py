"""The state of the Compare page."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.compare.difference import *
    from attnscope.viewmodels.compare.sides import SideWish, companion
else:
    __getattr__, __dir__ = door_of(__name__)

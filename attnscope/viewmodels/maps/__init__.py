"""How maps are cut, blended, tiled and named."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.maps.aspect import *
    from attnscope.viewmodels.maps.map_tiles import *
else:
    __getattr__, __dir__ = door_of(__name__)

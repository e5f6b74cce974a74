"""Guided tours and their claims."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.tours.touring import NUMBERS, number_named
    from attnscope.viewmodels.tours.tours import Claim, Spot, read_tours, tour_from_toml
else:
    __getattr__, __dir__ = door_of(__name__)

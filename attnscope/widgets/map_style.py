"""The view state's choices as the style that figures draw with."""

from attnscope.figures.colours import COLOUR_MAPS, ColourMap
from attnscope.figures.style import MapStyle
from attnscope.viewmodels.view_state import ViewState


def map_style(view: ViewState) -> MapStyle:
    """How maps are drawn; an unknown colour map counts as the default."""
    known: dict[str, ColourMap] = {name: name for name in COLOUR_MAPS}
    return MapStyle(
        colour_map=known.get(view.colour_map, "viridis"),
        scale=view.scale,
        least_weight=view.least_weight,
        n_strongest=view.n_strongest,
    )

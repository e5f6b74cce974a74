"""The view state's choices as the style that figures draw with, and as the settings keep them."""

from attnscope.figures.colours import COLOUR_MAPS, ColourMap
from attnscope.figures.style import MapStyle
from attnscope.settings import Settings
from attnscope.viewmodels.view_state import Scale, ViewState, page_named


def map_style(view: ViewState) -> MapStyle:
    """How maps are drawn; an unknown colour map counts as the default."""
    known: dict[str, ColourMap] = {name: name for name in COLOUR_MAPS}
    return MapStyle(
        colour_map=known.get(view.colour_map, "viridis"),
        scale=view.scale,
        least_weight=view.least_weight,
        n_strongest=view.n_strongest,
    )


def remembered_view(settings: Settings) -> ViewState:
    """The view state as remembered; what is not known there is left at its default."""
    view = ViewState()
    view.set_theme(settings.theme)
    view.set_size(settings.size_percent)
    view.set_colour_map(settings.colour_map if settings.colour_map in COLOUR_MAPS else "viridis")
    scales: dict[str, Scale] = {"fixed": "fixed", "head": "head", "row": "row"}
    view.set_scale(scales.get(settings.scale, "fixed"))
    view.show_page(page_named(settings.page) or "explore")
    return view

"""Views, a file each: `VIEWS` has the kinds of figures by name, in the order in which users meet them."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of
from attnscope.figures.spec import FigureSpec
from attnscope.schemes import classes_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.figures.views.checklist import checklist_point
    from attnscope.figures.views.difference import GAP, difference_codes, difference_layout, paint_difference
    from attnscope.figures.views.graph import GraphFigure, graph_layout, inputs_share_words
    from attnscope.figures.views.grid import GridFigure, weights_of_grid
    from attnscope.figures.views.head import HeadFigure, weights_of_tile
    from attnscope.figures.views.inside import *
    from attnscope.figures.views.lab import LabFigure, picture_places, row_sizes
    from attnscope.figures.views.lines import *
    from attnscope.figures.views.panels import *
    from attnscope.figures.views.picture import *
    from attnscope.figures.views.positions import paint_positions, whole_ticks
else:
    __getattr__, __dir__ = door_of(__name__)


def found_views() -> dict[str, type[FigureSpec]]:
    """Every kind of figure in this folder's files."""
    kinds = classes_of(__name__, FigureSpec)  # type: ignore[type-abstract]  # those with a name are whole
    return {kind.view: kind for kind in sorted(kinds, key=lambda kind: kind.order) if kind.view}


VIEWS = found_views()

"""Views, a file each: `VIEWS` has the kinds of figures by name, in the order in which people meet them."""

from attnscope.figures.spec import FigureSpec
from attnscope.schemes import classes_of


def found_views() -> dict[str, type[FigureSpec]]:
    """Every kind of figure that a file of this folder holds."""
    kinds = classes_of(__name__, FigureSpec)  # type: ignore[type-abstract]  # those with a name are whole
    return {kind.view: kind for kind in sorted(kinds, key=lambda kind: kind.order) if kind.view}


VIEWS = found_views()

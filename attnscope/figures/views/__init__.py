"""Views, a file each: `VIEWS` has the kinds of figures by name, in the order in which people meet them."""

from attnscope.figures.spec import FigureSpec
from attnscope.schemes.registry import classes_of

VIEWS: dict[str, type[FigureSpec]] = {
    kind.view: kind
    for kind in sorted(classes_of(__name__, FigureSpec), key=lambda kind: kind.order)  # type: ignore[type-abstract]
    if kind.view
}

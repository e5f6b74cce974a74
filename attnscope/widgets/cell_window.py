"""The part of a map that is looked at, in cells (x counts keys, y queries), as it is zoomed and moved.

Pure functions: a view and the whole map in, another view out; never a part outside the map.
"""

from PySide6.QtCore import QPointF, QRectF

_MIN_CELLS = 2.0


def zoomed(view: QRectF, whole: QRectF, cells: QRectF, position: QPointF, factor: float) -> QRectF | None:
    """The view with the cell under `position` where it was; None: the whole map.

    `cells` is where the view is drawn, in pixels. At least two cells stay to be seen.
    """
    share = max(1 / factor, min(1.0, _MIN_CELLS / min(view.width(), view.height())))
    width, height = view.width() * share, view.height() * share
    if width >= whole.width() or height >= whole.height():
        return None
    x = min(max((position.x() - cells.left()) / cells.width(), 0.0), 1.0)
    y = min(max((position.y() - cells.top()) / cells.height(), 0.0), 1.0)
    left = view.left() + x * (view.width() - width)
    top = view.top() + y * (view.height() - height)
    return moved(QRectF(left, top, width, height), whole)


def moved(view: QRectF, whole: QRectF, right: float = 0.0, down: float = 0.0) -> QRectF:
    """The view so many cells further, moved back so that it lies inside the whole map."""
    x = min(max(view.left() + right, 0.0), whole.width() - view.width())
    y = min(max(view.top() + down, 0.0), whole.height() - view.height())
    return QRectF(x, y, view.width(), view.height())


def holding(view: QRectF, cell: tuple[int, int]) -> QRectF:
    """The view moved as little as shows a cell (query, key)."""
    query, key = cell
    x = min(max(view.left(), key + 1 - view.width()), float(key))
    y = min(max(view.top(), query + 1 - view.height()), float(query))
    return QRectF(x, y, view.width(), view.height())

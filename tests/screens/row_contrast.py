"""The contrast of words with their ground in rows of lists, tables and menus, as they are painted."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPersistentModelIndex, QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QHoverEvent, QImage, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

_SCALE = 4
"""Letters are drawn so much larger, so that strokes have a core in the colour of the text."""
_LEAVE = QPoint(-9, -9)
_MOST_ROWS, _MOST_COLUMNS = 2, 3
_SUSPECT = 4.5
STATES = ("plain", "hovered", "selected", "hovered and selected")


def contrast_of(picture: QImage) -> float:
    """The highest contrast (WCAG 2.1) of any pixel with the commonest colour; 1 for an empty picture."""
    if picture.isNull():
        return 1.0
    picture = picture.convertToFormat(QImage.Format.Format_RGB32)
    colours, counts = np.unique(np.frombuffer(picture.constBits(), np.uint32), return_counts=True)
    light = luminance(np.stack([colours >> 16 & 255, colours >> 8 & 255, colours & 255], axis=1))
    ground = light[counts.argmax()]
    return float(np.max((np.maximum(light, ground) + 0.05) / (np.minimum(light, ground) + 0.05)))


def luminance(colours: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Relative luminance of [n, 3] sRGB colours."""
    part = colours / 255.0
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return linear @ np.array((0.2126, 0.7152, 0.0722))


def painted(widget: QWidget, rect: QRect) -> QImage:
    """A part of a widget as it is painted, enlarged: in its window, or by itself where it is hidden there."""
    if widget.isVisible():  # else something else stands at its place
        picture = rendered(widget.window(), widget_rect(widget, rect))
        if contrast_of(picture) > 1.0:
            return picture
    return rendered(widget, rect)


def rendered(widget: QWidget, rect: QRect) -> QImage:
    picture = QImage(rect.size() * _SCALE, QImage.Format.Format_RGB32)
    with QPainter(picture) as painter:
        painter.scale(_SCALE, _SCALE)
        widget.render(painter, QPoint(), rect)
    return picture


def widget_rect(widget: QWidget, rect: QRect) -> QRect:
    """A part of a widget in the coordinates of its window."""
    return rect.translated(widget.mapTo(widget.window(), QPoint()))


def contrasts(view: QAbstractItemView) -> Iterator[tuple[str, str, float]]:
    """(state, text, contrast) of the first rows of a view, in every state; selection and scroll are kept."""
    model, chosen = view.model(), view.selectionModel()
    before, current = chosen.selection(), chosen.currentIndex()
    chosen.blockSignals(True)
    for index in shown_cells(view):
        if not model.flags(index) & Qt.ItemFlag.ItemIsEnabled:
            continue
        row = QPersistentModelIndex(index)
        for state in STATES:
            contrast = state_contrast(view, index, state)
            if contrast < _SUSPECT:  # work that ends meanwhile may move the rows: look again where it is now
                QApplication.processEvents()
                if not row.isValid():
                    break  # or take them away
                view.scrollTo(index)
                contrast = state_contrast(view, index, state)
            yield state, str(index.data()), contrast
    chosen.select(before, QItemSelectionModel.SelectionFlag.ClearAndSelect)
    chosen.setCurrentIndex(current, QItemSelectionModel.SelectionFlag.NoUpdate)
    chosen.blockSignals(False)
    hover(view, _LEAVE)


def state_contrast(view: QAbstractItemView, index: QModelIndex, state: str) -> float:
    """The contrast of a row in a state, as it is painted now."""
    rect = text_rect(view, index)
    select(view, index if "selected" in state else None)
    hover(view, rect.center() if "hovered" in state else _LEAVE)
    return contrast_of(painted(view.viewport(), rect))


def select(view: QAbstractItemView, index: QModelIndex | None) -> None:
    chosen = view.selectionModel()
    if index is None:
        chosen.clear()
        return
    how = QItemSelectionModel.SelectionFlag
    rows = how.Rows if isinstance(view, QTableView) else how.NoUpdate
    chosen.setCurrentIndex(index, how.ClearAndSelect | rows)


def hover(view: QAbstractItemView, place: QPoint) -> None:
    kind = QHoverEvent.Type.HoverLeave if place == _LEAVE else QHoverEvent.Type.HoverMove
    at = QPointF(place)
    event = QHoverEvent(kind, at, QPointF(view.viewport().mapToGlobal(place)), QPointF(_LEAVE))
    QApplication.sendEvent(view.viewport(), event)


def shown_cells(view: QAbstractItemView) -> Iterator[QModelIndex]:
    """Cells with a text that can be seen, of the first rows."""
    model, root = view.model(), view.rootIndex()
    room, n_rows = view.viewport().rect(), 0
    n_columns = 1 if isinstance(view, QListView) else min(model.columnCount(root), _MOST_COLUMNS)
    for row in range(min(model.rowCount(root), 40)):
        has_any = False
        for column in range(n_columns):
            index = model.index(row, column, root)
            rect = view.visualRect(index)
            seen = room & rect
            is_whole = seen.width() >= min(rect.width(), room.width() - 9) and seen.height() == rect.height()
            if str(index.data() or "").strip() and is_whole:
                has_any = True
                yield index
        n_rows += has_any
        if n_rows >= _MOST_ROWS:
            return


def text_rect(view: QAbstractItemView, index: QModelIndex) -> QRect:
    """Where the text of a cell stands, without icon, box and the rounded corners of the row."""
    option, delegate = QStyleOptionViewItem(), view.itemDelegateForIndex(index)
    whole = view.visualRect(index).adjusted(3, 3, -3, -3) & view.viewport().rect()
    if not isinstance(delegate, QStyledItemDelegate):  # a box of choices
        return whole
    view.initViewItemOption(option)
    option.rect = view.visualRect(index)
    delegate.initStyleOption(option, index)
    return view.style().subElementRect(QStyle.SubElement.SE_ItemViewItemText, option, view) & whole


def menu_contrasts(menu: QMenu) -> Iterator[tuple[str, str, float]]:
    """(state, text, contrast) of the entries of a menu that can be chosen."""
    if not menu.isEnabled():  # its button is greyed
        return
    menu.ensurePolished()
    menu.resize(menu.sizeHint())
    for action in menu.actions():
        if action.isEnabled() and not action.isSeparator() and action.text():
            rect = menu.actionGeometry(action).adjusted(20, 3, -20, -3)
            for state, active in (("plain", None), ("hovered", action)):
                menu.setActiveAction(active)
                yield state, action.text(), contrast_of(painted(menu, rect))

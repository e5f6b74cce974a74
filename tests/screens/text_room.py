"""Finds text that has less room than it needs: cut off, or lying over other text.

What ends in … on purpose and says the whole in its tooltip is no shortfall.
"""

import itertools
from collections.abc import Iterator

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QListView,
    QRadioButton,
    QStyle,
    QStyleOptionButton,
    QStyleOptionComboBox,
    QToolButton,
    QWidget,
)

from attnscope.widgets import ElidedLabel

SLACK_PX = 1
_Needed = tuple[int, int, QRect]
_WITH_TEXT: tuple[type[QWidget], ...] = (
    QLabel,
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QHeaderView,
    QListView,
)


def shortfalls(window: QWidget) -> list[str]:
    """One line for every visible text in `window` that is cut off or overlapped."""
    # Of these kinds alone: Python's hold on a part of Qt's own, such as a scroll bar, may outlive it.
    every = (part for kind in _WITH_TEXT for part in window.findChildren(kind))
    shown = [part for part in every if part.isVisible()]
    found = [f"{_name(part)}: {what}" for part in shown for what in _of(part)]
    return [*found, *_overlaps(shown)]


def _of(part: QWidget) -> Iterator[str]:
    if isinstance(part, QHeaderView):
        yield from _of_header(part)
    elif isinstance(part, QListView):
        yield from _of_list(part)
    else:
        needed = _needed(part)
        if needed is None:
            return
        width, height, room = needed
        if width > room.width() + SLACK_PX:
            yield f"needs {width} px, has {room.width()}"
        elif height > room.height() + SLACK_PX:
            yield f"needs {height} px of height, has {room.height()}"
        else:
            yield from _cut_by_parents(part)


def _needed(part: QWidget) -> _Needed | None:
    """Width and height of the text and the rectangle it is drawn in; None for what holds no text."""
    metrics = part.fontMetrics()
    line = metrics.height() - 3
    match part:
        case ElidedLabel():
            is_told = part.text() == part.full_text() or part.toolTip()
            return 0 if is_told else metrics.horizontalAdvance(part.full_text()), line, part.rect()
        case QLabel():
            return _needed_by_label(part) if part.text() else None
        case QAbstractButton():
            return _needed_by_button(part)
        case QAbstractSpinBox():
            return part.minimumSizeHint().width(), line, part.rect()
        case QComboBox():
            return _needed_by_combo(part)
        case QLineEdit() if not part.text() and not part.toolTip():
            return metrics.horizontalAdvance(part.placeholderText()), line, part.contentsRect()
    return None


def _needed_by_label(label: QLabel) -> _Needed:
    if label.wordWrap():
        return label.minimumSizeHint().width(), label.heightForWidth(label.width()), label.rect()
    return label.sizeHint().width(), label.fontMetrics().height() - 3, label.rect()


def _needed_by_button(button: QAbstractButton) -> _Needed | None:
    style = button.toolButtonStyle() if isinstance(button, QToolButton) else None
    is_icon = style == Qt.ToolButtonStyle.ToolButtonIconOnly and not button.icon().isNull()
    text = button.text().replace("&&", "\0").replace("&", "").replace("\0", "&")
    if not text or is_icon:
        return None
    room = button.rect()
    if isinstance(button, QCheckBox | QRadioButton):
        option = QStyleOptionButton()
        button.initStyleOption(option)
        is_box = isinstance(button, QCheckBox)
        elements = QStyle.SubElement
        element = elements.SE_CheckBoxContents if is_box else elements.SE_RadioButtonContents
        room = button.style().subElementRect(element, option, button)
    metrics = button.fontMetrics()
    width = max(metrics.horizontalAdvance(line) for line in text.split("\n"))
    return width, metrics.height() - 3, room


def _needed_by_combo(combo: QComboBox) -> _Needed:
    option = QStyleOptionComboBox()
    combo.initStyleOption(option)
    field = QStyle.SubControl.SC_ComboBoxEditField
    room = combo.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, field, combo)
    return combo.fontMetrics().horizontalAdvance(combo.currentText()), 0, room


def _of_header(header: QHeaderView) -> Iterator[str]:
    model, across = header.model(), Qt.Orientation.Horizontal
    if model is None or header.orientation() != across:
        return
    for section in range(header.count()):
        text = str(model.headerData(section, across) or "")
        is_told = text in str(model.headerData(section, across, Qt.ItemDataRole.ToolTipRole) or "")
        width = max(header.fontMetrics().horizontalAdvance(line) for line in text.split("\n"))
        if not header.isSectionHidden(section) and width > header.sectionSize(section) and not is_told:
            yield f"column {text!r} needs {width} px, has {header.sectionSize(section)}"


def _of_list(view: QListView) -> Iterator[str]:
    model = view.model()
    for row in range(model.rowCount() if model else 0):
        index = model.index(row, 0)
        width, room = view.sizeHintForIndex(index).width(), view.viewport().width()
        if width > room and not model.data(index, Qt.ItemDataRole.ToolTipRole) and not view.wordWrap():
            yield f"item {model.data(index)!r} needs {width} px, has {room}"


def _cut_by_parents(part: QWidget) -> Iterator[str]:
    """What lies outside a parent; what a scroll bar brings back is no shortfall."""
    parent, at = part.parentWidget(), part.geometry()
    while parent is not None:
        area, cut = parent.parentWidget(), at.intersected(parent.rect())
        if isinstance(area, QAbstractScrollArea) and area.viewport() is parent:
            is_fixed = area.horizontalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff
            if is_fixed and cut.isValid() and cut.width() + 8 < at.width():
                yield f"{at.width() - cut.width()} px cut off by the sides of {_name(area)}"
            return
        if cut.width() + 4 < at.width() or cut.height() + 4 < at.height():
            lost = at.width() - cut.width(), at.height() - cut.height()
            yield f"{lost[0]} × {lost[1]} px cut off by {_name(parent)}"
            return
        if parent.isWindow():
            return
        at = at.translated(parent.pos())
        parent = parent.parentWidget()


def _overlaps(shown: list[QWidget]) -> Iterator[str]:
    beside: dict[QWidget | None, list[QWidget]] = {}
    for part in shown:
        if isinstance(part, QLabel | QAbstractButton) and part.text():
            beside.setdefault(part.parentWidget(), []).append(part)
    for texts in beside.values():
        for first, second in itertools.combinations(texts, 2):
            both = first.geometry().intersected(second.geometry())
            if both.width() > 2 and both.height() > 2:
                yield f"{_name(first)} and {_name(second)} overlap by {both.width()} × {both.height()} px"


def _name(part: QWidget) -> str:
    text = ""
    match part:
        case ElidedLabel():
            text = part.full_text()
        case QLabel() | QAbstractButton():
            text = part.text()
        case QComboBox():
            text = part.currentText()
        case QLineEdit():
            text = part.placeholderText()
    return f"{type(part).__name__} {(text or part.accessibleName() or part.objectName())[:50]!r}"

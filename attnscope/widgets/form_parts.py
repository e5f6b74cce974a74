"""Small pieces that pages and panels are put together from."""

from collections.abc import Iterable
from typing import TypeVar

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QPainter, QPaintEvent, QPixmap, QPolygonF
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QBoxLayout,
    QComboBox,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from attnscope.figures.style import type_px
from attnscope.widgets.labels import named

_COMBO_MARGIN_PX = 4
_INSET_PX = 7.0


Placed = QWidget | QLayout
Part = Placed | int | tuple[Placed, int] | tuple[QWidget, int, Qt.AlignmentFlag] | None
"""None stretches, a number is a gap; a stretch and an alignment may follow a widget."""
Margins = int | tuple[int, int, int, int] | None


def row(*parts: Part, on: QWidget | None = None, margins: Margins = 0, spacing: int = 8) -> QHBoxLayout:
    """Parts beside each other, on a widget or to be put into another layout; see `column`."""
    return _fill(QHBoxLayout(), parts, on, margins, spacing)


def column(*parts: Part, on: QWidget | None = None, margins: Margins = 0, spacing: int = 8) -> QVBoxLayout:
    """Parts below each other. Margins of None, and a spacing of −1, are those of the style."""
    return _fill(QVBoxLayout(), parts, on, margins, spacing)


_Box = TypeVar("_Box", bound=QBoxLayout)


def _fill(box: _Box, parts: Iterable[Part], on: QWidget | None, margins: Margins, spacing: int) -> _Box:
    if on is not None:
        on.setLayout(box)
    if margins is not None:
        box.setContentsMargins(*(margins if isinstance(margins, tuple) else (margins,) * 4))
    box.setSpacing(spacing)
    for part in parts:
        match part:
            case None:
                box.addStretch(1)
            case int():
                box.addSpacing(part)
            case (QWidget() as widget, stretch, *alignment):
                box.addWidget(widget, stretch, *alignment)
            case (QLayout() as layout, stretch):
                box.addLayout(layout, stretch)
            case QWidget():
                box.addWidget(part)
            case QLayout():
                box.addLayout(part)
    return box


def inset_text(*boxes: QAbstractSpinBox) -> None:
    """Let the numbers of spin boxes begin where the words of lists do: a style sheet does not reach them."""
    for box in boxes:
        box.lineEdit().setTextMargins(round(type_px(_INSET_PX)), 0, 0, 0)


def scrolled_column(parent: QWidget, *, spacing: int = 8) -> QVBoxLayout:
    """A vertical layout in a panel that fills `parent` and scrolls downwards when it is too long."""
    inner = named(QWidget(), role="panel")
    layout = column(on=inner, margins=(16, 8, 16, 8), spacing=spacing)
    scroll = QScrollArea(parent, widgetResizable=True)
    scroll.setWidget(inner)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    column(scroll, on=parent)
    return layout


class _NarrowCombo(QComboBox):
    """A combo box that shows `…` where its text has no room."""

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint frame and arrow as the style does, and the text as far as it has room."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        control, field = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(control, option, field, self).width() - _COMBO_MARGIN_PX
        text = option.currentText if self.currentIndex() >= 0 else self.placeholderText()
        shown = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
        option.currentText = shown
        painter = QStylePainter(self)
        painter.drawComplexControl(control, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()


def narrow_combo(name: str, n_characters: int = 12) -> QComboBox:
    """A box of choices that is no wider than so many characters, however long they are."""
    combo = _NarrowCombo()
    combo.setAccessibleName(name)
    combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    combo.setMinimumContentsLength(n_characters)
    return combo


def dress_table(table: QTableView, name: str) -> None:
    """Make a table one of rows that are read and chosen one at a time."""
    table.setAccessibleName(name)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.verticalHeader().hide()
    table.horizontalHeader().setHighlightSections(False)


def play_icon(colour: str, *, is_playing: bool) -> QIcon:
    """A triangle, or two bars while something plays."""
    size = 32
    pixmap = QPixmap(QSize(size, size))
    pixmap.fill(Qt.GlobalColor.transparent)
    with QPainter(pixmap) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        if is_playing:
            painter.drawRect(QRectF(8, 6, 6, 20))
            painter.drawRect(QRectF(18, 6, 6, 20))
        else:
            painter.drawPolygon(QPolygonF([QPointF(9, 5), QPointF(27, 16), QPointF(9, 27)]))
    return QIcon(pixmap)


def monospaced_font(size_px: int = 12) -> QFont:
    """The system's font of equal widths."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPixelSize(size_px)
    return font

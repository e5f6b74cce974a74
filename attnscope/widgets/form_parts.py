"""Small pieces that pages and panels are put together from."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QIcon, QPainter, QPaintEvent, QPixmap, QPolygonF
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QHBoxLayout,
    QScrollArea,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from attnscope.figures.style import type_px

_COMBO_MARGIN_PX = 4
_INSET_PX = 7.0


def row(*widgets: QWidget | None, spacing: int = 8) -> QHBoxLayout:
    """Widgets beside each other; None stretches."""
    layout = QHBoxLayout()
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(spacing)
    for widget in widgets:
        if widget is None:
            layout.addStretch(1)
        else:
            layout.addWidget(widget)
    return layout


def column(parent: QWidget, *, margin: int = 0, spacing: int = 8) -> QVBoxLayout:
    """A vertical layout on `parent`."""
    layout = QVBoxLayout(parent)
    layout.setContentsMargins(margin, margin, margin, margin)
    layout.setSpacing(spacing)
    return layout


def inset_text(*boxes: QAbstractSpinBox) -> None:
    """Let the numbers of spin boxes begin where the words of lists do: a style sheet does not reach them."""
    for box in boxes:
        box.lineEdit().setTextMargins(round(type_px(_INSET_PX)), 0, 0, 0)


def scrolled_column(parent: QWidget, *, spacing: int = 8) -> QVBoxLayout:
    """A vertical layout in a panel that fills `parent` and scrolls downwards when it is too long."""
    inner = QWidget()
    inner.setProperty("role", "panel")
    layout = column(inner, spacing=spacing)
    layout.setContentsMargins(16, 8, 16, 8)
    scroll = QScrollArea(parent)
    scroll.setWidget(inner)
    scroll.setWidgetResizable(True)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    column(parent).addWidget(scroll)
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

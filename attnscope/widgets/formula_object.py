"""Formulas within the text of a document: `$q · k / √d$` becomes one, set as in a textbook."""

from PySide6.QtCore import QObject, QRect, QRectF, QRegularExpression, QSizeF
from PySide6.QtGui import (
    QFontMetricsF,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)

from attnscope.figures.paint_formula import SetFormula, set_formula
from attnscope.figures.style import NORMAL_PX, font

_KIND = int(QTextFormat.ObjectTypes.UserObject.value) + 1
_TEXT = int(QTextFormat.Property.UserProperty.value) + 1
_MARKED = QRegularExpression(r"\$[^$]+\$")
_REPLACED = "\ufffc"


class FormulaObject(QPyTextObject):
    """Sizes and paints the formulas of a document, in the colour it is given."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colour = ""

    def intrinsicSize(self, _document: QTextDocument, _place: int, shape: QTextFormat) -> QSizeF:
        found = _set(shape)
        return QSizeF(found.width + 2, _height(found))

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, _of: QTextDocument, _place: int, shape: QTextFormat
    ) -> None:
        found = _set(shape)
        middle = (rect.height() + _half_x()) / 2
        found.paint(painter, rect.left() + 1, rect.top() + middle - found.baseline, self.colour)


def set_formulas(document: QTextDocument, painter: FormulaObject) -> None:
    """Let every text between two dollar signs be a formula."""
    document.documentLayout().registerHandler(_KIND, painter)
    found = document.find(_MARKED)
    while not found.isNull():
        shape = QTextCharFormat()
        shape.setObjectType(_KIND)
        shape.setProperty(_TEXT, found.selectedText()[1:-1])
        shape.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        shape.setFont(font(NORMAL_PX))
        place = QTextCursor(document)
        place.setPosition(found.selectionStart())
        place.setPosition(found.selectionEnd(), QTextCursor.MoveMode.KeepAnchor)
        place.insertText(_REPLACED, shape)
        found = document.find(_MARKED, place)


def _set(shape: QTextFormat) -> SetFormula:
    return set_formula((str(shape.property(_TEXT)),), NORMAL_PX)


def _half_x() -> float:
    return QFontMetricsF(font(NORMAL_PX)).xHeight() / 2


def _height(found: SetFormula) -> float:
    """So high that the baselines agree: Qt puts the middle of the object at half the height of an x."""
    above, below = found.baseline, found.height - found.baseline
    return max(2 * above - _half_x(), 2 * below + _half_x())

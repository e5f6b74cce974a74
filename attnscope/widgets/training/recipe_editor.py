"""The text editor for recipes: plain monospaced text, line numbers, one marked line."""

import re

from PySide6.QtCore import QRect, QSize, Qt, Slot
from PySide6.QtGui import (
    QColor,
    QFont,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextOption,
)
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QWidget

from attnscope.figures.style import type_px
from attnscope.widgets.form_parts import monospaced_font
from attnscope.widgets.theme import Dressing

_FONT = """
QPlainTextEdit { font-family: monospace; font-size: @type@px; padding: 0; }
QAbstractScrollArea::corner { background: transparent; border: none; }
"""
_SECTION = re.compile(r"^\s*\[.*")


class RecipeEditor(Dressing, QPlainTextEdit):
    """Shows and edits the text of a recipe; `textChanged` tells when it differs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._marked: int | None = None
        self._numbers = _LineNumbers(self)
        self._highlighter = _TomlHighlighter(self.document(), self.theme.muted)
        self._fit_type()
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTabChangesFocus(True)
        self.setAccessibleName("Recipe")
        self.blockCountChanged.connect(self._on_lines_counted)
        self.updateRequest.connect(self._on_scrolled)
        self._on_lines_counted()

    def dress(self) -> None:
        self._fit_type()
        self._highlighter.set_quiet(self.theme.muted)
        self.set_marked_line(self._marked)

    def _fit_type(self) -> None:
        """Take type at its present size."""
        sheet = _FONT.replace("@type@", str(round(type_px(12))))
        if sheet == self.styleSheet():
            return
        self.setStyleSheet(sheet)
        self.ensurePolished()
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        self._on_lines_counted()

    def set_text(self, text: str, *, is_edit: bool = False) -> None:
        """Show another text; an edit of the one that is there can be undone.

        The cursor stays where it is when the text is the same.
        """
        if text == self.toPlainText():
            return
        if not is_edit:
            self.setPlainText(text)
            return
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)

    def set_marked_line(self, line: int | None) -> None:
        """Mark one line, from 1, as the one with the fault."""
        self._marked = line
        block = self.document().findBlockByNumber(line - 1) if line else None
        if block is None or not block.isValid():
            self.setExtraSelections([])
        else:
            mark = QTextEdit.ExtraSelection()
            colour = QColor(self.theme.error)
            colour.setAlpha(40)
            mark.format.setBackground(colour)
            mark.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
            mark.cursor = QTextCursor(block)
            self.setExtraSelections([mark])
        self._numbers.update()

    def reveal_line(self, line: int) -> None:
        """Bring a line, from 1, into view; the cursor goes there."""
        if self.textCursor().blockNumber() != line - 1:
            self.setTextCursor(QTextCursor(self.document().findBlockByNumber(line - 1)))
            self.centerCursor()

    def numbers_width(self) -> int:
        """Width of the line numbers in pixels."""
        n_digits = max(2, len(str(self.blockCount())))
        return 14 + n_digits * self.fontMetrics().horizontalAdvance("9")

    def paint_numbers(self, widget: QWidget, area: QRect) -> None:
        """Paint the line numbers that stand in `area` on `widget`."""
        with QPainter(widget) as painter:
            painter.fillRect(area, QColor(self.theme.panel))
            painter.setFont(monospaced_font(round(type_px(11))))
            block = self.firstVisibleBlock()
            top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
            while block.isValid() and top <= area.bottom():
                height = self.blockBoundingRect(block).height()
                is_marked = block.blockNumber() + 1 == self._marked
                painter.setPen(QColor(self.theme.error if is_marked else self.theme.muted))
                place = QRect(0, round(top), widget.width() - 8, round(height))
                painter.drawText(place, Qt.AlignmentFlag.AlignRight, str(block.blockNumber() + 1))
                top += height
                block = block.next()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        inside = self.contentsRect()
        self._numbers.setGeometry(inside.left(), inside.top(), self.numbers_width(), inside.height())

    @Slot()
    def _on_lines_counted(self) -> None:
        self.setViewportMargins(self.numbers_width(), 0, 0, 0)

    @Slot(QRect, int)
    def _on_scrolled(self, area: QRect, dy: int) -> None:
        if dy:
            self._numbers.scroll(0, dy)
        else:
            self._numbers.update(0, area.y(), self._numbers.width(), area.height())


class _LineNumbers(QWidget):
    def __init__(self, editor: RecipeEditor) -> None:
        super().__init__(editor)
        self._editor = editor

    def sizeHint(self) -> QSize:
        return QSize(self._editor.numbers_width(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        self._editor.paint_numbers(self, event.rect())


class _TomlHighlighter(QSyntaxHighlighter):
    """Sections bold, comments quiet; nothing else is coloured."""

    def __init__(self, document: QTextDocument, quiet: str) -> None:
        super().__init__(document)
        self.set_quiet(quiet)

    def set_quiet(self, colour: str) -> None:
        """Take the colour of comments."""
        self._section = QTextCharFormat()
        self._section.setFontWeight(QFont.Weight.Bold)
        self._comment = QTextCharFormat()
        self._comment.setForeground(QColor(colour))
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        if _SECTION.match(text):
            self.setFormat(0, len(text), self._section)
        start = _comment_start(text)
        if start is not None:
            self.setFormat(start, len(text) - start, self._comment)


def _comment_start(text: str) -> int | None:
    quote = ""
    for i, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#":
            return i
    return None

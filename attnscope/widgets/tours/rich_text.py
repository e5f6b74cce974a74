"""Text of the program's own files with a little emphasis, never what a stranger wrote read as markup.

`html_of` knows `**strong**`, `*stressed*`, `` `code` `` and empty lines between paragraphs; everything else
is shown letter by letter, the numbers filled in as well.
"""

import html
import re
from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent, QTextDocument
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QWidget

from attnscope.figures.plain import isolated, plain_text
from attnscope.figures.style import font
from attnscope.viewmodels.tours.tours import PLACEHOLDER

WAITING, LACKING = "…", "–"
_STRONG, _CODE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`(.+?)`")
_STRESSED = re.compile(r"\*(.+?)\*")


def filled(text: str, numbers: Mapping[str, str | None], *, is_waiting: bool = False) -> str:
    """The text with its numbers, plain; `…` for what is on its way, `–` for what is not there.

    Numbers of several lines stay in lines.
    """
    empty = WAITING if is_waiting else LACKING

    def value(found: re.Match[str]) -> str:
        shown = numbers.get(found[1])
        return (
            "\n".join(isolated(plain_text(line)) for line in shown.split("\n"))
            if shown is not None
            else empty
        )

    return PLACEHOLDER.sub(value, text)


def html_of(text: str, numbers: Mapping[str, str | None], *, is_waiting: bool = False) -> str:
    """The text as HTML, its numbers strong."""
    empty = WAITING if is_waiting else LACKING
    shown = html.escape(text)
    shown = _STRONG.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", shown))
    shown = _STRESSED.sub(r"<i>\1</i>", shown)

    def value(found: re.Match[str]) -> str:
        value = numbers.get(found[1])
        return f"<b>{html.escape(isolated(plain_text(value)))}</b>" if value is not None else empty

    shown = PLACEHOLDER.sub(value, shown)
    return "".join(f"<p style='margin:0 0 6px 0'>{p}</p>" for p in re.split(r"\n\s*\n", shown))


class RichText(QTextBrowser):
    """A text without a frame that is as high as what it holds."""

    def __init__(self, size_px: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._size_px, self._html = size_px, ""
        self._measured = QTextDocument(self)  # PySide never frees a clone of the document
        self._measured.setDefaultTextOption(self.document().defaultTextOption())
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setProperty("role", "reading")
        for document in (self.document(), self._measured):
            document.setDocumentMargin(0)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_size()

    def set_size(self) -> None:
        """Take the size of type of the theme."""
        for document in (self.document(), self._measured):
            document.setDefaultFont(font(self._size_px))
        self._fit()

    def set_html(self, text: str) -> None:
        """Show another text."""
        if text != self._html:
            self._html = text
            self.setHtml(text)
            self._measured.setHtml(text)
            self._fit()

    def sizeHint(self) -> QSize:
        return QSize(320, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self._height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._fit()

    def _fit(self) -> None:
        if self.height() != self._height():
            self.setFixedHeight(self._height())

    def _height(self) -> int:
        self._measured.setTextWidth(max(self.viewport().width(), 120))
        return round(self._measured.size().height()) + 2

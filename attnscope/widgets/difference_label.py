"""A text of which the changed words are marked; drawn letter by letter, never read as HTML."""

import math

from PySide6.QtCore import QPointF, QSize
from PySide6.QtGui import (
    QColor,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QSizePolicy

from attnscope.figures.plain import plain_text
from attnscope.figures.style import NORMAL_PX, font, type_key
from attnscope.last_made import LastMade
from attnscope.viewmodels.comparison_rows import Segment
from attnscope.widgets.theme import Dressed

_MAX_LINES = 12


class DifferenceLabel(Dressed):
    """Shows segments as one wrapped text; changed ones are underlined and tinted."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._segments: tuple[Segment, ...] = ()
        self._laid_out: LastMade[tuple[QTextLayout, int]] = LastMade()
        self.is_stale = False
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._fit()

    def show_segments(self, segments: tuple[Segment, ...]) -> None:
        """Show another text."""
        if segments != self._segments:
            self._segments = segments
            self.setAccessibleDescription("".join(segment.text for segment in segments))
            self._fit()
            self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the text while another one is on its way."""
        if is_stale != self.is_stale:
            self.is_stale = is_stale
            self.update()

    def dress(self) -> None:
        self._fit()

    def sizeHint(self) -> QSize:
        """As high as its lines."""
        return QSize(200, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Break the lines anew."""
        super().resizeEvent(event)
        self._fit()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the text."""
        layout, _ = self._text_layout()
        with QPainter(self) as painter:
            painter.setPen(QColor(self.theme.text))
            if self.is_stale:
                painter.setOpacity(0.45)
            layout.draw(painter, QPointF(0, 0))

    def _fit(self) -> None:
        _, height = self._text_layout()
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def _text_layout(self) -> tuple[QTextLayout, int]:
        """The lines and their height, worked out once for each text, width, size of type and theme."""
        key = (self._segments, self.width(), type_key(), self.theme)
        return self._laid_out.of(key, self._lay_out)

    def _lay_out(self) -> tuple[QTextLayout, int]:
        texts = [plain_text(segment.text) for segment in self._segments]
        layout = QTextLayout("".join(texts), font(NORMAL_PX))
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.setFormats(self._formats(texts))
        layout.beginLayout()
        y = 0.0
        for _ in range(_MAX_LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(max(self.width(), 40))
            line.setPosition(QPointF(0, y))
            y += line.height()
        layout.endLayout()
        return layout, max(math.ceil(y), 20)

    def _formats(self, texts: list[str]) -> list[QTextLayout.FormatRange]:
        ranges = []
        start = 0
        for segment, text in zip(self._segments, texts, strict=True):
            if segment.is_changed:
                n_spaces = len(text) - len(text.lstrip(" "))
                marked = QTextLayout.FormatRange()
                marked.start, marked.length = start + n_spaces, _utf16_length(text) - n_spaces
                look = QTextCharFormat()
                look.setForeground(QColor(self.theme.accent))
                look.setFontUnderline(True)
                look.setFontWeight(600)
                marked.format = look
                ranges.append(marked)
            start += _utf16_length(text)
        return ranges


def _utf16_length(text: str) -> int:
    """Qt counts text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

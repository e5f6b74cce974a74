"""What a model says before and after a change: candidates as bars, a text with its changed words."""

import math

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QSizePolicy

from attnscope.counting import below_text, probability_text
from attnscope.figures.colours import Palette
from attnscope.figures.plain import isolated, plain_piece, plain_text
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, type_key, type_px
from attnscope.last_made import LastMade
from attnscope.viewmodels.comparison_rows import CandidateRow, Segment
from attnscope.widgets.theme import Dressed

_ROW_PX, _HEAD_PX = 24, 20
_NUMBER_PX = 44
"""Room for the longest number, <0.001, beside its bar."""


class CandidateTable(Dressed):
    """One row a candidate: its piece, then probability and bar before, then after."""

    def __init__(self, n_rows: int = 8, *, names: tuple[str, str] = ("before", "after")) -> None:
        super().__init__()
        self._names = names
        self._rows: tuple[CandidateRow, ...] = ()
        self._n_rows = n_rows
        self._what = "token"
        self._fit()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(f"Most probable tokens: {names[0]} and {names[1]}")

    def show_rows(self, rows: tuple[CandidateRow, ...]) -> None:
        if rows != self._rows:
            self._rows = rows
            self.setAccessibleDescription("; ".join(row.sentence for row in rows))
            self.update()

    def name_answers(self, what: str) -> None:
        """Say what the rows are: tokens, or labels."""
        if what != self._what:
            self._what = what
            self.setAccessibleName(f"Most probable {what}s: {self._names[0]} and {self._names[1]}")
            self.update()

    def dress(self) -> None:
        self._fit()

    def sizeHint(self) -> QSize:
        """Room for both columns."""
        return QSize(240, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the column names and every row."""
        piece, before, after = self._columns()
        with QPainter(self) as painter:
            palette = self.theme
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(palette.muted))
            middle = Qt.AlignmentFlag.AlignVCenter
            for column, name in ((piece, self._what), (before, self._names[0]), (after, self._names[1])):
                painter.drawText(column, middle, name)
            for k, row in enumerate(self._rows):
                top = type_px(_HEAD_PX + k * _ROW_PX)
                _paint_piece(painter, piece.translated(0, top), row, palette)
                for side, value, below, colour in (
                    (before, row.before, row.before_below, palette.muted),
                    (after, row.after, row.after_below, palette.accent),
                ):
                    _paint_side(painter, side.translated(0, top), value, below, palette, colour)

    def _fit(self) -> None:
        self.setFixedHeight(round(type_px(_HEAD_PX + self._n_rows * _ROW_PX)))

    def _columns(self) -> tuple[QRectF, QRectF, QRectF]:
        width = float(self.width())
        piece = min(0.3 * width, type_px(160.0))
        head = type_px(_HEAD_PX)
        side = (width - piece - 16) / 2
        return (
            QRectF(0, 0, piece, head),
            QRectF(piece + 8, 0, side, head),
            QRectF(piece + 16 + side, 0, side, head),
        )


def _paint_piece(painter: QPainter, place: QRectF, row: CandidateRow, palette: Palette) -> None:
    place = QRectF(place.x(), place.y(), place.width(), type_px(_ROW_PX))
    type_ = font(NORMAL_PX)
    text = plain_piece(row.name or row.token.piece)
    text = QFontMetricsF(type_).elidedText(text, Qt.TextElideMode.ElideMiddle, place.width())
    painter.setFont(type_)
    painter.setPen(QColor(palette.muted if row.token.is_special else palette.text))
    painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, isolated(text))


def _paint_side(
    painter: QPainter,
    place: QRectF,
    value: float | None,
    below: float | None,
    palette: Palette,
    colour: str,
) -> None:
    """A value with its bar; of one that is not known, what it is less than."""
    text = probability_text(value) if value is not None else "–" if below is None else below_text(below)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.text if value is not None else palette.muted))
    room, row = type_px(_NUMBER_PX), type_px(_ROW_PX)
    number = QRectF(place.right() - room, place.y(), room, row)
    painter.drawText(number, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, text)
    bar = QRectF(place.x(), place.y() + row / 2 - 4, max(place.width() - room - 2, 8), 8)
    painter.fillRect(bar, QColor(palette.grid))
    bar.setWidth(bar.width() * min(max(value or 0.0, 0.0), 1.0))
    painter.fillRect(bar, QColor(colour))


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

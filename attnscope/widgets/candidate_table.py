"""Candidates of one prediction, before and after the gates, as bars side by side."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy

from attnscope.counting import below_text, probability_text
from attnscope.figures.colours import Palette
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, type_px
from attnscope.viewmodels.comparison_rows import CandidateRow
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
    text = plain_piece(row.token.piece)
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

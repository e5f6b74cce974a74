"""What there was to choose from where a token was written: pieces, bars, probabilities."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, type_px
from attnscope.records.outputs import Candidate
from attnscope.viewmodels.comparison_rows import probability_text

_ROW_PX = 22


class AlternativeTable(QWidget):
    """One row a candidate, the written one in the accent colour."""

    def __init__(self, palette: Palette, n_rows: int = 8, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._palette, self._n_rows = palette, n_rows
        self._rows: tuple[Candidate, ...] = ()
        self._written_id = -1
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Alternatives at this token")
        self._fit()

    def show_rows(self, rows: tuple[Candidate, ...], written_id: int) -> None:
        """Show other candidates; `written_id` is the one that was written."""
        if (rows, written_id) != (self._rows, self._written_id):
            self._rows, self._written_id = rows[: self._n_rows], written_id
            told = (f"{row.token.piece}: {probability_text(row.probability)}" for row in self._rows)
            self.setAccessibleDescription("; ".join(told))
            self._fit()

    def set_theme(self, palette: Palette) -> None:
        """Paint in other colours."""
        self._palette = palette
        self._fit()

    def sizeHint(self) -> QSize:
        return QSize(240, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        height = type_px(_ROW_PX)
        with QPainter(self) as painter:
            for k, row in enumerate(self._rows):
                self._paint_row(painter, QRectF(0, k * height, self.width(), height), row)

    def _paint_row(self, painter: QPainter, place: QRectF, row: Candidate) -> None:
        palette, is_written = self._palette, row.token.id == self._written_id
        n_piece, n_number = min(0.4 * place.width(), type_px(140)), type_px(40)
        type_ = font(NORMAL_PX, is_bold=is_written)
        text = plain_piece(row.token.piece)
        text = QFontMetricsF(type_).elidedText(text, Qt.TextElideMode.ElideMiddle, n_piece)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(type_)
        ink = palette.accent if is_written else palette.muted if row.token.is_special else palette.text
        painter.setPen(QColor(ink))
        piece = QRectF(place.left(), place.top(), n_piece, place.height())
        painter.drawText(piece, middle, isolated(text))
        bar = QRectF(piece.right() + 8, place.center().y() - 4, place.width() - n_piece - n_number - 8, 8)
        painter.fillRect(bar, QColor(palette.grid))
        bar.setWidth(bar.width() * min(max(row.probability, 0.0), 1.0))
        painter.fillRect(bar, QColor(palette.accent if is_written else palette.muted))
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.text))
        number = QRectF(place.right() - n_number, place.top(), n_number, place.height())
        painter.drawText(number, middle | Qt.AlignmentFlag.AlignRight, probability_text(row.probability))

    def _fit(self) -> None:
        self.setFixedHeight(round(type_px(max(len(self._rows), 1) * _ROW_PX)))
        self.update()

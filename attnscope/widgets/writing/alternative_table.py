"""What there was to choose from where a token was written: pieces, bars, probabilities."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy

from attnscope.counting import probability_text
from attnscope.figures.plain import isolated, plain_piece
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, type_px
from attnscope.records.outputs import Candidate
from attnscope.widgets.labels import plain_tooltip
from attnscope.widgets.theme import Dressed

_ROW_PX = 22
_DRAWN_TIP = (
    "model: the model's own probability, softmax of the logits. drawn: its probability after temperature,"
    " top-k and top-p; cut: it could not be drawn."
)


class AlternativeTable(Dressed):
    """One row a candidate, the written one in the accent colour; what it was drawn with, if it was."""

    def __init__(self, n_rows: int = 8) -> None:
        super().__init__()
        self._n_rows = n_rows
        self._rows: tuple[Candidate, ...] = ()
        self._written_id = -1
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Alternatives at this token")
        self._fit()

    def show_rows(self, rows: tuple[Candidate, ...], written_id: int) -> None:
        """Show other candidates; `written_id` is the one that was written."""
        if (rows, written_id) != (self._rows, self._written_id):
            self._rows, self._written_id = rows[: self._n_rows], written_id
            self.setAccessibleDescription("; ".join(map(_told, self._rows)))
            self._fit()

    def dress(self) -> None:
        self._fit()

    def sizeHint(self) -> QSize:
        return QSize(240, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        height, top = type_px(_ROW_PX), type_px(_ROW_PX) if self._is_drawn else 0.0
        with QPainter(self) as painter:
            if self._is_drawn:
                painter.setFont(font(SMALL_PX))
                painter.setPen(QColor(self.theme.muted))
                side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
                painter.drawText(QRectF(0, 0, self.width() - self._number_px, height), side, "model")
                painter.drawText(QRectF(0, 0, self.width(), height), side, "drawn")
            for k, row in enumerate(self._rows):
                self._paint_row(painter, QRectF(0, top + k * height, self.width(), height), row)

    @property
    def _is_drawn(self) -> bool:
        return any(row.chance is not None for row in self._rows)

    @property
    def _number_px(self) -> float:
        return type_px(40)

    def _paint_row(self, painter: QPainter, place: QRectF, row: Candidate) -> None:
        """The piece, a bar for each number, and the numbers; what the settings cut off is quiet."""
        palette, is_written = self.theme, row.token.id == self._written_id
        n_numbers = self._number_px * (2 if self._is_drawn else 1)
        n_piece, is_cut = (
            min(0.4 * (place.width() - n_numbers + self._number_px), type_px(140)),
            row.chance == 0,
        )
        type_ = font(NORMAL_PX, is_bold=is_written)
        text = plain_piece(row.token.piece)
        text = QFontMetricsF(type_).elidedText(text, Qt.TextElideMode.ElideMiddle, n_piece)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(type_)
        quiet = row.token.is_special or is_cut
        painter.setPen(QColor(palette.accent if is_written else palette.muted if quiet else palette.text))
        piece = QRectF(place.left(), place.top(), n_piece, place.height())
        painter.drawText(piece, middle, isolated(text))
        bar = QRectF(piece.right() + 8, place.center().y() - 4, place.width() - n_piece - n_numbers - 8, 8)
        values = (row.probability,) if row.chance is None else (row.probability, row.chance)
        for k, value in enumerate(values):
            high = bar.height() / len(values)
            line = QRectF(bar.left(), bar.top() + k * high, bar.width(), high)
            painter.fillRect(line, QColor(palette.grid))
            line.setWidth(bar.width() * min(max(value, 0.0), 1.0))
            painter.fillRect(line, QColor(palette.accent if is_written or k else palette.muted))
        painter.setFont(font(SMALL_PX))
        side = middle | Qt.AlignmentFlag.AlignRight
        for k, value in enumerate(values):
            painter.setPen(QColor(palette.muted if k and is_cut else palette.text))
            right = place.right() - self._number_px * (len(values) - 1 - k)
            number = QRectF(right - self._number_px, place.top(), self._number_px, place.height())
            painter.drawText(number, side, "cut" if k and is_cut else probability_text(value))

    def _fit(self) -> None:
        n_lines = max(len(self._rows), 1) + self._is_drawn
        self.setFixedHeight(round(type_px(n_lines * _ROW_PX)))
        self.setToolTip(plain_tooltip(_DRAWN_TIP) if self._is_drawn else "")
        self.update()


def _told(row: Candidate) -> str:
    words = f"{row.token.piece}: {probability_text(row.probability)}"
    if row.chance is None:
        return words
    return words + (", cut off" if row.chance == 0 else f", drawn with {probability_text(row.chance)}")

"""A short horizontal colour bar with its ends written beside it."""

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from attnscope.figures.colours import lut_argb
from attnscope.figures.style import SMALL_PX, font, text_width, type_px
from attnscope.widgets.theme import Dressed

_BAR_PX = 96


class ScaleBar(Dressed):
    """The diverging colour map from `low` to `high`."""

    def __init__(self, low: str, high: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._low, self._high = low, high
        words = lut_argb("diverging").reshape(1, 256).copy()
        self._image = QImage(words.data, 256, 1, 1024, QImage.Format.Format_RGB32).copy()
        self.setFixedSize(self.sizeHint())

    def dress(self) -> None:
        self.setFixedSize(self.sizeHint())

    def sizeHint(self) -> QSize:
        ends = text_width(self._low) + text_width(self._high)
        return QSize(round(_BAR_PX + ends + 16), round(type_px(16)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(self.theme.muted))
            start = text_width(self._low) + 6
            whole = QRectF(self.rect())
            painter.drawText(whole, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, self._low)
            painter.drawText(
                whole.adjusted(start + _BAR_PX + 6, 0, 4, 0), Qt.AlignmentFlag.AlignVCenter, self._high
            )
            painter.drawImage(QRectF(start, whole.height() / 2 - 4, _BAR_PX, 8), self._image)

"""A picture of a figure as it will be written, on its own white page; of numbers the first lines."""

import dataclasses

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.errors import UserError
from attnscope.figures.export import image
from attnscope.figures.file_names import Format
from attnscope.figures.html_page import check_page
from attnscope.figures.numbers import first_lines
from attnscope.figures.spec import MM_PER_INCH, FigureSpec, check_dots, check_spec
from attnscope.widgets.form_parts import monospaced_font

_MAX_SIDE_PX = 1400
_N_LINES = 24


class FigurePreview(QWidget):
    """Shows one figure, fitted into the room there is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture = QImage()
        self._lines: tuple[str, ...] = ()
        self.setAccessibleName("Preview of the figure")
        self.setMinimumSize(320, 280)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_figure(self, spec: FigureSpec, format: Format) -> str:
        """Show the figure; gives the reason when it cannot be written like this, else an empty text."""
        try:
            check_spec(spec)
            self._lines = first_lines(spec, format, _N_LINES) if format in ("csv", "npz") else ()
            if format == "png":
                check_dots(spec)
            elif format == "html":
                check_page(spec)
            longest_inch = max(spec.width_mm, spec.height_mm) / MM_PER_INCH
            dpi = max(36, min(144, int(_MAX_SIDE_PX / longest_inch)))
            self._picture = image(dataclasses.replace(spec, dpi=dpi))
        except UserError as error:
            return str(error)
        self.update()
        return ""

    def sizeHint(self) -> QSize:
        """Room to judge a figure."""
        return QSize(560, 460)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the page with a thin edge."""
        if self._lines:
            self._paint_lines()
            return
        if self._picture.isNull():
            return
        size = self._picture.size().scaled(self.size() - QSize(2, 2), Qt.AspectRatioMode.KeepAspectRatio)
        place = QRectF((self.width() - size.width()) / 2, 0, size.width(), size.height())
        place.translate(0, (self.height() - size.height()) / 2)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawImage(place, self._picture)
            painter.setPen(QColor("#8a9099"))
            painter.drawRect(place)

    def _paint_lines(self) -> None:
        """The first lines of a table, as they will stand in the file."""
        face = monospaced_font(12)
        metrics = QFontMetricsF(face)
        with QPainter(self) as painter:
            page = QRectF(self.rect()).adjusted(0, 0, -1, -1)
            painter.fillRect(page, QColor("#ffffff"))
            painter.setPen(QColor("#8a9099"))
            painter.drawRect(page)
            painter.setClipRect(page.adjusted(8, 8, -8, -8))
            painter.setFont(face)
            painter.setPen(QColor("#1b1f24"))
            for k, line in enumerate(self._lines):
                painter.drawText(QPointF(16, 16 + metrics.ascent() + k * metrics.lineSpacing() * 1.2), line)

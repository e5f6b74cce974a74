"""A picture of a figure as it will be written, on its own white page."""

import dataclasses

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.errors import UserError
from attnscope.figures.export import Format, image
from attnscope.figures.spec import MM_PER_INCH, FigureSpec, check_dots, check_spec

_MAX_SIDE_PX = 1400


class FigurePreview(QWidget):
    """Shows one figure, fitted into the room there is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture = QImage()
        self.setAccessibleName("Preview of the figure")
        self.setMinimumSize(320, 280)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_figure(self, spec: FigureSpec, format: Format) -> str:
        """Show the figure; gives the reason when it cannot be written like this, else an empty text."""
        try:
            check_spec(spec)
            if format == "png":
                check_dots(spec)
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

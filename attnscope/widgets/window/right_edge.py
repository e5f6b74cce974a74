"""A panel that lies over the right edge of a page, so that nothing moves when it comes."""

from PySide6.QtCore import QEvent, QObject, Slot
from PySide6.QtWidgets import QStackedWidget, QWidget

from attnscope.figures.style import type_px


class RightEdge(QObject):
    """Keeps `panel` at the right edge of `over`, as high as it and `width_px` wide at the size of type."""

    def __init__(self, panel: QWidget, over: QWidget, width_px: int) -> None:
        super().__init__(panel)
        self._panel, self._over, self._width_px = panel, over, width_px
        over.installEventFilter(self)
        if isinstance(over, QStackedWidget):
            over.currentChanged.connect(self._on_page_changed)  # which raises the page above its siblings

    def place(self) -> None:
        """Take the place again, on top."""
        width = min(round(type_px(self._width_px)), self._over.width())
        self._panel.setGeometry(self._over.width() - width, 0, width, self._over.height())
        self._panel.raise_()

    @Slot()
    def _on_page_changed(self) -> None:
        self.place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the right edge when the page changes its size."""
        if watched is self._over and event.type() == QEvent.Type.Resize:
            self.place()
        return super().eventFilter(watched, event)

"""A panel that lies over the right edge of a page, so that nothing moves when it comes."""

from typing import Protocol, runtime_checkable

from PySide6.QtCore import QEvent, QObject, Slot
from PySide6.QtWidgets import QStackedWidget, QWidget

from attnscope.figures.style import type_px


@runtime_checkable
class GivesWay(Protocol):
    """A page whose text must be read beside such a panel, not under it."""

    def give_way(self, right_px: int) -> None:
        """Leave so much room free at the right; 0 when the panel has gone."""


class RightEdge(QObject):
    """Keeps `panel` at the right edge of `over`, as high as it and `width_px` wide at the size of type."""

    def __init__(self, panel: QWidget, over: QWidget, width_px: int) -> None:
        super().__init__(panel)
        self._panel, self._over, self._width_px = panel, over, width_px
        over.installEventFilter(self)
        panel.installEventFilter(self)
        if isinstance(over, QStackedWidget):
            over.currentChanged.connect(self._on_page_changed)  # which raises the page above its siblings

    def place(self) -> None:
        """Take the place again, on top."""
        width = min(round(type_px(self._width_px)), self._over.width())
        self._panel.setGeometry(self._over.width() - width, 0, width, self._over.height())
        self._panel.raise_()
        self._tell()

    def _tell(self) -> None:
        """Let the pages below make room that have text to be read."""
        covered = 0 if self._panel.isHidden() else self._panel.width()
        for page in self._over.children() if isinstance(self._over, QStackedWidget) else ():
            if isinstance(page, GivesWay):
                page.give_way(covered)

    @Slot()
    def _on_page_changed(self) -> None:
        if not self._panel.isHidden():
            self.place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the right edge when the page changes its size."""
        if watched is self._over and event.type() == QEvent.Type.Resize and not self._panel.isHidden():
            self.place()
        elif watched is self._panel and event.type() == QEvent.Type.Show:
            self.place()
        elif watched is self._panel and event.type() == QEvent.Type.Hide:
            self._tell()
        return super().eventFilter(watched, event)

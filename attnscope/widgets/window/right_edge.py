"""A panel at the right edge of the pages, which leave it the room."""

from typing import Protocol, runtime_checkable

from PySide6.QtCore import QEvent, QObject, Slot
from PySide6.QtWidgets import QStackedWidget, QWidget

from attnscope.figures.style import type_px

_LEAST_PX = 264
"""How narrow a panel becomes before it lies over a page that needs its width."""
_MOST_PX = 1_000_000


@runtime_checkable
class GivesWay(Protocol):
    """A page with parts that can be left out beside such a panel."""

    def give_way(self, room_px: int) -> None:
        """Leave them out where they do not fit into this width, or bring them back."""


class RightEdge(QObject):
    """Keeps `panel` at the right edge of `over`, as high as it and `width_px` wide at the size of type.

    The page in front becomes as much narrower as it can; nothing of it lies below the panel then.
    """

    def __init__(self, panel: QWidget, over: QWidget, width_px: int) -> None:
        super().__init__(panel)
        self._panel, self._over, self._width_px = panel, over, width_px
        over.installEventFilter(self)
        panel.installEventFilter(self)
        if isinstance(over, QStackedWidget):
            over.currentChanged.connect(self._on_page_changed)  # which raises the page above its siblings

    def place(self) -> None:
        """Take the place again, on top; nothing while the panel is hidden."""
        if self._panel.isHidden():
            return
        over, wanted = self._over, round(type_px(self._width_px))
        self._tell_room(over.width() - wanted)
        shown = (over.currentWidget() if isinstance(over, QStackedWidget) else None) or over
        free = max(0, over.width() - shown.minimumSizeHint().width())
        least = max(self._panel.minimumSizeHint().width(), round(type_px(_LEAST_PX)))
        width = min(wanted, max(free, least), over.width())
        self._panel.setGeometry(over.width() - width, 0, width, over.height())
        self._panel.raise_()
        over.setContentsMargins(0, 0, min(width, free), 0)

    def _take_over(self) -> None:
        """One panel at a time: two would push each other's margin to and fro without end."""
        for other in self._over.findChildren(RightEdge):
            if other is not self and other._over is self._over:
                other._panel.hide()

    def _tell_room(self, room_px: int) -> None:
        for page in self._over.children():
            if isinstance(page, GivesWay):
                page.give_way(room_px)

    @Slot()
    def _on_page_changed(self) -> None:
        self.place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay at the right edge when the page changes its size."""
        if watched is self._over and event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self.place()
        elif watched is self._panel and event.type() == QEvent.Type.Show:
            self._take_over()
            self.place()
        elif watched is self._panel and event.type() == QEvent.Type.Hide:
            self._tell_room(_MOST_PX)
            self._over.setContentsMargins(0, 0, 0, 0)
        return super().eventFilter(watched, event)

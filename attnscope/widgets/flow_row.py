"""A row that goes on in a second line where there is no room for all of it in one."""

import itertools
import sys

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget

from attnscope.widgets.form_parts import row


class FlowRow(QLayout):
    """Widgets beside each other at their own sizes, broken into lines like words.

    Those added after `add_stretch` stand at the right of the line they come to, as long as those before
    them leave room. The lines follow from the width alone, so the layout never feeds on itself.
    """

    def __init__(self, *widgets: QWidget, spacing: int = 8, line_spacing: int = 4) -> None:
        super().__init__()
        self._items: list[QLayoutItem] = []
        self._line_spacing = line_spacing
        self._first_right = sys.maxsize  # of those at the right; there are none yet
        self.setSpacing(spacing)
        self.setContentsMargins(0, 0, 0, 0)
        for widget in widgets:
            self.addWidget(widget)

    def add_stretch(self) -> None:
        """Put what is added from now on at the right."""
        self._first_right = len(self._items)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        if not 0 <= index < len(self._items):
            return None
        if index < self._first_right:
            self._first_right -= 1
        return self._items.pop(index)

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        margins = self.contentsMargins()
        lines = self._lines(width - margins.left() - margins.right())
        heights = [max(item.sizeHint().height() for _place, item in line) for line in lines]
        between = self._line_spacing * max(len(lines) - 1, 0)
        return sum(heights) + between + margins.top() + margins.bottom()

    def sizeHint(self) -> QSize:
        shown = [item.sizeHint() for item in self._items if not item.isEmpty()]
        width = sum(size.width() for size in shown) + self.spacing() * max(len(shown) - 1, 0)
        return self._framed(width, max((size.height() for size in shown), default=0))

    def minimumSize(self) -> QSize:
        shown = [item.minimumSize() for item in self._items if not item.isEmpty()]
        widest = max((size.width() for size in shown), default=0)
        return self._framed(widest, max((size.height() for size in shown), default=0))

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        inner = rect.marginsRemoved(self.contentsMargins())
        top = inner.top()
        for line in self._lines(inner.width()):
            height = max(item.sizeHint().height() for _place, item in line)
            for (left, width), item in line:
                own = item.sizeHint().height()
                place = QPoint(inner.left() + left, top + (height - own) // 2)
                item.setGeometry(QRect(place, QSize(width, own)))
            top += height + self._line_spacing

    def _framed(self, width: int, height: int) -> QSize:
        margins = self.contentsMargins()
        return QSize(
            width + margins.left() + margins.right(),
            height + margins.top() + margins.bottom(),
        )

    def _lines(self, room: int) -> list[list[tuple[tuple[int, int], QLayoutItem]]]:
        """The lines; of each item where it begins and how wide it is."""
        lines: list[list[tuple[int, QLayoutItem]]] = []
        used = 0
        for index, item in enumerate(self._items):
            if item.isEmpty():
                continue
            width = item.sizeHint().width()
            if not lines or used + self.spacing() + width > room:
                lines.append([])
                used = 0
            used += width + (self.spacing() if lines[-1] else 0)
            lines[-1].append((index, item))
        return [self._placed(line, room) for line in lines]

    def _placed(
        self, line: list[tuple[int, QLayoutItem]], room: int
    ) -> list[tuple[tuple[int, int], QLayoutItem]]:
        widths = [min(item.sizeHint().width(), room) for _index, item in line]
        free = max(room - sum(widths) - self.spacing() * (len(line) - 1), 0)
        starts = itertools.accumulate(widths[:-1], lambda at, width: at + width + self.spacing(), initial=0)
        return [
            ((start + (free if index >= self._first_right else 0), width), item)
            for start, width, (index, item) in zip(starts, widths, line, strict=True)
        ]


def together(*widgets: QWidget, spacing: int = 4) -> QWidget:
    """Widgets that stay beside each other in one line of a FlowRow."""
    group = QWidget()
    row(*widgets, on=group, spacing=spacing)
    return group

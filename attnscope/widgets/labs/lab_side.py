"""The left side of every lab: what scrolls, and the buttons that stay below it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from attnscope.figures.style import type_px
from attnscope.widgets.form_parts import column
from attnscope.widgets.labels import ground


def lab_side(inside: QWidget, foot: QWidget) -> QWidget:
    """A panel of `inside`, which scrolls downwards, over the buttons of the lab."""
    area = QScrollArea(widgetResizable=True)
    area.setWidget(inside)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    side = ground(QWidget(), "panel", edge="right")
    column((area, 1), foot, on=side, margins=(0, 0, 1, 0), spacing=0)
    return side


def sentence_px(width: int) -> int:
    """The height for a lab's sentence beside its side: two lines, or more where they are short."""
    n_lines = 2 if width > type_px(1000) else 3 if width > type_px(560) else 4
    return round(type_px(19 * n_lines + 2))

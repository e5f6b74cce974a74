"""Finds text that is smaller than it may be: in widgets, in what they paint, and in the scenes of plots."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyqtgraph as pg
import pytest
from PySide6.QtGui import QFont, QFontInfo, QPainter
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QGraphicsItem,
    QGraphicsTextItem,
    QGraphicsView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

_WITH_TEXT: tuple[type[QWidget], ...] = (
    QLabel,
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
)


def small_type(window: QWidget, least_px: float) -> Iterator[str]:
    """One line for every visible text in `window` that is smaller than `least_px` pixels."""
    for part in (part for kind in _WITH_TEXT for part in window.findChildren(kind)):
        has_text = not isinstance(part, QLabel | QAbstractButton) or part.text()
        if part.isVisible() and has_text and part.fontInfo().pixelSize() < least_px:
            words = part.text() if isinstance(part, QLabel | QAbstractButton) else part.accessibleName()
            yield f"{type(part).__name__} {words[:40]!r}: {part.fontInfo().pixelSize()} px"
    for view in window.findChildren(QGraphicsView):
        for item in view.scene().items() if view.isVisible() else ():
            if item.isVisible() and (told := _of_plot(item)) and QFontInfo(told[1]).pixelSize() < least_px:
                yield f"in a plot {told[0][:40]!r}: {QFontInfo(told[1]).pixelSize()} px"
    with _painted() as sizes:
        window.grab()
    yield from (f"painted by {where}: {px:.1f} px" for where, px in sizes.items() if px < least_px)


def _of_plot(item: QGraphicsItem) -> tuple[str, QFont] | None:
    """What an item of a plot says and in which type; None for one without text."""
    if isinstance(item, pg.AxisItem) and item.style["showValues"]:
        return "the numbers of an axis", item.style["tickFont"] or QApplication.font()
    if isinstance(item, QGraphicsTextItem) and item.toPlainText().strip():
        return item.toPlainText(), item.font()
    return None


@contextmanager
def _painted() -> Iterator[dict[str, float]]:
    """The smallest type that each function paints in within the `with`."""
    sizes: dict[str, float] = {}
    set_font = QPainter.setFont

    def noting(painter: QPainter, face: QFont) -> None:
        scale = math.sqrt(abs(painter.worldTransform().determinant()))
        code = sys._getframe(1).f_code
        where = f"{Path(code.co_filename).name}, {code.co_name}"
        sizes[where] = min(sizes.get(where, math.inf), QFontInfo(face).pixelSize() * scale)
        set_font(painter, face)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QPainter, "setFont", noting)
        yield sizes

"""Copying a figure: pixels for everyone, SVG for programs that take it, never more than fits."""

import dataclasses
import math

from PySide6.QtCore import QByteArray, QMimeData
from PySide6.QtGui import QGuiApplication

from attnscope.figures.spec import MIN_DPI, FigureSpec

MAX_CLIPBOARD_PIXELS = 16_000_000
MAX_SVG_BYTES = 8_000_000
_MARK = "application/x-attnscope-figure"


def mime_data(spec: FigureSpec) -> QMimeData:
    """The figure as an image and as SVG; the resolution is lowered until the image is small enough."""
    from attnscope.figures.export import image, render  # the window starts without them

    fitting = capped(spec)
    data = QMimeData()
    data.setData(_MARK, QByteArray(b"1"))
    data.setImageData(image(fitting))
    svg = render(fitting, "svg")
    if len(svg) <= MAX_SVG_BYTES:
        data.setData("image/svg+xml", QByteArray(svg))
    return data


def capped(spec: FigureSpec) -> FigureSpec:
    """The figure at a resolution whose image fits the clipboard."""
    width, height = spec.size_in_dots
    if width * height <= MAX_CLIPBOARD_PIXELS:
        return spec
    dpi = math.floor(spec.dpi * math.sqrt(MAX_CLIPBOARD_PIXELS / (width * height)))
    return dataclasses.replace(spec, dpi=max(MIN_DPI, dpi))


def to_clipboard(spec: FigureSpec) -> None:
    """Put the figure on the clipboard; raises UserError when it cannot be made."""
    data = mime_data(spec)
    QGuiApplication.clipboard().setMimeData(data)


def release_clipboard() -> None:
    """Take our own figure back before the program ends: a promise nobody can keep crashes on exit."""
    clipboard = QGuiApplication.clipboard()
    held = clipboard.mimeData()
    if held is not None and held.hasFormat(_MARK):  # ownsClipboard() is always False on some platforms
        clipboard.clear()

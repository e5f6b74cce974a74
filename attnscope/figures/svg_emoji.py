"""Emoji of an SVG as small pictures.

Editors such as Inkscape look an emoji's glyph up in a font that does not have it and draw another letter.
"""

import base64
import html
import math
import re

from PySide6.QtCore import QBuffer, QIODevice, QPointF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QPainter

_EMOJI = re.compile("[\u200d\u20e3\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]+")
_COLOURED = re.compile("[\ufe0f\U0001f000-\U0001faff]")
_DOTS = 8
"""Pixels of the picture for each of the figure."""


def is_emoji(text: str) -> bool:
    """Whether a run is nothing but emoji; signs that are also plain letters, such as ✓, are not."""
    return _EMOJI.fullmatch(text) is not None and _COLOURED.search(text) is not None


def emoji_image(text: str, x: float, baseline: float, face: QFont) -> str:
    """The element that shows a run of emoji from `x` on; empty where no font here has it."""
    metrics = QFontMetricsF(face)
    width, height = metrics.horizontalAdvance(text), metrics.height()
    picture = QImage(
        max(1, math.ceil(width * _DOTS)), max(1, math.ceil(height * _DOTS)), QImage.Format.Format_ARGB32
    )
    picture.fill(Qt.GlobalColor.transparent)
    with QPainter(picture) as painter:
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.scale(_DOTS, _DOTS)
        painter.setFont(face)
        painter.drawText(QPointF(0.0, metrics.ascent()), text)
    if picture.allGray():
        return ""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    picture.save(buffer, "PNG")  # type: ignore[call-overload]
    content = base64.b64encode(bytes(buffer.data().data())).decode()
    place = f'x="{x:g}" y="{baseline - metrics.ascent():g}" width="{width:g}" height="{height:g}"'
    title = f"<title>{html.escape(text)}</title>"
    return f'<image {place} xlink:href="data:image/png;base64,{content}">{title}</image>'

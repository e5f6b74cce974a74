"""Texts of an SVG as other programs need them: a family that each has, and the direction of each run.

Qt writes every run of one font and direction as a text element of its own, placed by its left edge, and
says neither. A reader without the family falls back to serifs, and one that takes Hebrew with a space at
its end for a text from left to right puts the space on the other side, where two words then touch; so
such a space becomes part of the place.
"""

import html
import re
import unicodedata

from PySide6.QtGui import QFont, QFontInfo, QFontMetricsF

_TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_FAMILY = re.compile(r'font-family="([^"]*)"')
_X = re.compile(r'(?<![\w-])x="[^"]*"')
_BOLD = 600
_ALIASES = ("Sans Serif", "Sans", "Serif", "Monospace", ".AppleSystemUIFont", "MS Shell Dlg 2")
"""What a system calls the font that it chose, and no other system knows."""
_GENERIC = ("sans-serif", "serif", "monospace")
_SANS = ("Helvetica", "Arial", "Liberation Sans", "sans-serif")
_SERIF, _MONO = ("Times", "Times New Roman", "serif"), ("Courier", "Courier New", "monospace")
_ALIKE = (
    (_MONO, ("mono", "courier", "consol", "typewriter", "code")),
    (_SANS, ("sans", "gothic")),
    (_SERIF, ("serif", "times", "roman", "garamond", "georgia", "palat", "minion", "libertine", "cambria")),
)
"""Which families stand in for one that is called like this."""
_RIGHT_TO_LEFT, _LEFT_TO_RIGHT = ("R", "AL"), "L"


def mended_texts(svg: str) -> str:
    """The same SVG, each text with a family to fall back to, and from right to left where it is."""
    return _TEXT.sub(_mended, svg)


def is_right_to_left(text: str) -> bool:
    """Whether the first letter that has a direction goes from right to left (Unicode annex 9, rule P2)."""
    directions = map(unicodedata.bidirectional, text)
    first = next((d for d in directions if d in (*_RIGHT_TO_LEFT, _LEFT_TO_RIGHT)), _LEFT_TO_RIGHT)
    return first in _RIGHT_TO_LEFT


def _mended(found: re.Match[str]) -> str:
    attributes, text = found.groups()
    plain = html.unescape(text)
    if is_right_to_left(plain):
        n_after = len(plain) - len(plain.rstrip(" "))
        place = float(_named("x", attributes)) + _width(" " * n_after, attributes)
        attributes = _X.sub(f'x="{place:g}"', attributes)
        attributes = f'direction="rtl" text-anchor="end" {attributes}'  # its end is its left edge
        text = text.strip(" ")
    return f"<text {_FAMILY.sub(_with_fallback, attributes)}>{text}</text>"


def _width(text: str, attributes: str) -> float:
    return float(QFontMetricsF(_face(attributes)).horizontalAdvance(text))


def _face(attributes: str) -> QFont:
    face = QFont(_named("font-family", attributes))
    face.setPixelSize(round(float(_named("font-size", attributes))))
    face.setBold(int(_named("font-weight", attributes)) >= _BOLD)
    return face


def _named(name: str, attributes: str) -> str:
    found = re.search(rf'(?<![\w-]){name}="([^"]*)"', attributes)
    if found is None:
        raise ValueError(f"a text without {name}: {attributes}")
    return found.group(1)


def _with_fallback(found: re.Match[str]) -> str:
    """The family that was used, by its own name and not by what this system calls it, then others like it."""
    families = [name.strip().strip("'") for name in found.group(1).split(",")]
    named = [name for name in families if name not in _GENERIC]
    own = [QFontInfo(QFont(name)).family() if name in _ALIASES else name for name in named]
    others = next((rest for rest, words in _ALIKE if any(w in own[0].lower() for w in words)), _SANS)
    quoted = [name if name.isalnum() else f"'{name}'" for name in dict.fromkeys((*own, *others[:-1]))]
    return f'font-family="{", ".join([*quoted, others[-1]])}"'

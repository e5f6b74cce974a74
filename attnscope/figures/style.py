"""How everything is drawn: the user's choices about maps, type, and safe display of foreign text.

Type on the screen may be larger than in files (a projector needs it): `type_px` says how large a length
that belongs to type is at this moment, and `paper_type` puts it back to 1 while a file is painted.

Control characters, bidirectional overrides, zero-width characters and characters that XML forbids
are shown as their code point, for instance `‹U+202E›`. The result is valid XML text once escaped.
In a token's label so is a letter that no font of this machine has, where others are told by a box each.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Literal, get_args

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF

from attnscope.figures.colours import ColourMap
from attnscope.records.sites import Scale
from attnscope.records.tokens import Token

SCALES: tuple[Scale, ...] = get_args(Scale)
Turn = Literal[0, 45, 90]
TURNS: tuple[Turn, ...] = (0, 45, 90)
SMALL_PX, NORMAL_PX, LARGE_PX = 11, 13, 18
LEAST_VALUE_PX = 7
"""The smallest digits of a weight in its cell: 4.5 pt in the column of a journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStyle:
    """How weights become colours: `fixed` 0…1, up to each `head`'s maximum, or up to each `row`'s.

    `show_values` writes the weight into cells that are large enough. Lines: none under `least_weight`, and
    the `n_strongest` of each query of a head (0: all). Token labels of keys turn by `turn` degrees (None: as
    there is room) and only every `label_every`-th is written (0: as many as there is room for). `has_bar`
    False leaves the colour bar out. `is_plain` leaves out the head's name above a map.
    `key_name` and `query_name` are what the columns and the rows are called; empty: see `axis_names`.
    `font` is the family of all type in a file; empty: the system's. `has_badge` tells of a self-check that
    found nothing wrong; what it found is always told. Without `has_special` special tokens have no rows and
    columns.
    """

    colour_map: ColourMap = "viridis"
    scale: Scale = "fixed"
    show_values: bool = False
    least_weight: float = 0.0
    n_strongest: int = 0
    turn: Turn | None = None
    label_every: int = 0
    has_bar: bool = True
    is_plain: bool = False
    key_name: str = ""
    query_name: str = ""
    font: str = ""
    has_badge: bool = False
    has_special: bool = True


class _Type:
    """The size of type relative to paper, and its family; empty: the system's."""

    factor = 1.0
    family = ""
    is_of_reader = False


def set_type_factor(factor: float) -> None:
    """Make type on the screen `factor` times as large as on paper, from the next painting on."""
    _Type.factor = min(max(factor, 0.5), 4.0)


def type_px(length_px: float) -> float:
    """A length that scales with type, such as the height of a row of text, at the current size."""
    return length_px * _Type.factor


@contextmanager
def type_at(factor: float, family: str = "", *, is_of_reader: bool = False) -> Iterator[None]:
    """Make type `factor` times as large as on paper in the block.

    Where it `is_of_reader`, as in a file that keeps its texts, letters stay that no font here has.
    """
    before = type_key()
    _Type.factor, _Type.family, _Type.is_of_reader = factor, family, is_of_reader
    try:
        yield
    finally:
        _Type.factor, _Type.family, _Type.is_of_reader = before


def paper_type(family: str = "", *, is_of_reader: bool = False) -> AbstractContextManager[None]:
    """Make type as on paper in the block, whatever the screen shows; see `type_at`."""
    return type_at(1.0, family, is_of_reader=is_of_reader)


def type_key() -> tuple[float, str, bool]:
    """Everything that labels and their widths depend on, as a cache key."""
    return _Type.factor, _Type.family, _Type.is_of_reader


def font(size_px: int = SMALL_PX, *, is_bold: bool = False, is_italic: bool = False) -> QFont:
    """The system's font at a size in pixels (see `type_px`), digits of equal width; the caller's own copy."""
    return QFont(_font(round(type_px(size_px)), is_bold, is_italic, _Type.family))


@lru_cache(maxsize=256)
def _font(height_px: int, is_bold: bool, is_italic: bool, family: str) -> QFont:
    """Cached by look: every label of every repaint asks for one."""
    result = QFont(family) if family else QFont()
    result.setPixelSize(height_px)
    result.setBold(is_bold)
    result.setItalic(is_italic)
    result.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    result.setFeature(QFont.Tag("tnum"), 1)
    return result


def value_text(value: float) -> str:
    """A number for a cell, with two decimals: `.25`, `1`, `10.25`, `−.25`."""
    text = f"{abs(value):.2f}"
    text = "1" if text == "1.00" else text.removeprefix("0")
    return f"−{text}" if value < 0 else text


def widest_value(peak: float) -> str:
    """The longest text of weights up to `peak`, which exceeds 1 if heads are summed."""
    return ".88" if peak < 1.005 else f"{peak:.2f}"


def value_px(cell_px: float, sample: str = ".88") -> int:
    """The size in pixels at which a weight as long as `sample` fits a cell; 0 if none is legible."""
    sizes = range(SMALL_PX, LEAST_VALUE_PX - 1, -1)
    return next((size for size in sizes if text_width(sample, size) + type_px(3) <= cell_px), 0)


def text_width(text: str, size_px: int = SMALL_PX, *, is_bold: bool = False) -> float:
    """Width in pixels of one line of text."""
    return _text_width(text, round(type_px(size_px)), is_bold, _Type.family)


@lru_cache(maxsize=4096)
def _text_width(text: str, height_px: int, is_bold: bool, family: str) -> float:
    return float(QFontMetricsF(_font(height_px, is_bold, False, family)).horizontalAdvance(text))


LINE_PX = 15.0
"""From one small line to the next."""


def wrapped(lines: Iterable[str], width: float, face: QFont | None = None) -> list[str]:
    """Lines broken at spaces to fit; a word that is too long is elided."""
    metrics = QFontMetricsF(face or font(SMALL_PX))
    result = []
    for line in lines:
        current = ""
        for word in line.split(" "):
            longer = f"{current} {word}" if current else word
            if current and metrics.horizontalAdvance(longer) > width:
                result.append(current)
                current = word
            else:
                current = longer
        result.append(current)
    return [metrics.elidedText(line, Qt.TextElideMode.ElideRight, width) for line in result]


_NAMED = {"\n": "↵", "\r": "‹CR›", "\t": "⇥", "\x00": "‹NUL›"}
_JOINERS = "\u200c\u200d"
_FIRST_STRONG_ISOLATE = "\u2068"
_POP_ISOLATE = "\u2069"
MAX_CHARACTERS = 28


def plain_piece(piece: str, *, max_characters: int = MAX_CHARACTERS) -> str:
    """One token's text, safe to draw: nothing invisible, nothing reversed, not too long.

    Spaces at the ends become `␣`; an empty piece becomes `∅`; a mark without a letter stands on `◌`.
    """
    if not piece:
        return "∅"
    core = piece.strip(" ")
    n_before = len(piece) - len(piece.lstrip(" ")) if core else len(piece)
    n_after = len(piece) - len(piece.rstrip(" ")) if core else 0
    text = "␣" * n_before + plain_text(core) + "␣" * n_after
    if unicodedata.combining(text[0]):
        text = "◌" + text
    return shorten(text, max_characters)


def drawn_piece(piece: str, *, max_characters: int = MAX_CHARACTERS) -> str:
    """`plain_piece` as readable here: a letter missing from all fonts is shown as its code point."""
    text = plain_piece(piece, max_characters=max_characters)
    if text.isascii() or _Type.is_of_reader:
        return text
    drawn = (c if _has_glyph(c, _Type.family) else f"‹U+{ord(c):04X}›" for c in text)
    return shorten("".join(drawn), max_characters)


@lru_cache(maxsize=4096)
def _has_glyph(character: str, family: str) -> bool:
    if unicodedata.category(character)[0] == "C" or "\ufe00" <= character <= "\ufe0f":
        return True  # joiners and choices of a variant are no letters
    face = QFontMetricsF(_font(SMALL_PX, False, False, family))
    return face.inFontUcs4(ord(character))


def plain_text(text: str) -> str:
    """Any text, safe to draw on one line; see `plain_piece`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, repeat(text), range(len(text))))


def shorten(text: str, max_characters: int) -> str:
    """The text with its middle replaced by `…` if it has more than `max_characters`."""
    if len(text) <= max_characters:
        return text
    n_head = (max_characters - 1 + 1) // 2
    return f"{text[:n_head]}…{text[len(text) - (max_characters - 1 - n_head) :]}"


_CACHED = re.compile(r"[/\\]models--([^/\\]+)[/\\]snapshots[/\\][0-9a-f]{40}$")


def short_path(text: str, max_characters: int) -> str:
    """A path without its first folders, `…/run/checkpoints/600`, if it is too long; names stay whole.

    A last name that is too long by itself is shortened in its middle. A model in the cache of Hugging Face's
    library is called by its name, `owner/name`.
    """
    if cached := _CACHED.search(text):
        text = cached[1].replace("--", "/", 1)
    if len(text) <= max_characters:
        return text
    separator = "\\" if "\\" in text and "/" not in text else "/"
    names = text.split(separator)
    for i in range(1, len(names)):
        rest = separator.join(["…", *names[i:]])
        if len(rest) <= max_characters:
            return rest
    return shorten(names[-1], max_characters)


def isolated(text: str) -> str:
    """The text in Unicode isolates, so that right-to-left letters do not reorder the text around it."""
    return f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"


def query_words(token: Token, *, is_isolated: bool = True) -> str:
    """A row in words: `“la”`, or `reading “la”, writing “zone”` if rows are named after what they
    generate.
    """
    name, read = (
        f"“{isolated(piece) if is_isolated else piece}”"
        for piece in map(plain_piece, (token.label, token.read))
    )
    return f"reading {read}, writing {name}" if token.read else name


def _visible(text: str, i: int) -> str:
    character = text[i]
    if character in _NAMED:
        return _NAMED[character]
    if " " <= character <= "~":
        return character
    category = unicodedata.category(character)
    if category == "Cs":
        return "\ufffd"
    is_joining = character in _JOINERS and 0 < i < len(text) - 1 and not text[i - 1].isspace()
    is_hidden = category in ("Cc", "Cf", "Zl", "Zp", "Cn", "Co") or (category == "Zs" and character != " ")
    if is_hidden and not is_joining:
        return f"‹U+{ord(character):04X}›"
    return character

"""Text from strangers made safe to draw: every invisible character becomes a visible name.

Control characters, bidirectional overrides, zero-width characters and characters that XML forbids
are shown as their code point, for instance `‹U+202E›`. The result is valid XML text once escaped.
"""

import re
import unicodedata
from itertools import repeat

from attnscope.records.tokens import Token

_NAMED = {"\n": "↵", "\r": "‹CR›", "\t": "⇥", "\x00": "‹NUL›"}
_JOINERS = "\u200c\u200d"
_FIRST_STRONG_ISOLATE = "\u2068"
_POP_ISOLATE = "\u2069"
MAX_CHARACTERS = 28


def plain_piece(piece: str, *, max_characters: int = MAX_CHARACTERS) -> str:
    """One token's text as it can be drawn: nothing invisible, nothing reversed, not too long.

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


def plain_text(text: str) -> str:
    """Any text as it can be drawn on one line; see `plain_piece`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, repeat(text), range(len(text))))


def shorten(text: str, max_characters: int) -> str:
    """The text with its middle replaced by `…` when it has more than `max_characters`."""
    if len(text) <= max_characters:
        return text
    n_head = (max_characters - 1 + 1) // 2
    return f"{text[:n_head]}…{text[len(text) - (max_characters - 1 - n_head) :]}"


_CACHED = re.compile(r"[/\\]models--([^/\\]+)[/\\]snapshots[/\\][0-9a-f]{40}$")


def short_path(text: str, max_characters: int) -> str:
    """A path without its first folders, `…/run/checkpoints/600`, when it is too long; no name is cut in two.

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
    """The text in Unicode isolates, so that right-to-left letters do not reorder what stands around it."""
    return f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"


def query_words(token: Token, *, is_isolated: bool = True) -> str:
    """A row in words: `“la”`, or `reading “la”, writing “zone”` where it is called after what it writes."""
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

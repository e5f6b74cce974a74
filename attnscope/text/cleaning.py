"""Making any text a person can paste safe to encode, and counting what was changed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CHARACTERS = 200_000
MAX_CHUNK_CHARACTERS = 4_000
"""Characters encoded in one go: at most 16 kB of UTF-8, because the library holds the interpreter."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD_START = re.compile(r"(?<=\S) (?=\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanText:
    """A text that can be encoded as UTF-8.

    `n_replaced` characters became U+FFFD (one for one, so offsets still fit the text as it was
    typed); `n_cut` characters were cut off the end.
    """

    text: str
    n_replaced: int = 0
    n_cut: int = 0


def clean_text(text: str, *, max_characters: int | None = MAX_CHARACTERS) -> CleanText:
    """Replace lone surrogates by U+FFFD and cut what goes beyond `max_characters`."""
    n_cut = 0
    if max_characters is not None and len(text) > max_characters:
        n_cut = len(text) - max_characters
        text = text[:max_characters]
    text, n_replaced = _LONE_SURROGATE.subn("�", text)
    return CleanText(text=text, n_replaced=n_replaced, n_cut=n_cut)


def chunks(text: str, *, max_characters: int = MAX_CHUNK_CHARACTERS) -> Iterator[tuple[int, str]]:
    """Cut a text into (offset, chunk), before a single space between two words where there is one.

    A chunk then begins with the space that belongs to its first word, so the tokens are those of the
    whole text; only a single word longer than a chunk is cut inside.
    """
    start = 0
    while len(text) - start > max_characters:
        end = start + max_characters
        for match in _WORD_START.finditer(text, start + max_characters // 2, end + 1):
            if match.start() < start + max_characters:
                end = match.start()
        yield start, text[start:end]
        start = end
    if start < len(text):
        yield start, text[start:]

"""Tokens as people read them: from a vocabulary entry to a piece without Ġ, ▁, ## or broken UTF-8.

Byte-level vocabularies write bytes in the alphabet of GPT-2 (`schemes/tokenizers/kind.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.schemes.tokenizers.kind import byte_alphabet

METASPACE = "\u2581"
_BYTE_ENTRY = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """How a vocabulary writes what it means: bytes as letters, spaces as ▁, parts of words with a mark."""

    is_byte_level: bool = False
    has_metaspace: bool = False
    has_byte_entries: bool = False
    part_prefix: str = ""
    word_suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceReading:
    """What one vocabulary entry stands for: its bytes, and whether it is marked as part of a word."""

    data: bytes
    is_part: bool = False

    @property
    def text(self) -> str | None:
        """The text, or None when the bytes are only part of a character."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None


_BYTES = byte_alphabet()


def read_entry(entry: str, notation: Notation) -> PieceReading:
    match = _BYTE_ENTRY.fullmatch(entry) if notation.has_byte_entries else None
    if match is not None:
        return PieceReading(data=bytes([int(match[1], 16)]), is_part=True)
    if notation.is_byte_level and all(letter in _BYTES for letter in entry):
        data = bytes(_BYTES[letter] for letter in entry)
        return PieceReading(data=data, is_part=not data.startswith(b" "))
    if notation.has_metaspace:
        is_part = not entry.startswith(METASPACE)
        return PieceReading(data=_encoded(entry.replace(METASPACE, " ")), is_part=is_part)
    is_part = bool(notation.part_prefix) and entry.startswith(notation.part_prefix)
    if is_part and len(entry) > len(notation.part_prefix):
        entry = entry.removeprefix(notation.part_prefix)
    if notation.word_suffix and len(entry) > len(notation.word_suffix):
        entry = entry.removesuffix(notation.word_suffix)
    return PieceReading(data=_encoded(entry), is_part=is_part)


def _encoded(entry: str) -> bytes:
    return entry.encode("utf-8", "replace")


def piece_of(reading: PieceReading) -> str:
    """The piece of one entry standing alone; bytes that are part of a character are written ⟨E2⟩."""
    text = reading.text
    return visible(text) if text is not None else split_pieces([reading.data])[0]


def visible(text: str) -> str:
    """Drop the space before a word (the token record says it otherwise) and show other blanks as signs."""
    if text[:1] == " " and text.strip():
        text = text[1:]
    return text.translate(_BLANKS) if text.strip() == "" else text.translate(_BLANKS | {ord(" "): " "})


def with_visible_blanks(text: str) -> str:
    """Every blank as a sign, spaces too."""
    return text.translate(_BLANKS)


def shown_piece(reading: PieceReading, *, is_special: bool = False) -> str:
    """An entry with every blank visible, the space before a word too; bytes of no character as ⟨E2⟩."""
    text = reading.text
    if text is None:
        return split_pieces([reading.data])[0]
    return text if is_special else with_visible_blanks(text)


def split_pieces(parts: Sequence[bytes]) -> list[str]:
    """Pieces for neighbouring tokens that share characters between them.

    A character spread over n tokens is written é⟨1/n⟩ … é⟨n/n⟩; bytes that complete no character ⟨E2⟩.
    """
    owners = [token for token, part in enumerate(parts) for _ in part]
    data = b"".join(parts)
    pieces = [""] * len(parts)
    position = 0
    while position < len(data):
        length = _character_length(data, position)
        if length == 0:
            pieces[owners[position]] += f"⟨{data[position]:02X}⟩"
            position += 1
            continue
        character = data[position : position + length].decode()
        tokens = sorted(set(owners[position : position + length]))
        for n, token in enumerate(tokens, start=1):
            pieces[token] += character if len(tokens) == 1 else f"{character}⟨{n}/{len(tokens)}⟩"
        position += length
    return [visible(piece) for piece in pieces]


def _character_length(data: bytes, position: int) -> int:
    """Bytes of the character that begins at `position`, 0 when none does."""
    for length in range(1, 5):
        try:
            data[position : position + length].decode()
        except UnicodeDecodeError:
            continue
        return length
    return 0


def is_of_word(character: str) -> bool:
    """Whether a piece that begins or ends so is in a word there: letters, digits, bytes of a letter."""
    return character.isalnum() or (character != "" and character in "⟨⟩")

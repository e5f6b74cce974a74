"""One vocabulary: what each id stands for, which ids are special, and ids back to text with their places.

Sentinels: the numbered special tokens that stand for hidden spans, <extra_0>, <extra_1>, …

A text with spans hidden and what was hidden are two texts (Raffel et al. 2020, figure 2):

    Thank you <extra_0> me to your party <extra_1> week
    <extra_0> for inviting <extra_1> last
"""

import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import pairwise

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import UserError
from attnscope.records.tokens import Token, own_letters
from attnscope.schemes.tokenizers import KINDS, SPECIALS
from attnscope.text.guarding import library_errors, without_panic_words
from attnscope.text.inspection import (
    check_vocabulary,
    notation_of,
    require_no_growth,
    special_ids,
    tokenizer_kind,
)
from attnscope.text.pieces import Notation, PieceReading, piece_of, read_entry, split_pieces

_NAME = re.compile(r"<extra_(\d{1,4})>")


def sentinel(number: int) -> str:
    return f"<extra_{number}>"


def sentinel_ids(library: LibraryTokenizer) -> dict[str, int]:
    """Literal and id of each sentinel that a tokenizer has, in the order of their numbers."""
    added = {token.content: id for id, token in library.get_added_tokens_decoder().items() if token.special}
    named = {name: id for name, id in added.items() if _NAME.fullmatch(name)}
    return dict(sorted(named.items(), key=lambda entry: int(entry[0][7:-1])))


def is_sentinel(piece: str) -> bool:
    return _NAME.fullmatch(piece) is not None


def spans_of(ids: Sequence[int], sentinels: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Sentinel and what stands behind it, for each sentinel of a text of hidden spans."""
    known = frozenset(sentinels)
    starts = [i for i, id in enumerate(ids) if id in known]
    return [(ids[a], tuple(ids[a + 1 : b])) for a, b in pairwise([*starts, len(ids)])]


_MOST_BYTES, NO_CHARACTER = 4, "\ufffd"
"""The most bytes of a character in UTF-8, and what stands for bytes that are none."""


def decode_begun(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> str:
    """The text of ids that may end within a character: as far as its last whole one."""
    for n_left_out in range(min(_MOST_BYTES, len(ids))):
        text = decode(ids[: len(ids) - n_left_out])
        if not text.endswith(NO_CHARACTER):
            return text
    return decode(ids)


_JOINS_BEFORE = re.compile(r"[.,;:!?…]+|n't|'(?:s|m|re|ve|ll|d)")
_JOINS_AFTER = re.compile(r"(?i:[ldnjscmt]|qu|lorsqu|puisqu|jusqu)'")


class Vocabulary:
    """The entries of a tokenizer as people read them."""

    def __init__(self, library: LibraryTokenizer) -> None:
        """Look into a tokenizer; raises LoadError when its ids are not sane."""
        require_no_growth(library)
        self._library = library
        self.kind: str = tokenizer_kind(library)
        self.size: int = check_vocabulary(library)
        self.roles, self.specials = special_ids(library)
        self.sentinels = sentinel_ids(library)
        self._visible = frozenset((*self.sentinels.values(), self.roles.get("unknown", -1)))
        self._notation = notation_of(library)
        self._readings: dict[int, PieceReading] = {}
        self._pieces: dict[int, str] = {}
        self._alone: dict[tuple[int, bool], Token] = {}
        self.words: tuple[str, ...] = ()
        """Words that only one text has: their ids follow those of the entries."""
        self.keeps: object = None
        """What is to live as long as these entries."""

    def with_words(self, words: Sequence[str]) -> "Vocabulary":
        """The same entries, and words of a text that have none."""
        longer = copy(self)
        longer.words = tuple(words)
        longer._readings, longer._pieces, longer._alone = {}, {}, {}  # ids of words are of this text alone
        return longer

    @property
    def library(self) -> LibraryTokenizer:
        return self._library

    @property
    def notation(self) -> Notation:
        return self._notation

    def role(self, role: str) -> int:
        """The id for a role; raises UserError when there is none."""
        if role not in self.roles:
            raise UserError(
                f"The tokenizer has no {role} token.",
                expected=f"a vocabulary with a special token such as {SPECIALS[0]}",
                action="Load a model whose tokenizer has one.",
            )
        return self.roles[role]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """One piece for each id; characters spread over several tokens are put together."""
        pieces: list[str] = []
        run: list[bytes] = []
        for id in ids:
            reading = self.reading(id)
            if reading.text is None or (reading.is_part and self._notation.has_byte_entries and run):
                run.append(reading.data)
                continue
            pieces.extend(split_pieces(run))
            run = []
            pieces.append(self._piece(id, reading))
        return pieces + split_pieces(run)

    def token(self, id: int) -> Token:
        """One token of the vocabulary, as it reads standing alone.

        An id beyond the vocabulary (a model may have more outputs) reads ⟨id 50300⟩.
        """
        if self.words and id >= self.size:
            return self._token(id, False)
        is_special = id in self.specials
        token = self._alone.get((id, is_special))
        if token is None:
            token = self._alone[id, is_special] = self._token(id, is_special)
        return token

    def _token(self, id: int, is_special: bool) -> Token:
        reading = self.reading(id)
        joins = reading.is_part or KINDS[self.kind].has_space_tokens
        if self.kind == "words":
            joins = _JOINS_BEFORE.fullmatch(reading.text or "") is not None
        return Token(
            id=id,
            piece=self._piece(id, reading),
            is_special=is_special,
            joins_previous=joins and not is_special,
        )

    def _piece(self, id: int, reading: PieceReading) -> str:
        piece = self._pieces.get(id)
        if piece is None:
            is_shown_whole = id in self.specials or not 0 <= id < self.size
            piece = self._pieces[id] = (reading.text or "") if is_shown_whole else piece_of(reading)
        return piece

    def reading(self, id: int) -> PieceReading:
        if self.words and 0 <= id - self.size < len(self.words):
            return PieceReading(data=self.words[id - self.size].encode("utf-8", "replace"))
        reading = self._readings.get(id)
        if reading is None:
            entry = self._library.id_to_token(id) if 0 <= id < self.size else None
            if entry is None:
                reading = PieceReading(data=f"⟨id {id}⟩".encode())
            elif id in self.specials:
                reading = PieceReading(data=entry.encode("utf-8", "replace"))
            else:
                reading = read_entry(entry, self._notation)
            self._readings[id] = reading
        return reading

    def decode(self, ids: Iterable[int]) -> str:
        """The text the ids stand for; of special tokens only unknown ones and sentinels stay visible."""
        kept = [
            id
            for id in map(int, ids)
            if 0 <= id < self.size + len(self.words) and (id not in self.specials or id in self._visible)
        ]
        if self.kind == "words":
            return self._join_words(kept)
        failed, action = "The tokenizer cannot write these tokens as text", "Load another tokenizer."
        with library_errors(failed, action=action), without_panic_words():
            return self._library.decode(kept, skip_special_tokens=False)

    def _join_words(self, ids: Sequence[int]) -> str:
        text = ""
        glue = ""
        for id in ids:
            word = self.reading(id).text or ""
            text += word if _JOINS_BEFORE.fullmatch(word) else glue + word
            glue = "" if _JOINS_AFTER.fullmatch(word) else " "
        return text


Entry = tuple[int, int, int]
"""Id, start and end of one token in the text."""


def place_tokens(text: str, entries: Sequence[Entry], vocabulary: Vocabulary) -> list[Token]:
    """One token for each entry; blanks before a word are left out of its place.

    `joins_previous` says that a token continues the word of the one before. A token of blanks begins a
    word, which the token right after it continues, as in vocabularies whose pieces begin with the space.
    """
    pieces = vocabulary.pieces([entry[0] for entry in entries])
    tokens: list[Token] = []
    previous_end = 0
    for (id, start, end), piece in zip(entries, pieces, strict=True):
        if vocabulary.reading(id).data == b" " and not text[start:end].isspace():
            end = start  # the space that some vocabularies put before the first word
        begins_blank = text[start : start + 1].isspace()
        first = start
        while first < end and text[first].isspace():
            first += 1
        is_blank = first == end
        is_after_blank = previous_end > 0 and text[previous_end - 1].isspace()
        has_gap = start > previous_end or (begins_blank and not (is_blank and is_after_blank))
        is_special = id in vocabulary.specials
        tokens.append(
            Token(
                id=id,
                piece=piece,
                is_special=is_special,
                joins_previous=bool(tokens) and not has_gap,
                start=start if is_blank else first,
                end=end,
                own=own_letters(text, piece, first, end) if is_special else "",
            )
        )
        previous_end = max(previous_end, end)
    return tokens

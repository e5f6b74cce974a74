"""One vocabulary: the meaning of each id, the special ids, and ids back to text.

Sentinels: the numbered special tokens that stand for hidden spans, <extra_0>, <extra_1>, …

A text with spans hidden and what was hidden are two texts (Raffel et al. 2020, figure 2):

    Thank you <extra_0> me to your party <extra_1> week
    <extra_0> for inviting <extra_1> last

What kind of tokenizer a file holds, and whether it can be used; our own files and foreign ones.

How much longer a tokenizer's own rules can make a text: what grows without measure is refused at opening.

Each rule is asked how many characters one character can become of, from the last rule to the first. A rule
that replaces `p` by `q` gives each character of `p` its share of what `q` becomes; one that may match
anywhere adds what `q` becomes to every character and to the end. The true growth is never more than that.

Tokens as people read them: from a vocabulary entry to a piece without Ġ, ▁, ## or broken UTF-8.

Byte-level vocabularies write bytes in the alphabet of GPT-2 (`schemes/tokenizers/kind.py`).
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from attnscope.errors import LoadError, UserError
from attnscope.outside import read_outside_text
from attnscope.records.tokens import Token, own_letters
from attnscope.schemes.tokenizers import KINDS, SPECIALS
from attnscope.schemes.tokenizers.kind import byte_alphabet, model_name, said_of
from attnscope.text.safety import library_errors, without_panic_words

METASPACE = "\u2581"
_BYTE_ENTRY = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\r": "␍", "\t": "⇥"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """A vocabulary's notation: bytes as letters, spaces as ▁, parts of words with a mark."""

    is_byte_level: bool = False
    has_metaspace: bool = False
    has_byte_entries: bool = False
    part_prefix: str = ""
    word_suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceReading:
    """One vocabulary entry: its bytes, and whether it is marked as part of a word."""

    data: bytes
    is_part: bool = False

    @property
    def text(self) -> str | None:
        """The text, or None if the bytes are only part of a character."""
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
    """The piece of one entry by itself; bytes that are part of a character are written ⟨E2⟩."""
    text = reading.text
    return visible(text) if text is not None else split_pieces([reading.data])[0]


def visible(text: str) -> str:
    """Drop the space before a word (the token record has it) and show other blanks as signs."""
    if text[:1] == " " and text.strip():
        text = text[1:]
    return text.translate(_BLANKS) if text.strip() == "" else text.translate(_BLANKS | {ord(" "): " "})


def with_visible_blanks(text: str) -> str:
    """Every blank as a sign, spaces too."""
    return text.translate(_BLANKS)


def shown_piece(reading: PieceReading, *, is_special: bool = False) -> str:
    """An entry with every blank visible, the space before a word too; incomplete bytes as ⟨E2⟩."""
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
    """Whether a piece with this beginning or end is in a word there: letters, digits, bytes of a letter."""
    return character.isalnum() or (character != "" and character in "⟨⟩")


MOST = 128.0
"""Characters that one character may become."""
MOST_TOKENS = 64
"""Tokens that one character may become, beside those of a short text."""
_MOST_COPIES = 4
_MAX_ENTRY = 10_000
_SHORT = 10_000
_FACTORS = {"ByteLevel": 4.0, "BertNormalizer": 3.0}
_REPLACING = ("Replace", "Prepend")
_OTHER_TOKENIZER = "Load another tokenizer, or remove the rule that grows from its file."


def require_no_growth(library: LibraryTokenizer) -> None:
    """Raise LoadError for a tokenizer that could make a short text fill the memory."""
    steps = _parts(library.normalizer, "normalizers") + _parts(library.pre_tokenizer, "pretokenizers")
    growth = max(growth_of(steps), growth_of(_parts(library.decoder, "decoders")))
    if growth > MOST:
        raise _refused(f"Its rules can make one character into {growth:.3g}", f"at most {MOST:g}")
    copies = _copies(_parts(library.post_processor, "processors"))
    if copies > _MOST_COPIES:
        raise _refused(f"Its template repeats a text {copies:.3g} times", "once")


def require_sane_piece(piece: str) -> None:
    """Raise LoadError for an absurdly long piece of a vocabulary."""
    if len(piece) > _MAX_ENTRY:
        raise _refused(f"One of its pieces has {len(piece):,} characters", f"at most {_MAX_ENTRY:,}")


def require_sane_count(n_tokens: int, n_characters: int) -> None:
    """Raise LoadError if a text of some characters has become far more tokens."""
    if n_tokens > MOST_TOKENS * n_characters + _SHORT:
        raise _refused(f"It makes {n_tokens:,} tokens of {n_characters:,} characters", "no more than letters")


def growth_of(steps: Sequence[dict[str, Any]]) -> float:
    """Maximum number of characters that one can become, through all the steps."""
    own: dict[str, float] = {}
    other = 1.0
    for step in reversed(steps):
        kind = str(step.get("type"))
        if kind in _REPLACING:
            pattern = step.get("pattern", {})
            literal = pattern.get("String") if isinstance(pattern, dict) else None
            content = str(step.get("content", step.get("prepend", "")))
            becomes = sum(own.get(letter, other) for letter in content)
            if literal:
                for letter in set(literal):
                    own[letter] = max(own.get(letter, other), becomes / len(literal))
            else:
                other += becomes
                own = {letter: value + becomes for letter, value in own.items()}
        elif (factor := _factor(kind, step)) > 1.0:
            other = factor * max(other, *own.values()) if own else factor * other
            own = {}
        if max(other, *own.values(), 0.0) > 1e30:
            return 1e30
    return max(other, *own.values(), 0.0)


def _factor(kind: str, step: dict[str, Any]) -> float:
    if kind != "Precompiled":
        return _FACTORS.get(kind, 1.0)
    try:
        table = base64.b64decode(str(step.get("precompiled_charsmap") or ""))
    except (binascii.Error, ValueError):
        return 1.0
    n_trie = int.from_bytes(table[:4], "little")
    words = table[4 + n_trie :].split(b"\0")
    return float(max(len(word.decode(errors="replace")) for word in words))


def _copies(steps: Sequence[dict[str, Any]]) -> float:
    """Number of copies of a text in the template's output."""
    copies = 1.0
    for step in steps:
        copies *= _repeats(step)
        if copies > 1e30:
            return copies
    return copies


def _repeats(step: dict[str, Any]) -> int:
    counts = []
    for name in ("single", "pair"):
        ids = [piece["Sequence"]["id"] for piece in step.get(name) or () if "Sequence" in piece]
        counts += [ids.count(id) for id in set(ids)]
    return max(counts, default=1)


def _parts(component: Any, inner: str) -> list[dict[str, Any]]:
    """The steps of a library component, with nested sequences flattened."""
    if component is None:
        return []
    found: list[dict[str, Any]] = []
    waiting = [json.loads(component.__getstate__())]
    while waiting:
        step = waiting.pop()
        if not isinstance(step, dict):
            continue
        if step.get("type") == "Sequence":
            waiting += reversed(step.get(inner) or ())
        else:
            found.append(step)
    return found


def _refused(happened: str, expected: str) -> LoadError:
    return LoadError(f"{happened}.", kind="tokenizer", expected=expected, action=_OTHER_TOKENIZER)


TOKENIZER_FILE = "tokenizer.json"
_MAX_BYTES = 64 * 2**20
_MAX_ID = 2**24
_ACTION = "Load another tokenizer."
_ROLES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unknown": ("<unk>", "[UNK]"),
    "begin": ("<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}


def read_tokenizer_file(path: Path) -> str:
    """The content of a tokenizer file; raises LoadError unless it is a readable UTF-8 file of sane size."""
    return read_outside_text(
        path,
        expected=f"a file {TOKENIZER_FILE}",
        max_bytes=_MAX_BYTES,
        what=f"The tokenizer {path}",
        action="Choose the folder that was saved with the model.",
    )


def tokenizer_kind(library: LibraryTokenizer) -> str:
    """The kind of a tokenizer: one of ours, whatever its origin."""
    for kind in reversed(KINDS.values()):  # those that only some tokenizers of a model are come last
        if kind.is_kind_of(library):
            return kind.name
    raise LoadError(f"Its model {model_name(library)} is unknown.", kind="tokenizer", action=_ACTION)


def notation_of(library: LibraryTokenizer) -> Notation:
    """A tokenizer's notation of bytes, spaces and parts of words."""
    model: Any = library.model
    state = said_of(library.pre_tokenizer) + said_of(library.decoder) + said_of(library.normalizer)
    prefix = getattr(model, "continuing_subword_prefix", None) or ""
    suffix = getattr(model, "end_of_word_suffix", None) or ""
    return Notation(
        is_byte_level='"ByteLevel"' in state,
        has_metaspace=METASPACE in state,
        has_byte_entries='"ByteFallback"' in state,
        part_prefix=prefix,
        word_suffix=suffix,
    )


def check_vocabulary(library: LibraryTokenizer) -> int:
    """The size of the vocabulary (highest id + 1); raises LoadError if its ids or pieces are invalid.

    Ids are asked for one by one: all at once, 250,000 pieces hold the interpreter for a second, and with it
    the window.
    """
    model: Any = library.model
    added = library.get_added_tokens_decoder().values()  # to count with them, the library lists everything
    n_added = len({token.content for token in added if model.token_to_id(token.content) is None})
    highest = _highest_of_all(library, library.get_vocab_size(with_added_tokens=False) + n_added)
    return highest + 1 if highest >= 0 else _looked_through(library)


def _highest_of_all(library: LibraryTokenizer, n_pieces: int) -> int:
    """The highest id if there are `n_pieces` different ones without large gaps, else −1."""
    n_left = n_pieces
    for id in range(min(2 * n_pieces + 1001, _MAX_ID)):
        piece = library.id_to_token(id)
        if n_left and piece is not None:
            require_sane_piece(piece)
            n_left -= 1
            if not n_left:
                return id
    return -1


def _looked_through(library: LibraryTokenizer) -> int:
    """The same from the whole vocabulary, with a report of any fault."""
    vocabulary = library.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise LoadError(
            "Its vocabulary is empty.", kind="tokenizer", expected="at least one piece", action=_ACTION
        )
    for piece in vocabulary:
        require_sane_piece(piece)
    highest = max(vocabulary.values())
    if highest >= _MAX_ID or highest > 2 * len(vocabulary) + 1000:
        raise LoadError(
            f"Its highest id is {highest}, though it has {len(vocabulary)} pieces.",
            kind="tokenizer",
            expected="ids from 0 on without large gaps",
            action=_ACTION,
        )
    if len(set(vocabulary.values())) != len(vocabulary):
        raise LoadError("Two of its pieces have the same id.", kind="tokenizer", action=_ACTION)
    return highest + 1


def special_ids(library: LibraryTokenizer) -> tuple[dict[str, int], frozenset[int]]:
    """Ids by role (`pad`, `unknown`, `begin`, `end`, `mask`; only existing ones), and all special ids."""
    roles: dict[str, int] = {}
    for role, names in _ROLES.items():
        ids = [id for name in names if (id := library.token_to_id(name)) is not None]
        if ids:
            roles[role] = ids[0]
    added = {id for id, token in library.get_added_tokens_decoder().items() if token.special}
    return roles, frozenset(added | set(roles.values()))


_NAME = re.compile(r"<extra_(\d{1,4})>")


def sentinel(number: int) -> str:
    return f"<extra_{number}>"


def sentinel_ids(library: LibraryTokenizer) -> dict[str, int]:
    """Literal and id of each sentinel of a tokenizer, in the order of their numbers."""
    added = {token.content: id for id, token in library.get_added_tokens_decoder().items() if token.special}
    named = {name: id for name, id in added.items() if _NAME.fullmatch(name)}
    return dict(sorted(named.items(), key=lambda entry: int(entry[0][7:-1])))


def is_sentinel(piece: str) -> bool:
    return _NAME.fullmatch(piece) is not None


def spans_of(ids: Sequence[int], sentinels: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Sentinel and following text, for each sentinel of a text of hidden spans."""
    known = frozenset(sentinels)
    starts = [i for i, id in enumerate(ids) if id in known]
    return [(ids[a], tuple(ids[a + 1 : b])) for a, b in pairwise([*starts, len(ids)])]


_MOST_BYTES, NO_CHARACTER = 4, "\ufffd"
"""The most bytes of a character in UTF-8, and what stands for bytes that are none."""


def decode_begun(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> str:
    """The text of ids that may end within a character: up to its last whole one."""
    for n_left_out in range(min(_MOST_BYTES, len(ids))):
        text = decode(ids[: len(ids) - n_left_out])
        if not text.endswith(NO_CHARACTER):
            return text
    return decode(ids)


_JOINS_BEFORE = re.compile(r"[.,;:!?…]+|n't|'(?:s|m|re|ve|ll|d)")
_JOINS_AFTER = re.compile(r"(?i:[ldnjscmt]|qu|lorsqu|puisqu|jusqu)'")


class Vocabulary:
    """The readable entries of a tokenizer."""

    def __init__(self, library: LibraryTokenizer) -> None:
        """Read a tokenizer; raises LoadError if its ids are invalid."""
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
        """The id for a role; raises UserError if there is none."""
        if role not in self.roles:
            raise UserError(
                f"The tokenizer has no {role} token.",
                expected=f"a vocabulary with a special token such as {SPECIALS[0]}",
                action="Load a model whose tokenizer has one.",
            )
        return self.roles[role]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """One piece for each id; characters spread over several tokens are joined."""
        pieces: list[str] = []
        run: list[bytes] = []
        for id in ids:
            reading = self.reading(id)
            if reading.text is None or (reading.is_part and self._notation.has_byte_entries and run):
                run.append(reading.data)
                continue
            if run:
                pieces.extend(split_pieces(run))
                run = []
            pieces.append(self._piece(id, reading))
        return pieces + split_pieces(run)

    def token(self, id: int) -> Token:
        """One token of the vocabulary, as it reads by itself.

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
        if KINDS[self.kind].is_of_words:
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
        """The text of the ids; of special tokens only unknown ones and sentinels stay visible."""
        kept = [
            id
            for id in map(int, ids)
            if 0 <= id < self.size + len(self.words) and (id not in self.specials or id in self._visible)
        ]
        if KINDS[self.kind].is_of_words:
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
    """One token for each entry; blanks before a word are not part of its position.

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

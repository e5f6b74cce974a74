"""Tokenizers as tables: a vocabulary, searches in it and single entries in detail; several kinds and sizes,
trained on one text and measured on it. For the meaning of the numbers see `records.tokenizers`.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, normalizers

from attnscope.errors import LoadError, UserError
from attnscope.records.tokenizers import (
    MAX_QUERY,
    PIECE_KINDS,
    ComparedText,
    FindPieces,
    PieceDetail,
    PieceKind,
    SplitStep,
    SplitWord,
    TokenizerRow,
    VocabularyTable,
)
from attnscope.schemes.tokenizers import KINDS
from attnscope.text.replay import Splitter, how_made
from attnscope.text.safety import without_panic_words
from attnscope.text.tokenizer import Tokenizer, train_tokenizer
from attnscope.text.vocabulary import PieceReading, Vocabulary, read_entry, shown_piece, with_visible_blanks

_PIECES_AT_ONCE = 4_096
_SORTED_CHARACTERS = 24
_MARK = "\ue000"
_MAX_IDS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedVocabulary:
    """A table, and its pieces as searched: as shown, and in lower case."""

    table: VocabularyTable
    pieces: tuple[str, ...]
    folded: tuple[str, ...]


def build_table(splitter: Splitter, name: str) -> Iterator[float | SearchedVocabulary]:
    """Yield the share read (0…1) after every few thousand pieces; the whole table, last."""
    entries = splitter.entries
    named = {id: entry for entry, id in entries.library.get_vocab(with_added_tokens=True).items()}
    size = entries.size
    scores = _scores(splitter, named, size)
    pieces: list[str] = []
    kinds, lengths = np.zeros(size, np.uint8), np.zeros(size, np.int32)
    for id in range(size):
        kind, reading = _read(entries, id, named.get(id))
        pieces.append(shown_piece(reading, is_special=kind == "special"))
        kinds[id] = PIECE_KINDS.index(kind)
        lengths[id] = len(reading.data) if reading.text is None else len(reading.text)
        if id % _PIECES_AT_ONCE == _PIECES_AT_ONCE - 1:
            yield id / size
    # Sorted as arrays of characters: a list of strings would hold the interpreter for a good while.
    order = np.argsort(np.array(pieces, dtype=f"<U{_SORTED_CHARACTERS}"), kind="stable")
    alphabet = np.empty(size, np.int32)
    alphabet[order] = np.arange(size, dtype=np.int32)
    yield 1.0
    table = VocabularyTable(
        name=name,
        kind=entries.kind,
        text="".join(pieces),
        ends=np.cumsum([len(piece) for piece in pieces], dtype=np.int32),
        kinds=kinds,
        lengths=lengths,
        scores=scores,
        alphabet=alphabet,
        score_name=splitter.score_name,
    )
    yield SearchedVocabulary(
        table=table, pieces=tuple(pieces), folded=tuple(piece.casefold() for piece in pieces)
    )


def find_pieces(searched: SearchedVocabulary, wish: FindPieces) -> tuple[NDArray[np.int32], str]:
    """Matching ids, in order, and a note on what was not understood.

    Regular expressions are Oniguruma's, which gives up on one that takes too long. Raises UserError.
    """
    if wish.mode == "id":
        return _listed_ids(wish.query, len(searched.table))
    table, query, note = searched.table, wish.query[:MAX_QUERY], ""
    fits = np.ones(len(table), np.bool_)
    if query and wish.mode == "regex":
        fits = _matching(query, searched.pieces)
    elif query:
        needle = with_visible_blanks(query).casefold()
        fits = np.fromiter((needle in piece for piece in searched.folded), np.bool_, len(table))
    if wish.kinds:
        fits &= np.isin(table.kinds, [PIECE_KINDS.index(kind) for kind in wish.kinds])
    keys: dict[str, NDArray[np.generic]] = {
        "piece": table.alphabet,
        "kind": table.kinds,
        "length": table.lengths,
        "score": table.scores,
    }
    found = np.flatnonzero(fits).astype(np.int32)
    key = keys.get(wish.sort)
    if key is None:
        return (found[::-1] if wish.is_descending else found), note
    values = key[found].astype(np.float64)
    order = np.argsort(-values if wish.is_descending else values, kind="stable")  # NaN stands last both ways
    return found[order], note


def describe_piece(
    splitter: Splitter, id: int, nearest: tuple[tuple[int, str, float], ...] = ()
) -> PieceDetail:
    entries = splitter.entries
    entry = entries.library.id_to_token(id) if 0 <= id < entries.size else None
    if not 0 <= id < entries.size:
        raise UserError(
            f"There is no id {id}.", expected=f"an id below {entries.size}", action="Choose another."
        )
    kind, reading = _read(entries, id, entry)
    text = reading.text
    return PieceDetail(
        id=id,
        piece=shown_piece(reading, is_special=kind == "special"),
        kind=kind,
        entry=entry or "",
        data=reading.data,
        characters=tuple(
            (letter, f"U+{ord(letter):04X} {unicodedata.name(letter, 'no name').lower()}")
            for letter in (text or "")[:24]
        ),
        merges=_steps(splitter, entry) if entry and kind != "special" else (),
        nearest=nearest,
    )


def _read(entries: Vocabulary, id: int, entry: str | None) -> tuple[PieceKind, PieceReading]:
    if entry is None:
        return "unused", PieceReading(data=f"⟨id {id}⟩".encode())
    if id in entries.specials:
        return "special", PieceReading(data=entry.encode("utf-8", "replace"))
    reading = read_entry(entry, entries.notation)
    is_byte = reading.text is None or (entries.notation.has_byte_entries and entry.startswith("<0x"))
    if is_byte:
        return "byte", reading
    is_part = reading.is_part or KINDS[entries.kind].has_space_tokens
    return "continuation" if is_part else "word start", reading


def _scores(splitter: Splitter, named: dict[int, str], size: int) -> NDArray[np.float32]:
    """The rank of the first merge that makes each piece, or its log-probability."""
    scores = np.full(size, np.nan, np.float32)
    ids = {entry: id for id, entry in named.items()}
    for (left, right), rank in splitter.bpe.ranks.items():
        id = ids.get(splitter.bpe.joined(left, right))
        if id is not None and np.isnan(scores[id]):
            scores[id] = rank
    for entry, score in splitter.unigram.scores.items():
        if entry in ids:
            scores[ids[entry]] = score
    return scores


def _matching(pattern: str, pieces: Sequence[str]) -> NDArray[np.bool_]:
    try:
        search = normalizers.Replace(Regex(pattern), _MARK)
    except Exception as error:
        raise UserError(
            f"The regular expression is not understood: {' '.join(str(error).split())[:120]}.",
            expected="one such as ing$",
            action="Correct it, or turn regular expressions off.",
        ) from error
    try:
        with without_panic_words():
            found = (search.normalize_str(piece) != piece for piece in pieces)
            return np.fromiter(found, np.bool_, len(pieces))
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library: PanicException cannot be imported
        raise UserError(
            "The regular expression takes too long.",
            expected="one without repeats inside repeats",
            action="Write it differently.",
        ) from error


def _listed_ids(query: str, size: int) -> tuple[NDArray[np.int32], str]:
    """The ids typed by a user, in order; invalid ones are reported."""
    words = query.replace(",", " ").replace(";", " ").split()[:_MAX_IDS]
    good = [int(word) for word in words if word.isascii() and word.isdecimal() and int(word[:9]) < size]
    bad = [word for word in words if not (word.isascii() and word.isdecimal() and int(word[:9]) < size)]
    note = f"no id: {', '.join(bad[:6])}{' …' if len(bad) > 6 else ''}" if bad else ""
    if not words:
        return np.arange(size, dtype=np.int32), ""
    return np.array(good, np.int32), note


def _steps(splitter: Splitter, entry: str) -> tuple[SplitStep, ...]:
    """The merges from letters to the entry; empty if there are none."""
    read = splitter.read
    return tuple(
        SplitStep(
            words=tuple(SplitWord(pieces=tuple(map(read, word)), ids=()) for word in merge.words),
            left=read(merge.left),
            right=read(merge.right),
            made=read(splitter.bpe.joined(merge.left, merge.right)),
            rank=merge.rank,
        )
        for merge in how_made(splitter.bpe, entry)
    )


HELD_OUT_SHARE = 0.2
_LINES_AT_ONCE = 64
_LONGEST_LINE = 2_000


def full_lines(text: str) -> list[str]:
    """The non-blank lines of a text; long ones are cut at spaces."""
    found: list[str] = []
    for line in text.split("\n"):
        while len(line) > _LONGEST_LINE:
            cut = line.rfind(" ", 1, _LONGEST_LINE)
            cut = cut if cut > 0 else _LONGEST_LINE
            found.append(line[:cut])
            line = line[cut:].lstrip(" ")
        found.append(line)
    return [line for line in found if line.strip()]


def parts_of(lines: Sequence[str], *, is_held_out: bool) -> tuple[list[str], list[str]]:
    """The lines to train on, and those to measure: the last fifth of the characters, or the same.

    A text of one line is cut at a space. Raises LoadError for a text without words.
    """
    if not any(line.strip() for line in lines):
        raise LoadError(
            "There is no text to compare tokenizers on.", kind="empty", action="Paste some, or open a file."
        )
    if not is_held_out:
        return list(lines), list(lines)
    if len(lines) == 1:
        words = lines[0].split(" ")
        cut = max(1, round(len(words) * (1 - HELD_OUT_SHARE)))
        halves = [" ".join(words[:cut]), " ".join(words[cut:])]
        return ([halves[0]], [halves[1]]) if halves[1].strip() else (list(lines), list(lines))
    n_wanted = (1 - HELD_OUT_SHARE) * sum(map(len, lines))
    ends = np.cumsum([len(line) for line in lines])
    cut = min(max(1, int(np.searchsorted(ends, n_wanted)) + 1), len(lines) - 1)
    return list(lines[:cut]), list(lines[cut:])


def described(name: str, training: Sequence[str], measured: Sequence[str], n_cut: int = 0) -> ComparedText:
    return ComparedText(
        name=name,
        n_characters=sum(map(len, training)),
        n_words=_count_words(training),
        n_measured_characters=sum(map(len, measured)),
        n_measured_words=_count_words(measured),
        n_cut=n_cut,
    )


def train_or_refuse(kind: str, size: int, lines: Sequence[str]) -> Tokenizer | str:
    """A tokenizer, or why there is none of this kind and size."""
    try:
        return train_tokenizer(kind, lines, vocab_size=size)
    except UserError as error:
        return error.expected or error.happened


def measure_tokenizer(
    tokenizer: Tokenizer,
    *,
    kind: str,
    asked: int,
    lines: Sequence[str],
    facts: ComparedText,
    sentence: str,
    train_ms: float = 0.0,
) -> Iterator[float | TokenizerRow]:
    """Yield the share measured (0…1) after each batch of lines; the row, last."""
    counts: NDArray[np.int64] = np.zeros(tokenizer.vocab_size, np.int64)
    for start in range(0, len(lines), _LINES_AT_ONCE):
        for ids in tokenizer.encode_lines(lines[start : start + _LINES_AT_ONCE]):
            counts += np.bincount(np.array(ids, np.int64), minlength=len(counts))
        yield min(1.0, (start + _LINES_AT_ONCE) / len(lines))
    n_tokens = int(counts.sum())
    used = counts[counts > 0]
    share = used / max(1, n_tokens)
    bits = 0.0 - float((share * np.log2(share)).sum())
    unknown = tokenizer.unknown_id if tokenizer.has("unknown") else None
    yield TokenizerRow(
        kind=kind,
        asked=asked,
        vocab_size=tokenizer.vocab_size,
        n_tokens=n_tokens,
        tokens_per_word=n_tokens / max(1, facts.n_measured_words),
        tokens_per_character=n_tokens / max(1, facts.n_measured_characters),
        n_used=len(used),
        unknown_share=float(counts[unknown]) / max(1, n_tokens) if unknown is not None else 0.0,
        bits_per_token=bits,
        bits_per_character=bits * n_tokens / max(1, facts.n_measured_characters),
        density=n_tokens / max(1, len(used)),
        train_ms=train_ms,
        sentence=tokenizer.encode(sentence).tokens,
        unknown_id=unknown,
    )


def _count_words(lines: Sequence[str]) -> int:
    return sum(len(re.findall(r"\S+", line)) for line in lines)

"""A vocabulary as a table of arrays, searches in it, and single entries in detail."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, normalizers

from attnscope.errors import UserError
from attnscope.records.splits import SplitStep, SplitWord
from attnscope.records.vocabulary import (
    MAX_QUERY,
    PIECE_KINDS,
    FindPieces,
    PieceDetail,
    PieceKind,
    VocabularyTable,
)
from attnscope.schemes.tokenizers import KINDS
from attnscope.text.guarding import without_panic_words
from attnscope.text.pieces import PieceReading, read_entry, shown_piece, with_visible_blanks
from attnscope.text.replay import Splitter, how_made
from attnscope.text.vocabulary import Vocabulary

_PIECES_AT_ONCE = 4_096
_SORTED_CHARACTERS = 24
_MARK = "\ue000"
_MAX_IDS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedVocabulary:
    """A table, and its pieces in the form that searches read: as shown, and in small letters."""

    table: VocabularyTable
    pieces: tuple[str, ...]
    folded: tuple[str, ...]


def build_table(splitter: Splitter, name: str) -> Iterator[float | SearchedVocabulary]:
    """How far the reading is (0…1) after every few thousand pieces; the whole, last."""
    entries = splitter.entries
    named = {id: entry for entry, id in entries.library.get_vocab(with_added_tokens=True).items()}
    size = entries.size
    scores, score_name = _scores(splitter, named, size)
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
        score_name=score_name,
    )
    yield SearchedVocabulary(
        table=table, pieces=tuple(pieces), folded=tuple(piece.casefold() for piece in pieces)
    )


def find_pieces(searched: SearchedVocabulary, wish: FindPieces) -> tuple[NDArray[np.int32], str]:
    """The ids that fit, in order, and a note on what was not understood.

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
        characters=tuple((letter, _code(letter)) for letter in (text or "")[:24]),
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


def _scores(splitter: Splitter, named: dict[int, str], size: int) -> tuple[NDArray[np.float32], str]:
    """The rank of the first merge that makes each piece, or its log-probability."""
    scores = np.full(size, np.nan, np.float32)
    ids = {entry: id for id, entry in named.items()}
    if splitter.bpe is not None:
        for (left, right), rank in splitter.bpe.ranks.items():
            id = ids.get(splitter.bpe.joined(left, right))
            if id is not None and np.isnan(scores[id]):
                scores[id] = rank
        return scores, "merge rank"
    if splitter.unigram is not None:
        for entry, score in splitter.unigram.scores.items():
            if entry in ids:
                scores[ids[entry]] = score
        return scores, "log-probability"
    return scores, ""


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
    """The ids that somebody typed, in their order; those that are no ids are told."""
    words = query.replace(",", " ").replace(";", " ").split()[:_MAX_IDS]
    good = [int(word) for word in words if word.isascii() and word.isdecimal() and int(word[:9]) < size]
    bad = [word for word in words if not (word.isascii() and word.isdecimal() and int(word[:9]) < size)]
    note = f"no id: {', '.join(bad[:6])}{' …' if len(bad) > 6 else ''}" if bad else ""
    if not words:
        return np.arange(size, dtype=np.int32), ""
    return np.array(good, np.int32), note


def _code(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, 'no name').lower()}"


def _steps(splitter: Splitter, entry: str) -> tuple[SplitStep, ...]:
    """The merges from letters to the entry; empty where there are none."""
    if splitter.bpe is None:
        return ()
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

"""Words instead of pieces: the weight on a word is the sum over its pieces, a word's row their mean.

Rows that summed to 1 still do (Clark et al. 2019, section 4.1).
"""

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attnscope.records.tokens import Token
from attnscope.records.word_tables import GoldCell


def word_starts(tokens: tuple[Token, ...]) -> NDArray[np.intp]:
    """The index of each word's first piece; special tokens are words of their own.

    A piece that begins with a space begins a word, whatever the tokenizer says of it.
    """
    starts = [
        i
        for i, token in enumerate(tokens)
        if i == 0
        or not token.joins_previous
        or token.is_special
        or tokens[i - 1].is_special
        or token.piece[:1].isspace()
    ]
    return np.array(starts, dtype=np.intp)


def words_of_tokens(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """One token for each word, with the id of its first piece."""
    starts = [*word_starts(tokens).tolist(), len(tokens)]
    words = []
    for first, end in itertools.pairwise(starts):
        pieces = tokens[first:end]
        if len(pieces) == 1:
            words.append(pieces[0])
        else:
            word = "".join(piece.label for piece in pieces).strip().lstrip("␣") or "␣"
            words.append(
                Token(
                    id=pieces[0].id,
                    piece=word,
                    start=pieces[0].start,
                    end=pieces[-1].end,
                    segment=pieces[0].segment,
                    read=pieces[0].read,
                )
            )
    return tuple(words)


def word_weights(
    weights: NDArray[np.float32],
    queries: tuple[Token, ...],
    keys: tuple[Token, ...],
    *,
    has_every_row: bool = True,
) -> NDArray[np.float32]:
    """Weights between words, [n_query_words, n_key_words].

    NaN where the mask forbids every pair of pieces; infinite where every allowed pair is left out. Without
    `has_every_row` the pieces whose row has nothing left are not in the mean: rows sum to 1 again.
    """
    rows, columns = word_starts(queries), word_starts(keys)
    if not weights.size:
        return weights
    is_finite = np.isfinite(weights)
    is_whole = bool(is_finite.all())
    n_pieces = np.diff(np.append(rows, len(queries)))
    if not has_every_row:
        n_pieces = np.maximum(np.add.reduceat(is_finite.any(axis=1), rows, dtype=np.intp), 1)
    finite = weights if is_whole else np.where(is_finite, weights, np.float32(0.0))
    sums = _by_word(finite, rows, columns)
    sums /= n_pieces[:, None].astype(np.float32)
    if not is_whole:
        sums[_by_word(is_finite, rows, columns) == 0] = np.inf
        sums[_by_word(~np.isnan(weights), rows, columns) == 0] = np.nan
    return sums


def cell_of_words(cell: GoldCell, queries: tuple[Token, ...], keys: tuple[Token, ...]) -> GoldCell:
    """A link on a map of tokens as it lies on the map of their words.

    The rows that predict a word of several pieces are those of the word before and its own: both are marked.
    """

    def of_words(part: tuple[int, int], tokens: tuple[Token, ...]) -> tuple[int, int]:
        starts = word_starts(tokens)
        first, last = np.searchsorted(starts, (part[0], part[1] - 1), side="right").tolist()
        return first - 1, last

    return replace(cell, rows=of_words(cell.rows, queries), cols=of_words(cell.cols, keys))


def _by_word(
    values: NDArray[np.float32] | NDArray[np.bool_], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.float32]:
    by_query = np.add.reduceat(values, rows, axis=0, dtype=np.float32)
    return np.asarray(np.add.reduceat(by_query, columns, axis=1))

"""Unigram language model (Kudo 2018)."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscope.schemes.tokenizers.kind import (
    SPECIALS,
    Library,
    Seen,
    TokenizerKind,
    model_name,
    spaces_to_metaspace,
)


class Unigram(TokenizerKind):
    name, title, order = "unigram", "Unigram", 5
    words = "pieces of words, the likeliest split of each"
    source = "Kudo 2018"
    counts_words = True

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, decoders, models, normalizers

        library = Tokenizer(models.Unigram())
        library.normalizer = normalizers.NFC()
        library.pre_tokenizer = spaces_to_metaspace()
        library.decoder = decoders.Metaspace(prepend_scheme="first")
        return library

    def trainer(self, vocab_size: int, letters: Counter[str]) -> Any:
        from tokenizers import trainers

        return trainers.UnigramTrainer(
            vocab_size=vocab_size, special_tokens=list(SPECIALS), unk_token="<unk>", show_progress=False
        )

    def finished(self, library: Library, seen: Seen) -> Library:
        """The same pieces with scores independent of the order of a hash table."""
        return with_settled_scores(library, seen.words, len(SPECIALS))

    def is_kind_of(self, library: Library) -> bool:
        return model_name(library) == "Unigram"


# Scores of a Unigram vocabulary that are the same each time: expectation and maximisation, in a fixed order.
#
# The library's trainer finds the same pieces each time, but goes through the words in the order of a hash
# table, so that scores differ in their fourth digit, and with them ids, splits and whole training runs. Here
# the scores of its pieces are found again (Kudo 2018, section 3.2; Dempster et al. 1977).
#
#     symbol   meaning                                                             shape
#     p        probability of each piece                                           [n_pieces]
#     pieces   the piece of a word from a start, by its length; −1: none           [n_words, L, longest]
#     α, β     probability of a word's first i letters, and of those after them    [n_words, L + 1]
#     count    expected number of each piece: Σ_words n · α · p · β / α_L          [n_pieces]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
N_ROUNDS = 8
_LONGEST_WORD = 32
"""Longer ones are cut, so that no product of probabilities is too small for a float."""
_UNKNOWN, _LEAST_COUNT, _DIGITS = 1e-8, 0.1, 6


def with_settled_scores(library: Library, words: Mapping[str, int], n_special: int) -> Library:
    """The same tokenizer with settled scores; `words` are counted by its own splitting."""
    from tokenizers import Tokenizer

    state = json.loads(library.to_str())
    vocabulary = [(piece, score) for piece, score in state["model"]["vocab"]]
    state["model"]["vocab"] = settled_vocabulary(vocabulary, words, n_special)
    return Tokenizer.from_str(json.dumps(state))


def settled_vocabulary(
    vocabulary: Sequence[tuple[str, float]], words: Mapping[str, int], n_special: int
) -> list[tuple[str, float]]:
    """The pieces with settled scores (nats), the special ones first, then the most probable."""
    pieces = sorted(piece for piece, _ in vocabulary[n_special:])
    groups = _lattices(words, {piece: id for id, piece in enumerate(pieces)})
    counts = _first_counts(groups, len(pieces))
    for _ in range(N_ROUNDS):
        probability = np.maximum(counts, _LEAST_COUNT)
        probability /= probability.sum()
        counts = sum((_expected(*group, probability) for group in groups), np.zeros(len(pieces)))
    counts = np.maximum(counts, _LEAST_COUNT)
    scores = np.round(np.log(counts / counts.sum()), _DIGITS)
    ranked = sorted(zip(pieces, scores.tolist(), strict=True), key=lambda entry: (-entry[1], entry[0]))
    return [*((piece, float(score)) for piece, score in vocabulary[:n_special]), *ranked]


def _lattices(words: Mapping[str, int], ids: Mapping[str, int]) -> list[tuple[Ints, Floats]]:
    """For words of each length in turn: the pieces in them, and the words' counts."""
    longest = max(map(len, ids), default=1)
    by_length: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for word, n in words.items():
        for start in range(0, len(word), _LONGEST_WORD):
            part = word[start : start + _LONGEST_WORD]
            by_length[len(part)][part] += n
    groups = []
    for n_letters, counted in sorted(by_length.items()):
        found = np.full((len(counted), n_letters, min(longest, n_letters)), -1, np.int64)
        ordered = sorted(counted.items())
        for k, (word, _) in enumerate(ordered):
            for start in range(n_letters):
                for end in range(start + 1, min(start + longest, n_letters) + 1):
                    found[k, start, end - start - 1] = ids.get(word[start:end], -1)
        groups.append((found, np.array([n for _, n in ordered], np.float64)))
    return groups


def _first_counts(groups: Sequence[tuple[Ints, Floats]], n_pieces: int) -> Floats:
    """Counts of each piece in the words, with overlaps."""
    counts = np.zeros(n_pieces)
    for pieces, n in groups:
        is_piece = pieces >= 0
        shares = np.broadcast_to(n[:, None, None], pieces.shape)[is_piece]
        counts += np.bincount(pieces[is_piece], shares, n_pieces)
    return counts


def _expected(pieces: Ints, n: Floats, probability: Floats) -> Floats:
    """Expected counts of each piece in the splits of these words."""
    n_words, n_letters, longest = pieces.shape
    of_pieces = np.where(pieces >= 0, probability[pieces], 0.0)
    of_pieces[:, :, 0] = np.where(pieces[:, :, 0] >= 0, of_pieces[:, :, 0], _UNKNOWN)
    before, after = np.zeros((n_words, n_letters + 1)), np.zeros((n_words, n_letters + 1))
    before[:, 0] = after[:, n_letters] = 1.0
    for start in range(n_letters):
        for length in range(1, min(longest, n_letters - start) + 1):
            before[:, start + length] += before[:, start] * of_pieces[:, start, length - 1]
    for start in reversed(range(n_letters)):
        for length in range(1, min(longest, n_letters - start) + 1):
            after[:, start] += after[:, start + length] * of_pieces[:, start, length - 1]
    weights = n / before[:, n_letters]
    total = np.zeros(len(probability))
    for length in range(1, longest + 1):
        ids = pieces[:, : n_letters - length + 1, length - 1]
        starts, ends = before[:, : n_letters - length + 1], after[:, length:]
        share = weights[:, None] * starts * of_pieces[:, : n_letters - length + 1, length - 1] * ends
        total += np.bincount(ids[ids >= 0], share[ids >= 0], len(probability))
    return total

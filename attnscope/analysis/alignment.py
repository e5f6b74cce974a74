"""Word alignment from cross-attention, and how wrong it is.

Alignment error rate: 1 − (|A∩S| + |A∩P|) / (|A| + |S|), with sure links S ⊆ possible links P
(Och and Ney 2003, section 5.1). A link is (target, source), both counted from 0.
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

Link = tuple[int, int]


def alignment_error_rate(
    predicted: Collection[Link], sure: Collection[Link], possible: Collection[Link] | None = None
) -> float:
    """How wrong predicted links are: 0 is perfect; NaN when there is nothing to align.

    `possible` None means that only the sure links are right; sure links always count as possible.
    """
    found, certain = set(predicted), set(sure)
    allowed = certain | set(possible or ())
    if not found and not certain:
        return math.nan
    return 1.0 - (len(found & certain) + len(found & allowed)) / (len(found) + len(certain))


def head_alignment(weights: NDArray[np.float32]) -> tuple[Link, ...]:
    """For each target row the source column with the largest weight; rows that see nothing have no link."""
    if weights.size == 0:
        return ()
    filled = np.where(np.isnan(weights), -1.0, weights)
    best = filled.argmax(axis=1)
    return tuple((i, int(j)) for i, j in enumerate(best) if filled[i, j] > 0)


def word_weights(
    weights: NDArray[np.float32], query_words: Sequence[int], key_words: Sequence[int]
) -> NDArray[np.float32]:
    """Weights between words: summed over the pieces of a key, averaged over the pieces of a query.

    Tokens whose word is −1 are left out (Clark et al. 2019, section 4.1).
    """
    n_queries = max(query_words, default=-1) + 1
    n_keys = max(key_words, default=-1) + 1
    to_query = np.array([[word == i for word in query_words] for i in range(n_queries)], np.float32)
    to_key = np.array([[word == j for word in key_words] for j in range(n_keys)], np.float32)
    if not n_queries or not n_keys:
        return np.zeros((n_queries, n_keys), np.float32)
    to_query /= np.maximum(to_query.sum(axis=1, keepdims=True), 1.0)
    result: NDArray[np.float32] = to_query @ np.nan_to_num(weights) @ to_key.T
    return result

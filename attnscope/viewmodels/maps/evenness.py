"""Whether a map is so even that a scale up to 1 shows one colour, as maps of random weights are.

| symbol | meaning                                          |
|--------|--------------------------------------------------|
| n_i    | keys that query i may see                        |
| peak_i | the largest weight of its row; 1 / n_i when even |
"""

import numpy as np

from attnscope.records.maps import HeadMap

_MOST_SHARES = 2.0
"""How many even shares the largest weight of a row may be."""
_MOST_COLOUR = 0.25
"""How much of the fixed scale the rows may use and still look like one colour."""
_LEAST_KEYS = 4


def even_words(head_map: HeadMap) -> str:
    """`almost even: 0.07 at most over 14 keys`, or nothing where a row stands out or there are few keys.

    Rows of fewer than four keys, as a causal mask begins with, are not looked at; the numbers are those of
    the rows with the most keys.
    """
    is_seen = np.isfinite(head_map.weights)
    n_keys = is_seen.sum(axis=1)
    rows = n_keys >= _LEAST_KEYS
    if not rows.any():
        return ""
    peaks = np.where(is_seen, head_map.weights, 0.0).max(axis=1)
    longest = n_keys == n_keys.max()
    peak = float(peaks[longest].max())
    if (peaks[rows] * n_keys[rows] > _MOST_SHARES).any() or peak > _MOST_COLOUR * head_map.full:
        return ""
    return f"almost even: {peak:.2g} at most over {int(n_keys.max()):,} keys"

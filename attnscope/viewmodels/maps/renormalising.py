"""Leaving keys out of a map: the attention sink on the first token, special tokens.

| symbol | meaning                                            | shape              |
|--------|----------------------------------------------------|--------------------|
| a      | weights, NaN where the mask forbids                | [n_queries, n_keys]|
| s      | 1 for keys that are left out                       | [n_keys]           |
| m      | the mass that is left out, m_i = Σ_j s_j a_ij       | [n_queries]        |

With renormalisation a row becomes a_ij / (1 − m_i). First tokens often take most of a row when the head
has nothing to do (Xiao et al. 2024, "Efficient streaming language models with attention sinks").
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import share_words
from attnscope.records.tokens import Token
from attnscope.viewmodels.maps.aspect import Hidden

LEFT_OUT = np.float32(np.inf)
"""Stands in cells of keys that are left out: no weight at all, and no ban by the mask either."""
_LEAST_LEFT = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A map without some keys, and the mean mass of its rows that they took (0…1)."""

    weights: NDArray[np.float32]
    removed: float


def hidden_keys(keys: tuple[Token, ...], hidden: Hidden) -> NDArray[np.bool_]:
    """Which keys are left out, [n_keys]."""
    is_special: NDArray[np.bool_] = np.array([token.is_special for token in keys], dtype=bool)
    is_first: NDArray[np.bool_] = np.array([i == 0 for i in range(len(keys))], dtype=bool)
    match hidden:
        case "first":
            return is_first
        case "special":
            return is_special
        case "both":
            return is_first | is_special
        case _:
            return np.zeros(len(keys), dtype=bool)


def without_keys(
    weights: NDArray[np.float32], is_hidden: NDArray[np.bool_], *, is_renormalised: bool
) -> Reduced:
    """Leave keys out of every row; cells of theirs that the mask allows become LEFT_OUT.

    Renormalised rows sum to 1 again; a row with nothing left has LEFT_OUT everywhere, never 0 ÷ 0.
    """
    if not is_hidden.any() or not weights.size:
        return Reduced(weights=weights, removed=0.0)
    finite = np.where(np.isfinite(weights), weights, 0.0)
    taken = finite[:, is_hidden].sum(axis=1)
    sums = finite.sum(axis=1)
    is_row = sums > 0
    removed = float((taken[is_row] / sums[is_row]).mean()) if is_row.any() else 0.0
    result = weights.copy()
    if is_renormalised:
        left = finite[:, ~is_hidden].sum(axis=1)  # sums − taken has no digits under a sink
        is_empty = is_row & (left < _LEAST_LEFT)
        result /= np.where(left > 0, left / np.where(is_row, sums, 1.0), 1.0)[:, None].astype(np.float32)
        result[is_empty[:, None] & ~np.isnan(weights)] = LEFT_OUT
    result[is_hidden[None, :] & ~np.isnan(weights)] = LEFT_OUT
    return Reduced(weights=result, removed=removed)


def removed_note(removed: float, hidden: Hidden, *, is_renormalised: bool) -> str:
    """What was taken away, in words: `without the first token: 62 % of the weight`."""
    what = {"first": "first token", "special": "special tokens", "both": "first and special tokens"}
    share = share_words(removed)
    end = " · rows sum to 1 again" if is_renormalised else ""
    return f"{what[hidden]} left out, {share} of the weight{end}"

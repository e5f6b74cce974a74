"""Maps of one colour are told; maps with a row that stands out are not."""

import dataclasses

import numpy as np
import pytest
from figure_samples import head_map

from attnscope.viewmodels.maps import even_words


def shown(weights: np.ndarray):
    return dataclasses.replace(head_map(*weights.shape), weights=weights.astype(np.float32))


def causal(n: int) -> np.ndarray:
    weights = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    weights[~np.tri(n, dtype=bool)] = np.nan
    return weights


def test_that_even_maps_are_told_with_their_largest_weight() -> None:
    assert even_words(shown(np.full((14, 14), 1 / 14))) == "almost even: 0.071 at most over 14 keys"
    assert even_words(shown(causal(14))) == "almost even: 0.071 at most over 14 keys"


@pytest.mark.parametrize("change", [(3, 0.3), (13, 0.9)])
def test_that_one_row_that_stands_out_is_enough(change: tuple[int, float]) -> None:
    weights = np.full((14, 14), 1 / 14)
    row, peak = change
    weights[row] = (1 - peak) / 13
    weights[row, 0] = peak
    assert even_words(shown(weights)) == ""


def test_that_few_keys_do_not_count_and_a_quarter_of_the_scale_is_seen() -> None:
    weights = causal(14)
    weights[2, :3] = 0.05, 0.9, 0.05
    assert even_words(shown(weights)) == "almost even: 0.071 at most over 14 keys"
    assert even_words(shown(np.array([[0.3, 0.25, 0.25, 0.2]]))) == ""


def test_that_few_keys_and_empty_maps_say_nothing() -> None:
    assert even_words(shown(np.full((3, 3), 1 / 3))) == ""
    assert even_words(shown(np.full((3, 4), 1 / 4))) != ""
    assert even_words(shown(np.full((2, 5), np.nan))) == ""

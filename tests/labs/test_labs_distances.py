"""Labs on positions: bias or rotation by distance, and the matrix of a shift, against slow references."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.labs.distance_in_scores import (
    D_HEAD,
    MAX_DISTANCE,
    N_BUCKETS,
    N_HEADS,
    NAMES,
    DistanceChoice,
    DistanceInScores,
    alibi_bias,
    buckets,
    drawn,
    rotary_scores,
    shaw_terms,
    tell_distances,
)
from attnscope.labs.shift_matrix import (
    BASES,
    MOST_SHIFT,
    N_POSITIONS,
    WIDTHS,
    ShiftChoice,
    ShiftMatrix,
    binary,
    fit_error,
    shift,
    shift_matrix,
    sinusoidal,
)
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.positions.t5 import relative_buckets


@pytest.mark.parametrize("is_causal", [True, False])
def test_that_the_buckets_are_those_of_the_scheme(is_causal: bool) -> None:
    distances = np.arange(-100.0, 101.0)
    theirs = relative_buckets(
        torch.arange(-100, 101), n_buckets=N_BUCKETS, max_distance=MAX_DISTANCE, is_causal=is_causal
    )
    np.testing.assert_array_equal(buckets(distances, is_causal=is_causal), theirs.numpy())


def test_that_slopes_are_those_of_the_scheme() -> None:
    theirs = POSITIONS["alibi"].slopes(N_HEADS)
    assert theirs is not None
    for head in range(1, N_HEADS + 1):
        found = alibi_bias(np.array([-3.0, 0.0, 2.0]), head)
        np.testing.assert_allclose(found, -theirs[head - 1].item() * np.array([3.0, 0.0, 2.0]), rtol=1e-6)


def test_that_rotary_scores_turn_query_and_key_by_their_places() -> None:
    query, key, _, _ = drawn(3)
    half, base = D_HEAD // 2, 50.0

    def turned(vector, place):  # pair by pair, in float64
        out = np.zeros(D_HEAD)
        for p in range(half):
            angle = place * base ** (-2 * p / D_HEAD)
            a, b = vector[p], vector[p + half]
            out[p] = a * np.cos(angle) - b * np.sin(angle)
            out[p + half] = a * np.sin(angle) + b * np.cos(angle)
        return out

    for i, j in ((0, 0), (7, 2), (2, 7), (40, 11)):
        slow = turned(query, i) @ turned(key, j) / np.sqrt(D_HEAD)
        assert rotary_scores(np.array([float(j - i)]), query, key, base)[0] == pytest.approx(slow)


def test_that_shaws_terms_end_at_their_reach() -> None:
    query, _, _, vectors = drawn(1)
    middle = len(vectors) // 2
    found = shaw_terms(np.arange(-6.0, 7.0), query, vectors, 2)
    for delta, value in zip(range(-6, 7), found, strict=True):
        row = vectors[middle + max(-2, min(2, delta))]
        assert value == pytest.approx(sum(a * b for a, b in zip(row, query, strict=True)) / np.sqrt(D_HEAD))
    assert len(set(found[:5].tolist())) == 1


@pytest.mark.parametrize("is_causal", [True, False])
def test_that_maps_hold_what_the_curves_say(is_causal: bool) -> None:
    shown = tell_distances(DistanceChoice(n_tokens=8, is_causal=is_causal))
    assert len(shown.maps) == len(NAMES)
    for values, term in zip(shown.maps, shown.terms, strict=True):
        for i in range(8):
            for j in range(8):
                if is_causal and j > i:
                    assert np.isnan(values[i, j])
                else:
                    assert values[i, j] == term[np.flatnonzero(shown.distances == j - i)[0]]
    lab = DistanceInScores()
    clicked = lab.click(shown.choice, 0, 2, 6)
    assert clicked.distance == (shown.choice.distance if is_causal else 4)
    assert lab.drag(shown.choice, 99.0, 0.0, is_start=True).distance == (0 if is_causal else 7)
    assert tell_distances(replace(shown.choice, distance=47)).distance == (0 if is_causal else 7)


def test_that_beyond_shaws_reach_the_sentence_says_so() -> None:
    assert "beyond Shaw's reach of 4" in tell_distances(DistanceChoice(distance=-5)).words.sentence
    assert "along its diagonals" in tell_distances(DistanceChoice(distance=2)).words.sentence


@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("base", BASES)
def test_that_one_matrix_shifts_every_position(d: int, base: float) -> None:
    table = sinusoidal(N_POSITIONS, d, base)
    for t, i in ((0, 0), (17, d // 2 - 1)):
        assert table[t, 2 * i] == pytest.approx(np.sin(t / base ** (2 * i / d)))
        assert table[t, 2 * i + 1] == pytest.approx(np.cos(t / base ** (2 * i / d)))
    for delta in (0, 1, 7, MOST_SHIFT):
        matrix = shift_matrix(delta, d, base)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(d), atol=1e-12)
        for t in range(N_POSITIONS - delta):
            np.testing.assert_allclose(matrix @ table[t], table[t + delta], atol=1e-9)


def test_that_a_matrix_can_be_fitted_to_sinusoidal_encodings_alone() -> None:
    n = N_POSITIONS + MOST_SHIFT
    random = np.random.default_rng(5).standard_normal((n, 8))
    for delta in (1, 5, MOST_SHIFT):
        assert fit_error(sinusoidal(n, 8, 100.0), delta) < 1e-9
        assert fit_error(random, delta) > 0.8
        assert fit_error(binary(n, 8), delta) > 0.3
    assert fit_error(random, 0) < 1e-9
    assert binary(6, 3)[5].tolist() == [1.0, -1.0, 1.0]


def test_that_the_shown_rows_agree_and_the_shift_can_be_dragged() -> None:
    shown = shift(ShiftChoice(shift=9, place=33, d_model=12))
    np.testing.assert_allclose(shown.rows[1], shown.rows[2], atol=1e-12)
    lab = ShiftMatrix()
    assert lab.drag(shown.choice, 1e3, 0.0, is_start=True).shift == MOST_SHIFT
    cells = lab.cells(shown)
    assert cells[1].rows == ("PE(33)", "A PE(33)", "PE(42)")

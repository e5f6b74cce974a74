"""Labs on positions: bias or rotation by distance, and the matrix of a shift, against slow references."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.fields import fields_of
from attnscope.labs import LABS
from attnscope.nn import ModelConfig
from attnscope.schemes.positions import POSITIONS

BY_DISTANCE = LABS["Bias or rotation by distance"]
SHIFT = LABS["A shift is one matrix"]
NAMES = ("ALiBi", "T5", "Shaw", "rotary")
N_BUCKETS, N_HEADS, D_HEAD = 16, 8, 16


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The lab's random query and key, T5's numbers, and Shaw's vectors, from the same seed."""
    random = np.random.default_rng(seed)
    query, key = random.standard_normal((2, D_HEAD))
    place = np.arange(N_BUCKETS)
    learned = -0.2 * (place % 8 + place // 8) + 0.1 * random.standard_normal(N_BUCKETS)
    return query, key, learned, random.standard_normal((33, D_HEAD)) / np.sqrt(D_HEAD)


def terms(**settings: object) -> dict[str, dict[int, float]]:
    """By way: what the score gets at each distance, as the curves show it."""
    (chart,) = BY_DISTANCE.charts(BY_DISTANCE.resolve(replace(BY_DISTANCE.example, **settings)))
    assert tuple(series.name for series in chart.series) == NAMES
    return {
        series.name: dict(zip(series.xs.astype(int).tolist(), series.ys.tolist(), strict=True))
        for series in chart.series
    }


@pytest.mark.parametrize("is_causal", [True, False])
def test_that_the_buckets_are_those_of_the_scheme(is_causal: bool) -> None:
    config = ModelConfig(form="decoder", vocab_size=2, n_buckets=N_BUCKETS, max_distance=32)
    distances = range(-100, 1 if is_causal else 101)
    ids = {"weight": torch.arange(float(N_BUCKETS))[:, None]}
    (theirs,) = POSITIONS["t5"].bias(ids, torch.tensor(distances), config, is_causal=is_causal)
    found, learned = terms(n_tokens=101, is_causal=is_causal, seed=2)["T5"], drawn(2)[2]
    for distance, bucket in zip(distances, theirs.int().tolist(), strict=True):
        assert found[distance] == pytest.approx(learned[bucket])
        if distance % 10 == 0:
            choice = replace(BY_DISTANCE.example, n_tokens=101, is_causal=is_causal, distance=distance)
            assert dict(BY_DISTANCE.resolve(choice).words.numbers)["bucket of T5"] == str(bucket)


def test_that_slopes_are_those_of_the_scheme() -> None:
    theirs = POSITIONS["alibi"].slopes(N_HEADS)
    assert theirs is not None
    for head in range(1, N_HEADS + 1):
        found = terms(head=head, n_tokens=4)["ALiBi"]
        expected = -theirs[head - 1].item() * np.array([3.0, 0.0, 2.0])
        np.testing.assert_allclose([found[-3], found[0], found[2]], expected, rtol=1e-6)


def test_that_rotary_scores_turn_query_and_key_by_their_places() -> None:
    query, key, _, _ = drawn(3)
    half, base = D_HEAD // 2, 50.0
    found = terms(n_tokens=48, base=base, seed=3)["rotary"]

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
        assert found[j - i] == pytest.approx(slow)


def test_that_shaws_terms_end_at_their_reach() -> None:
    query, _, _, vectors = drawn(1)
    middle = len(vectors) // 2
    found = terms(n_tokens=7, reach=2, seed=1)["Shaw"]
    for delta in range(-6, 7):
        row = vectors[middle + max(-2, min(2, delta))]
        slow = sum(a * b for a, b in zip(row, query, strict=True)) / np.sqrt(D_HEAD)
        assert found[delta] == pytest.approx(slow)
    assert len({found[delta] for delta in range(-6, -1)}) == 1


@pytest.mark.parametrize("is_causal", [True, False])
def test_that_maps_hold_what_the_curves_say(is_causal: bool) -> None:
    lab = BY_DISTANCE
    shown = lab.resolve(replace(lab.example, n_tokens=8, is_causal=is_causal))
    curves = terms(n_tokens=8, is_causal=is_causal)
    cells = lab.cells(shown)
    assert tuple(one.title for one in cells) == NAMES
    for one in cells:
        for i in range(8):
            for j in range(8):
                if is_causal and j > i:
                    assert np.isnan(one.values[i, j])
                else:
                    assert one.values[i, j] == curves[one.title][j - i]
    clicked = lab.click(shown.choice, 0, 2, 6)
    assert clicked.distance == (shown.choice.distance if is_causal else 4)
    assert lab.drag(shown.choice, 99.0, 0.0, is_start=True).distance == (0 if is_causal else 7)
    assert lab.resolve(replace(shown.choice, distance=47)).distance == (0 if is_causal else 7)


def test_that_beyond_shaws_reach_the_sentence_says_so() -> None:
    far, near = (BY_DISTANCE.resolve(replace(BY_DISTANCE.example, distance=d)).words for d in (-5, 2))
    assert "beyond Shaw's reach of 4" in far.sentence
    assert "along its diagonals" in near.sentence


FIELDS = {field.name: field for field in fields_of(SHIFT.example)}
N_POSITIONS, MOST_SHIFT = 128, FIELDS["shift"].values[-1]


def slow_table(n: int, d: int, base: float) -> np.ndarray:
    return np.array(
        [[f(t / base ** (2 * i / d)) for i in range(d // 2) for f in (np.sin, np.cos)] for t in range(n)]
    )


@pytest.mark.parametrize("d", FIELDS["d_model"].values)
@pytest.mark.parametrize("base", FIELDS["base"].values)
def test_that_one_matrix_shifts_every_position(d: int, base: float) -> None:
    table = slow_table(N_POSITIONS, d, base)
    for delta in (0, 1, 7, MOST_SHIFT):
        shown = SHIFT.resolve(replace(SHIFT.example, shift=delta, d_model=d, base=base, place=17))
        matrix = SHIFT.cells(shown)[0].values
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(d), atol=1e-12)
        np.testing.assert_allclose(shown.rows[0], table[17], atol=1e-12)
        np.testing.assert_allclose(shown.rows[2], table[17 + delta], atol=1e-12)
        for t in range(N_POSITIONS - delta):
            np.testing.assert_allclose(matrix @ table[t], table[t + delta], atol=1e-9)


def slow_error(table: np.ndarray, delta: int) -> float:
    """Half of the positions are fitted, by the normal equations; the error on the others."""
    some, others = np.split(np.random.default_rng(1).permutation(N_POSITIONS), 2)
    fitted = np.linalg.pinv(table[some]) @ table[some + delta]
    rest = table[others + delta] - table[others] @ fitted
    return float(np.sqrt((rest**2).sum() / (table[others + delta] ** 2).sum()))


def test_that_a_matrix_can_be_fitted_to_sinusoidal_encodings_alone() -> None:
    n = N_POSITIONS + MOST_SHIFT
    shown = SHIFT.resolve(replace(SHIFT.example, d_model=8, base=100.0))
    found = {series.name: series.ys for series in SHIFT.charts(shown)[0].series}
    bits = np.array([[1.0 if t >> k & 1 else -1.0 for k in range(8)] for t in range(n)])
    tables = {"learned, new": np.random.default_rng(0).standard_normal((n, 8)), "binary": bits}
    for delta in (1, 5, MOST_SHIFT):
        assert found["sinusoidal"][delta] < 1e-9
        for name, table in tables.items():
            assert found[name][delta] == pytest.approx(slow_error(table, delta), rel=1e-9)
        assert found["learned, new"][delta] > 0.8
        assert found["binary"][delta] > 0.3
    assert found["learned, new"][0] < 1e-9


def test_that_the_shown_rows_agree_and_the_shift_can_be_dragged() -> None:
    shown = SHIFT.resolve(replace(SHIFT.example, shift=9, place=33, d_model=12))
    np.testing.assert_allclose(shown.rows[1], shown.rows[2], atol=1e-12)
    assert SHIFT.drag(shown.choice, 1e3, 0.0, is_start=True).shift == MOST_SHIFT
    cells = SHIFT.cells(shown)
    assert cells[1].rows == ("PE(33)", "A PE(33)", "PE(42)")

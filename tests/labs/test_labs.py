"""The labs' numbers against known answers and slow obvious versions."""

import math
from dataclasses import replace

import numpy as np
import pytest

from attnscope.counting import bytes_text, count_text, flops_text, format_number
from attnscope.fields import fields_of
from attnscope.labs import LABS, cost
from attnscope.labs.cost import CostPoint, find_crossing
from attnscope.viewmodels.labs.controls import LabState

COST_BY_LENGTH = LABS["Cost by length"]
KERNEL_REGRESSION = LABS["Kernel regression"]
MASKS_AS_STRUCTURE = LABS["Masks as structure"]
ORDER_BLINDNESS = LABS["Order blindness"]
SCALING_BY_ROOT_D = LABS["Scaling by √d"]
SIZES = next(field for field in fields_of(SCALING_BY_ROOT_D.example) if field.name == "d_k").values
MASKS = next(field for field in fields_of(MASKS_AS_STRUCTURE.example) if field.name == "mask").options
SCORES = next(field for field in fields_of(KERNEL_REGRESSION.example) if field.name == "score").options


def test_that_a_lab_tells_of_a_new_choice_and_not_of_the_same() -> None:
    lab, told = LabState(3, lambda n: n * n), []

    def note() -> None:
        told.append(lab.shown)

    lab.changed.connect(note)
    lab.choose(3)
    lab.choose(4)
    lab.changed.disconnect(note)
    lab.choose(5)
    assert (told, lab.shown) == ([16], 25)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (-12.34, "−12.3"),
        (1234.5, "1,234"),
        (4e-16, "4.0·10⁻¹⁶"),
        (math.nan, "–"),
    ],
)
def test_that_numbers_are_written_as_people_write_them(value: float, text: str) -> None:
    assert format_number(value) == text


# Kernel regression


@pytest.mark.parametrize("sigma", [0.05, 0.35, 3.0])
@pytest.mark.parametrize("features", ["place", "waves"])
def test_that_softmax_of_the_gaussian_score_is_kernel_regression(sigma: float, features: str) -> None:
    shown = KERNEL_REGRESSION.resolve(replace(KERNEL_REGRESSION.example, sigma=sigma, features=features))  # type: ignore[arg-type]
    assert shown.difference < 1e-14
    if features == "place":  # a slow version of Nadaraya (1964)
        kernels = [math.exp(-((0.6 - key) ** 2) / (2 * sigma**2)) for key in shown.keys]
        expected = sum(k * v for k, v in zip(kernels, shown.values, strict=True)) / sum(kernels)
        assert shown.estimate == pytest.approx(expected, abs=1e-12)


def test_that_with_keys_of_one_length_the_dot_product_is_the_gaussian() -> None:
    dot = KERNEL_REGRESSION.resolve(replace(KERNEL_REGRESSION.example, score="dot", features="waves"))
    assert dot.difference < 1e-13
    assert KERNEL_REGRESSION.resolve(replace(KERNEL_REGRESSION.example, score="dot")).difference > 0.3
    scaled = KERNEL_REGRESSION.resolve(
        replace(KERNEL_REGRESSION.example, score="scaled-dot", features="waves", sigma=0.35 / 2)
    )
    np.testing.assert_allclose(scaled.fitted, dot.fitted, atol=1e-12)  # σ² √16


def test_that_a_cosine_in_one_dimension_knows_the_side_alone() -> None:
    shown = KERNEL_REGRESSION.resolve(replace(KERNEL_REGRESSION.example, score="cosine", sigma=0.05))
    is_right = shown.keys > 0
    np.testing.assert_allclose(shown.weights[is_right], 1 / is_right.sum(), atol=1e-12)
    assert shown.weights[~is_right].max() < 1e-100


@pytest.mark.parametrize("score", list(SCORES))
def test_that_weights_sum_to_one_and_a_wide_kernel_gives_the_mean(score: str) -> None:
    shown = KERNEL_REGRESSION.resolve(replace(KERNEL_REGRESSION.example, score=score, sigma=500.0))
    assert shown.weights.sum() == pytest.approx(1, abs=1e-12)
    assert shown.estimate == pytest.approx(float(shown.values.mean()), abs=1e-4)
    assert shown.n_effective == pytest.approx(40, abs=0.01)
    assert shown.words.sentence


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (
            replace(KERNEL_REGRESSION.example, score="gaussian", sigma=0.02),
            "follows the noise of single samples",
        ),
        (replace(KERNEL_REGRESSION.example, score="gaussian", sigma=50.0), "the curve flattens to the mean"),
        (replace(KERNEL_REGRESSION.example, score="gaussian"), "Drag the query"),
        (replace(KERNEL_REGRESSION.example, score="dot", features="waves"), "to rounding"),
        (
            replace(KERNEL_REGRESSION.example, score="scaled-dot", features="waves"),
            "only the temperature differs",
        ),
        (replace(KERNEL_REGRESSION.example, score="cosine", features="place"), "only knows the sign"),
        (replace(KERNEL_REGRESSION.example, score="dot", features="place"), "the longest keys win"),
    ],
)
def test_that_the_lab_of_regression_says_what_the_score_does(choice: object, words: str) -> None:
    assert words in KERNEL_REGRESSION.resolve(choice).words.sentence


def test_that_noise_only_scales_and_impossible_choices_are_refused() -> None:
    quiet = KERNEL_REGRESSION.resolve(replace(KERNEL_REGRESSION.example, noise=0.0))
    np.testing.assert_array_equal(quiet.values, np.sin(1.6 * quiet.keys) + 0.25 * quiet.keys)
    with pytest.raises(ValueError, match="no regression"):
        replace(KERNEL_REGRESSION.example, sigma=0.0)
    with pytest.raises(ValueError, match="no regression with the score kernel"):
        replace(KERNEL_REGRESSION.example, score="kernel")


# Saturation


@pytest.mark.slow
def test_that_the_variance_of_scores_grows_as_d_and_scaling_brings_it_back() -> None:
    shown = SCALING_BY_ROOT_D.resolve(replace(SCALING_BY_ROOT_D.example, n_keys=64))
    np.testing.assert_allclose(shown.plain.variance / np.array(SIZES), 1.0, atol=0.15)
    np.testing.assert_allclose(shown.scaled.variance, shown.plain.variance / np.array(SIZES))
    assert shown.plain.largest[-1] > 0.9
    assert shown.scaled.largest[-1] < 0.2
    assert shown.plain.gradient[-1] < 0.4 * shown.scaled.gradient[-1]
    assert "256" in shown.words.sentence


@pytest.mark.parametrize("d_k", [SIZES[0], SIZES[4], SIZES[-1]])
def test_that_softness_is_that_of_every_query_by_itself(d_k: int) -> None:
    shown = SCALING_BY_ROOT_D.resolve(replace(SCALING_BY_ROOT_D.example, d_k=d_k))
    n_keys, at = SCALING_BY_ROOT_D.example.n_keys, SIZES.index(d_k)
    for found, scores in ((shown.plain, shown.scores), (shown.scaled, shown.scores / math.sqrt(d_k))):
        norms, entropies, largest = [], [], []
        for row in scores.reshape(-1, n_keys):
            raised = np.exp(row - row.max())
            p = raised / raised.sum()
            norms.append(np.linalg.norm(np.diag(p) - np.outer(p, p)))
            entropies.append(-sum(w * math.log(w) for w in p if w > 0) / math.log(n_keys))
            largest.append(p.max())
        assert len(norms) == 100
        assert found.gradient[at] == pytest.approx(np.mean(norms), rel=1e-9, abs=1e-8)
        assert found.entropy[at] == pytest.approx(np.mean(entropies), rel=1e-9)
        assert found.largest[at] == pytest.approx(np.mean(largest), rel=1e-9)


def test_that_a_width_that_is_not_offered_has_no_lab() -> None:
    with pytest.raises(ValueError, match="no lab"):
        replace(SCALING_BY_ROOT_D.example, d_k=3)


# Masks


def test_that_counts_and_layers_of_known_masks_are_right() -> None:
    full = MASKS_AS_STRUCTURE.resolve(replace(MASKS_AS_STRUCTURE.example, mask="full", n_tokens=10))
    assert (full.n_seen, full.share, full.n_layers, full.never) == (100, 1.0, 1, 0.0)
    causal = MASKS_AS_STRUCTURE.resolve(replace(MASKS_AS_STRUCTURE.example, mask="causal", n_tokens=10))
    assert (causal.n_seen, causal.n_layers, causal.never) == (55, 1, 0.0)
    window = MASKS_AS_STRUCTURE.resolve(
        replace(MASKS_AS_STRUCTURE.example, mask="window", n_tokens=20, window=3)
    )
    assert window.n_layers == math.ceil(19 / 3)
    assert window.n_seen == 20 * 7 - 2 * (3 + 2 + 1)
    padded = MASKS_AS_STRUCTURE.resolve(
        replace(MASKS_AS_STRUCTURE.example, mask="window", n_tokens=20, window=3, n_padding=4)
    )
    assert padded.n_layers == math.ceil(15 / 3)
    assert padded.never == 0
    assert (
        MASKS_AS_STRUCTURE.resolve(
            replace(MASKS_AS_STRUCTURE.example, mask="global", n_tokens=20, n_global=1)
        ).n_layers
        == 2
    )
    prefix = MASKS_AS_STRUCTURE.resolve(
        replace(MASKS_AS_STRUCTURE.example, mask="prefix", n_tokens=6, n_prefix=2)
    )
    assert prefix.n_seen == 21 + 1


@pytest.mark.parametrize(("is_causal", "whom"), [(False, "every other one"), (True, "every earlier token")])
def test_that_one_layer_of_a_full_mask_is_enough(is_causal: bool, whom: str) -> None:
    shown = MASKS_AS_STRUCTURE.resolve(
        replace(MASKS_AS_STRUCTURE.example, mask="full", n_tokens=4, is_causal=is_causal)
    )
    assert shown.words.sentence.endswith(
        f": one layer is enough for every token to receive information from {whom}."
    )
    assert dict(shown.words.numbers)["cells seen"] == ("10" if is_causal else "16")


def test_that_a_dilated_window_never_joins_its_steps() -> None:
    shown = MASKS_AS_STRUCTURE.resolve(
        replace(MASKS_AS_STRUCTURE.example, mask="dilated", n_tokens=16, window=2, dilation=2)
    )
    assert shown.never == pytest.approx(128 / 240)
    assert np.isnan(shown.steps[0, 1::2]).all()
    assert "never meet" in shown.words.sentence


@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("is_causal", [False, True])
def test_that_layers_to_reach_are_shortest_ways(mask: str, is_causal: bool) -> None:
    choice = replace(MASKS_AS_STRUCTURE.example, mask=mask, n_tokens=12, is_causal=is_causal)
    shown = MASKS_AS_STRUCTURE.resolve(choice)
    allowed = ~np.isnan(shown.kinds)
    for i in range(12):  # breadth first, the slow obvious way
        found, edge, n_layers = {}, {i}, 0
        while edge:
            n_layers += 1
            edge = {int(j) for k in edge for j in np.flatnonzero(allowed[k])} - found.keys()
            found |= dict.fromkeys(edge, n_layers)
        expected = [found.get(j, math.nan) for j in range(12)]
        np.testing.assert_array_equal(shown.steps[i], expected)
    assert shown.words.sentence


def test_that_impossible_masks_are_refused() -> None:
    with pytest.raises(ValueError, match="no mask"):
        replace(MASKS_AS_STRUCTURE.example, n_tokens=1)
    with pytest.raises(ValueError, match="negative"):
        replace(MASKS_AS_STRUCTURE.example, window=-1)
    bare, drawn = (
        MASKS_AS_STRUCTURE.resolve(replace(MASKS_AS_STRUCTURE.example, mask="bigbird", n_random=n)).kinds
        for n in (0, 2)
    )
    assert 3 in drawn
    assert 3 not in bare, "no random block"


# Cost


def test_that_sizes_are_never_a_thousand_of_a_smaller_unit() -> None:
    shown = [
        dict(COST_BY_LENGTH.resolve(replace(COST_BY_LENGTH.example, n_tokens=n)).words.numbers)["weights T²"]
        for n in (15, 500, 15_811)
    ]
    assert shown == ["900 bytes", "1 MB", "1 GB"]
    assert [flops_text(n) for n in (999_999, 1e6, 1.53e12)] == ["999,999", "1 · 10⁶", "1.53 · 10¹²"]
    assert [bytes_text(n) for n in (999, 999_700, 63_149_000)] == ["999 bytes", "1 MB", "63.1 MB"]
    assert [count_text(n) for n in (999_999, 1_234_567, 999_800_000)] == [
        "999,999", "1.23 million", "1 billion",
    ]  # fmt: skip


def test_that_operations_cross_at_t_equals_d() -> None:
    shown = COST_BY_LENGTH.resolve(replace(COST_BY_LENGTH.example, d_model=64))
    at = cost.LENGTHS.index(64)
    assert shown.attention_flops[at] == shown.recurrent_flops[at] == 4 * 64**3
    np.testing.assert_allclose(np.diff(np.log2(shown.attention_flops)), 2)
    np.testing.assert_allclose(np.diff(np.log2(shown.recurrent_flops)), 1)


def test_that_the_measured_crossing_lies_between_its_points() -> None:
    points = tuple(
        CostPoint(n_tokens=n, d_model=8, attention_ms=n * n / 100, recurrent_ms=float(n))
        for n in (16, 64, 256)
    )
    assert find_crossing(points) == pytest.approx(100, rel=1e-9)
    assert find_crossing(points[:2]) is None
    assert (
        "T ≈ 100"
        in dict(COST_BY_LENGTH.resolve(replace(COST_BY_LENGTH.example, points=points)).words.numbers)[
            "crossing measured"
        ]
    )


@pytest.mark.parametrize(
    ("at_first", "growth", "words"),
    [
        (0.5, 1.0, "attention stays ahead: its operations"),
        (0.5, 1.2, "attention stays ahead until T ≈ "),
        (2.0, 1.2, "attention is slower from the shortest text on"),
        (2.0, 0.5, "attention stays ahead: its operations"),
    ],
)
def test_that_who_is_ahead_is_said_as_it_was_measured(at_first: float, growth: float, words: str) -> None:
    points = tuple(
        CostPoint(n_tokens=n, d_model=64, attention_ms=at_first * growth**k, recurrent_ms=1.0)
        for k, n in enumerate(cost.MEASURED)
    )
    assert words in COST_BY_LENGTH.resolve(replace(COST_BY_LENGTH.example, points=points)).words.sentence
    assert (
        f"{len(points) - 1} of {len(points)} lengths"
        in COST_BY_LENGTH.resolve(replace(COST_BY_LENGTH.example, points=points[1:])).words.sentence
    )


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (ORDER_BLINDNESS.example, "they differ by exactly 0"),
        (replace(ORDER_BLINDNESS.example, position_scale=1.0), "With positions the outputs differ by up to "),
        (
            replace(ORDER_BLINDNESS.example, is_causal=True),
            "No positions, and yet the outputs differ by up to ",
        ),
        (replace(ORDER_BLINDNESS.example, second="only I LOVE you"), "Both lines are the same sentence."),
        (replace(ORDER_BLINDNESS.example, second="only I love"), "Type the same words in both lines"),
    ],
)
def test_that_the_lab_of_order_says_what_was_found(choice: object, words: str) -> None:
    assert words in ORDER_BLINDNESS.resolve(choice).words.sentence


def test_that_what_is_measured_is_attention_and_a_recurrence() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    scores = np.exp(rows @ rows.T / 2)
    np.testing.assert_allclose(
        cost.attend_plainly(rows), scores / scores.sum(1, keepdims=True) @ rows, rtol=1e-5
    )
    weights = np.stack([np.eye(4), 0.5 * np.eye(4)]).astype(np.float32)
    state = np.zeros(4)
    for row, found in zip(rows, cost.recur_elman(rows, weights), strict=True):
        state = np.tanh(row + 0.5 * state)
        np.testing.assert_allclose(found, state, rtol=1e-5)
    (point,) = cost.measure_costs(4, (8,))
    assert point.attention_ms > 0
    assert point.recurrent_ms > 0


def test_that_measured_memory_is_what_the_paper_counts() -> None:
    n, d = 512, 32
    (point,) = cost.measure_costs(d, (n,))
    assert point.attention_bytes == pytest.approx(4 * (n * n + n * d), rel=0.05)
    assert point.recurrent_bytes == pytest.approx(4 * n * d, rel=0.25)


# Order


@pytest.mark.parametrize("seed", range(4))
def test_that_without_positions_the_outputs_are_exactly_the_same_set(seed: int) -> None:
    shown = ORDER_BLINDNESS.resolve(replace(ORDER_BLINDNESS.example, seed=seed))
    assert shown.largest == 0.0
    assert [word.lower() for word in shown.sorted_words] == ["i", "love", "only", "you"]
    assert "set of words" in shown.words.sentence
    assert (
        ORDER_BLINDNESS.resolve(replace(ORDER_BLINDNESS.example, seed=seed, position_scale=1.0)).largest > 0.1
    )
    assert ORDER_BLINDNESS.resolve(replace(ORDER_BLINDNESS.example, seed=seed, is_causal=True)).largest > 0.1


@pytest.mark.parametrize("is_causal", [False, True])
def test_that_outputs_are_those_of_plain_attention(is_causal: bool) -> None:
    choice = replace(ORDER_BLINDNESS.example, first="a b c", position_scale=1.0, is_causal=is_causal, seed=4)
    found, d = ORDER_BLINDNESS.resolve(choice).first, 12
    random = np.random.default_rng(4)
    maps = random.standard_normal((3, d, d)) / math.sqrt(d)
    angles = [[t / 10000 ** (2 * (k // 2) / d) for k in range(d)] for t in range(3)]
    positions = np.where(np.arange(d) % 2, np.cos(angles), np.sin(angles))
    words = np.stack([np.random.default_rng([4, ord(letter)]).standard_normal(d) for letter in "abc"])
    rows = words + positions
    queries, keys, values = 1.4 * rows @ maps[0], 1.4 * rows @ maps[1], rows @ maps[2]
    for i in range(3):
        seen = i + 1 if is_causal else 3
        raised = [math.exp(queries[i] @ keys[j] / math.sqrt(d)) for j in range(seen)]
        weights = np.array(raised) / sum(raised)
        np.testing.assert_allclose(found.weights[i, :seen], weights, atol=1e-12)
        assert np.isnan(found.weights[i, seen:]).all()
        np.testing.assert_allclose(found.outputs[i], weights @ values[:seen], atol=1e-12)


@pytest.mark.parametrize("second", ["", "I love", "you love only him"])
def test_that_other_words_are_not_compared(second: str) -> None:
    shown = ORDER_BLINDNESS.resolve(replace(ORDER_BLINDNESS.example, second=second))
    assert shown.difference is None
    assert "same words" in shown.words.sentence
    assert (
        "same sentence"
        in ORDER_BLINDNESS.resolve(replace(ORDER_BLINDNESS.example, second="ONLY i love you")).words.sentence
    )

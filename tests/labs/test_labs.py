"""The labs' numbers against known answers and slow obvious versions."""

import math
from dataclasses import replace

import numpy as np
import pytest

from attnscope.counting import bytes_text, count_text, flops_text, format_number
from attnscope.labs import cost, kernel_regression, mask_structure, order, saturation
from attnscope.labs.cost import CostChoice, CostPoint, costs_by_length, find_crossing
from attnscope.labs.kernel_regression import RegressionChoice, regress
from attnscope.labs.mask_structure import MASKS, MaskChoice, show_mask
from attnscope.labs.order import OrderChoice, compare_orders
from attnscope.labs.saturation import SIZES, SaturationChoice, saturate
from attnscope.viewmodels.labs.controls import LabState


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
    shown = regress(RegressionChoice(sigma=sigma, features=features))  # type: ignore[arg-type]
    assert shown.difference < 1e-14
    if features == "place":  # a slow version of Nadaraya (1964)
        kernels = [math.exp(-((0.6 - key) ** 2) / (2 * sigma**2)) for key in shown.keys]
        expected = sum(k * v for k, v in zip(kernels, shown.values, strict=True)) / sum(kernels)
        assert shown.estimate == pytest.approx(expected, abs=1e-12)


def test_that_with_keys_of_one_length_the_dot_product_is_the_gaussian() -> None:
    dot = regress(RegressionChoice(score="dot", features="waves"))
    assert dot.difference < 1e-13
    assert regress(RegressionChoice(score="dot")).difference > 0.3
    scaled = regress(RegressionChoice(score="scaled-dot", features="waves", sigma=0.35 / 2))
    np.testing.assert_allclose(scaled.fitted, dot.fitted, atol=1e-12)  # σ² √16


def test_that_a_cosine_in_one_dimension_knows_the_side_alone() -> None:
    shown = regress(RegressionChoice(score="cosine", sigma=0.05))
    is_right = shown.keys > 0
    np.testing.assert_allclose(shown.weights[is_right], 1 / is_right.sum(), atol=1e-12)
    assert shown.weights[~is_right].max() < 1e-100


@pytest.mark.parametrize("score", list(kernel_regression.scores_offered()))
def test_that_weights_sum_to_one_and_a_wide_kernel_gives_the_mean(score: str) -> None:
    shown = regress(RegressionChoice(score=score, sigma=500.0))
    assert shown.weights.sum() == pytest.approx(1, abs=1e-12)
    assert shown.estimate == pytest.approx(float(shown.values.mean()), abs=1e-4)
    assert shown.n_effective == pytest.approx(40, abs=0.01)
    assert shown.words.sentence


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (RegressionChoice(score="gaussian", sigma=0.02), "follows the noise of single samples"),
        (RegressionChoice(score="gaussian", sigma=50.0), "the curve flattens to the mean"),
        (RegressionChoice(score="gaussian"), "Drag the query"),
        (RegressionChoice(score="dot", features="waves"), "to rounding"),
        (RegressionChoice(score="scaled-dot", features="waves"), "only the temperature differs"),
        (RegressionChoice(score="cosine", features="place"), "only knows the sign"),
        (RegressionChoice(score="dot", features="place"), "the longest keys win"),
    ],
)
def test_that_the_lab_of_regression_says_what_the_score_does(choice: RegressionChoice, words: str) -> None:
    assert words in regress(choice).words.sentence


def test_that_noise_only_scales_and_impossible_choices_are_refused() -> None:
    quiet = regress(RegressionChoice(noise=0.0))
    np.testing.assert_array_equal(quiet.values, kernel_regression.true_curve(quiet.keys))
    with pytest.raises(ValueError, match="no regression"):
        RegressionChoice(sigma=0.0)
    with pytest.raises(ValueError, match="no regression with the score kernel"):
        RegressionChoice(score="kernel")


# Saturation


@pytest.mark.slow
def test_that_the_variance_of_scores_grows_as_d_and_scaling_brings_it_back() -> None:
    shown = saturate(SaturationChoice(n_keys=64))
    np.testing.assert_allclose(shown.plain.variance / np.array(SIZES), 1.0, atol=0.15)
    np.testing.assert_allclose(shown.scaled.variance, shown.plain.variance / np.array(SIZES))
    assert shown.plain.largest[-1] > 0.9
    assert shown.scaled.largest[-1] < 0.2
    assert shown.plain.gradient[-1] < 0.4 * shown.scaled.gradient[-1]
    assert "256" in shown.words.sentence


def test_that_the_gradients_norm_is_that_of_the_whole_matrix() -> None:
    weights = saturation.softmax(np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0]]))
    slow = [np.linalg.norm(np.diag(p) - np.outer(p, p)) for p in weights]
    np.testing.assert_allclose(saturation.gradient_norm(weights), slow, rtol=1e-12)
    np.testing.assert_allclose(saturation.measure_softness(np.zeros((1, 2, 5))).entropy, 1.0)
    with pytest.raises(ValueError, match="no lab"):
        SaturationChoice(d_k=3)


# Masks


def test_that_counts_and_layers_of_known_masks_are_right() -> None:
    full = show_mask(MaskChoice(mask="full", n_tokens=10))
    assert (full.n_seen, full.share, full.n_layers, full.never) == (100, 1.0, 1, 0.0)
    causal = show_mask(MaskChoice(mask="causal", n_tokens=10))
    assert (causal.n_seen, causal.n_layers, causal.never) == (55, 1, 0.0)
    window = show_mask(MaskChoice(mask="window", n_tokens=20, window=3))
    assert window.n_layers == math.ceil(19 / 3)
    assert window.n_seen == 20 * 7 - 2 * (3 + 2 + 1)
    padded = show_mask(MaskChoice(mask="window", n_tokens=20, window=3, n_padding=4))
    assert padded.n_layers == math.ceil(15 / 3)
    assert padded.never == 0
    assert show_mask(MaskChoice(mask="global", n_tokens=20, n_global=1)).n_layers == 2
    prefix = show_mask(MaskChoice(mask="prefix", n_tokens=6, n_prefix=2))
    assert prefix.n_seen == 21 + 1


@pytest.mark.parametrize(("is_causal", "whom"), [(False, "every other one"), (True, "every earlier token")])
def test_that_one_layer_of_a_full_mask_is_enough(is_causal: bool, whom: str) -> None:
    shown = show_mask(MaskChoice(mask="full", n_tokens=4, is_causal=is_causal))
    assert shown.words.sentence.endswith(
        f": one layer is enough for every token to receive information from {whom}."
    )
    assert dict(shown.words.numbers)["cells seen"] == ("10" if is_causal else "16")


def test_that_a_dilated_window_never_joins_its_steps() -> None:
    shown = show_mask(MaskChoice(mask="dilated", n_tokens=16, window=2, dilation=2))
    assert shown.never == pytest.approx(128 / 240)
    assert np.isnan(shown.steps[0, 1::2]).all()
    assert "never meet" in shown.words.sentence


@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("is_causal", [False, True])
def test_that_layers_to_reach_are_shortest_ways(mask: str, is_causal: bool) -> None:
    choice = MaskChoice(mask=mask, n_tokens=12, is_causal=is_causal)  # type: ignore[arg-type]
    shown = show_mask(choice)
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
        MaskChoice(n_tokens=1)
    with pytest.raises(ValueError, match="negative"):
        MaskChoice(window=-1)
    assert mask_structure.drawn_links(MaskChoice(n_random=0)) == ()


# Cost


def test_that_sizes_are_never_a_thousand_of_a_smaller_unit() -> None:
    shown = [
        dict(costs_by_length(CostChoice(n_tokens=n)).words.numbers)["weights T²"] for n in (15, 500, 15_811)
    ]
    assert shown == ["900 bytes", "1 MB", "1 GB"]
    assert [flops_text(n) for n in (999_999, 1e6, 1.53e12)] == ["999,999", "1 · 10⁶", "1.53 · 10¹²"]
    assert [bytes_text(n) for n in (999, 999_700, 63_149_000)] == ["999 bytes", "1 MB", "63.1 MB"]
    assert [count_text(n) for n in (999_999, 1_234_567, 999_800_000)] == [
        "999,999", "1.23 million", "1 billion",
    ]  # fmt: skip


def test_that_operations_cross_at_t_equals_d() -> None:
    shown = costs_by_length(CostChoice(d_model=64))
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
    assert "T ≈ 100" in dict(costs_by_length(CostChoice(points=points)).words.numbers)["crossing measured"]


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
    assert words in costs_by_length(CostChoice(points=points)).words.sentence
    assert (
        f"{len(points) - 1} of {len(points)} lengths"
        in costs_by_length(CostChoice(points=points[1:])).words.sentence
    )


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (OrderChoice(), "they differ by exactly 0"),
        (OrderChoice(position_scale=1.0), "With positions the outputs differ by up to "),
        (OrderChoice(is_causal=True), "No positions, and yet the outputs differ by up to "),
        (OrderChoice(second="only I LOVE you"), "Both lines are the same sentence."),
        (OrderChoice(second="only I love"), "Type the same words in both lines"),
    ],
)
def test_that_the_lab_of_order_says_what_was_found(choice: OrderChoice, words: str) -> None:
    assert words in compare_orders(choice).words.sentence


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
    shown = compare_orders(OrderChoice(seed=seed))
    assert shown.largest == 0.0
    assert [word.lower() for word in shown.sorted_words] == ["i", "love", "only", "you"]
    assert "set of words" in shown.words.sentence
    assert compare_orders(OrderChoice(seed=seed, position_scale=1.0)).largest > 0.1
    assert compare_orders(OrderChoice(seed=seed, is_causal=True)).largest > 0.1


def test_that_outputs_are_those_of_plain_attention() -> None:
    choice = OrderChoice(position_scale=1.0)
    found = order.attend_sentence("a b c", choice)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-12)
    values = np.linalg.lstsq(found.weights, found.outputs, rcond=None)[0]
    np.testing.assert_allclose(found.weights @ values, found.outputs, atol=1e-9)
    np.testing.assert_allclose(order.sinusoids(3)[:, 0], np.sin([0, 1, 2]))


@pytest.mark.parametrize("second", ["", "I love", "you love only him"])
def test_that_other_words_are_not_compared(second: str) -> None:
    shown = compare_orders(replace(OrderChoice(), second=second))
    assert shown.difference is None
    assert "same words" in shown.words.sentence
    assert "same sentence" in compare_orders(OrderChoice(second="ONLY i love you")).words.sentence

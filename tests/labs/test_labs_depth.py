"""The labs of depth, distance and training: their numbers against slow versions and known laws."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from attnscope.counting import format_number
from attnscope.labs import LABS
from attnscope.records import (
    SCHEMES,
    WARMINGS,
    CollapseCurve,
    CollapseFinding,
    CollapseQuestion,
    ExperimentAnswer,
    GradientCurve,
    GradientFinding,
    GradientQuestion,
    ReachCurve,
    ReachFinding,
    ReachQuestion,
    WarmupFinding,
    WarmupQuestion,
    WarmupRun,
)

GRADIENT_BY_DISTANCE = LABS["Gradient by distance"]
LONGER_TEXTS = LABS["Longer texts"]
NORMS_BEFORE_OR_AFTER = LABS["Norms before or after"]
PAST_THE_TRAINED_LENGTH = LABS["Past the trained length"]
RANK_COLLAPSE = LABS["Rank collapse"]
SETTINGS = [(skips, feeds) for skips in (True, False) for feeds in (True, False)]
GROWTH = "growth of ln r, attention alone"
N_STEPS = 80
WHY_WARM_UP = LABS["Why warm-up"]


def slow_layer(x, weights, *, sharpness, has_norm, has_skips, has_feed_forward):
    """One layer, token by token and head by head."""

    def norm(rows):
        if not has_norm:
            return rows
        return [[(v - np.mean(r)) / math.sqrt(np.var(r) + 1e-12) for v in r] for r in rows]

    read = np.array(norm(x))
    outs = []
    for i in range(len(x)):
        parts = []
        for h in range(len(weights.queries)):
            query = read[i] @ weights.queries[h]
            scores = [sharpness**2 * query @ (row @ weights.keys[h]) / math.sqrt(len(query)) for row in read]
            raised = [math.exp(s - max(scores)) for s in scores]
            mixed = sum(
                r / sum(raised) * (row @ weights.values[h]) for r, row in zip(raised, read, strict=True)
            )
            parts.append(mixed)
        change = np.concatenate(parts) @ weights.output
        outs.append(x[i] + change if has_skips else change)
    x = np.array(outs)
    if not has_feed_forward:
        return x
    change = [np.maximum(row @ weights.rise, 0) @ weights.fall for row in np.array(norm(x))]
    return x + np.array(change) if has_skips else np.array(change)


def drawn_layer(seed: int, layer: int, d: int, n_heads: int) -> SimpleNamespace:
    """The random weights of a layer of the lab, from the same seed."""
    random = np.random.default_rng((seed, layer, d))
    each = (n_heads, d, d // n_heads)
    queries, keys, values = (random.standard_normal(each) / np.sqrt(d) for _ in range(3))
    output = random.standard_normal((d, d)) / np.sqrt(d)
    rise = random.standard_normal((d, 4 * d)) * np.sqrt(2 / d)
    fall = random.standard_normal((4 * d, d)) * np.sqrt(1 / (4 * d))
    return SimpleNamespace(queries=queries, keys=keys, values=values, output=output, rise=rise, fall=fall)


@pytest.mark.parametrize("has_norm", [True, False])
@pytest.mark.parametrize("setting", SETTINGS)
def test_that_layers_are_those_of_a_slow_version(setting: tuple[bool, bool], has_norm: bool) -> None:
    parts = {"has_norm": has_norm, "has_skips": setting[0], "has_feed_forward": setting[1], "sharpness": 1.5}
    small = replace(RANK_COLLAPSE.example, d_model=8, n_heads=2, n_tokens=5, n_layers=2, seed=1, **parts)
    x = RANK_COLLAPSE.resolve(replace(small, layer=0)).stream
    assert x.shape == (5, 8)
    ratios = RANK_COLLAPSE.resolve(small).ratios[setting]
    for layer in (0, 1):
        x = slow_layer(x, drawn_layer(1, layer, 8, 2), **parts)
        shown = RANK_COLLAPSE.resolve(replace(small, layer=layer + 1))
        np.testing.assert_allclose(shown.stream, x, rtol=1e-9)
        away = math.sqrt(sum(float(((row - x.mean(axis=0)) ** 2).sum()) for row in x))
        assert ratios[layer + 1] == pytest.approx(away / math.sqrt((x**2).sum()), rel=1e-9)


def test_that_attention_alone_falls_doubly_exponentially_and_skips_prevent_it() -> None:
    shown = RANK_COLLAPSE.resolve(RANK_COLLAPSE.example)
    alone, both = shown.ratios[False, False], shown.ratios[True, True]
    assert float(dict(shown.words.numbers)[GROWTH]) == pytest.approx(3.0, abs=0.4)
    assert np.isnan(alone[-1])
    assert both[-1] > 0.5
    assert "the same vector" in shown.words.sentence
    kept = RANK_COLLAPSE.resolve(
        replace(RANK_COLLAPSE.example, has_skips=True, has_feed_forward=True, layer=12)
    )
    assert "With skips" in kept.words.sentence
    assert (
        kept.likeness[0, 1]
        < 0.9
        < RANK_COLLAPSE.resolve(replace(RANK_COLLAPSE.example, layer=6)).likeness.min()
    )


def test_that_the_opened_models_curve_is_named_or_refused() -> None:
    question = CollapseQuestion(model="x", text="a b")
    curve = CollapseCurve(stack="encoder", has_skips=False, has_feed_forward=False, ratios=(0.5, 0.1))
    finding = CollapseFinding(question=question, name="tiny", stack="encoder", curves=(curve,))
    for answer, told in (
        (ExperimentAnswer(finding=finding, is_exact=True), "tiny"),
        (ExperimentAnswer(error="No."), "not for this one"),
        (ExperimentAnswer(is_asked=True), "…"),
    ):
        shown = RANK_COLLAPSE.resolve(replace(RANK_COLLAPSE.example, answer=answer))
        assert shown.words.numbers[-1] == ("curve of the opened model", told)
    drawn = RANK_COLLAPSE.charts(
        RANK_COLLAPSE.resolve(replace(RANK_COLLAPSE.example, answer=ExperimentAnswer(finding=finding)))
    )[0]
    np.testing.assert_array_equal(drawn.series[-1].ys, [0.5, 0.1])
    assert drawn.series[-1].name == "tiny, skips off"


def test_that_the_theory_cubes_from_the_first_fall_and_the_growth_is_that_of_the_last() -> None:
    shown = RANK_COLLAPSE.resolve(RANK_COLLAPSE.example)
    alone = shown.ratios[False, False]
    start = next(k for k in range(len(alone) - 1) if alone[k] < 0.5 and alone[k + 1] < alone[k])
    np.testing.assert_array_equal(shown.cubed[start : start + 2], alone[start : start + 2])
    assert np.isnan(shown.cubed[:start]).all()
    falls = np.diff(np.log(shown.cubed[start:][np.isfinite(shown.cubed[start:])]))
    assert len(falls) >= 2
    np.testing.assert_allclose(falls[1:] / falls[:-1], 3.0)  # ratios of neighbours: r, r³
    known = np.log(alone[1:][np.isfinite(alone[1:])])
    growth = (known[-1] - known[-2]) / (known[-2] - known[-3])
    assert dict(shown.words.numbers)[GROWTH] == format_number(float(growth), 2)
    short = RANK_COLLAPSE.resolve(replace(RANK_COLLAPSE.example, n_layers=2))
    assert dict(short.words.numbers)[GROWTH] == "–"
    with pytest.raises(ValueError, match="shared by"):
        replace(RANK_COLLAPSE.example, d_model=16, n_heads=3)


@pytest.mark.slow
def test_that_a_gradient_falls_with_a_small_radius_and_grows_with_a_large_one() -> None:
    lab = GRADIENT_BY_DISTANCE
    shown = lab.resolve(replace(lab.example, n_tokens=64, radius=0.5))
    assert shown.plain[31] < 1e-9
    large = lab.resolve(replace(lab.example, n_tokens=64, radius=2.0, distance=63)).words.numbers
    assert float(dict(large)["‖∂h_T/∂h_t‖, tanh network"].replace(",", "")) > 10
    assert shown.attention[39:].mean() == pytest.approx(shown.attention[4:19].mean(), rel=0.2)
    assert shown.plain[0] == shown.gated[0] == shown.attention[0] == shown.linear[0] == 1.0
    assert 0.5 < np.nanmin(shown.attention) < np.nanmax(shown.attention) < 2
    assert "about 1/T = 0.016 near and far" in shown.words.sentence
    assert (
        "and grows"
        in GRADIENT_BY_DISTANCE.resolve(
            replace(GRADIENT_BY_DISTANCE.example, radius=2.0, n_tokens=256, distance=250)
        ).words.sentence
    )


def test_that_the_numbers_of_the_gradient_are_those_of_its_curves() -> None:
    shown = GRADIENT_BY_DISTANCE.resolve(
        replace(GRADIENT_BY_DISTANCE.example, n_tokens=32, distance=7, forget_bias=0.0, radius=0.5)
    )
    numbers = dict(shown.words.numbers)
    assert (numbers["1 / T"], numbers["ρ^7"], numbers["forget gate σ(0)"]) == ("0.0312", "0.00781", "0.5")
    assert numbers["left of distance 1, tanh"] == format_number(float(shown.plain[6]))
    assert numbers["left of distance 1, LSTM"] == format_number(float(shown.gated[6]))
    assert shown.linear[6] == pytest.approx(0.5**6)


def test_that_every_scheme_says_of_an_offset_what_its_paper_says() -> None:
    shown = PAST_THE_TRAINED_LENGTH.resolve(
        replace(
            PAST_THE_TRAINED_LENGTH.example, n_trained=16, d_model=16, base=100.0, head=4, place=3, offset=10
        )
    )
    numbers = dict(shown.words.numbers)
    angles = [10000.0 ** (-2 * i / 16) for i in range(8)]
    cosine = sum(math.cos(10 * angle) for angle in angles) / 8
    turned = [100.0 ** (-2 * i / 4) for i in range(2)]
    assert numbers["sinusoidal cosine"] == format_number(cosine)
    assert numbers["rotary score, d_head 4"] == format_number(
        sum(math.cos(10 * angle) for angle in turned) / 2
    )
    assert (numbers["m"], numbers["ALiBi, head 4: −m·Δ"]) == ("0.0625", "−0.625")
    assert numbers["pairs under one rotation in L"] == f"{sum(16 * a < 2 * math.pi for a in angles)} of 8"
    assert numbers["the same, rotary"] == f"{sum(16 * a < 2 * math.pi for a in turned)} of 2"
    assert [pair.pair for pair in shown.pairs] == [0, 2, 5, 7]
    assert shown.pairs[1].after == pytest.approx(13 * angles[2])
    assert (
        dict(
            PAST_THE_TRAINED_LENGTH.resolve(replace(PAST_THE_TRAINED_LENGTH.example, offset=0)).words.numbers
        )["ALiBi, head 4: −m·Δ"]
        == "0"
    )


def test_that_only_the_learned_table_ends_at_the_trained_length() -> None:
    shown = PAST_THE_TRAINED_LENGTH.resolve(replace(PAST_THE_TRAINED_LENGTH.example, n_trained=32, offset=31))
    assert np.isfinite(shown.learned[:32]).all()
    assert np.isnan(shown.learned[32:]).all()
    assert all(np.isfinite(ys).all() for ys in (shown.sinusoidal, shown.rotary, shown.alibi, shown.t5))
    assert "31 tokens rotate" in shown.words.sentence
    assert (
        "A learned table has nothing there"
        in PAST_THE_TRAINED_LENGTH.resolve(
            replace(PAST_THE_TRAINED_LENGTH.example, n_trained=32, offset=32)
        ).words.sentence
    )


def test_that_gradients_are_shown_as_far_as_they_have_come() -> None:
    question = GradientQuestion(n_layers=4)
    curves = (
        GradientCurve(place="post", n_layers=4, norms=(1.0, 1.0, 1.0, 2.0)),
        GradientCurve(place="pre", n_layers=4, norms=(1.0, 0.8, 0.6, 0.5)),
        GradientCurve(place="post", n_layers=1, norms=(1.5,)),
    )
    answer = ExperimentAnswer(finding=GradientFinding(question=question, curves=curves), is_exact=True)
    shown = NORMS_BEFORE_OR_AFTER.resolve(replace(NORMS_BEFORE_OR_AFTER.example, n_layers=4, answer=answer))
    np.testing.assert_array_equal(shown.last["post"], [1.5, 2.0])
    np.testing.assert_array_equal(shown.last["pre"], [np.nan, 0.5])
    np.testing.assert_allclose(shown.falling, [1.0, 0.5])
    assert "4 times the gradient after, more in deeper models (1.5 → 2)" in shown.words.sentence
    assert "grow (1 → 2) with norms after, fall (1 → 0.5) before" in shown.words.sentence
    flat = replace(curves[0], norms=(1.0, 1.1, 0.9, 1.03))
    told = replace(answer, finding=GradientFinding(question=question, curves=(flat, *curves[1:])))
    sentence = NORMS_BEFORE_OR_AFTER.resolve(
        replace(NORMS_BEFORE_OR_AFTER.example, n_layers=4, answer=told)
    ).words.sentence
    assert "hardly change (1 → 1) with norms after" in sentence
    assert "less in deeper models (1.5 → 1)" in sentence
    asked = replace(answer, is_exact=False, is_asked=True, n_done=2, n_total=30)
    assert (
        "2 of 30"
        in NORMS_BEFORE_OR_AFTER.resolve(
            replace(NORMS_BEFORE_OR_AFTER.example, n_layers=4, answer=asked)
        ).words.sentence
    )


@pytest.mark.parametrize(("drawing", "is_small"), [("xavier", False), ("small", True)])
def test_that_only_small_weights_are_called_small(drawing: str, is_small: bool) -> None:
    question = GradientQuestion(n_layers=2, drawing=drawing)
    curves = tuple(
        GradientCurve(place=place, n_layers=n, norms=(last,) * n)
        for n in (1, 2)
        for place, last in (("post", 1.2), ("pre", 1.0))
    )
    answer = ExperimentAnswer(finding=GradientFinding(question=question, curves=curves), is_exact=True)
    choice = replace(NORMS_BEFORE_OR_AFTER.example, n_layers=2, drawing=drawing, answer=answer)
    sentence = NORMS_BEFORE_OR_AFTER.resolve(choice).words.sentence
    assert ("With weights as small as these" in sentence) == is_small
    assert ("1.2 times the gradient" in sentence) == (not is_small)


def _warmed(ends: dict[str, float]) -> WarmupFinding:
    """Runs that end at these losses."""
    runs = tuple(
        WarmupRun(
            warming=w,
            losses=(2.9,) * (N_STEPS - 10) + (ends[w],) * 10,
            histograms=((1, 3, 0),) * N_STEPS,
            typical=(0.01,) * N_STEPS,
        )
        for w in WARMINGS
    )
    edges = (-3.0, -2.0, -1.0, 0.0)
    return WarmupFinding(question=WarmupQuestion(), edges=edges, runs=runs, n_parameters=4)


@pytest.mark.parametrize(
    ("none", "warmup", "words"),
    [
        (1.71, 2.35, "has hardly begun to learn (2.4 nats, without 1.7)"),
        (2.77, 2.77, "too high for this model"),
        (2.77, 2.71, "too high for this model"),
        (2.47, 2.46, "80 steps are too few here"),
        (2.42, 1.82, "learns less and ends at 2.4 nats"),
        (2.77, 1.5, "derailed and stays at 2.8 nats"),
        (0.4, 0.1, "learns less and ends at 0.4 nats"),
        (0.3, 0.27, "learns without warm-up as well"),
    ],
)
def test_that_a_long_warm_up_is_not_called_too_high_a_rate(none: float, warmup: float, words: str) -> None:
    answer = ExperimentAnswer(finding=_warmed({"none": none, "warmup": warmup, "radam": 1.0}), is_exact=True)
    assert words in WHY_WARM_UP.resolve(replace(WHY_WARM_UP.example, answer=answer)).words.sentence


def test_that_updates_of_a_step_are_shares_and_the_sentence_follows_the_losses() -> None:
    finding = _warmed({"none": 2.7, "warmup": 0.1, "radam": 0.2})
    shown = WHY_WARM_UP.resolve(
        replace(WHY_WARM_UP.example, step=10, answer=ExperimentAnswer(finding=finding, is_exact=True))
    )
    np.testing.assert_allclose(shown.shares["none"], [0.25, 0.75, 0.0])
    np.testing.assert_allclose(shown.sizes, 10.0 ** np.array([-2.5, -1.5, -0.5]))
    numbers = dict(shown.words.numbers)
    assert numbers["η now, warm-up"] == "0.0025"
    assert [value for name, value in numbers.items() if "at the end" in name] == ["2.7", "0.1", "0.2"]
    assert "derailed" in shown.words.sentence
    empty = WHY_WARM_UP.resolve(WHY_WARM_UP.example)
    assert np.isnan(empty.losses["none"]).all()


def test_that_losses_are_averaged_within_and_past_the_trained_length() -> None:
    question, nan = ReachQuestion(n_trained=2), math.nan
    losses = {"learned": (nan, 0.1, nan, nan), "alibi": (nan, 0.1, 0.2, 0.4), "rotary": (nan, 0.1, 3.0, 5.0)}
    curves = tuple(
        ReachCurve(scheme=s, losses=losses.get(s, (nan, 2.0, 2.0, 2.0)))  # type: ignore[arg-type]
        for s in SCHEMES
    )
    finding = ReachFinding(question=question, curves=curves, chance=2.77, n_read=4, n_parameters=9)
    shown = LONGER_TEXTS.resolve(
        replace(LONGER_TEXTS.example, n_trained=2, answer=ExperimentAnswer(finding=finding, is_exact=True))
    )
    assert (shown.within["rotary"], shown.past["rotary"]) == (0.1, 4.0)
    assert np.isnan(shown.past["learned"])
    numbers = dict(shown.words.numbers)
    assert (numbers["learned"], numbers["loss of a guess, ln 16"]) == ("0.1 → nothing", "2.77")
    said = "ALiBi keeps it on longer texts; rotary loses it past the end. 1,000 steps each."
    assert shown.words.sentence.endswith(said)
    older = ExperimentAnswer(
        finding=replace(finding, curves=curves[:-1]), is_exact=True
    )  # of one scheme less
    assert LONGER_TEXTS.resolve(replace(shown.choice, answer=older)).words.sentence == shown.words.sentence
    blind = replace(finding, curves=tuple(replace(one, losses=(nan, 0.1, 3.0, 5.0)) for one in curves))
    lost = replace(LONGER_TEXTS.example, answer=ExperimentAnswer(finding=blind, is_exact=True))
    assert re.search(
        r"ALiBi(,| and) no positions .*lose it past the end", LONGER_TEXTS.resolve(lost).words.sentence
    )
    unable = replace(finding, curves=tuple(replace(one, losses=(nan, 2.0, 2.0, 2.0)) for one in curves))
    none = replace(LONGER_TEXTS.example, answer=ExperimentAnswer(finding=unable, is_exact=True))
    assert "of the others none can do the task yet." in LONGER_TEXTS.resolve(none).words.sentence
    started = replace(finding, curves=curves[:2])
    answer = ExperimentAnswer(finding=started, is_asked=True, n_done=40, n_total=240)
    half = LONGER_TEXTS.resolve(replace(LONGER_TEXTS.example, n_trained=2, answer=answer)).words.sentence
    assert half.startswith("Past the trained length everything depends on the kind of positions")
    assert half.endswith("Measured here now (40 of 240)…")

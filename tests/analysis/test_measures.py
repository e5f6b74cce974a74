import math

import numpy as np
import pytest
import torch
from references import alignment_error_rate, detect, pattern, word_weights
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope import measure
from attnscope.analysis import head_alignment, induction_stripe, measure_heads, measured_grids, row_entropy
from attnscope.analysis import measures as measures_file
from attnscope.errors import UserError
from attnscope.nn import MaskRule, ScoreRule, log_weights, row_lse
from attnscope.records import HeadMeasures, HeadRef, RemoveEdge, Site, Token
from attnscope.schemes.measures import TEXT_MEASURES
from attnscope.trace import record as weights_file

# The fixture of the literature's definitions, worked out by hand.
W1 = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
W2 = torch.tensor([[1, 0, 0], [0.4, 0.6, 0], [0.1, 0.1, 0.8]])
SELF = Site(stack="decoder", layer=0, n_heads=1, n_kv_heads=1)


def masked(weights: torch.Tensor) -> torch.Tensor:
    return weights.masked_fill(torch.ones_like(weights).triu(1).bool(), math.nan)


def one(weights: torch.Tensor, site: Site = SELF, **choices: object) -> HeadMeasures:
    return measure_heads(weights[None], site, **choices)[0]  # type: ignore[arg-type]


def test_that_the_hand_fixture_comes_out_to_four_digits() -> None:
    np.testing.assert_allclose(row_entropy(W1).numpy(), [0, 0.6931, 1.0297], atol=5e-5)
    assert float(row_entropy(W1).mean()) == pytest.approx(0.5743, abs=5e-5)
    assert one(masked(W1)).distance == pytest.approx(0.4, abs=5e-5)
    assert one(masked(W1)).confidence == pytest.approx(0.6667, abs=5e-5)
    previous = pattern("previous", [5, 6, 7])
    assert float(detect(W1, previous)) == pytest.approx(0.26667, abs=5e-6)
    assert float(detect(W2, previous)) == pytest.approx(0.16667, abs=5e-6)
    assert float(detect(W1, previous, "abs")) == pytest.approx(-0.13333, abs=5e-6)


def test_that_entropy_is_normalised_by_the_keys_a_row_may_see() -> None:
    n = 6
    uniform = torch.tril(torch.ones(n, n))
    uniform /= uniform.sum(-1, keepdim=True)
    assert one(masked(uniform)).entropy == pytest.approx(1.0)
    assert one(torch.full((n, n), 1 / n)).entropy == pytest.approx(1.0)
    assert one(masked(torch.eye(n))).entropy == 0.0
    assert math.isnan(one(torch.ones(1, 1)).entropy)


def test_that_known_heads_have_known_measures() -> None:
    n = 8
    identity, previous = one(masked(torch.eye(n))), torch.zeros(n, n)
    previous[0, 0] = 1
    previous[range(1, n), range(n - 1)] = 1
    assert (identity.distance, identity.diagonal, identity.confidence) == (0.0, 1.0, 1.0)
    back = one(masked(previous))
    assert back.distance == pytest.approx((n - 1) / n)
    assert (back.previous, back.confidence) == (1.0, 1.0)
    first = torch.zeros(n, n)
    first[:, 0] = 1
    assert one(masked(first)).first == 1.0


def test_that_however_few_cells_are_allowed_a_short_text_is_measured_in_every_row() -> None:
    trace = tiny_model("decoder").trace(SENTENCE)
    assert measure(trace, max_cells=1) == measure(trace, max_cells=None)


def test_that_the_end_token_does_not_count_as_confidence() -> None:
    keys = (Token(id=5, piece="a"), Token(id=6, piece="b"), Token(id=3, piece="</s>", is_special=True))
    weights = torch.tensor([[0.1, 0.2, 0.7], [0.3, 0.1, 0.6], [0.0, 0.5, 0.5]])
    assert one(weights, keys=keys).confidence == pytest.approx((0.2 + 0.3 + 0.5) / 3)
    assert one(weights).confidence == pytest.approx((0.7 + 0.6 + 0.5) / 3)


def test_that_rows_that_see_nothing_do_not_count() -> None:
    weights = torch.full((3, 3), math.nan)
    weights[1] = torch.tensor([0.25, 0.5, 0.25])
    found = one(weights)
    assert (found.confidence, found.diagonal, found.previous, found.first) == (0.5, 0.5, 0.25, 0.25)
    nothing = one(torch.full((3, 3), math.nan))
    assert all(math.isnan(getattr(nothing, name)) for name in ("entropy", "confidence", "first"))


def test_that_cross_attention_has_no_distance() -> None:
    cross = Site(stack="cross", layer=0, n_heads=1, n_kv_heads=1)
    found = one(torch.full((3, 3), 1 / 3), cross)
    assert math.isnan(found.distance)
    assert math.isnan(found.previous)
    assert found.entropy == pytest.approx(1.0)


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_measures_equal_a_slow_float64_version(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tiny_model(form).trace(SENTENCE, target_of(form))
    found = measure(trace)
    assert [m.head for m in found] == [head for site in trace.sites for head in site.heads]
    for m in found:
        a = trace.weights(m.head.site_key, m.head.head).astype(np.float64)
        queries, _ = trace.tokens(m.head.site_key)
        is_word = [m.head.stack == "cross" or not token.is_special for token in queries]
        rows = [row[~np.isnan(row)] for row in a]
        words = [i for i in range(len(rows)) if is_word[i]]
        entropies = [-sum(w * math.log(w) for w in row) / math.log(len(row)) for row in rows if len(row) > 1]
        assert m.entropy == pytest.approx(sum(entropies) / len(entropies), abs=1e-5)
        assert m.first == pytest.approx(sum(rows[i][0] for i in words) / len(words), abs=1e-5)
        if m.head.stack != "cross":
            distances = [sum(w * abs(i - j) for j, w in enumerate(row)) for i, row in enumerate(rows)]
            assert m.distance == pytest.approx(sum(distances) / len(distances), abs=1e-5)
            previous = [rows[i][i - 1] for i in words if i > 0]
            assert m.previous == pytest.approx(sum(previous) / len(previous), abs=1e-5)
            assert m.diagonal == pytest.approx(sum(rows[i][i] for i in words) / len(words), abs=1e-5)
    monkeypatch.setattr("attnscope.analysis.measures.BLOCK_CELLS", 1)
    for fast, slow in zip(found, measure(trace), strict=True):
        assert fast.head == slow.head
        assert fast.entropy == pytest.approx(slow.entropy, nan_ok=True)


def test_that_patterns_mark_what_they_name() -> None:
    ids = [7, 8, 7, 8, 9]

    def marked(name: str) -> set[tuple[int, int]]:
        return {(int(i), int(j)) for i, j in pattern(name, ids).nonzero()}  # type: ignore[arg-type]

    assert marked("previous") == {(1, 0), (2, 1), (3, 2), (4, 3)}
    assert marked("duplicate") == {(2, 0), (3, 1)}
    # The token after an equal one: query 2 (7) looks at 1, the successor of the 7 at 0; never ahead.
    assert marked("induction") == {(2, 1), (3, 2)}


@pytest.mark.parametrize("name", ["previous", "duplicate", "induction"])
def test_that_a_head_that_is_the_pattern_scores_one(name: str) -> None:
    n = 5
    ids = [*range(10, 10 + n)] * 2
    expected = pattern(name, ids)  # type: ignore[arg-type]
    rows = expected.sum(-1) > 0
    weights = torch.where(rows[:, None], expected, math.nan)
    kept = weights.clone()
    assert float(detect(weights, expected)) == pytest.approx(1.0)
    assert float(detect(expected, expected, "abs")) == pytest.approx(1.0)
    assert torch.equal(weights.nan_to_num(-1), kept.nan_to_num(-1))


def test_that_an_induction_head_fills_the_stripe() -> None:
    n = 5
    weights = torch.zeros(2, 2 * n, 2 * n)
    for i in range(n, 2 * n):
        weights[0, i, i + 1 - n] = 1.0
        weights[1, i, i - n] = 1.0  # a duplicate head looks one token too early
    assert induction_stripe(weights, n).tolist() == [1.0, 0.0]


def test_that_unknown_patterns_and_scorings_are_refused() -> None:
    with pytest.raises(UserError):
        pattern("diagonal", [1])  # type: ignore[arg-type]
    with pytest.raises(UserError):
        detect(W1, pattern("previous", [1, 2, 3]), "max")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="against a pattern"):
        detect(W1, pattern("previous", [1, 2]))


def test_that_the_alignment_error_rate_follows_och_and_ney() -> None:
    sure, possible = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)}
    assert alignment_error_rate(sure, sure) == 0.0
    assert alignment_error_rate({(0, 0), (1, 1), (2, 1)}, sure, possible) == 0.0
    assert alignment_error_rate({(0, 1)}, sure, possible) == 1.0
    # A = {00, 21}: |A∩S| = 1, |A∩P| = 2, |A| + |S| = 4
    assert alignment_error_rate({(0, 0), (2, 1)}, sure, possible) == pytest.approx(1 - 3 / 4)
    assert math.isnan(alignment_error_rate((), ()))


def test_that_each_row_is_linked_to_its_largest_weight() -> None:
    weights = np.array([[0.1, 0.9], [np.nan, np.nan], [0.6, 0.4], [0.0, 0.0], [0.0, np.nan]], np.float32)
    assert head_alignment(weights) == ((0, 1), (2, 0))
    assert head_alignment(np.zeros((2, 0), np.float32)) == ()


def test_that_weights_between_words_are_sums_over_keys_and_means_over_queries() -> None:
    words = [-1, 0, 0, 1]
    weights = np.array([[9, 9, 9, 9], [1, 2, 3, 4], [3, 2, 1, 4], [0, 1, 1, 8]], np.float32)
    np.testing.assert_allclose(word_weights(weights, words, words), [[4, 4], [2, 8]])


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_maps_laid_out_once_give_the_same_thumbnails_and_measures(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tiny_model(form).trace(SENTENCE, target_of(form))
    for px in (4, 96):
        grids, measures = measured_grids(trace, px)
        for grid, expected in zip(grids, trace.grids(px), strict=True):
            assert grid.site == expected.site
            assert np.abs(grid.levels.astype(int) - expected.levels).max() <= 1  # the last bit, rounded
            np.testing.assert_allclose(grid.peaks, expected.peaks, rtol=1e-5)
        assert repr(measures) == repr(measure(trace))  # also where there is no number
    monkeypatch.setattr(measures_file, "BLOCK_CELLS", 0)  # too large to be laid out, read row by row
    assert repr(measured_grids(trace, 4)[1]) == repr(measure(trace))
    for found, expected in zip(measure(trace), measures, strict=True):
        assert found.head == expected.head
        for name in TEXT_MEASURES:
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-5, nan_ok=True)


def test_that_layers_are_measured_together_only_where_their_masks_are_alike() -> None:
    removed = RemoveEdge(head=HeadRef(stack="decoder", layer=1, head=2), query=3, key=1)
    for n_layers, interventions in ((3, ()), (3, (removed,)), (1, ())):
        trace = tiny_model("decoder", n_layers=n_layers).trace(SENTENCE, interventions=interventions)
        grids, measures = measured_grids(trace, 96)
        assert [grid.site for grid in grids] == list(trace.sites)
        assert [found.head for found in measures] == [head for site in trace.sites for head in site.heads]
        assert measures == measure(trace)
        for grid, expected in zip(grids, trace.grids(96), strict=True):
            assert np.abs(grid.levels.astype(int) - expected.levels).max() <= 1


def test_that_the_reply_to_a_text_lays_each_map_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counting(*rest: object, **named: object) -> torch.Tensor:
        calls.append(1)
        return log_weights(*rest, **named)  # type: ignore[arg-type]

    trace = tiny_model("decoder").trace(SENTENCE)
    for module in (measures_file, weights_file):
        monkeypatch.setattr(module, "log_weights", counting)
    measured_grids(trace, 96)
    assert len(calls) == len(trace.sites)


def test_that_logarithms_of_weights_equal_a_slow_float64_version() -> None:
    steps = torch.arange(2 * 4 * 5 * 3, dtype=torch.float64)
    q = torch.sin(steps * steps * 0.731).reshape(2, 4, 5, 3)
    k = torch.cos(steps * 1.37)[: 2 * 2 * 7 * 3].reshape(2, 2, 7, 3)
    rule, score = MaskRule(is_causal=True), ScoreRule(scale=0.6)
    lse = row_lse(q, k, rule=rule, score=score)
    for heads, rows, cols in (
        (slice(None), slice(None), slice(None)),
        (slice(1, 4), slice(1, 5, 2), slice(2, 6)),
    ):
        found = log_weights(
            q, k, lse[:, heads, rows], rule=rule, score=score, heads=heads, rows=rows, cols=cols
        )
        for text in range(2):
            for h, head in enumerate(range(4)[heads]):
                for r, i in enumerate(range(5)[rows]):
                    all_scores = [0.6 * float(q[text, head, i] @ k[text, head // 2, j]) for j in range(i + 3)]
                    whole = math.log(sum(map(math.exp, all_scores)))
                    for c, j in enumerate(range(7)[cols]):
                        expected = all_scores[j] - whole if j < i + 3 else -math.inf
                        assert float(found[text, h, r, c]) == pytest.approx(expected, abs=1e-12)


def test_that_a_model_and_texts_are_sent_to_measure_texts() -> None:
    model = tiny_model("decoder")
    for given in ((model,), (model, [SENTENCE, SENTENCE]), (model.trace(SENTENCE), [SENTENCE])):
        with pytest.raises(UserError, match=r"measure_texts\(model, texts\)"):
            measure(*given)

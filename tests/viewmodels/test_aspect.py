"""Ways of looking at maps: heads blended, keys left out, words; against slow obvious versions."""

import dataclasses

import numpy as np
import pytest
from figure_samples import head_map, ramp_weights, site_grid, tokens
from session_samples import Desk, ref

from attnscope.errors import UserError
from attnscope.figures.views import weights_of_grid
from attnscope.records import HeadMap, SelfCheck, Token, Tokens
from attnscope.viewmodels.maps import (
    PLAIN,
    Aspect,
    blend_name,
    blended_heads,
    grid_through,
    hidden_keys,
    map_through,
    shown_tokens,
    without_keys,
    word_weights,
    words_of_tokens,
)
from attnscope.viewmodels.session import leaves_out_end

PIECES = tokens("<s>", "un", "~believ", "~able", "cat", "</s>")


def causal_map(head: int = 0) -> HeadMap:
    weights = ramp_weights(6, 6, is_causal=True)
    weights = weights[::1] if head == 0 else np.where(np.isnan(weights), np.nan, weights[:, ::-1].copy())
    weights = np.where(np.isnan(weights), np.nan, weights).astype(np.float32)
    return HeadMap(head=ref(1, head, "decoder"), queries=PIECES, keys=PIECES, weights=weights)


def test_that_an_unknown_word_is_no_special_token_to_hide():
    unknown = Token(id=1, piece="<unk>", is_special=True, start=4, end=9, own="zebra")
    keys = (PIECES[0], unknown, PIECES[-1])
    assert hidden_keys(keys, "special").tolist() == [True, False, True]
    assert leaves_out_end(keys)
    assert not leaves_out_end(keys[:2])


@pytest.mark.parametrize("is_renormalised", [False, True])
@pytest.mark.parametrize("hidden", ["first", "special", "both"])
def test_that_hidden_keys_leave_their_mass_and_rows_can_sum_to_one_again(hidden, is_renormalised):
    weights = ramp_weights(6, 6, is_causal=True)
    is_hidden = hidden_keys(PIECES, hidden)
    found = without_keys(weights, is_hidden, is_renormalised=is_renormalised)
    shares = []
    for i in range(6):
        row = {j: float(weights[i, j]) for j in range(6) if not np.isnan(weights[i, j])}
        left = {j: w for j, w in row.items() if not is_hidden[j]}
        shares.append(1 - sum(left.values()) / sum(row.values()))
        for j in range(6):
            if np.isnan(weights[i, j]):
                assert np.isnan(found.weights[i, j])
            elif j not in left or (is_renormalised and not left):
                assert np.isinf(found.weights[i, j])
            else:
                wanted = left[j] / sum(left.values()) if is_renormalised else left[j]
                assert found.weights[i, j] == pytest.approx(wanted, abs=1e-6)
    assert found.removed == pytest.approx(np.mean(shares), abs=1e-6)


def test_that_a_row_with_nothing_left_is_no_number():
    weights = np.array([[1.0, np.nan], [0.25, 0.75]], dtype=np.float32)
    found = without_keys(weights, np.array([True, False]), is_renormalised=True)
    assert np.isinf(found.weights[0, 0])
    assert np.isnan(found.weights[0, 1])
    assert found.weights[1, 1] == pytest.approx(1.0)


def test_that_what_a_sink_leaves_is_shared_out_to_all_its_digits():
    left = np.array([1e-4, 7e-6, 3e-6])[:, None] * np.array([[0.5, 0.375, 0.125]])
    weights = np.hstack([1 - left.sum(axis=1, keepdims=True), left]).astype(np.float32)
    found = without_keys(weights, np.arange(4) == 0, is_renormalised=True).weights
    np.testing.assert_allclose(found[:, 1:], [[0.5, 0.375, 0.125]] * 3, rtol=1e-5)


def test_that_a_word_is_the_mean_of_its_pieces_that_have_something_left():
    pieces = tokens("un", "~able", "cat")
    weights = np.array([[1, np.nan, np.nan], [0.75, 0.25, np.nan], [0.5, 0.25, 0.25]], np.float32)
    one = HeadMap(head=ref(1, 0, "decoder"), queries=pieces, keys=pieces, weights=weights)
    again = map_through(Aspect(hidden="first", is_renormalised=True, is_by_word=True), (one,))
    np.testing.assert_allclose(again.weights, [[1, np.nan], [0.5, 0.5]])
    kept = map_through(Aspect(hidden="first", is_by_word=True), (one,))
    np.testing.assert_allclose(kept.weights, [[0.125, np.nan], [0.25, 0.25]])


def test_that_tokens_are_named_as_the_maps_have_them():
    read = Tokens(text="", tokens=PIECES)
    assert shown_tokens(read, PLAIN) == PIECES
    assert shown_tokens(read, Aspect(is_by_word=True)) == words_of_tokens(PIECES)
    assert len(words_of_tokens(PIECES)) == 4


def test_that_rows_of_other_sums_keep_theirs():
    weights = np.array([[0.1, 0.3, 0.1], [0, 0, 0]], np.float32)
    found = without_keys(weights, np.arange(3) == 0, is_renormalised=True)
    np.testing.assert_allclose(found.weights, [[np.inf, 0.375, 0.125], [np.inf, 0, 0]], rtol=1e-6)
    assert found.removed == pytest.approx(0.2)


def test_that_a_word_begins_with_the_text_and_reaches_to_its_last_piece():
    pieces = (Token(id=4, piece="un", joins_previous=True, start=0, end=2),
              Token(id=5, piece="able", joins_previous=True, start=2, end=6),
              Token(id=6, piece=" cat", joins_previous=True, start=6, end=10))  # fmt: skip
    first, second = words_of_tokens(pieces)
    assert (first.id, first.piece, first.start, first.end) == (4, "unable", 0, 6)
    assert second == pieces[2]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_that_a_blend_has_the_worst_of_the_self_checks(order):
    def check(error: float) -> SelfCheck:
        return SelfCheck(row_sum_error=0.0, forbidden_weight=0.0, output_error=error, is_evaluation_mode=True)

    three = [
        dataclasses.replace(causal_map(0), check=check(1e-7)),
        dataclasses.replace(causal_map(1), check=check(0.5)),
        dataclasses.replace(causal_map(1), head=ref(1, 2, "decoder")),
    ]
    shown = map_through(Aspect(blend="mean"), tuple(three[k] for k in order))
    assert shown.check == check(0.5)
    assert map_through(Aspect(blend="mean"), (three[2], three[2])).check is None


def test_that_words_sum_keys_and_average_queries():
    weights = ramp_weights(6, 6)
    found = word_weights(weights, PIECES, PIECES)
    groups = [[0], [1, 2, 3], [4], [5]]
    wanted = [
        [np.mean([sum(weights[i, j] for j in key) for i in query]) for key in groups] for query in groups
    ]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-6)
    assert [token.piece for token in words_of_tokens(PIECES)] == ["<s>", "unbelievable", "cat", "</s>"]


def test_that_words_keep_apart_what_the_mask_forbids_and_what_was_left_out():
    shown = map_through(Aspect(is_by_word=True, hidden="special"), (causal_map(),))
    assert shown is not None
    assert shown.weights.shape == (4, 4)
    assert np.isnan(shown.weights[0, 1:]).all()
    assert np.isinf(shown.weights[:, 0]).all()
    assert np.isfinite(shown.weights[1:3, 1]).all()
    assert "special tokens left out" in shown.note


@pytest.mark.parametrize(("blend", "reduce"), [("mean", np.mean), ("max", np.max), ("sum", np.sum)])
def test_that_a_blend_is_made_cell_by_cell(blend, reduce):
    maps = (causal_map(0), causal_map(1))
    shown = map_through(Aspect(blend=blend), maps)
    assert shown is not None
    wanted = reduce([m.weights for m in maps], axis=0)
    np.testing.assert_allclose(shown.weights, wanted, rtol=0, atol=1e-6)
    assert shown.full == (2.0 if blend == "sum" else 1.0)
    assert shown.name.startswith({"mean": "mean of", "max": "largest of", "sum": "sum of"}[blend])


def test_that_thumbnails_lose_the_same_keys_and_keep_their_weights():
    grid = site_grid()
    keys = tokens("<s>", *(f"k{i}" for i in range(7)))
    found = grid_through(Aspect(hidden="first"), grid, keys[: grid.n_queries], keys)
    assert (found.levels[:, :, 0] == 0).all()
    before = (grid.levels.astype(float) - 1) / 254 * grid.peaks[:, None, None]
    after = (found.levels.astype(float) - 1) / 254 * found.peaks[:, None, None]
    kept = grid.levels[:, :, 1:] > 0
    np.testing.assert_allclose(after[:, :, 1:][kept], before[:, :, 1:][kept], rtol=0, atol=1 / 254)
    pooled = dataclasses.replace(grid, n_queries=80, n_keys=80)
    assert grid_through(Aspect(hidden="first"), pooled, keys, keys) is pooled


@pytest.mark.parametrize(
    ("rest", "is_renormalised", "is_rough"),
    [
        ((0.5, 0.4), True, False),
        ((0.5, 0.09), True, True),
        ((0.5, 0.09), False, False),
        ((0.05, 0.09), False, True),
        ((0.5, 0.0), True, True),
    ],
)
def test_that_thumbnails_are_rough_where_a_sink_took_nearly_all(rest, is_renormalised, is_rough):
    rows = [[1.0, np.nan, np.nan], *([1 - left, left, 0.0] for left in rest)]
    weights = np.array(rows)
    levels = np.where(np.isnan(weights), 0, np.rint(np.nan_to_num(weights) * 254) + 1).astype(np.uint8)
    grid = dataclasses.replace(
        site_grid(n_heads=1), n_queries=3, n_keys=3, levels=levels[None], peaks=np.ones(1, np.float32)
    )
    names = tokens("a", "b", "c")
    found = grid_through(Aspect(hidden="first", is_renormalised=is_renormalised), grid, names, names)
    assert found.is_sampled == is_rough
    exact = np.where(np.isnan(weights), np.nan, weights).astype(np.float32)
    aspect = Aspect(hidden="first", is_renormalised=is_renormalised)
    whole = grid_through(aspect, grid, names, names, (exact,))
    wanted = without_keys(exact, np.arange(3) == 0, is_renormalised=is_renormalised).weights
    assert not whole.is_sampled
    np.testing.assert_allclose(
        weights_of_grid(whole)[0], np.where(np.isinf(wanted), np.nan, wanted), atol=0.5 / 254
    )
    sampled = dataclasses.replace(grid, is_sampled=True)
    assert grid_through(Aspect(hidden="first"), sampled, names, names).is_sampled


def test_that_plain_maps_pass_untouched():
    m = head_map()
    assert map_through(PLAIN, (m,)) is m
    assert map_through(Aspect(hidden="special"), (m,)).note == ""
    assert map_through(PLAIN, ()) is None


def test_that_blends_are_made_of_the_selection_the_layer_or_the_stack():
    session = Desk().open().session
    sites, chosen = session.model.sites, (ref(0, 0), ref(1, 1))
    assert blended_heads(Aspect(blend="mean"), chosen, sites) == chosen
    assert blended_heads(Aspect(blend="mean", over="layer"), chosen, sites) == (ref(1, 0), ref(1, 1))
    assert len(blended_heads(Aspect(blend="mean", over="stack"), chosen, sites)) == 4
    assert blended_heads(PLAIN, chosen, sites) == (ref(1, 1),)
    assert blend_name(Aspect(blend="sum"), (ref(1, 0), ref(0, 1))) == "sum of L1H0, L0H1"
    assert blend_name(Aspect(blend="sum"), (ref(1, 0), ref(0, 1), ref(0, 0))) == "sum of 3 heads"
    assert (
        blend_name(Aspect(blend="max", over="layer"), (ref(1, 0), ref(1, 1)))
        == "largest of 2 heads of layer 1"
    )


def test_that_an_unknown_way_of_looking_is_refused():
    with pytest.raises(UserError, match="blend 'median'"):
        Aspect(blend="median")


def test_that_a_blend_asks_for_its_heads_and_stands_for_all_of_them():
    desk = Desk().open()
    session = desk.session
    session.select_heads((ref(0, 0),))
    desk.answer()
    session.set_aspect(Aspect(blend="mean", over="stack"))
    assert session.maps.of(session.primary) is None
    desk.answer()
    blend = session.maps.of(session.primary)
    assert blend is not None
    assert blend.name == "mean of all 4 heads"
    assert session.maps.shown == (blend,)
    assert session.maps.of(session.primary) is blend
    session.undo()
    assert session.aspect == PLAIN
    assert session.maps.of(session.primary).name == ""


def test_that_a_text_too_long_to_blend_shows_one_head():
    desk = Desk().open(dataclasses.replace(Desk().model, max_tokens=100_000))
    desk.session.set_aspect(Aspect(blend="mean", over="layer"))
    desk.session.texts.set_text("word " * 2000)
    assert desk.traces()[-1].heads == desk.session.selection
    assert desk.session.maps.blended == desk.session.selection[-1:]

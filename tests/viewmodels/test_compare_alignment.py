"""Aligning tokens: every token once and in order, whatever the texts."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_samples import info, traced

from attnscope.records import (
    BOTH,
    NEITHER,
    NO_TOKEN,
    NOWHERE,
    ONLY_A,
    ONLY_B,
    HeadMap,
    HeadRef,
    SelfCheck,
    Token,
    TokenAlignment,
    TraceText,
    difference,
    levels_of,
    mean_abs_of,
    moved_of,
    on_slots,
    pooled_difference,
)
from attnscope.viewmodels.compare import (
    WAYS,
    Way,
    align_stacks,
    align_tokens,
    alignment_words,
    cell_words,
    compare_maps,
)

HEAD = HeadRef(stack="encoder", layer=0, head=1)
CHECK = SelfCheck(row_sum_error=0.0, forbidden_weight=0.0, output_error=2e-7, is_evaluation_mode=True)
texts = st.lists(st.sampled_from(["the", "cat", "dog", "sat", ",", ""]), max_size=14)


def is_one_to_one(aligned: TokenAlignment) -> bool:
    """Whether every token of either side has one on the other."""
    return NO_TOKEN not in aligned.first and NO_TOKEN not in aligned.second


def tokens(*pieces: str) -> tuple[Token, ...]:
    return tuple(Token(id=k, piece=piece) for k, piece in enumerate(pieces))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(first=texts, second=texts, way=st.sampled_from(list(WAYS)))
def test_that_every_token_of_both_stands_in_one_slot(first: list[str], second: list[str], way: Way) -> None:
    aligned = align_tokens(tokens(*first), tokens(*second), way)
    assert [i for i in aligned.first if i != NO_TOKEN] == list(range(len(first)))
    assert [j for j in aligned.second if j != NO_TOKEN] == list(range(len(second)))
    pairs = [(i, j) for i, j in zip(aligned.first, aligned.second, strict=True) if NO_TOKEN not in (i, j)]
    if way == "pieces":
        assert all(first[i] == second[j] for i, j in pairs)
    if first == second:
        assert is_one_to_one(aligned)
        assert pairs == [(k, k) for k in range(len(first))]


@settings(max_examples=40, deadline=None)
@given(first=texts, second=texts)
def test_that_swapping_the_sides_of_a_text_with_itself_changes_nothing(
    first: list[str], second: list[str]
) -> None:
    aligned = align_tokens(tokens(*first), tokens(*first, *second), "pieces")
    assert aligned.first[: len(first)] == aligned.second[: len(first)] == tuple(range(len(first)))


def test_that_replaced_tokens_are_paired_only_where_as_many_replace_them() -> None:
    first, second = tokens("the", "cat", "sat"), tokens("the", "dog", "sat")
    assert is_one_to_one(align_tokens(first, second))
    assert not is_one_to_one(align_tokens(first, second, "pieces"))
    longer = tokens("the", "small", "dog", "sat")
    assert align_tokens(first, longer).first == (0, 1, NO_TOKEN, NO_TOKEN, 2)
    words = alignment_words(align_tokens(first, longer), first, longer)
    assert words == "2 tokens in common · 1 only in A: cat · 2 only in B: small, dog"
    paired = alignment_words(align_tokens(first, second), first, second)
    assert paired == "2 tokens in common · 1 paired: cat → dog"
    assert alignment_words(align_tokens(first, first), first, first) == "same 3 tokens"


@pytest.mark.parametrize(
    ("forms", "pairs"),
    [
        (("decoder", "encoder"), [("decoder", "encoder")]),
        (("encoder-decoder", "encoder"), [("encoder", "encoder")]),
        (("decoder", "encoder-decoder"), [("decoder", "decoder")]),
    ],
)
def test_that_stacks_of_one_name_are_compared_else_the_first_of_each(
    forms: tuple[str, str], pairs: list[tuple[str, str]]
) -> None:
    first, second = (
        traced(TraceText(number=1, text=text), info(form))
        for form, text in zip(forms, ("the cat", "the dog sat"), strict=True)
    )
    found = align_stacks(first, second)
    assert [(one.stack, one.second_stack) for one in found] == pairs
    assert max(found[0].queries.first) + 1 == len(first.source)
    assert max(found[0].queries.second) + 1 == len(second.source)


def test_that_by_position_the_longer_text_has_tokens_of_its_own() -> None:
    aligned = align_tokens(tokens("a", "b"), tokens("b", "a", "c"), "position")
    assert (aligned.first, aligned.second) == ((0, 1, NO_TOKEN), (0, 1, 2))


@pytest.mark.parametrize("slots", [((0, 1), (0,)), ((1, 0), (0, 1)), ((0, NO_TOKEN), (0, NO_TOKEN))])
def test_that_a_wrong_alignment_is_refused(slots: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"slot|order"):
        TokenAlignment(first=slots[0], second=slots[1])


def test_that_the_difference_is_exact_and_says_who_allows_a_cell() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random((3, 3), dtype=np.float32), rng.random((2, 3), dtype=np.float32)
    first[0, 1:] = np.nan
    second[0, 2] = np.nan
    rows = TokenAlignment(first=(0, 1, 2), second=(0, NO_TOKEN, 1))
    cols = TokenAlignment(first=(0, 1, 2, NO_TOKEN), second=(0, 1, NO_TOKEN, 2))
    delta, kinds = difference(on_slots(first, rows, cols, "A"), on_slots(second, rows, cols, "B"))
    expected = np.full((3, 4), np.nan, dtype=np.float32)
    slots = list(zip(rows.first, rows.second, strict=True))
    for r, (i, k) in enumerate(slots):
        for c, (j, m) in enumerate(zip(cols.first, cols.second, strict=True)):
            if NO_TOKEN not in (i, j, k, m):
                expected[r, c] = second[k, m] - first[i, j]
    np.testing.assert_array_equal(delta, expected)
    assert kinds.tolist() == [
        [BOTH, ONLY_B, NEITHER, NEITHER],
        [ONLY_A, ONLY_A, ONLY_A, NOWHERE],
        [BOTH, BOTH, ONLY_A, ONLY_B],
    ]
    shared = delta[np.isfinite(delta)]
    assert mean_abs_of(delta) == pytest.approx(np.abs(shared).mean(), rel=1e-6)


def test_that_a_row_that_moves_all_its_weight_moves_one() -> None:
    delta = np.array([[1.0, -1.0], [0.0, 0.0]], dtype=np.float32)
    assert moved_of(delta) == 0.5
    assert np.isnan(moved_of(np.full((2, 2), np.nan, dtype=np.float32)))


def test_that_pooling_keeps_the_largest_difference_of_either_sign() -> None:
    delta = np.zeros((6, 6), dtype=np.float32)
    delta[1, 1], delta[1, 4], delta[0, 4] = -0.9, 0.2, np.nan
    delta[4:, :2] = np.nan
    pooled = pooled_difference(delta, (3, 3))
    assert pooled.tolist()[0] == pytest.approx([-0.9, 0.0, 0.2])
    assert np.isnan(pooled[2, 0])
    assert levels_of(pooled, 0.9)[0].tolist() == [1, 128, 156]
    assert levels_of(pooled, 0.9)[2, 0] == 0


def test_that_compared_maps_name_slots_and_cells() -> None:
    first, second = tokens("the", "cat"), tokens("the", "dog")
    weights = np.array([[0.25, 0.75], [0.5, 0.5]], dtype=np.float32)
    other = np.array([[1.0, np.nan], [0.5, 0.5]], dtype=np.float32)
    maps = [
        HeadMap(head=HEAD, queries=t, keys=t, weights=w)
        for t, w in zip((first, second), (weights, other), strict=True)
    ]
    aligned = align_tokens(first, second)
    shown = compare_maps(maps[0], maps[1], aligned, aligned)
    assert [token.piece for token in shown.queries] == ["the", "cat → dog"]
    np.testing.assert_array_equal(shown.delta, other - weights)
    assert shown.end == shown.peak == 0.75
    value, names = cell_words(shown, 0, 0)
    assert value == "A 0.2500   B 1.000   Δ +0.7500"
    assert names == "query “the” → key “the”"
    assert cell_words(shown, 0, 1)[0] == "A 0.7500   B not allowed by the mask"
    zero = dataclasses.replace(maps[0], weights=np.array([[0, 1], [5e-5, 1]], np.float32), check=CHECK)
    faint = compare_maps(zero, maps[0], aligned, aligned)
    assert cell_words(faint, 0, 0)[0] == "A 0   B 0.2500   Δ +0.2500"
    assert cell_words(faint, 1, 0)[0] == "A 5.000·10⁻⁵   B 0.5000   Δ +0.4999"
    assert faint.badges == (CHECK.badge, "")
    alone = compare_maps(maps[0], maps[0], aligned, aligned)
    assert alone.is_same
    assert alone.end == 1.0


def test_that_too_little_in_common_is_said_instead_of_a_difference() -> None:
    first, second = tokens("the", "cat", "sat"), tokens("the", "big", "old", "dog", "ran", "on")
    maps = [
        HeadMap(head=HEAD, queries=t, keys=t, weights=np.eye(len(t), dtype=np.float32))
        for t in (first, second)
    ]
    slots = [(0, 0), (1, -1), (2, -1), *((-1, j) for j in range(1, 6))]
    aligned = TokenAlignment(first=tuple(i for i, _ in slots), second=tuple(j for _, j in slots))
    shown = compare_maps(maps[0], maps[1], aligned, aligned)
    assert shown.too_little_in_common == "1 token in common: too little to compare"
    same = TokenAlignment(first=(0,), second=(0,))
    one = HeadMap(head=HEAD, queries=first[:1], keys=first[:1], weights=np.ones((1, 1), dtype=np.float32))
    assert compare_maps(one, one, same, same).too_little_in_common == ""

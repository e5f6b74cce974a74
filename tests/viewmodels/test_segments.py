"""Two texts read as one: where the second begins, and each block of a map against slow loops."""

from collections.abc import Callable

import numpy as np
import pytest
from session_samples import Desk, head_map, ref, tokens

from attnscope.figures import NO_DATA, NOT_ALLOWED, codes_from_grid
from attnscope.records import Block, HeadMap, Site, SiteGrid, Token
from attnscope.viewmodels import ViewState
from attnscope.viewmodels.maps import BLOCKS, Aspect, block_note, grid_through, map_through, segments_of
from attnscope.widgets import choice_offers, has_two_texts

SEP = Token(id=3, piece="[SEP]", is_special=True)
CLS = Token(id=2, piece="[CLS]", is_special=True)
MASK = Token(id=4, piece="[MASK]", is_special=True)


def words(text: str, segment: int = 0) -> tuple[Token, ...]:
    return tuple(Token(id=k + 10, piece=word, segment=segment) for k, word in enumerate(text.split()))


PAIR = (CLS, *words("a cat"), SEP, *words("it runs far"), SEP)


@pytest.mark.parametrize(
    ("read", "n_first"),
    [
        (PAIR, 4),
        ((CLS, *words("a cat"), SEP, SEP, *words("it runs"), SEP), 4),  # as RoBERTa writes pairs
        ((CLS, *words("a"), SEP, *words("b"), SEP), 3),
        (words("a") + words("b", 1) + words("c", 2), None),
        (words("a b c") + words("d", 1), 3),
        ((CLS, *words("a cat"), SEP, SEP), None),  # nothing after the separator
        ((CLS, *words("a cat"), SEP), None),
        ((CLS, *words("a"), MASK, *words("cat"), SEP), None),
        ((CLS, *words("a"), SEP, *words("b"), SEP, *words("c"), SEP), None),
        ((CLS, SEP, *words("b"), SEP), None),
        (words("a b c"), None),
        ((), None),
    ],
)
def test_that_the_second_text_begins_after_the_separator(read: tuple[Token, ...], n_first: int | None):
    found = segments_of(read)
    if n_first is None:
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == [i >= n_first for i in range(len(read))]


def test_that_a_note_says_what_was_taken_away():
    assert block_note(0.6249, "ab", "", is_renormalised=False) == "A → B only: 62.5 % of A’s weight not shown"
    assert block_note(0.0004, "bb", "without the first token", is_renormalised=True) == (
        "B → B only, without the first token: under 0.1 % of B’s weight not shown · rows sum to 1 again"
    )
    assert ": 0 % of A" in block_note(0.0, "aa", "", is_renormalised=False)


def ramp_map() -> HeadMap:
    n = len(PAIR)
    weights = 1.0 + (np.arange(n * n).reshape(n, n) * 7 % 11)
    weights[2, 6] = np.nan
    weights /= np.nansum(weights, axis=1, keepdims=True)
    return HeadMap(head=ref(0, 0), queries=PAIR, keys=PAIR, weights=weights.astype(np.float32))


@pytest.mark.parametrize("block", ["aa", "ab", "ba", "bb"])
@pytest.mark.parametrize("hidden", ["nothing", "special"])
@pytest.mark.parametrize("is_renormalised", [False, True])
def test_that_a_block_shows_its_cells_and_says_what_is_gone(block: Block, hidden: str, is_renormalised: bool):
    own = ramp_map()
    aspect = Aspect(block=block, hidden=hidden, is_renormalised=is_renormalised)  # type: ignore[arg-type]
    shown = map_through(aspect, (own,))
    assert shown is not None
    n, lost = len(PAIR), []
    expected = np.empty((n, n))
    for i in range(n):
        row = [float(own.weights[i, j]) for j in range(n)]
        kept = [
            (j >= 4) == (block[1] == "b") and not (hidden == "special" and PAIR[j].is_special)
            for j in range(n)
        ]
        is_row = (i >= 4) == (block[0] == "b")
        whole = sum(w for w in row if not np.isnan(w))
        left = sum(w for w, k in zip(row, kept, strict=True) if k and not np.isnan(w))
        if is_row:
            lost.append(1 - left / whole)
        for j in range(n):
            if np.isnan(row[j]):
                expected[i, j] = np.nan
            elif not is_row or not kept[j]:
                expected[i, j] = np.inf
            else:
                expected[i, j] = row[j] / (left / whole) if is_renormalised else row[j]
    np.testing.assert_allclose(shown.weights, expected, rtol=1e-5, atol=0)  # float32 sums of 8
    names = {"aa": "A → A", "ab": "A → B", "ba": "B → A", "bb": "B → B"}
    assert shown.note.startswith(f"{names[block]} only")
    assert f"{100 * np.mean(lost):.3g} % of {block[0].upper()}’s weight" in shown.note
    assert ("sum to 1 again" in shown.note) == is_renormalised


def test_that_a_map_of_one_text_stays_whole():
    text = tokens("the cat sleeps")
    own = head_map(ref(0, 0), text, text)
    shown = map_through(Aspect(block="ab"), (own,))
    assert shown is not None
    np.testing.assert_array_equal(shown.weights, own.weights)
    assert shown.note == ""


def test_that_blocks_are_offered_where_there_are_two_texts():
    desk = Desk().open()

    def blocks() -> dict[str, Callable[[], None]]:
        offers = choice_offers(desk.session, ViewState())
        return {o.item.title: o.run for o in offers if o.item.title.startswith("Two texts")}

    assert blocks() == {}
    desk.session.texts.set_text("a cat </s> it runs")  # the words tokenizer of the samples knows no specials
    desk.answer()
    assert not has_two_texts(desk.session)
    pair = HeadMap(head=desk.session.primary, queries=PAIR, keys=PAIR, weights=ramp_map().weights)
    desk.session.maps.raw = (pair,)
    assert blocks().keys() == {f"Two texts: {text}" for text in BLOCKS.values()}
    blocks()["Two texts: A → A"]()
    assert desk.session.aspect.block == "aa"
    assert desk.session.history.undo_label == "show A → A only"


def test_that_thumbnails_mark_what_is_left_out_and_not_what_the_mask_forbids():
    n = len(PAIR)
    levels = np.full((2, n, n), 100, dtype=np.uint8)
    levels[:, 0, 5] = 0  # forbidden
    site = Site(stack="encoder", layer=0, n_heads=2, n_kv_heads=2)
    grid = SiteGrid(site=site, n_queries=n, n_keys=n, levels=levels, peaks=np.ones(2))
    found = grid_through(Aspect(block="ab"), grid, PAIR, PAIR)
    assert found.left_out is not None
    is_shown = np.zeros((n, n), dtype=bool)
    is_shown[:4, 4:] = True
    is_forbidden = np.zeros((n, n), dtype=bool)
    is_forbidden[0, 5] = True
    for left_out, codes in zip(found.left_out, codes_from_grid(found, "fixed"), strict=True):
        np.testing.assert_array_equal(left_out, ~is_shown & ~is_forbidden)
        np.testing.assert_array_equal(codes == NO_DATA, left_out)
        np.testing.assert_array_equal(codes == NOT_ALLOWED, is_forbidden)

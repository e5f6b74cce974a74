"""Gold links in the window: when they are asked for, what is drawn, which head is best."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from aligning_samples import CELLS, HEADS, table
from heads_fakes import make_table
from session_samples import Desk, info, ref, state_of

from attnscope.records import (
    AlignmentShown,
    Failed,
    GoldCell,
    GoldFiles,
    GoldPair,
    LongMap,
    ShowAlignment,
    Token,
)
from attnscope.viewmodels.maps import Aspect, cell_of_words
from attnscope.viewmodels.session import statement_of, with_alignment


def opened() -> tuple[Desk, Any, list[ShowAlignment]]:
    desk = Desk().open()
    asked: list[ShowAlignment] = []
    state = state_of("aligning", asked.append, session=desk.session)
    desk.session.select_heads((HEADS[0],))
    desk.answer()
    return desk, state, asked


def answered(*rates: float) -> tuple[Desk, Any]:
    desk, state, asked = opened()
    state.show(True)
    state.handle(
        AlignmentShown(
            number=asked[-1].number, trace=asked[-1].trace, cells=CELLS, table=table(*rates), origin="links"
        )
    )
    return desk, state


def test_that_links_are_asked_for_only_when_they_are_wanted_and_once_for_a_trace() -> None:
    desk, state, asked = opened()
    assert asked == []
    state.show(True)
    desk.session.select_heads((HEADS[1],))
    assert len(asked) == 1
    state.choose_rows("reading")
    desk.session.texts.set_text("another text")
    desk.answer()
    assert [one.rows for one in asked] == ["predicting", "reading", "reading"]
    desk.session.select_heads((ref(0, 0),))
    assert not state.is_offered


def test_that_only_the_newest_answer_is_taken_and_not_shown_on_another_text() -> None:
    desk, state = answered(0.5, 0.25, 0.75, 0.5, 0.4, 0.6)
    assert state.numbers_of(HEADS[1]) == "L0H1  AER 0.25 · P 0.75 · R 0.75"
    assert state.mean_of(HEADS[1]) == "mean of L0  AER 0.40 · P 0.60 · R 0.60"
    assert state.cells_on(desk.session.maps.of(HEADS[0])) == CELLS
    state.handle(AlignmentShown(number=0, trace=0, note="late"))
    assert state.origin == "Links."
    desk.session.texts.set_text("quite another text")
    desk.answer()
    assert state.table is None
    assert state.cells_on(desk.session.maps.of(HEADS[0])) == ()


def test_that_links_lie_on_blends_on_words_and_on_long_maps_too() -> None:
    desk, state = answered(0.5, 0.25, 0.75, 0.5, 0.4, 0.6)
    session, traced = desk.session, desk.session.traced
    assert traced is not None
    assert traced.target is not None
    session.set_aspect(Aspect(blend="mean", over="selection"))
    session.select_heads((HEADS[0], HEADS[1]))
    desk.answer()
    blend = session.maps.of(HEADS[1])
    assert blend is not None
    assert blend.name
    assert state.cells_on(blend) == CELLS
    queries, keys = traced.target.tokens, traced.source.tokens
    long_map = LongMap(model="", trace=traced.number, head=HEADS[0], queries=queries, keys=keys)
    assert state.cells_on_long(long_map) == CELLS
    assert state.cells_on_long(replace(long_map, trace=traced.number + 1)) == ()
    assert state.cells_on_long(replace(long_map, head=ref(0, 0))) == ()
    assert state.cells_on_long(None) == ()
    state.show(False)
    assert state.cells_on_long(long_map) == ()


def test_that_a_link_between_pieces_lies_on_the_words_they_are_of() -> None:
    pieces = [("<s>", False), ("un", False), ("bel", False), ("lev", True), ("able", True), ("go", False)]
    tokens = tuple(
        Token(id=k, piece=piece, joins_previous=joins, is_special=piece == "<s>")
        for k, (piece, joins) in enumerate(pieces)
    )
    # Words: 0 <s>, 1 un, 2 bel-lev-able, 3 go.
    link = GoldCell(rows=(1, 4), cols=(3, 5), is_sure=True, words=("a", "b"))
    found = cell_of_words(link, tokens, tokens)
    assert (found.rows, found.cols) == ((1, 3), (2, 3))
    last = cell_of_words(replace(link, rows=(5, 6), cols=(0, 1)), tokens, tokens)
    assert (last.rows, last.cols) == ((3, 4), (0, 1))


def test_that_of_equal_heads_the_shown_one_is_best_and_one_click_selects_the_best() -> None:
    desk, state = answered(0.2, 0.1, 0.1, 0.3, 0.4, 0.6)
    assert state.best == HEADS[1]
    desk.session.select_heads((HEADS[2],))
    assert state.best == HEADS[2]
    desk.session.select_heads((HEADS[0],))
    state.select_best()
    assert desk.session.primary == HEADS[1]


def test_that_the_pair_whose_links_are_known_can_be_read() -> None:
    desk, state, asked = opened()
    state.open_files(GoldFiles(pairs="p.tsv", links="/some/l.txt"))
    assert (asked[-1].files, state.files_name) == (state.files, "l.txt")
    offered = GoldPair(source="a dog", target="un chien", name="pair 1 of l.txt")
    state.handle(
        AlignmentShown(number=asked[-1].number, trace=asked[-1].trace, note="not among them", offered=offered)
    )
    assert state.origin == "Not among them."
    state.read_offered()
    assert (desk.session.text, desk.session.target) == ("a dog", "un chien")


def test_that_a_failure_is_said_and_another_model_forgets_it() -> None:
    desk, state, asked = opened()
    state.show(True)
    state.handle(Failed(number=asked[-1].number, request="ShowAlignment", message="It does not exist."))
    assert state.origin == "It does not exist."
    desk.open(info("decoder"))
    assert (state.origin, state.is_offered) == ("", False)


def test_that_the_column_of_the_table_is_of_cross_heads_only() -> None:
    heads = (ref(0, 0), *HEADS)
    joined = with_alignment(make_table(heads), table(0.5, 0.25, 0.75, 0.5, 0.4, 0.6))
    column = joined.names.index("alignment_error")
    assert np.isnan(joined.values[0, column])
    np.testing.assert_allclose(joined.values[1:, column], [0.5, 0.25, 0.75, 0.5])
    assert joined.counts[:, column].tolist() == [0, 1, 1, 1, 1]


def test_that_links_of_an_older_trace_are_dropped_even_under_the_newest_number() -> None:
    desk, state, asked = opened()
    state.show(True)
    old = AlignmentShown(number=asked[-1].number, trace=asked[-1].trace - 1, cells=CELLS, origin="links")
    state.handle(replace(old, table=table(0.5, 0.25, 0.75, 0.5, 0.4, 0.6)))
    assert (state.table, state.origin) == (None, "")
    assert desk.session.traced is not None
    assert asked[-1].trace == desk.session.traced.number


def test_that_the_statement_names_the_best_head_and_the_best_mean():
    shown = statement_of(table(0.5, 0.25, math.nan, 0.75, 0.625, 0.375))
    assert shown == (
        "alignment over 1 pair with gold links, rows predicting a word, best head L0H1 with AER 0.250 "
        "(0.250–0.250), best layer L1 mean with AER 0.375 (0.375–0.375), no interval: 1 pair, and 5 are "
        "needed"
    )
    assert statement_of(table(0.0, *[math.nan] * 5)).endswith(
        "best head L0H0 with AER 0.000 (0.000–0.000), no interval: 1 pair, and 5 are needed"
    )
    parts = {
        name: np.arange(6) + 10 * k
        for k, name in enumerate(
            ("error_rate", "precision", "recall", "low", "precision_low", "recall_low", "high",
             "precision_high", "recall_high")
        )
    }  # fmt: skip
    joined = with_alignment(make_table(HEADS), replace(table(*[0.5] * 6), **parts))
    for k, numbers in enumerate((joined.values, joined.low, joined.high)):
        np.testing.assert_array_equal(numbers[:, -3:], np.arange(4)[:, None] + 10 * (3 * k + np.arange(3)))
    bare = make_table(HEADS[:2])
    assert with_alignment(bare, None) is bare

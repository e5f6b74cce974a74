"""What the view models say in words: stages, notes, measures, comparisons, the cell under the cursor."""

import dataclasses
import math

import numpy as np
import pytest
from session_samples import Desk, info, measures, prediction, ref
from told import names_told

from attnscope.counting import below_text, probability_text
from attnscope.records import (
    Candidate,
    Comparison,
    Failed,
    HeadMeasures,
    Output,
    Prediction,
    Ready,
    Site,
    SiteGrid,
    Token,
    Tokens,
    told_apart,
)
from attnscope.viewmodels import Cell, Highlight, ViewState, sides_of
from attnscope.viewmodels.compare import (
    candidate_rows,
    kind_words,
    kl_words,
    most_changed_position,
    rows_of_both,
    text_difference,
)
from attnscope.viewmodels.session import (
    MAX_CHARACTERS,
    clean_typed,
    describe,
    describe_head,
    first_choice,
    measures_shown,
    resting_words,
    stage_of,
    striking_head,
    text_notes,
)


def test_that_lone_surrogates_are_replaced_and_counted():
    """F28."""
    typed = clean_typed("a\ud800b\udc00")
    assert typed.text == "a\ufffdb\ufffd"
    assert typed.n_replaced == 2
    typed.text.encode()


def test_that_surrogate_pairs_become_their_character():
    assert clean_typed("\ud83d\ude00!") == clean_typed("😀!")


def test_that_a_huge_paste_is_cut_and_counted():
    typed = clean_typed("x" * (MAX_CHARACTERS + 7))
    assert len(typed.text) == MAX_CHARACTERS
    assert typed.n_cut == 7
    assert text_notes(Tokens(text="", tokens=()), typed) == "7 characters cut"


def test_that_notes_count_what_was_lost():
    tokens = Tokens(text="", tokens=(), n_dropped=1200, n_unknown=2, n_replaced=1)
    assert text_notes(tokens) == "1,200 tokens cut · 2 unknown · 1 replaced"
    assert text_notes(Tokens(text="a", tokens=())) == ""


def test_that_the_page_goes_from_starting_over_loading_to_shown():
    desk = Desk()
    assert stage_of(desk.session).kind == "starting"
    desk.session.handle(Ready(devices=("cpu",), demo_models=()))
    assert stage_of(desk.session).kind == "no-model"
    desk.session.opening.load("grammar")
    stage = stage_of(desk.session)
    assert (stage.kind, stage.title) == ("loading", "Loading grammar…")
    desk.answer_one(desk.posted.pop(0))
    assert stage_of(desk.session).kind == "waiting"
    desk.answer()
    assert stage_of(desk.session).kind == "shown"
    desk.session.texts.set_text(" ")
    assert stage_of(desk.session).title == "Type a sentence…"


def test_that_a_model_without_attention_is_said_to_have_none():
    desk = Desk()
    desk.session.handle(Ready(devices=("cpu",), demo_models=()))
    desk.session.opening.load("grammar")
    desk.answer()
    assert stage_of(desk.session).kind == "shown"
    desk.session.model = dataclasses.replace(desk.session.model, sites=())
    assert stage_of(desk.session).title == "This model has no attention"


def test_that_a_first_model_that_fails_is_said_in_place():
    desk = Desk()
    desk.session.handle(Ready(devices=("cpu",), demo_models=()))
    desk.session.opening.load("x")
    desk.session.handle(Failed(number=desk.posted[0].number, request="LoadModel", message="Cut short."))
    stage = stage_of(desk.session)
    assert (stage.kind, stage.hint) == ("failed", "Cut short.")


def one(**values: float) -> HeadMeasures:
    start = dict.fromkeys(("entropy", "distance", "confidence", "previous", "first", "diagonal"), 0.1)
    return HeadMeasures(head=ref(0, 0), **{**start, **values})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"previous": 0.93}, "attends to the previous token: 0.93 of its weight"),
        ({"first": 0.7}, "attends to the first token: 0.70 of its weight"),
        ({"diagonal": 0.6}, "attends to the same position: 0.60 of its weight"),
        ({"confidence": 0.8}, "looks mostly at one token per row (0.80 on average)"),
        ({"entropy": 0.95}, "spreads evenly: entropy 0.95 of 1"),
        ({"previous": 0.3}, "partly attends to the previous token: 0.30 of its weight"),
        ({}, "mixes: largest weight 0.10 on average"),
        (
            {"diagonal": math.nan, "previous": math.nan, "first": math.nan},
            "mixes: largest weight 0.10 on average",
        ),
    ],
)
def test_that_a_head_is_described_in_one_line(values, sentence):
    assert describe(one(**values)) == sentence


def test_that_a_confidence_without_the_end_token_says_so():
    keys = (Token(id=1, piece="a"), Token(id=2, piece="</s>", is_special=True))
    assert describe(one(), keys) == "mixes: largest weight 0.10 on average, end token left out"
    assert describe(one(), keys[:1]) == describe(one())


def test_that_a_head_is_described_by_its_own_measures_and_its_columns_by_their_name():
    resting = one(first=0.75)
    assert describe(resting, (Token(id=0, piece="a b"),)) == "attends to the first token: 0.75 of its weight"
    assert describe(resting, (Token(id=-1, piece="slot 0"),)).startswith("attends to the first slot")
    traced = Desk().open().session.traced
    sites = info().sites
    for head in (ref(0, 1), ref(1, 0, "decoder")):
        own = next(m for m in traced.measures if m.head == head)
        assert describe_head(traced, sites, head) == describe(own, traced.source.tokens)
    assert describe_head(None, sites, ref(0, 1)) == ""
    assert first_choice("decoder", traced, sites).stack == "decoder"
    assert first_choice("decoder", None, sites) == ref(0, 0, "decoder")
    assert first_choice("second", traced, sites) is None


def test_that_a_measure_that_does_not_apply_is_a_dash():
    shown = {m.kind.field: m for m in measures_shown(measures(info()), ref(0, 0, "cross"))}
    assert shown["diagonal"].text == "–"
    assert shown["distance"].text == "1.5"
    assert shown["distance"].place == 1.0
    assert shown["diagonal"].tooltip.startswith("not defined between two texts")
    assert "not defined" not in shown["distance"].tooltip
    assert "Vig" in shown["distance"].tooltip


def test_that_the_striking_head_does_not_rest_on_the_first_token():
    resting = HeadMeasures(
        head=ref(0, 1), entropy=0.1, distance=1, confidence=0.99, previous=0, first=0.99, diagonal=0
    )
    assert striking_head((resting, one(confidence=0.5))) == ref(0, 0)
    assert striking_head(()) is None


def test_that_a_striped_head_loses_to_one_that_runs_against_the_diagonal():
    site = Site(stack="cross", layer=0, n_heads=2, n_kv_heads=2)
    levels = np.ones((2, 5, 5), dtype=np.uint8)
    levels[0, :, 3] = 255
    levels[1] = np.where(np.eye(5)[::-1] > 0, 255, 1)
    grid = SiteGrid(site=site, n_queries=5, n_keys=5, levels=levels, peaks=np.array([0.95, 0.8]))
    values = {"entropy": 0.1, "distance": math.nan, "previous": math.nan, "diagonal": math.nan}
    striped = HeadMeasures(head=site.heads[0], confidence=0.95, first=0.0, **values)
    reversed_ = HeadMeasures(head=site.heads[1], confidence=0.8, first=0.2, **values)
    assert striking_head((striped, reversed_), (grid,)) == site.heads[1]


def test_that_the_striking_head_does_not_just_look_at_itself():
    itself = HeadMeasures(
        head=ref(0, 1), entropy=0.1, distance=0, confidence=0.99, previous=0, first=0.1, diagonal=0.98
    )
    assert striking_head((itself, one(confidence=0.5))) == ref(0, 0)


def test_that_rows_that_round_to_nothing_are_left_out_but_three_stay():
    assert probability_text(0.00049) == "<0.001"
    assert probability_text(0.0005) == "0.001"
    many = prediction((1, 0.9), (2, 0.05), (3, 0.04), (4, 0.001), (5, 0.0004), (6, 0.0001))
    assert [row.token.id for row in candidate_rows(many, many)] == [1, 2, 3, 4]
    sure = prediction((1, 1.0), (2, 0.0001), (3, 0.00005), (4, 0.00001))
    rows = candidate_rows(sure, sure)
    assert len(rows) == 3
    assert rows[1].sentence == "w2: <0.001 before, <0.001 after"


def test_that_turning_the_page_forgets_what_was_under_the_cursor():
    view = ViewState()
    view.set_pointer_text("loss 1.2")
    view.set_cell(Cell(query="la", key="the", weight=0.1))
    view.show_page("train")
    assert view.pointer_text == ""
    assert view.cell is None


def test_that_candidates_of_both_sides_stand_in_one_list():
    rows = candidate_rows(prediction((1, 0.9), (2, 0.1)), prediction((2, 0.7), (3, 0.2)))
    assert [(r.token.id, r.before, r.after) for r in rows] == [(1, 0.9, None), (2, 0.1, 0.7), (3, None, 0.2)]
    assert rows[0].sentence == "w1: 0.900 before, not among the best after"
    assert (rows[0].after_below, rows[2].before_below) == (0.2, 0.1), "what is not listed has less than these"


@pytest.mark.parametrize(("least", "text"), [(0.2, "<0.200"), (0.02131, "<0.022"), (1e-6, "<0.001")])
def test_that_what_is_not_listed_is_said_to_be_less_than_what_is(least, text):
    assert below_text(least) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "KL 0 nats"),
        (-1e-9, "KL 0 nats"),
        (2.134e-6, "KL 2.13·10⁻⁶ nats"),
        (0.02134, "KL 0.0213 nats"),
        (3.0, "KL 3 nats"),
    ],
)
def test_that_kl_has_its_unit(value, text):
    assert kl_words((value,), 0) == text


@pytest.mark.parametrize(
    ("kl_nats", "place"), [((0.0, 9e-5), 0), ((2e-4, 0.1, 0.1), 1), ((math.nan, 0.2), 1), ((), 0)]
)
def test_that_the_most_changed_prediction_is_the_first_that_moved_most(kl_nats, place):
    output = Output(kind="next-token", predictions=())
    assert most_changed_position(Comparison(before=output, after=output, kl_nats=kl_nats)) == place


def test_that_the_difference_of_texts_is_found_by_words():
    left, right = text_difference("le chat dort", "le chien dort bien")
    assert [(s.text, s.is_changed) for s in left] == [("le", False), (" chat", True), (" dort", False)]
    assert "".join(s.text for s in right) == "le chien dort bien"
    assert [s.text for s in right if s.is_changed] == [" chien", " bien"]
    assert text_difference("", "") == ((), ())


def test_that_a_token_lights_rows_and_columns_by_stack():
    view = ViewState()
    cross = sides_of("cross", has_target=True)
    view.hover_token("source", 2, cross)
    assert view.highlight == Highlight(query=None, key=2)
    assert view.lit_tokens("target", cross) == Highlight()
    view.hover_token("target", 1, sides_of("decoder", has_target=True))
    assert view.highlight == Highlight(query=1, key=1)
    assert sides_of("decoder", has_target=False) == ("source", "source")


def test_that_the_cell_under_the_cursor_has_four_digits():
    assert Cell(query="la", key="the", weight=0.123456).sentence == "la → the  0.1235"
    assert Cell(query="la", key="the", weight=None).sentence.endswith("not allowed by the mask")


def test_that_a_view_state_tells_only_what_changed():
    view = ViewState()
    told = names_told(view.changed)
    view.set_colour_map("viridis")
    view.set_colour_map("magma")
    view.set_scale("nonsense")
    view.set_theme("dark")
    assert told == ["style", "theme"]


@pytest.mark.parametrize(
    ("tops", "words"),
    [
        ((0, 1, 2, 3, 4), "4 of 5 rows rest on one token each, 1 on </s>"),
        ((0, 1, 2, 3, 0), "all 5 rows rest on one token each"),
        ((4, 4, 4, None, None), "3 of 5 rows rest on </s>"),
        ((1, None, None, None, None), ""),
    ],
)
def test_that_rows_resting_on_one_token_are_counted(tops, words):
    keys = (*(Token(id=k, piece=str(k)) for k in range(4)), Token(id=9, piece="</s>", is_special=True))
    site = Site(stack="cross", layer=0, n_heads=1, n_kv_heads=1)
    weights = np.full((5, 5), 0.2)
    for row, top in enumerate(tops):
        if top is not None:
            weights[row] = 0.05
            weights[row, top] = 0.8
    levels = np.rint(1 + 254 * weights / weights.max()).astype(np.uint8)[None]
    for factor in (1.0, 3.0):  # given weights may hold more than 1: what counts is the share of the row
        peaks = np.array([factor * weights.max()])
        grid = SiteGrid(site=site, n_queries=5, n_keys=5, levels=levels, peaks=peaks)
        assert resting_words(grid, site.heads[0], keys) == words


def test_that_tokens_that_read_alike_are_told_apart() -> None:
    tokens = (
        Token(id=1, piece="C"),
        Token(id=2, piece="C", joins_previous=True),
        Token(id=3, piece="D", joins_previous=True),
        Token(id=4, piece="E"),
        Token(id=5, piece="E"),
    )
    assert told_apart(tokens) == ("␣C", "C", "D", "E", "E")
    one = Prediction(
        position=0,
        context="here",
        candidates=tuple(Candidate(token=token, probability=0.2) for token in tokens),
    )
    rows = candidate_rows(one, one)
    assert [row.name for row in rows] == ["␣C", "C", "D", "E", "E"]
    assert rows[0].sentence.startswith("␣C: ")
    assert [row.name for row in rows_of_both(one, one, is_by_piece=True)] == ["␣C", "C", "D", "E"]


def test_that_a_second_text_is_called_what_the_model_says_that_it_is() -> None:
    assert (
        kind_words("translation", dataclasses.replace(info("encoder-decoder"), writes="summary")) == "summary"
    )
    assert kind_words("next-token", dataclasses.replace(info("decoder"), writes="summary")) == "next token"
    assert kind_words("translation", None) == "translation"

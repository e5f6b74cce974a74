"""The Compare page's state: what it asks for and when, what it shows, what a person can do."""

from dataclasses import replace

import numpy as np
import pytest
from compare_fakes import CompareDesk
from session_samples import gates_off, info, prediction, ref

from attnscope.records import (
    OPEN_MODEL,
    CompareTraces,
    Failed,
    ModelLoaded,
    OutputWritten,
    Progress,
    Sample,
    ShowHeads,
    Token,
)
from attnscope.viewmodels.compare import companion, kl_words, most_apart, rows_of_both
from attnscope.viewmodels.session import changes_words, short_checkpoint


def test_that_nothing_is_asked_for_before_the_page_is_looked_at() -> None:
    desk = CompareDesk()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    assert desk.asked == []
    desk.state.open()
    first, second = desk.traces()
    assert (first.view, second.view) == ("compare A", "compare B")
    assert not first.gates
    assert second.gates == gates_off(ref(0, 1))
    assert first.model == second.model == OPEN_MODEL
    desk.answer()
    desk.state.close()
    desk.session.head_changes.toggle_gate(ref(1, 1))
    assert desk.asked == []
    desk.state.open()
    assert [trace.view for trace in desk.traces()] == ["compare B"]


def test_that_both_traces_are_compared_once_with_their_tokens_aligned() -> None:
    desk = CompareDesk()
    desk.state.open()
    desk.state.choosing.set_text("B", "the dog sleeps")
    requests = [desk.asked.pop(0), desk.asked.pop(0)]
    for request in requests:
        desk.answer_one(request)
    assert not any(isinstance(request, CompareTraces) for request in desk.asked)  # B's new text comes first
    desk.answer_one(desk.traces()[0])
    asked = [request for request in desk.asked if isinstance(request, CompareTraces)]
    assert len(asked) == 1
    assert asked[0].second_trace == desk.state.sides["B"].traced.number
    desk.asked.pop(0)
    desk.answer()
    assert not desk.state.is_waiting
    maps = desk.state.maps
    assert maps is not None
    assert maps.head == desk.session.primary
    desk.state.select(ref(0, 1))
    desk.answer()
    assert desk.session.primary == ref(0, 1)
    assert desk.state.alignment_words == "3 tokens in common · 1 paired: cat → dog"
    assert [token.piece for token in desk.state.maps.keys] == ["the", "cat → dog", "sleeps", "</s>"]
    assert "“the dog sleeps”" in desk.state.traces.name("B")


def test_that_one_trace_for_each_side_is_on_its_way_at_a_time() -> None:
    desk = CompareDesk().open()
    for value in (0.5, 0.25, 0.1):
        desk.session.head_changes.set_gate(ref(0, 1), value)
    assert len(desk.traces()) == 1
    desk.answer()
    assert desk.state.sides["B"].traced.gates.value(ref(0, 1)) == 0.1


def test_that_swapping_traces_nothing_again() -> None:
    desk = CompareDesk()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.open()
    before = {which: side.traced for which, side in desk.state.sides.items()}
    desk.state.choosing.swap()
    assert desk.traces() == []
    desk.answer()
    assert desk.state.sides["A"].traced is before["B"]
    assert desk.state.maps is not None
    assert desk.state.traces.name("A") == "A · encoder L0H1 off"


def test_that_what_is_kept_stays_when_explore_moves_on() -> None:
    desk = CompareDesk()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    kept = desk.state.choosing.keep("A")
    assert kept is not None
    assert kept.label == "encoder L0H1 off"
    desk.session.head_changes.reset_gates()
    desk.session.texts.set_text("the dog")
    desk.open()
    first, second = desk.state.sides["A"], desk.state.sides["B"]
    assert first.shown.text == "the cat sleeps"
    assert first.shown.gates == gates_off(ref(0, 1))
    assert second.shown.text == "the dog"
    desk.state.choosing.choose_changes("B", "kept", desk.state.kept[0])
    desk.answer()
    assert second.shown.gates == gates_off(ref(0, 1))


def test_that_a_kept_side_names_its_model_when_another_is_opened() -> None:
    other = info("decoder", "other")
    desk = CompareDesk({"tiny": info()})
    desk.state.choosing.keep("A")
    desk.open()
    desk.desk.model = desk.models[""] = other
    desk.session.opening.load("other")
    desk.desk.answer()
    assert [trace.model for trace in desk.traces()] == ["tiny", OPEN_MODEL]
    desk.answer()
    assert desk.state.sides["A"].traced.info.name == "tiny"
    assert desk.state.sides["B"].traced.info.name == "other"
    assert desk.state.head_of("A").stack == "decoder"
    assert "other" in desk.state.traces.name("B")


def test_that_models_without_a_stack_in_common_are_compared_stack_by_stack() -> None:
    desk = CompareDesk({"one": info("decoder", "one"), "two": info("encoder", "two")})
    desk.state.choosing.choose_model("A", "one")
    desk.state.choosing.choose_model("B", "two")
    desk.open()
    head, other = desk.state.head_of("A"), desk.state.head_of("B")
    assert (head.stack, other.stack) == ("decoder", "encoder")
    assert desk.state.maps is not None
    desk.state.choosing.swap()
    desk.answer()
    assert desk.state.head_of("A") == other
    assert desk.state.missing == ""


def test_that_a_side_that_fails_says_so_and_is_not_asked_for_again() -> None:
    desk = CompareDesk()
    desk.state.choosing.choose_model("B", "nowhere")
    desk.state.open()
    first, second = desk.traces()
    assert second.model == "nowhere"
    desk.state.handle(Progress(number=second.number, what="Opening nowhere"))
    assert desk.state.traces.progress == "Opening nowhere"
    desk.asked.clear()
    desk.state.handle(Failed(number=second.number, request="TraceText", message="There is no model."))
    desk.answer_one(first)
    assert desk.state.sides["B"].error == "There is no model."
    assert desk.traces() == []
    assert desk.state.maps is None
    desk.state.choosing.choose_model("B", None)
    desk.answer()
    assert desk.state.sides["B"].error == ""
    assert desk.state.maps is not None


def test_that_late_and_foreign_replies_change_nothing() -> None:
    desk = CompareDesk().open()
    shown = desk.state.maps
    desk.state.handle(Failed(number=0, request="TraceText", message="old"))
    desk.state.handle(ModelLoaded(number=3, info=info()))
    assert desk.state.maps is shown


def test_that_a_head_that_one_side_lacks_is_named() -> None:
    desk = CompareDesk({"enc": info("encoder", "enc")})
    desk.state.choosing.choose_model("B", "enc")
    desk.open()
    desk.session.select_heads((ref(0, 1, "cross"),))
    desk.answer()
    assert desk.state.missing == "B has no head L0H1 in the stack cross."
    assert not any(isinstance(request, ShowHeads) and request.view == "compare B" for request in desk.asked)


def test_that_heads_grids_and_limits_follow_the_choices() -> None:
    desk = CompareDesk().open()
    stack = desk.state.head.stack
    assert {grid.heads[0].stack for grid in desk.state.grids} == {stack}
    desk.state.choosing.show_all_stacks(True)
    assert len(desk.state.grids) == 6
    assert desk.state.differences.end == 0.0
    assert desk.state.maps.end == pytest.approx(
        np.nanmax(np.abs(desk.state.maps.delta))
    )  # fits the head looked at
    desk.state.choosing.choose_limit("every")
    assert desk.state.differences.end == desk.state.maps.limit == 0.5
    desk.state.choosing.choose_limit("unit")
    assert desk.state.maps.end == 1.0
    desk.state.choosing.choose_way("position")
    assert any(isinstance(request, CompareTraces) for request in desk.asked)


def test_that_the_most_changed_head_is_looked_at_when_it_comes_first() -> None:
    desk = CompareDesk().open()
    state = desk.state
    changes = {h: c for g in state.grids for c, h in zip(g.mean_abs, g.heads, strict=True)}
    last = min(changes, key=changes.get)
    state.select(last)
    state.sort_by("changed")
    assert changes[state.head] == max(changes.values())
    assert desk.session.primary == state.head
    state.select(last)
    state.sort_by("layers")
    assert state.head == last


def test_that_the_kl_of_other_answers_is_not_read() -> None:
    desk = CompareDesk().open()
    assert len(desk.state.differences.kl_nats) == len(desk.state.differences.answers) > 0
    desk.state.choosing.choose_way("position")
    assert desk.state.differences.query.answer is not None
    assert desk.state.differences.kl_nats == ()  # until the comparison of the new pairs is there
    desk.answer()
    desk.state.differences.answers = ()
    assert desk.state.differences.kl_nats == ()


def test_that_the_same_wish_on_both_sides_is_known() -> None:
    desk = CompareDesk()
    desk.session.texts.set_text("no sample of the model")
    desk.state.choosing.set_text("B", "no sample of the model")
    assert desk.state.traces.is_same_wish
    desk.session.head_changes.toggle_gate(ref(0, 1))
    assert not desk.state.traces.is_same_wish


def test_that_a_sample_is_compared_with_another_until_something_is_chosen() -> None:
    desk = CompareDesk()
    state, session = desk.state, desk.session
    first, second = session.model.samples[:2]
    session.texts.set_text(first.text)
    assert (state.traces.wish("A").text, state.traces.wish("B").text) == (first.text, second.text)
    assert state.traces.wish("B").target is None  # not the target of the other sentence
    state.choosing.swap()
    assert (state.traces.wish("A").text, state.traces.wish("B").text) == (second.text, first.text)
    session.head_changes.toggle_gate(ref(0, 1))
    assert {state.traces.wish("A").text, state.traces.wish("B").text} == {first.text}
    session.undo()
    state.choosing.set_text("B", first.text)
    assert state.traces.is_same_wish


@pytest.mark.parametrize(
    ("text", "with_text"),
    [("a b c", "a b d"), ("a b d", "a b c"), ("x", "y"), ("q r s t", "a b c"), ("typed", "x"), ("", "")],
)
def test_that_the_companion_of_a_sample_is_its_pair_or_the_nearest(text: str, with_text: str) -> None:
    samples = tuple(
        Sample(text=text, pair=pair)
        for text, pair in (("a b c", ""), ("q r s t", "a b c"), ("c a", ""), ("a b d", ""), ("x", "y"))
    )
    found = companion(text, samples)
    assert (found.text, found.words) == (with_text, "another sample" if with_text else "")


@pytest.mark.parametrize(
    ("text", "with_text", "words"),
    [
        ("A dog chases my old uncle.", "A chases dog my old uncle.", "“dog” and “chases” exchanged"),
        ("I put <mask> fork down", "I put <mask> down fork", "“fork” and “down” exchanged"),
        ("3 1 3", "1 3 3", "“3” and “1” exchanged"),
        ("Ça va bien, et toi?", "va Ça bien, et toi?", "“Ça” and “va” exchanged"),
        ("The the THE", "", ""),
        ("a b c", "", ""),
    ],
)
def test_that_a_text_of_ones_own_is_compared_with_two_of_its_words_exchanged(
    text: str, with_text: str, words: str
) -> None:
    samples = (Sample(text="a b c"), Sample(text="nothing like it"))
    found = companion(text, samples)
    if with_text:
        assert (found.text, found.words) == (with_text, words)
        assert companion(text, ()) == found
    else:
        assert (found.text, found.words) == (
            samples[1].text if text == "a b c" else "a b c",
            "another sample",
        )


def test_that_compare_opens_on_a_difference_whatever_the_text() -> None:
    desk = CompareDesk()
    desk.session.texts.set_text("a bird of my own")
    desk.state.open()
    first, second = desk.traces()
    assert (first.text, second.text) == ("a bird of my own", "a of bird my own")
    assert second.target is None


def test_that_texts_follow_explore_until_they_are_typed() -> None:
    desk = CompareDesk().open()
    desk.state.choosing.set_text("A", "a bird")
    desk.state.choosing.set_target("A", "un oiseau")
    assert (desk.state.traces.wish("A").text, desk.state.traces.wish("A").target) == ("a bird", "un oiseau")
    desk.state.choosing.set_text("A", "")
    assert desk.state.traces.wish("A").text == desk.session.text
    desk.state.choosing.set_target("A", "le chat")
    assert desk.state.traces.wish("A").text == desk.session.text
    assert desk.state.sides["A"].choice.text == desk.session.text


def test_that_measures_and_answers_are_paired() -> None:
    desk = CompareDesk().open()
    row = next(row for row in desk.state.measures if row.kind.field == "entropy")
    assert row.texts == ("0.500", "0.500", "0.000")
    far = replace(row, first=1666.51, second=1666.78)
    assert far.texts == ("1667", "1667", "+0.270")  # names beside them keep their room
    assert desk.state.differences.answers
    assert all(answer.pair is not None for answer in desk.state.differences.answers)
    first = desk.state.differences.answers[0]
    rows = rows_of_both(first.first, first.second, is_by_piece=False)
    assert rows[0].token == Token(id=2, piece="w2")
    assert rows[0].before == rows[0].after == 0.7
    by_piece = rows_of_both(first.first, None, is_by_piece=True)
    assert all(row.after is None for row in by_piece)
    assert kl_words((), 0) == "KL –"
    assert kl_words((0.25,), 0) == "KL 0.25 nats"
    assert most_apart((0.0, 0.5, 0.1)) == 1


def test_that_what_one_side_alone_says_has_its_place_by_its_own_probability() -> None:
    first, second = prediction((1, 0.6), (2, 0.3)), prediction((3, 0.4), (4, 0.2), (2, 0.002))
    rows = rows_of_both(first, second, is_by_piece=False)
    assert [(row.token.id, row.before, row.after) for row in rows] == [
        (1, 0.6, None), (3, None, 0.4), (2, 0.3, 0.002), (4, None, 0.2),
    ]  # fmt: skip


def test_that_names_are_short() -> None:
    assert short_checkpoint("/a/run/checkpoints/002000") == "run, step 2,000"
    assert short_checkpoint("org/model") == "model"
    gates = gates_off(ref(0, 0), ref(0, 1), ref(1, 0)).with_value(ref(1, 1), 0.5)
    words = changes_words(gates, ())
    assert words == "encoder L0H0, encoder L0H1 and 1 more off · encoder L1H1 × 0.5"


def test_that_what_a_side_writes_comes_after_its_maps() -> None:
    desk = CompareDesk().open()
    desk.told.clear()
    side = desk.state.sides["B"].traced
    assert side is not None
    said = replace(side.comparison.after, generated="le chien")
    comparison = replace(side.comparison, after=said)
    desk.state.handle(OutputWritten(number=side.number + 100, comparison=comparison))
    assert desk.told == []
    desk.state.handle(OutputWritten(number=side.number, comparison=comparison))
    assert desk.told == ["output"]
    shown = desk.state.sides["B"].traced
    assert shown is not None
    assert shown.comparison.after.generated == "le chien"
    assert not [request for request in desk.asked if isinstance(request, CompareTraces)]

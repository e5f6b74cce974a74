"""The session with plain calls: what it posts, what it takes, what it drops."""

import dataclasses
from dataclasses import replace

import pytest
from session_samples import SAMPLES, Desk, gates_off, head_map, info, ref, tokens, traced

from attnscope.errors import UserError
from attnscope.records import (
    NO_GATES,
    TRAINING_MODEL,
    Failed,
    HeadsShown,
    LoadModel,
    ModelInfo,
    ModelLoaded,
    ModelSaved,
    Progress,
    Ready,
    Sample,
    SaveModel,
    ShowHeads,
    Site,
    TrainingNews,
)
from attnscope.viewmodels.session import Setting


def test_that_a_loaded_model_is_traced_on_its_first_sample():
    desk = Desk().open()
    assert desk.session.text == SAMPLES[0].text
    assert desk.session.traced is not None
    assert desk.session.traced.text == SAMPLES[0].text
    assert not desk.session.tracing.is_stale


def test_that_a_text_typed_before_the_model_is_open_is_kept():
    desk = Desk()
    desk.session.texts.set_text("my own words")
    assert desk.posted == []
    desk.open()
    assert desk.session.traced is not None
    assert desk.session.traced.text == "my own words"


def test_that_a_model_opens_on_its_most_striking_head_of_the_last_stack():
    assert Desk().open().session.selection == (ref(1, 1, "cross"),)


def test_that_a_model_with_a_guided_head_opens_on_that_one():
    guided = ref(0, 1, "cross")
    session = Desk().open(replace(info(), guided=guided)).session
    assert session.selection == (guided,)
    session.select_stack("encoder")
    assert session.selection[-1].stack == "encoder"
    session.select_stack("cross")
    assert session.selection == (guided,)


def test_that_a_model_of_latents_opens_on_what_they_read():
    read_in = Site(stack="read-in", layer=0, n_heads=2, n_kv_heads=2, n_slots=3)
    latents = Site(stack="latents", layer=0, n_heads=2, n_kv_heads=2, keys="slots", n_slots=3)
    session = Desk().open(replace(info(), sites=(read_in, latents))).session
    assert {head.stack for head in session.selection} == {"read-in"}


def test_that_every_key_posts_a_trace_of_the_newest_text():
    desk = Desk().open()
    for text in ("a", "a c", "a ca"):
        desk.session.texts.set_text(text)
    assert [r.text for r in desk.traces()] == ["a", "a c", "a ca"]
    assert desk.session.tracing.is_stale


def test_that_an_answer_to_an_older_text_is_dropped():
    desk = Desk().open()
    desk.session.texts.set_text("one")
    desk.session.texts.set_text("two")
    first, second = desk.traces()
    desk.answer_one(second)
    shown = desk.session.traced
    desk.answer_one(first)
    assert desk.session.traced is shown
    assert shown is not None
    assert shown.text == "two"


def test_that_an_older_answer_that_comes_first_changes_nothing():
    desk = Desk().open()
    before = desk.session.traced
    desk.session.texts.set_text("one")
    desk.session.texts.set_text("two")
    desk.answer_one(desk.traces()[0])
    assert desk.session.traced is before
    assert desk.session.tracing.is_stale


def test_that_the_same_text_is_not_traced_twice():
    desk = Desk().open()
    desk.session.texts.set_text("one")
    desk.session.texts.set_text("one")
    assert len(desk.traces()) == 1


@pytest.mark.parametrize("text", ["", "   ", "\t\n"])
def test_that_empty_text_posts_nothing_and_drops_what_is_on_its_way(text):
    desk = Desk().open()
    shown = desk.session.traced
    desk.session.texts.set_text("one")
    late = desk.traces()[0]
    desk.session.texts.set_text(text)
    assert len(desk.traces()) == 1
    desk.answer_one(late)
    assert desk.session.traced is shown
    assert not desk.session.tracing.is_stale


def test_that_a_blank_target_lets_the_model_write_its_own():
    desk = Desk().open()
    desk.session.texts.set_target("le chat")
    desk.session.texts.set_target("  ")
    assert [r.target for r in desk.traces()] == ["le chat", None]


def test_that_the_target_of_a_sample_goes_with_the_sample():
    desk = Desk().open()
    desk.session.texts.choose_sample(Sample(text="the cat", target="le chat"))
    desk.session.texts.set_text("the dog")
    assert [(r.text, r.target) for r in desk.traces()] == [("the cat", "le chat"), ("the dog", None)]


def test_that_a_target_the_person_typed_stays_with_other_texts_and_models():
    desk = Desk().open()
    desk.session.texts.choose_sample(Sample(text="the cat", target="le chat"))
    desk.session.texts.set_target("le chien")
    desk.session.texts.set_text("the dog")
    assert desk.session.target == "le chien"
    desk.open(info(name="other"))
    assert (desk.session.text, desk.session.target) == ("the dog", "le chien")


def test_that_a_target_typed_for_a_sample_stays_with_another_model():
    desk = Desk().open()
    desk.session.texts.choose_sample(SAMPLES[1])
    desk.session.texts.set_target("le chien")
    desk.open(info(name="other"))
    assert (desk.session.text, desk.session.target) == (SAMPLES[1].text, "le chien")


def test_that_a_new_model_does_not_get_the_target_of_an_old_sample():
    desk = Desk().open()
    desk.session.texts.choose_sample(Sample(text="the cat", target="le chat"))
    desk.open(info(name="other"))
    assert (desk.session.text, desk.session.target) == (SAMPLES[0].text, None)


def test_that_a_model_can_be_opened_on_a_given_sentence_unless_the_person_types_meanwhile():
    desk = Desk().open()
    desk.session.opening.load("tiny", sample=Sample(text="three two one", target="un deux"))
    assert desk.session.text == SAMPLES[0].text
    desk.answer()
    assert (desk.session.text, desk.session.target) == ("three two one", "un deux")
    desk.session.opening.load("tiny", sample=Sample(text="three two one"))
    desk.session.texts.set_text("mine")
    desk.answer()
    assert desk.session.text == "mine"


def test_that_traces_of_a_model_in_training_are_not_taken():
    desk = Desk().open()
    shown = desk.session.traced
    desk.session.texts.set_text("one")
    request = desk.traces()[0]
    reply = traced(request, desk.model)
    object.__setattr__(reply, "model", TRAINING_MODEL)
    desk.session.handle(reply)
    assert desk.session.traced is shown


def test_that_heads_not_sent_with_the_trace_are_asked_for():
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    assert isinstance(desk.posted[-1], ShowHeads)
    assert desk.session.maps.of(ref(0, 1)) is None
    desk.answer()
    assert desk.session.maps.of(ref(0, 1)) is not None


def test_that_heads_asked_for_before_newer_ones_are_dropped():
    desk = Desk().open()
    desk.session.select_heads((ref(0, 0),))
    desk.session.select_heads((ref(0, 1),))
    text = tokens("a")
    late = HeadsShown(number=desk.posted[0].number, model="", maps=(head_map(ref(0, 0), text, text),))
    desk.session.handle(late)
    assert desk.session.maps.of(ref(0, 0)) is None


def test_that_heads_of_the_trace_before_the_shown_one_are_dropped():
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    request, text = desk.posted[-1], tokens("a")
    made = head_map(ref(0, 1), text, text)
    late = HeadsShown(number=request.number, model="", maps=(made,), trace=desk.session.traced.number + 1)
    desk.session.handle(late)
    assert desk.session.maps.of(ref(0, 1)) is None
    desk.session.handle(dataclasses.replace(late, trace=desk.session.traced.number))
    assert desk.session.maps.of(ref(0, 1)) is made


def test_that_a_trace_carries_the_gates_and_the_selected_heads():
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    desk.session.head_changes.toggle_gate(ref(1, 0))
    request = desk.traces()[0]
    assert request.gates == gates_off(ref(1, 0))
    assert request.heads == (ref(0, 1),)


def test_that_selecting_adds_and_takes_away_within_one_stack():
    session = Desk().open().session
    session.select_heads((ref(0, 0),))
    session.select_heads((ref(0, 1),), additive=True)
    assert session.selection == (ref(0, 0), ref(0, 1))
    session.select_heads((ref(0, 0),), additive=True)
    assert session.selection == (ref(0, 1),)
    session.select_heads((ref(0, 1),), additive=True)
    assert session.selection == (ref(0, 1),)
    session.select_heads((ref(0, 0, "decoder"),), additive=True)
    assert session.selection == (ref(0, 0, "decoder"),)


def test_that_a_head_the_model_lacks_is_refused():
    session = Desk().open().session
    with pytest.raises(UserError, match="no head L7H0"):
        session.select_heads((ref(7, 0),))


def test_that_a_stack_comes_back_with_the_head_last_looked_at_there():
    session = Desk().open().session
    session.select_heads((ref(1, 0),))
    session.select_stack("decoder")
    assert session.stack == "decoder"
    session.select_stack("encoder")
    assert session.selection == (ref(1, 0),)


def test_that_loading_another_model_drops_gates_selection_and_history():
    """F46: gates of one model never reach another."""
    desk = Desk().open()
    desk.session.head_changes.toggle_gate(ref(0, 0))
    desk.answer()
    desk.open(info("decoder", "other"))
    assert desk.session.gates == NO_GATES
    assert desk.session.history.undo_label == ""
    assert all(head.stack == "decoder" for head in desk.session.selection)
    assert desk.session.target is None


def test_that_a_model_that_cannot_be_opened_leaves_everything_as_it_was():
    desk = Desk().open()
    desk.session.head_changes.toggle_gate(ref(0, 0))
    desk.answer()
    before = (desk.session.model, desk.session.traced, desk.session.gates, desk.session.selection)
    desk.session.opening.load("/nowhere")
    request = desk.posted.pop()
    assert isinstance(request, LoadModel)
    assert desk.session.opening.busy is not None
    desk.session.handle(Failed(number=request.number, request="LoadModel", message="No model there."))
    after = (desk.session.model, desk.session.traced, desk.session.gates, desk.session.selection)
    assert after == before
    assert desk.session.opening.busy is None
    assert desk.session.notices.shown is not None
    assert desk.session.notices.shown.message == "No model there."


def test_that_a_model_of_another_kind_of_input_begins_with_its_own_sample():
    desk = Desk().open(replace(info(), reads="picture", samples=()))
    desk.session.texts.set_text("/home/me/cat.png")
    desk.answer()
    desk.open(info())
    assert desk.session.text == SAMPLES[0].text
    desk.open(replace(info(), reads="recording", samples=()))
    assert desk.session.text == ""


@pytest.mark.parametrize(("about", "is_gone"), [("Open", True), ("OpenText", True), ("", False)])
def test_that_the_message_of_a_failed_open_goes_with_the_next_one(about, is_gone):
    desk = Desk().open()
    desk.session.notices.say("cli.py cannot be opened", is_error=True, about=about)
    desk.open()
    assert (desk.session.notices.shown is None) == is_gone


def test_that_a_model_that_cannot_be_opened_leaves_a_dimmed_picture_dimmed():
    desk = Desk().open()
    desk.session.texts.set_text("slow")
    desk.session.opening.load("/nowhere")
    request = desk.posted[-1]
    desk.told.clear()
    desk.session.handle(Failed(number=request.number, request="LoadModel", message="No model there."))
    assert desk.session.tracing.is_stale
    assert "traced" not in desk.told


def test_that_a_restored_text_stays_with_another_model():
    desk = Desk()
    desk.session.opening.load("tiny", sample=Sample(text="my own words"))
    desk.answer()
    desk.session.restore(desk.session.setting, "open session")
    desk.open(info(name="other"))
    assert desk.session.text == "my own words"


def test_that_only_the_model_asked_for_last_is_opened():
    desk = Desk()
    desk.session.opening.load("first")
    desk.session.opening.load("second")
    first, second = desk.posted
    desk.session.handle(ModelLoaded(number=first.number, info=info(name="first")))
    assert desk.session.model is None
    desk.session.handle(ModelLoaded(number=second.number, info=info(name="second")))
    assert desk.session.model is not None
    assert desk.session.model.name == "second"


def test_that_a_failed_trace_says_so_and_keeps_the_old_picture_dimmed():
    desk = Desk().open()
    shown = desk.session.traced
    desk.session.texts.set_text("bad")
    desk.session.handle(Failed(number=desk.traces()[0].number, request="TraceText", message="Too odd."))
    assert desk.session.traced is shown
    assert desk.session.tracing.is_stale
    assert desk.told[-2:] == ["traced", "notice"]
    desk.posted.clear()
    desk.session.texts.set_text("good")
    desk.answer()
    assert desk.session.notices.shown is None
    assert not desk.session.tracing.is_stale


def test_that_failures_of_others_and_of_older_requests_are_not_shown():
    desk = Desk().open()
    desk.session.texts.set_text("one")
    old = desk.traces()[0].number
    desk.session.texts.set_text("two")
    desk.session.handle(Failed(number=old, request="TraceText", message="late"))
    desk.session.handle(Failed(number=9999, request="StartTraining", message="not ours"))
    assert desk.session.notices.shown is None


def test_that_progress_is_shown_while_loading():
    desk = Desk()
    desk.session.opening.load("folder/grammar/")
    assert desk.session.opening.busy is not None
    assert desk.session.opening.busy.what == "Loading grammar…"
    desk.session.handle(Progress(number=desk.posted[0].number, what="reading weights", fraction=0.5))
    assert desk.session.opening.busy.fraction == 0.5


def test_that_ready_names_devices_and_demo_models():
    desk = Desk()
    desk.session.handle(Ready(devices=("cpu",), demo_models=("a", "b"), note="slow matrix library"))
    assert desk.session.is_ready
    assert desk.session.demo_models == ("a", "b")
    assert desk.session.notices.shown is not None
    assert not desk.session.notices.shown.is_error


def test_that_saving_tells_where():
    desk = Desk().open()
    desk.session.save_model("/tmp/x")
    request = desk.posted[-1]
    assert isinstance(request, SaveModel)
    desk.session.handle(ModelSaved(number=request.number, folder="/tmp/x"))
    assert desk.session.notices.shown is not None
    assert "/tmp/x" in desk.session.notices.shown.message


def test_that_replies_for_other_views_are_passed_over_and_unknown_ones_are_a_fault():
    session = Desk().open().session
    session.handle(TrainingNews(number=1, events=()))
    with pytest.raises(TypeError, match="unknown reply str"):
        session.handle("nonsense")  # type: ignore[arg-type]


def with_target() -> ModelInfo:
    sample = Sample(text="the cat", target="le chat")
    return replace(info(), samples=(sample,))


def test_that_what_is_brought_back_is_a_sample_where_the_model_has_it():
    """After a tour, a session file or a crash: the sample's target goes with its text, a typed one stays."""
    desk = Desk().open(with_target())
    session = desk.session
    for target, kept in (("le chat", None), ("le chien", "le chien")):
        back = Setting(text="the cat", target=target)
        session.opening.load("tiny", sample=Sample(text="the cat", target=target))
        desk.answer()
        session.restore(back, "open session")
        session.texts.set_text("the dog")
        assert session.target == kept


def test_that_the_target_of_a_sample_brought_back_by_undo_goes_with_its_text():
    desk = Desk().open(with_target())
    desk.session.texts.set_text("the dog")
    desk.session.undo()
    assert desk.session.target == "le chat"
    desk.session.texts.set_text("the bird")
    assert desk.session.target is None

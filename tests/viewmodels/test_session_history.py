"""Undo and redo, dragging a gate, and what many gates at once become."""

from dataclasses import replace

import pytest
from session_samples import Desk, gates_off, info, ref

from attnscope.records import NO_GATES, Gates, HeadRef, ModelLoaded
from attnscope.viewmodels.session import Change, Comparing, Setting, SideChoice, is_written_over
from attnscope.widgets.window import unseen_words

OTHER = Comparing(second=SideChoice(text="x"))


def settle(desk: Desk) -> None:
    desk.answer()


def test_that_undo_and_redo_bring_gates_back_and_say_what_they_do():
    desk = Desk().open()
    session = desk.session
    session.head_changes.toggle_gate(ref(0, 1))
    assert session.history.undo_label == "switch off L0H1 (encoder)"
    session.undo()
    assert session.gates == NO_GATES
    assert session.history.redo_label == "switch off L0H1 (encoder)"
    session.redo()
    assert session.gates == gates_off(ref(0, 1))


def test_that_undo_traces_anew():
    desk = Desk().open()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    settle(desk)
    desk.session.undo()
    assert desk.traces()[-1].gates == NO_GATES


def test_that_a_drag_is_one_step():
    desk = Desk().open()
    session = desk.session
    for value in (0.9, 0.6, 0.3):
        session.head_changes.set_gate(ref(0, 0), value)
    session.head_changes.end_drag()
    assert session.history.undo_label == "gate of L0H0 (encoder) to 0.30"
    session.undo()
    assert session.gates == NO_GATES
    assert session.history.undo_label == ""


def test_that_two_drags_are_two_steps():
    session = Desk().open().session
    session.head_changes.set_gate(ref(0, 0), 0.5)
    session.head_changes.end_drag()
    session.head_changes.set_gate(ref(0, 0), 0.2)
    session.undo()
    assert session.gates.value(ref(0, 0)) == 0.5


def test_that_a_drag_back_to_where_it_began_leaves_no_step():
    session = Desk().open().session
    session.head_changes.set_gate(ref(0, 0), 0.5)
    session.head_changes.set_gate(ref(0, 0), 1.0)
    assert session.history.undo_label == ""


def test_that_a_drag_has_one_trace_on_its_way_and_ends_on_the_last_value():
    desk = Desk().open()
    for value in (0.9, 0.6, 0.3):
        desk.session.head_changes.set_gate(ref(0, 0), value)
    assert [r.gates.value(ref(0, 0)) for r in desk.traces()] == [0.9]
    settle(desk)
    assert desk.session.traced is not None
    assert desk.session.traced.gates.value(ref(0, 0)) == 0.3
    assert not desk.session.tracing.is_stale


def test_that_a_drag_goes_on_after_a_trace_has_failed():
    from attnscope.records import Failed

    desk = Desk().open()
    desk.session.head_changes.set_gate(ref(0, 0), 0.9)
    desk.session.handle(Failed(number=desk.posted.pop().number, request="TraceText", message="no"))
    desk.session.head_changes.set_gate(ref(0, 0), 0.5)
    assert len(desk.traces()) == 1


def test_that_values_outside_the_range_are_clamped():
    session = Desk().open().session
    session.head_changes.set_gate(ref(0, 0), -3.0)
    assert session.gates.value(ref(0, 0)) == 0.0
    session.head_changes.set_gate(ref(0, 0), 3.0)
    assert session.gates == NO_GATES


def test_that_setting_what_is_already_so_posts_nothing():
    desk = Desk().open()
    desk.session.head_changes.set_gate(ref(0, 0), 1.0)
    desk.session.head_changes.reset_gates()
    assert desk.posted == []


def test_that_walking_heads_is_one_step():
    session = Desk().open().session
    start = session.selection
    for head in (ref(0, 0), ref(0, 1), ref(1, 1)):
        session.select_heads((head,))
    session.undo()
    assert session.selection == start


def test_that_a_new_change_forgets_what_was_undone():
    session = Desk().open().session
    session.head_changes.toggle_gate(ref(0, 0))
    session.undo()
    session.head_changes.toggle_gate(ref(1, 1))
    assert session.history.redo_label == ""


def test_that_prune_all_but_leaves_only_these():
    session = Desk().open().session
    session.head_changes.prune_all_but((ref(0, 0), ref(1, 1)))
    kept = {ref(0, 0), ref(1, 1)}
    off = {h for site in session.model.sites for h in site.heads if session.gates.value(h) == 0}
    assert off == {h for site in session.model.sites for h in site.heads if h.stack == "encoder"} - kept
    assert session.history.undo_label == "prune all of the encoder but 2 heads"


def test_that_prune_all_but_leaves_other_stacks_as_they_are_and_names_its_own():
    session = Desk().open().session
    other = HeadRef(stack="cross", layer=0, head=1)
    session.head_changes.set_gate(other, 0.5)
    session.head_changes.prune_all_but((ref(0, 0),))
    changed = {head for head, value in session.gates.values if head.stack != "encoder"}
    assert changed == {other}
    assert session.gates.value(other) == 0.5
    assert session.history.undo_label == "prune all of the encoder but L0H0"


def test_that_a_sentence_typed_in_one_go_is_one_step():
    session = Desk().open().session
    before = session.text
    for n in range(1, 17):
        session.texts.set_text("a sentence typed"[:n])
    session.undo()
    assert session.text == before
    session.redo()
    session.history.close_group()
    session.texts.set_text("a sentence typed anew")
    session.undo()
    assert session.text == "a sentence typed"


def test_that_a_sentence_typed_over_another_is_a_step_of_its_own():
    session = Desk().open().session
    for sentence in ("a sentence typed", "another one of these"):
        for n in range(1, len(sentence) + 1):
            session.texts.set_text(sentence[:n])  # the first letter replaces all that was marked
    session.texts.set_text("another one of those")
    assert [label for label in session.history.labels if label.startswith("text")] == [
        "text “a sentence typed”",
        "text “another one of those”",
    ]
    session.undo()
    assert session.text == "a sentence typed"


@pytest.mark.parametrize(
    ("before", "after", "is_over"),
    [
        ("the cat sat", "the cat sa", False),
        ("the cat sat", "the sat", False),
        ("the cat sat", "the dog sat", False),
        ("the cat sat", "the cat  sat", False),
        ("the cat sat", "t", True),
        ("the cat sat", "", True),
        ("the cat sat", "the bird flew", True),
        ("", "the cat", False),
    ],
)
def test_that_text_is_written_over_where_several_words_go_at_once(before: str, after: str, is_over: bool):
    assert is_written_over(before, after) is is_over


def test_that_invert_turns_each_gate_into_one_minus_itself_and_back():
    session = Desk().open().session
    session.head_changes.toggle_gate(ref(0, 0))
    session.head_changes.set_gate(ref(0, 1), 0.3)
    before = session.gates
    session.head_changes.invert_gates()
    assert session.gates.value(ref(0, 0)) == 1.0
    assert session.gates.value(ref(0, 1)) == pytest.approx(0.7)
    assert session.gates.value(ref(1, 1)) == 0.0
    session.head_changes.invert_gates()
    assert session.gates == before


def test_that_reset_puts_every_head_on():
    session = Desk().open().session
    session.head_changes.prune_all_but((ref(0, 0),))
    session.head_changes.reset_gates()
    assert session.gates == Gates()


def test_that_toggling_several_heads_switches_all_off_then_all_on():
    session = Desk().open().session
    heads = (ref(0, 0), ref(0, 1))
    session.head_changes.toggle_gate(ref(0, 0))
    session.head_changes.toggle_gates(heads)
    assert session.gates == gates_off(*heads)
    session.head_changes.toggle_gates(heads)
    assert session.gates == NO_GATES


def test_that_undo_at_the_beginning_does_nothing():
    desk = Desk().open()
    desk.session.undo()
    desk.session.redo()
    assert desk.posted == []


def test_that_each_model_has_its_history_and_opening_it_again_is_a_step():
    desk = Desk().open(info(name="first"))
    session = desk.session
    session.texts.set_text("my own words")
    session.head_changes.toggle_gate(ref(0, 1))
    left = session.setting
    desk.open(info(name="second"))
    assert session.history.labels == ()
    session.head_changes.toggle_gate(ref(1, 0))
    desk.open(info(name="first"))
    assert session.gates == NO_GATES
    assert session.history.labels[-2:] == ("switch off L0H1 (encoder)", "open first")
    session.undo()
    assert session.setting == left
    session.undo()
    assert session.gates == NO_GATES


def test_that_a_session_brought_back_is_one_step_with_the_opening_of_its_model():
    desk = Desk().open(info(name="first"))
    session = desk.session
    session.head_changes.toggle_gate(ref(0, 1))
    left = session.setting
    desk.open(info(name="second"))
    desk.open(info(name="first"))
    session.restore(left, "open session")
    assert session.history.labels == ("switch off L0H1 (encoder)",)


def test_that_another_content_of_a_model_has_another_history():
    desk = Desk().open(info(name="first"))
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.open(replace(info(name="first"), sha256="cd" * 32))
    assert desk.session.history.labels == ()


def test_that_a_step_is_told_with_its_page_only_where_it_is_not_seen():
    before = Setting()
    compared = Change(label="compare: B reads x", before=before, after=replace(before, compared=OTHER))
    assert unseen_words("Undid", compared, "labs") == "Undid on the page Compare: B reads x."
    assert unseen_words("Undid", compared, "compare") == ""
    gates = Change(label="switch off L0H1", before=before, after=replace(before, gates=gates_off(ref(0, 1))))
    assert unseen_words("Redid", gates, "train") == "Redid on the page Explore: switch off L0H1."
    assert unseen_words("Redid", gates, "heads") == ""
    assert unseen_words("Undid", None, "labs") == ""


@pytest.mark.parametrize("is_late", [True, False])
def test_that_the_model_that_the_worker_holds_is_the_one_shown_when_a_later_one_is_given_up(is_late: bool):
    desk = Desk().open()
    session = desk.session
    session.opening.load("one")
    first = desk.posted.pop()
    session.opening.load("other")
    desk.posted.clear()
    if is_late:
        session.opening.give_up()
    session.handle(ModelLoaded(number=first.number, info=info(name="one")))
    if not is_late:
        assert session.model.name == "tiny"
        session.opening.give_up()
    assert session.model.name == "one"
    assert session.opening.busy is None

"""Changes of single heads beyond gates: asked for, undone, kept or dropped with the text."""

from session_samples import Desk, ref

from attnscope.records import MakeMean, MakeUniform, RemoveEdge
from attnscope.viewmodels.session import changes_counted, in_words, of_head, with_or_without, without

EDGE = RemoveEdge(head=ref(0, 1), query=1, key=2)
UNIFORM = MakeUniform(head=ref(0, 1))
MEAN = MakeMean(head=ref(0, 1))


def test_that_a_change_asked_for_twice_is_taken_back():
    once = with_or_without((), EDGE)
    assert once == (EDGE,)
    assert with_or_without(once, EDGE) == ()


def test_that_a_head_has_one_pattern_and_any_number_of_missing_edges():
    found = with_or_without(with_or_without((EDGE,), UNIFORM), MEAN)
    assert found == (EDGE, MEAN)
    assert of_head(found, ref(0, 1)) == found
    assert of_head(found, ref(0, 0)) == ()
    assert without(found, EDGE) == (MEAN,)


def test_that_a_change_is_traced_and_undone_by_name():
    desk = Desk().open()
    session = desk.session
    session.head_changes.intervene((EDGE,))
    assert desk.traces()[-1].interventions == (EDGE,)
    assert session.history.undo_label == "L0H1: no edge from query 1 to key 2"
    session.head_changes.intervene(())
    assert session.history.undo_label == "undo: L0H1: no edge from query 1 to key 2"
    session.undo()
    session.undo()
    assert session.interventions == ()
    assert desk.traces()[-1].interventions == ()


def test_that_places_go_with_their_text_and_whole_heads_stay():
    desk = Desk().open()
    desk.session.head_changes.intervene((EDGE, UNIFORM))
    desk.session.texts.set_text("another text")
    assert desk.session.interventions == (UNIFORM,)
    assert desk.traces()[-1].interventions == (UNIFORM,)
    desk.session.undo()
    assert desk.session.interventions == (EDGE, UNIFORM)


def test_that_a_copied_pattern_names_its_text_and_goes_with_the_model():
    desk = Desk().open()
    session = desk.session
    session.head_changes.copy_pattern(ref(1, 0))
    assert session.head_changes.pattern_clip is not None
    change = session.head_changes.pattern_clip.onto(ref(0, 0))
    assert (change.from_head, change.text) == (ref(1, 0), session.text)
    session.head_changes.intervene((change,))
    desk.open()
    assert session.interventions == ()
    assert session.head_changes.pattern_clip is None


def test_that_changes_are_counted_and_named_by_their_tokens():
    desk = Desk().open()
    desk.answer()
    assert changes_counted(()) == ""
    assert changes_counted((EDGE,)) == "1 head change"
    assert changes_counted((EDGE, MEAN)) == "2 head changes"
    assert in_words(EDGE, None) == EDGE.sentence
    assert in_words(EDGE, desk.session.traced) == "L0H1: “cat” ↛ “sleeps”"
    assert in_words(MEAN, desk.session.traced) == MEAN.sentence

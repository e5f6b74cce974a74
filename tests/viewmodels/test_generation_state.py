"""The state of the writing panel: requests, news, steps through the written tokens, what is outdated."""

from generation_samples import HEAD, WORDS, WritingDesk, tree, written_tokens

from attnscope.records import WRITTEN_TRACE, Failed, HeadsShown, ShowHeads, WriteSettings
from attnscope.widgets.explore import place_nodes, place_of_chosen, tree_sentence, writing_summary


def test_that_a_wish_to_write_captures_text_gates_and_heads():
    desk = WritingDesk()
    desk.session.head_changes.toggle_gate(HEAD)
    desk.state.set_mode("sample")
    desk.state.write()
    request = desk.request()
    assert (request.text, request.gates, request.heads) == (
        "the cat sat",
        desk.session.gates,
        desk.session.selection,
    )
    assert request.settings.mode == "sample"
    assert desk.state.is_writing


def test_that_news_show_the_tokens_so_far_and_stop_keeps_them():
    desk = WritingDesk()
    desk.state.write()
    desk.tell_news(2)
    assert [token.token.piece for token in desk.state.tokens] == list(WORDS[:2])
    assert writing_summary(desk.state, desk.session) == "generating… 2 of at most 50"
    desk.state.stop()
    assert desk.cancelled == [desk.request().number]
    assert desk.state.phase == "stopped"
    desk.answer()
    assert desk.state.phase == "stopped"
    assert len(desk.state.tokens) == 2
    desk.state.use_as_text()
    assert desk.session.text == "the cat sat on the"


def test_that_a_chosen_step_shows_the_written_trace_and_its_row():
    desk = WritingDesk().write()
    own = desk.session.traced
    desk.state.choose_step(0)
    assert desk.session.traced.model == WRITTEN_TRACE
    assert desk.state.row("decoder") == 3
    assert desk.state.row("encoder") is None
    assert place_of_chosen(desk.state) == "token 1 of 3, predicted from the row of “on”"
    desk.state.choose_step(1)
    assert desk.state.row("decoder") == 4
    desk.state.choose_step(99)
    assert desk.state.step == 2
    desk.state.choose_step(None)
    assert desk.session.traced is own
    assert desk.state.row("decoder") is None


def test_that_other_heads_of_the_written_text_are_asked_for_by_its_name():
    desk = WritingDesk().write()
    desk.state.choose_step(0)
    desk.session.select_heads((HEAD,))
    desk.session.select_heads((HEAD.__class__(stack="decoder", layer=1, head=0),))
    asked = [request for request in desk.desk.posted if isinstance(request, ShowHeads)]
    assert asked
    assert all(request.model == WRITTEN_TRACE for request in asked)
    written = desk.written_trace(desk.request())
    desk.session.handle(HeadsShown(number=asked[-1].number, model=WRITTEN_TRACE, maps=written.maps))


def test_that_other_gates_make_it_outdated_and_steps_no_longer_show_its_maps():
    desk = WritingDesk().write()
    desk.session.head_changes.toggle_gate(HEAD)
    desk.desk.answer()
    assert desk.state.is_outdated
    assert "changed since" in writing_summary(desk.state, desk.session)
    desk.state.choose_step(1)
    assert desk.session.traced.model != WRITTEN_TRACE
    assert desk.state.row("decoder") is None
    assert desk.state.candidates
    desk.session.undo()
    desk.desk.answer()
    assert not desk.state.is_outdated


def test_that_another_text_stops_the_writing():
    desk = WritingDesk()
    desk.state.write()
    desk.session.texts.set_text("another text")
    assert desk.state.phase == "stopped"
    assert desk.cancelled


def test_that_used_as_text_the_maps_are_the_pages_own():
    desk = WritingDesk().write()
    desk.state.use_as_text()
    assert desk.session.text == "the cat sat on the mat"
    assert not desk.state.is_outdated
    desk.desk.answer()
    desk.state.choose_step(1)
    assert desk.session.traced.model == ""
    assert desk.state.row("decoder") == 4


def test_that_for_a_translation_the_written_text_becomes_the_target():
    desk = WritingDesk("encoder-decoder")
    desk.state.write()
    desk.tell_news(2)
    desk.state.stop()
    desk.state.use_as_text()
    assert desk.session.text == "the cat sat"
    assert desk.session.target == "the cat sat on the"


def test_that_the_written_token_is_among_its_alternatives():
    desk = WritingDesk().write()
    tokens = written_tokens(4)
    rare = tokens[0].__class__(
        token=tokens[0].token.__class__(id=999, piece="rare"), position=3, probability=0.001, chance=1.0,
        alternatives=tokens[0].alternatives,
    )  # fmt: skip
    desk.state.tokens = (rare, *tokens[1:])
    desk.state.choose_step(0)
    assert [c.token.id for c in desk.state.candidates][-1] == 999
    assert len(desk.state.candidates) == 8


def test_that_impossible_settings_and_failures_are_told():
    desk = WritingDesk()
    desk.state.set_settings(WriteSettings(mode="sample", top_p=0.0))
    desk.state.write()
    assert not desk.posted
    assert "top-p is 0.0" in writing_summary(desk.state, desk.session)
    desk.state.set_settings(WriteSettings())
    desk.state.write()
    desk.state.handle(Failed(number=desk.request().number, request="WriteText", message="No room."))
    assert desk.state.phase == "failed"
    assert writing_summary(desk.state, desk.session) == "No room."


def test_that_a_masked_model_and_an_empty_text_are_told_beforehand():
    desk = WritingDesk("encoder")
    assert not desk.state.can_write
    assert "does not generate text" in writing_summary(desk.state, desk.session)
    desk = WritingDesk()
    desk.session.texts.set_text("")
    assert not desk.state.can_write
    assert "Type a text first" in writing_summary(desk.state, desk.session)


def test_that_another_model_forgets_what_was_written():
    desk = WritingDesk().write()
    desk.state.choose_step(0)
    desk.desk.open(desk.desk.model)
    assert desk.state.phase == "empty"
    assert desk.state.tokens == ()
    assert desk.state.chosen is None


def test_that_nodes_stand_in_rows_by_token_the_best_at_the_left():
    placed = place_nodes(tree())
    assert [(p.node.token.piece, p.row, p.column, p.kind) for p in placed] == [
        ("on", 0, 0, "best"), ("in", 0, 1, "kept"), ("at", 0, 2, "dropped"),
        ("the", 1, 0, "best"), ("a", 1, 1, "kept"), ("</s>", 1, 2, "kept"),
        ("mat", 2, 0, "best"),
    ]  # fmt: skip
    for node in placed:
        assert node.parent is None or placed[node.parent].row == node.row - 1
    assert all(p.kind != "dropped" for p in place_nodes(tree(), has_dropped=False))
    assert tree_sentence(tree()) == "7 nodes, 3 tokens deep, 1 ended; best at the left"
    assert "ends its text" in placed[5].sentence

"""Drawing a mask: strokes, presets, edge lists, undo, and what is said about rows that see nothing."""

from dataclasses import replace

import numpy as np
import pytest
from session_samples import Desk, info

from attnscope.records import ModelLoaded, Token, UseMask
from attnscope.viewmodels.session import (
    PRESETS,
    MaskState,
    SavedSession,
    Shown,
    command_line,
    graph_text,
    preset_cells,
    python_script,
    sentences_of,
    session_bytes,
    session_from_bytes,
)


def words(text):
    return tuple(Token(id=k, piece=piece) for k, piece in enumerate(text.split()))


@pytest.mark.parametrize("preset", PRESETS)
def test_that_a_preset_is_the_rule_it_says_cell_by_cell(preset):
    tokens = words("A cat . The cat sat !")
    sentence = [0, 0, 0, 1, 1, 1, 1]
    rules = {
        "full": lambda i, j: True,
        "causal": lambda i, j: j <= i,
        "window": lambda i, j: abs(i - j) <= 2,
        "sentences": lambda i, j: sentence[i] == sentence[j],
        "words": lambda i, j: i == j,
        "same": lambda i, j: tokens[i].piece.lower() == tokens[j].piece.lower(),
        "others": lambda i, j: i != j,
        "itself": lambda i, j: i == j,
    }
    expected = [[rules[preset](i, j) for j in range(7)] for i in range(7)]
    assert preset_cells(preset, tokens, 2).tolist() == expected


def test_that_special_tokens_and_closing_signs_stay_with_their_sentence():
    tokens = (
        Token(id=0, piece="<s>", is_special=True),
        *words("Go ! ! No ."),
        Token(id=9, piece="</s>", is_special=True),
    )
    assert sentences_of(tokens) == [0, 0, 0, 0, 1, 1, 1]


def test_that_example_graphs_are_edge_lists():
    assert graph_text("ring", 3) == "0 2\n1 0\n2 1"
    assert graph_text("tree", 6) == "1 0\n2 0\n3 1\n4 1\n5 2"
    assert graph_text("star", 3) == "1 0\n2 0"


def test_that_a_stroke_is_one_step_and_undone_as_one():
    desk = Desk().open()
    session = desk.session
    state = MaskState(session)
    assert state.cells.all()
    state.brush.begin()
    state.brush.paint([(0, 1)], False)
    state.brush.paint([(0, 2), (0, 3)], False)
    state.brush.end()
    state.brush.begin()
    state.brush.paint([(1, 1)], False)
    (mask,) = session.interventions
    assert isinstance(mask, UseMask)
    assert (mask.stack, mask.n_allowed) == ("encoder", 16 - 4)
    assert session.history.labels[-2:] == ("mask: forbid 3 cells", "mask: forbid query 1 → key 1")
    session.undo()
    assert state.mask is not None
    assert state.mask.n_allowed == 13
    session.undo()
    assert state.mask is None
    assert desk.traces()[-1].interventions == ()


def test_that_both_directions_are_painted_and_listed():
    desk = Desk().open()
    state = MaskState(desk.session)
    state.brush.set_symmetric(True)
    state.brush.paint([(0, 2)], False)
    assert np.argwhere(~state.cells).tolist() == [[0, 2], [2, 0]]
    state.edges.set_loops(False)
    assert state.edges.use("the -> cat")
    assert np.argwhere(state.cells).tolist() == [[0, 1], [1, 0]]
    assert state.drawn.blind == (2, 3)
    assert "2 “sleeps”, 3 “</s>” see nothing" in state.drawn.blind_sentence


def test_that_a_wrong_edge_list_changes_nothing_and_says_which_line():
    desk = Desk().open()
    state = MaskState(desk.session)
    assert not state.edges.use("0 1\ndog cat")
    assert "line 2: no token reads “dog”" in state.edges.error
    assert state.mask is None
    assert not state.edges.use("# nothing")
    assert "no edge" in state.edges.error


def test_that_a_decoder_keeps_its_later_tokens_forbidden():
    desk = Desk().open(info("decoder"))
    state = MaskState(desk.session)
    assert state.stack == "decoder"
    state.use_preset("full")
    assert state.cells.tolist() == np.tri(4, dtype=bool).tolist()
    assert state.is_locked(0, 1)
    state.use_preset("others")
    assert state.drawn.blind == (0,)
    state.use_preset("window")
    state.set_window(0)
    assert state.mask is not None
    assert (state.mask.name, state.mask.n_allowed) == ("window 0", 4)
    state.drop()
    assert state.mask is None


def test_that_there_is_a_reason_where_no_mask_can_be_drawn():
    desk = Desk()
    state = MaskState(desk.session)
    assert state.refusal == "Open a model first."
    desk.open(info("pool"))
    assert "no self-attention" in state.refusal
    desk.open(info("encoder"))
    assert state.refusal == ""


def test_that_a_mask_goes_with_its_text_and_into_sessions_scripts_and_commands():
    desk = Desk().open()
    state = MaskState(desk.session)
    state.edges.use("0 1")
    setting = desk.session.setting
    again = session_from_bytes(session_bytes(SavedSession(setting=setting)), what="x").setting
    assert again.interventions == setting.interventions
    shown = Shown(
        source="m", text="the cat", interventions=setting.interventions, heads=(setting.selection[-1],)
    )
    assert "at.UseMask.of_rows('encoder', ['0-1', '1', '2', '3']" in python_script(shown)
    assert "'--mask-rows=0-1;1;2;3'" in command_line(shown)
    drawn = UseMask.of_cells("encoder", setting.interventions[0].cells, "edge list")
    desk.session.texts.set_text("another text")
    assert state.mask is None
    desk.answer()
    desk.session.undo()
    assert state.mask == drawn


def test_that_a_mask_goes_with_its_text_and_undo_brings_both_back():
    desk = Desk().open()
    session, state = desk.session, MaskState(desk.session)
    state.edges.use("0 1")
    first, n_steps = session.setting, session.history.n_done
    desk.answer()
    session.texts.set_text("a dog barks")
    assert state.mask is None
    assert "drawn for the previous text" in session.notices.shown.message
    assert session.notices.shown.action == "undo"
    assert desk.traces()[-1].interventions == ()
    desk.answer()
    session.notices.dismiss()
    session.texts.set_text("a dog barks l")
    assert session.notices.shown is None  # told once
    assert session.history.n_done == n_steps + 1  # typing is one step
    session.undo()
    assert session.setting == first


def test_that_a_mask_of_a_file_that_does_not_fit_its_text_is_left_out_and_told():
    desk = Desk().open()
    session, state = desk.session, MaskState(desk.session)
    mask = UseMask.of_cells("encoder", np.eye(3, dtype=np.bool_), "of a file")
    session.change("open a session", replace(session.setting, interventions=(mask,)))
    assert state.mask == mask
    desk.answer()
    assert state.mask is None
    assert "drawn for 3 tokens, this text has 4: it is left out" in session.notices.shown.message
    assert session.history.undo_label == "the model's own mask"


def test_that_a_new_model_drops_the_mask():
    desk = Desk().open()
    state = MaskState(desk.session)
    state.use_preset("itself")
    desk.open(info("encoder", "other"))
    assert state.mask is None
    assert not isinstance(desk.session.model, ModelLoaded)


def test_that_a_list_of_a_file_is_taken_by_the_editor_that_asked_for_the_text_it_asked_for(tmp_path):
    desk = Desk().open()
    state, other = MaskState(desk.session), MaskState(desk.session)
    path = tmp_path / "graph.txt"
    path.write_text("0 1\n" * 3)
    state.edges.read_file(str(path))
    desk.answer()
    assert desk.session.history.labels[-1] == "mask: 1 edge"
    assert (state.edges.file_text, other.edges.file_text) == ("0 1\n" * 3, "")
    state.edges.read_file(str(path))
    desk.session.texts.set_text("the cat purrs")
    n_done = desk.session.history.n_done
    desk.answer()
    assert desk.session.history.n_done == n_done, "the text is another one by now"
    path.write_text("# nothing")
    state.edges.read_file(str(path))
    desk.answer()
    assert "has no edge" in state.edges.error

"""The layers panel's state: when it asks, what it takes, what it says."""

import dataclasses
import math
from typing import Any

from lens_samples import table
from session_samples import Desk, gates_off, ref, state_of
from told import names_told

from attnscope.records import Failed, LensShown, MakeUniform, ShowLens
from attnscope.viewmodels.causes import cell_sentences, cell_share, lens_cell_text, level_name, rows_name


def watched() -> tuple[Desk, Any, list[ShowLens]]:
    desk = Desk().open()
    asked: list[ShowLens] = []
    state = state_of("lens", asked.append, session=desk.session)
    state.watch(True)
    return desk, state, asked


def test_that_the_panel_asks_only_while_somebody_looks() -> None:
    desk = Desk().open()
    asked: list[ShowLens] = []
    state = state_of("lens", asked.append, session=desk.session)
    assert asked == []
    state.watch(True)
    assert [one.text for one in asked] == [desk.session.text]
    assert state.query.is_busy
    state.watch(False)
    state.watch(True)
    assert len(asked) == 1


def test_that_it_asks_again_for_another_trace_and_drops_late_answers() -> None:
    desk, state, asked = watched()
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    assert asked[-1].gates == gates_off(ref(0, 1))
    state.handle(LensShown(number=asked[0].number, table=table()))
    assert state.table is None
    newest = table()
    state.handle(LensShown(number=asked[-1].number, table=newest))
    assert state.table is newest
    assert not state.query.is_busy


def test_that_changes_inside_heads_are_asked_for_too() -> None:
    desk, state, asked = watched()
    uniform = MakeUniform(head=ref(0, 1))
    desk.session.head_changes.intervene((uniform,))
    desk.answer()
    assert asked[-1].interventions == (uniform,)
    state.handle(LensShown(number=asked[-1].number, table=table()))
    assert state.note == ""


def test_that_a_failure_is_said_in_the_panel() -> None:
    _, state, asked = watched()
    state.handle(Failed(number=asked[0].number, request="ShowLens", message="There is no text."))
    assert state.note == "There is no text."
    assert state.table is None


def test_that_another_librarys_model_is_asked_too() -> None:
    desk = Desk()
    desk.open()
    asked: list[ShowLens] = []
    state = state_of("lens", asked.append, session=desk.session)
    desk.session.model = dataclasses.replace(desk.session.model, architecture="GPT2LMHeadModel")
    state.watch(True)
    assert [request.text for request in asked] == ["the cat sleeps"]
    assert state.note == "Reading the layers…"


def test_that_cells_say_what_a_layer_would_say() -> None:
    found = table()
    assert lens_cell_text(found, 0, 0, "probability") == "dog"
    assert lens_cell_text(found, 0, 0, "kl") == "2.00"
    assert cell_share(found, 0, 0, "probability") == 0.25
    assert cell_share(found, 0, 0, "kl") == math.exp(-2.0)
    assert cell_share(found, 1, 0, "kl") == 1.0
    sentences = cell_sentences(found, 0, 0)
    for part in ('input, at "the" (3)', "dog  0.2500", 'own "cat": 0.1250, number 2 here', "2 nats"):
        assert part in sentences
    assert rows_name(found) == "after"
    assert [level_name(0), level_name(3)] == ["in", "2"]


def test_that_the_colour_is_told_once() -> None:
    _, state, _ = watched()
    told = names_told(state.changed)
    for colour in ("kl", "kl", "rainbow"):
        state.choose_colour(colour)
    assert (state.colour, told) == ("kl", ["colour"])

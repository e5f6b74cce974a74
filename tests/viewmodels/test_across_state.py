"""The panel across layers: when it asks, which token, what it says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from session_samples import Desk, info, ref, state_of

from attnscope.records import Failed, InfluenceRow, InfluenceShown, MakeUniform, ShowInfluence, StopWork
from attnscope.viewmodels.causes import across_layers, number_words, tip_words


def watched() -> tuple[Desk, Any, list[ShowInfluence]]:
    desk = Desk().open()
    asked: list[ShowInfluence] = []
    state = state_of("across", asked.append, session=desk.session)
    state.watch(True)
    return desk, state, asked


def answer(desk: Desk, asked: ShowInfluence) -> InfluenceShown:
    traced = desk.session.traced
    assert traced is not None
    assert traced.target is not None
    keys = (*traced.source.tokens, *traced.target.tokens)
    weights = np.arange(len(keys), dtype=np.float32)
    rows = (
        InfluenceRow(method="rollout", weights=weights),
        InfluenceRow(method="flow", refusal="only for texts of up to 40 tokens; these are 57"),
    )
    return InfluenceShown(
        number=asked.number, position=asked.position, keys=keys, rows=rows, n_source=len(traced.source)
    )


def test_that_changes_inside_heads_count_in_every_method() -> None:
    desk, state, asked = watched()
    uniform = MakeUniform(head=ref(0, 1))
    desk.session.head_changes.intervene((uniform,))
    desk.answer()
    assert asked[-1].interventions == (uniform,)
    state.handle(answer(desk, asked[-1]))
    assert "without" not in state.note


def test_that_it_asks_once_for_each_token_of_each_trace() -> None:
    desk, state, asked = watched()
    assert desk.session.traced is not None
    assert (asked[0].trace, asked[0].position, asked[0].target) == (
        desk.session.traced.number,
        0,
        "le chat dort",
    )
    state.watch(True)
    state.choose(state.position)
    assert len(asked) == 1
    state.choose(2)
    assert (asked[1].position, state.heading) == (2, "output after “dort”")
    state.choose(99)
    assert len(asked) == 2
    state.watch(False)
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    assert len(asked) == 2
    state.watch(True)
    assert (asked[2].position, asked[2].gates) == (2, desk.session.gates)
    desk.session.texts.set_text("another text")
    desk.answer()
    assert asked[-1].text == "another text"


def test_that_late_answers_change_nothing_and_refusals_are_told() -> None:
    desk, state, asked = watched()
    state.choose(1)
    state.handle(answer(desk, asked[0]))
    assert state.query.answer is None
    assert state.note == "Computing rollout and flow…"
    state.handle(answer(desk, asked[1]))
    assert state.note == "flow: only for texts of up to 40 tokens; these are 57"
    shares = state.numbers("rollout")
    assert shares is not None
    assert shares.sum() == pytest.approx(1.0)
    state.show_shares(False)
    numbers = state.numbers("rollout")
    assert numbers is not None
    assert numbers[3] == 3.0
    assert state.numbers("flow") is None
    assert tip_words(state, 5).splitlines()[0] == "chat  (target 1)"
    assert "rollout  5, 17.9 % of the sum" in tip_words(state, 5)
    state.handle(Failed(number=asked[1].number, request="ShowInfluence", message="No."))
    assert state.note == "No."


def test_that_long_texts_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(across_layers, "MAX_TOKENS", 4)
    _, state, asked = watched()
    assert asked == []
    assert "up to 4 can be followed" in state.note


def test_that_an_encoder_is_explained_at_its_place() -> None:
    desk = Desk()
    desk.open(info("encoder"))
    state = state_of("across", lambda request: None, session=desk.session)
    state.choose(1)
    assert state.heading == "output at “cat”"
    assert [number_words(value) for value in (0.0, -0.123, 12.0, float("nan"))] == ["·", "−0.12", "12", ""]


def test_that_a_flow_under_way_says_how_far_it_is_and_can_be_stopped() -> None:
    desk, state, asked = watched()
    whole = replace(answer(desk, asked[0]), rows=answer(desk, asked[0]).rows[:1], flow_done=2)
    state.handle(whole)
    assert state.flow_fraction == pytest.approx(2 / len(whole.keys))
    assert state.note == f"flow: 2 of {len(whole.keys)} inputs"
    state.stop()
    assert asked[-1] == StopWork(number=asked[-1].number, work="ShowInfluence")
    assert (state.flow_fraction, state.note) == (None, "flow: stopped")
    state.handle(replace(whole, flow_done=3))
    assert state.note == "flow: stopped"
    assert state.numbers("rollout") is not None

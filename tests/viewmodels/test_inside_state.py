"""The state of the view into a head: when it asks, what it walks, what it writes out."""

import dataclasses
from typing import Any

import numpy as np
from inside_samples import inside
from session_samples import Desk, info, ref, state_of

from attnscope.counting import short_words
from attnscope.records import Failed, InsideShown, ShowInside, Token
from attnscope.viewmodels.causes import STEPS, rest_words, step_words, title_words
from attnscope.viewmodels.maps import Aspect


def watched(form: str = "decoder") -> tuple[Desk, Any, list[ShowInside]]:
    desk = Desk().open(info(form))
    asked: list[ShowInside] = []
    state = state_of("inside", asked.append, session=desk.session)  # type: ignore[arg-type]
    state.watch(True)
    return desk, state, asked


def test_that_it_asks_once_for_each_trace_head_and_query_and_only_while_watched() -> None:
    desk, state, asked = watched()
    assert [(one.head, one.query, one.text) for one in asked] == [
        (desk.session.primary, 2, desk.session.text)  # "</s>" comes after it
    ]
    state.watch(True)
    state.walk_queries(-1)
    desk.session.select_heads((ref(1, 0, "decoder"),))
    desk.answer()
    assert [(one.head.label, one.query) for one in asked[1:]] == [("L1H1", 1), ("L1H0", 1)]
    state.watch(False)
    desk.session.texts.set_text("another text here")
    desk.answer()
    assert len(asked) == 3


def test_that_late_answers_are_dropped_and_failures_said() -> None:
    _, state, asked = watched()
    state.walk_queries(-1)
    state.handle(InsideShown(number=asked[0].number, inside=inside()))
    assert state.inside is None
    state.handle(InsideShown(number=asked[1].number, inside=inside()))
    assert state.inside is not None
    assert not state.asking.is_busy
    state.walk_queries(-1)
    state.handle(Failed(number=asked[2].number, request="ShowInside", message="There is no text."))
    assert (state.inside, state.note) == (None, "There is no text.")


def test_that_queries_are_of_the_side_that_the_stack_reads() -> None:
    desk, state, _ = watched("encoder-decoder")
    assert desk.session.stack == "cross"
    assert [token.piece for token in state.tokens] == ["le", "chat", "dort", "</s>"]
    state.choose_token("source", 0)
    assert state.query == 2
    state.choose_token("target", 0)
    assert state.query == 0
    desk.session.select_stack("encoder")
    assert state.tokens[1].piece == "cat"


def test_that_the_key_under_the_cursor_stays_over_queries_and_else_it_is_the_strongest() -> None:
    _, state, asked = watched()
    state.handle(InsideShown(number=asked[0].number, inside=inside()))
    assert state.row == state.inside.strongest()  # type: ignore[union-attr]
    state.point_at(2, 1)
    state.walk_queries(-1)
    state.handle(InsideShown(number=asked[-1].number, inside=inside(query=0)))
    assert state.row == 2
    state.walk_keys(-5)
    assert state.row == 0
    state.point_at_key(1)
    assert state.row == 1
    state.point_at(None)
    assert state.row == inside().strongest()


def test_that_steps_are_walked_and_end_at_the_last() -> None:
    _, state, _ = watched()
    seen = []
    for _ in range(7):
        seen.append(state.step)
        state.walk_steps(1)
    assert seen == [*STEPS, "output"]
    state.choose_step("no such step")
    assert state.step == "output"


def test_that_what_was_looked_at_comes_back_at_once_or_with_the_trace_that_is_awaited() -> None:
    desk, state, asked = watched()
    state.bring_back("softmax", 0)
    assert (state.step, state.query, asked[-1].query) == ("softmax", 0, 0)
    desk.session.texts.set_text("one two three four")
    state.bring_back("values", 1)
    assert state.step == "values"
    assert len(asked) == 2  # nothing is asked of the old trace
    desk.answer()
    assert (state.query, asked[-1].query, asked[-1].text) == (1, 1, "one two three four")
    desk.session.texts.set_text("five six")
    state.bring_back("product", 99)  # a text that has not so many tokens
    desk.answer()
    assert state.query == 1


def test_that_formulas_hold_the_numbers_of_the_key() -> None:
    one = inside()
    dot, score = (f"{float(x[0]):.4g}".replace("-", "−") for x in (one.dot, one.score))
    weight = f"{float(one.weight[0]):.4g}"
    words = {step: step_words(one, step, 0) for step in STEPS}
    assert words["product"][0].endswith(f"= {dot}")
    operand = f"({dot})" if dot.startswith("−") else dot
    assert words["scale"] == (f"score = 0.5 · {operand} = {score}", "0.5 = 1 / √4")
    assert words["mask"] == (f"allowed: the score stays {score}", "2 of 3 keys are allowed")
    assert words["softmax"][0].endswith(f"= {weight}")
    assert words["output"][1] == "over 2 keys; at most 0e+00 from the model's own output"
    assert step_words(one, "mask", 2)[0] == "not allowed: the score becomes −∞, the weight 0"
    assert step_words(one, "softmax", 2)[0] == "weight = exp(−∞) = 0"
    assert step_words(one, "values", 2)[0] == "weight · v = 0"
    assert step_words(one, "product", 0, 3)[1].startswith("dimension 3: ")


def test_that_a_weight_of_linear_attention_is_a_share_without_an_exponential() -> None:
    products = np.array([6.0, 3.0, 1.0])
    shares = {"lse": float(np.log(6.0 + 3.0)), "weight": np.array([2 / 3, 1 / 3, np.nan])}
    one = inside(
        comparison="kernel", scale=1.0, dot=products, scaled=products, logged=np.log(products), **shares
    )
    formula, note = step_words(one, "softmax", 1)
    assert formula == "weight = 3 ÷ 9 = 0.3333"
    assert "no exponential" in note
    assert step_words(one, "softmax", 2)[0] == "weight = exp(−∞) = 0"
    biased = dataclasses.replace(one, bias=np.zeros(3))
    assert "exp(" in step_words(biased, "softmax", 1)[0]


def test_that_cap_bias_sink_gate_and_rest_are_said() -> None:
    ones = np.ones(3)
    full = inside(softcap=50.0, capped=ones, bias=-2 * ones, sink=0.0, gate=0.5, rest_weight=0.25)
    full = dataclasses.replace(full, n_keys=10)
    scale, bias = step_words(full, "scale", 0)
    assert scale.endswith(" / 50) = 1")
    assert bias == "then the bias: 1 + (−2) = −1"
    assert "and the sink" in step_words(full, "softmax", 0)[1]
    assert "× gate 0.5 =" in step_words(full, "output", 0)[0]
    assert rest_words(full).startswith("7 more keys: weight 0.25 · sink: weight ")
    blind = inside(lse=-np.inf, score=np.full(3, -np.inf), weight=np.full(3, np.nan))
    assert step_words(blind, "softmax", None)[1] == "Its output is 0."
    assert blind.strongest() is None


def test_that_a_gate_is_said_unless_it_is_open() -> None:
    titles = [title_words(inside(gate=gate)) for gate in (1.0, 0.0, 0.25)]
    head, query = titles[0].split(" · ")
    assert titles[1:] == [f"{head} · off · {query}", f"{head} · gate 0.25 · {query}"]


def test_that_short_numbers_fit_a_narrow_cell() -> None:
    found = [short_words(x) for x in (-0.001, 1.234, -99.999, 1234.5, -np.inf)]
    assert found == ["0.00", "1.23", "−100.0", "1234", "−∞"]


def test_that_the_query_is_called_as_the_maps_call_their_rows_and_both_follow_the_switch() -> None:
    desk, state, asked = watched("encoder-decoder")
    written = Token(id=9, piece="sleeps")
    state.handle(InsideShown(number=asked[-1].number, inside=inside(written=written)))
    read = inside().query_token
    assert state.inside.query_token == dataclasses.replace(written, read=read.label)  # type: ignore[union-attr]
    told: list[str] = []
    state.changed.query.connect(lambda: told.append("query"))
    desk.session.set_aspect(Aspect(rows="read"))
    assert told == ["query"]
    assert state.inside.query_token == read  # type: ignore[union-attr]

"""The parts of an output and patching: when they ask, with what, and what they say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from session_samples import SAMPLES, Desk, gates_off, info, ref, states_of

from attnscope.records import (
    AttributeOutput,
    Attribution,
    Contribution,
    Failed,
    OutputAttributed,
    PatchingNews,
    PatchMap,
    PatchTexts,
    Request,
    Sample,
    StopWork,
    TextsPatched,
    Token,
)
from attnscope.viewmodels.causes import counterpart, end_of_change, part_words, refusal_of

ANSWER, OTHER = Token(id=6, piece="chat"), Token(id=7, piece="dort")
PARTS = (
    Contribution(label="token", kind="embedding", value=0.5, stack="decoder"),
    Contribution(
        label="cross L1H0", kind="head", value=-2.0, stack="cross", layer=1, head=ref(1, 0, "cross")
    ),
    Contribution(label="L0 feed-forward", kind="feed-forward", value=1.0, stack="decoder", layer=0),
)


def states() -> tuple[Desk, Any, Any, list[Request]]:
    desk, asked = Desk().open(), list[Request]()
    found = states_of(desk.session, worker=asked.append)
    return desk, found.attributing, found.patching, asked


def attributed(number: int, position: int = 0) -> OutputAttributed:
    found = Attribution(
        contributions=PARTS,
        position=position,
        token=Token(id=2, piece="le"),
        answer=ANSWER,
        other=OTHER,
        difference=-0.5,
    )
    return OutputAttributed(number=number, attribution=found, candidates=())


def patched(number: int, kind: str = "stream") -> TextsPatched:
    is_head = kind == "head"
    rows = ("encoder 0", "encoder 1", "cross 0") if is_head else ("encoder 0", "encoder 1")
    values = np.array(
        [[0.1, 0.2], [np.nan, 0.9], [-0.3, 0.0]] if is_head else [[0.1, 0.2], [0.3, -0.9]], np.float32
    )
    found = PatchMap(
        kind="head" if is_head else "stream",
        donor="clean",
        receiver="corrupt",
        rows=rows,
        columns=("H0", "H1") if is_head else ("the", "dog"),
        patched=values,
        answer=ANSWER,
        other=OTHER,
        clean_difference=3.0,
        corrupt_difference=-1.0,
    )
    return TextsPatched(number=number, patched=found, position=1, candidates=())


def test_that_parts_are_asked_once_for_each_token_pair_of_answers_and_gate() -> None:
    desk, state, _, asked = states()
    assert asked == []
    state.watch(True)
    state.watch(True)
    (first,) = asked
    assert isinstance(first, AttributeOutput)
    assert (first.position, first.target, first.answer, first.other) == (0, "le chat dort", None, None)
    state.choose_answers("chat", "")
    state.choose_answers("chat", None)
    assert [(one.answer, one.other) for one in asked[1:]] == [("chat", None)]  # type: ignore[union-attr]
    state.handle(attributed(asked[-1].number))
    state.choose_position(2)
    last = asked[-1]
    assert isinstance(last, AttributeOutput)
    assert (last.position, last.answer) == (2, None)
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    last = asked[-1]
    assert isinstance(last, AttributeOutput)
    assert (len(asked), last.gates) == (4, gates_off(ref(0, 1)))
    assert state.gate(ref(0, 1)) == 0.0
    state.watch(False)
    desk.session.texts.set_text("another text")
    desk.answer()
    assert len(asked) == 4


def test_that_parts_are_sorted_and_add_up_in_words() -> None:
    _, state, _, asked = states()
    assert state.statement == ""
    state.watch(True)
    assert state.note == "Adding up the parts…"
    state.handle(attributed(asked[0].number + 50))
    assert state.found is None
    state.handle(attributed(asked[0].number))
    assert [one.value for one in state.parts] == [-2.0, 1.0, 0.5]
    assert (state.statement, state.sum_words) == ("logit(chat) − logit(dort) = −0.5", "3 parts: −0.5")
    state.choose_order("model")
    assert state.parts == PARTS
    assert part_words(PARTS[1], -0.5) == "cross L1H0: −2 logits, 400.0 % of the difference"
    state.select(ref(1, 0, "cross"))
    assert state.selected == (ref(1, 0, "cross"),)
    state.choose_answers("elephants", None)
    state.handle(Failed(number=asked[-1].number, request="AttributeOutput", message="Two tokens."))
    assert (state.reason, state.parts, state.note) == ("Two tokens.", (), "")


def test_that_models_without_such_parts_are_refused_without_being_asked() -> None:
    desk, state, patching, asked = states()
    for model, word in (
        (replace(info(), body="GRU"), "recurrent (GRU)"),
        (replace(info(), architecture="BertModel", objective="representations"), "no tokens"),
        (
            replace(info(), architecture="ViT", objective="representations", reads="picture"),
            "no output layer",
        ),
        (replace(info(), architecture="Whisper", reads="recording"), "reads recordings"),
        (replace(info(), labels=("good", "bad")), "labels"),
    ):
        desk.open(model)
        state.watch(True)
        assert word in state.reason
        assert word in patching.reason
        assert not patching.is_runnable
    assert asked == []
    assert refusal_of(None) == refusal_of(info()) == ""


def test_that_a_map_is_asked_for_its_texts_and_told_as_it_grows() -> None:
    _, _, state, asked = states()
    assert (state.corrupt, state.is_runnable) == ("the cat sleeps", False)
    assert "Replace a word" in state.note
    state.set_corrupt("the dog sleeps")
    assert (state.is_runnable, state.position, state.exchange.what) == (True, -1, "encoder")
    state.run()
    (first,) = asked
    assert isinstance(first, PatchTexts)
    assert (first.clean, first.corrupt, first.target) == ("the cat sleeps", "the dog sleeps", "le chat dort")
    assert (first.kind, first.stack, first.position) == ("stream", "encoder", None)
    state.handle(PatchingNews(number=first.number, n_done=1, n_total=4))
    assert (state.job.fraction, state.note) == (0.25, "1 of 4 patches")
    state.handle(patched(first.number))
    assert (state.job.phase, state.position) == ("done", 1)
    assert state.found.statement == "chat − dort after “chat”: 3 → −1 logits"
    assert (
        state.found.sentence(0, 1) == "What enters encoder layer 0 at “dog” restores 20 % of the difference."
    )
    assert state.found.sentence(-1, -1).startswith(
        "Strongest: what enters encoder layer 1 at “dog” restores −90 %"
    )
    assert (state.found.select(0, 0), state.found.side_of(0)) == (None, "source")


def test_that_other_choices_make_a_shown_map_anew_and_other_texts_take_it_away() -> None:
    desk, _, state, asked = states()
    state.exchange.choose("head")
    assert asked == []
    state.set_corrupt("the dog sleeps")
    state.run()
    state.handle(patched(asked[0].number, "head"))
    assert state.found.select(2, 1) == ref(0, 1, "cross")
    assert state.found.selected_cell == (2, 1)
    assert state.found.patched is not None
    assert state.found.patched.head_at(1, 0) is None
    assert state.found.sentence(1, 0) == "encoder 1 has no head 0."
    state.choose_answers("chat", None)
    state.choose_position(0)
    wishes = [(one.position, one.answer) for one in asked if isinstance(one, PatchTexts)]
    assert wishes == [(None, None), (None, "chat"), (0, None)]
    state.handle(patched(asked[-1].number, "head"))
    desk.session.head_changes.toggle_gate(ref(0, 1))
    desk.answer()
    assert (state.found.patched, state.job.phase) == (None, "empty")
    assert "Press Patch again" in state.note
    state.run()
    state.stop()
    assert asked[-1] == StopWork(number=asked[-1].number, work="PatchTexts")
    state.handle(patched(asked[-2].number, "head"))
    assert (state.found.patched, state.job.phase) == (None, "stopped")
    state.run()
    state.handle(Failed(number=asked[-1].number, request="PatchTexts", message="Unlike lengths."))
    assert (state.note, state.job.phase) == ("Unlike lengths.", "failed")


def test_that_the_sample_one_word_apart_is_the_second_text() -> None:
    samples = (*SAMPLES, Sample(text="the dog sleeps"), Sample(text="a dog sleeps"))
    assert counterpart("the cat sleeps", samples) == "the dog sleeps"
    assert counterpart("the cat", samples) == ""
    assert end_of_change("the cat sleeps", "the dog sleeps") == 7
    assert (end_of_change("a cat", "a dog"), end_of_change("a cat", "a cat")) == (5, 0)


@pytest.mark.parametrize(
    ("form", "whats"), [("encoder", ("encoder", "head")), ("decoder", ("decoder", "head"))]
)
def test_that_streams_are_those_of_the_model(form: str, whats: tuple[str, ...]) -> None:
    desk, _, state, _ = states()
    desk.open(info(form))
    assert state.exchange.whats == whats
    assert state.position >= 0

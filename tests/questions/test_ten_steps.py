"""The ten steps of a recurrent decoder, against the papers' formulas in float64 with no modules."""

import math

import numpy as np
import pytest
from slow_recurrent import SlowRecurrent
from tiny_models import FRENCH, SENTENCE, tiny_model

from attnscope.analysis import ModelReading, ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.questions import QUESTIONS
from attnscope.records import HeadRef, MakeMean

QUESTION = QUESTIONS["ten-steps"]
BAHDANAU = {"body": "gru", "feeds_context": True, "score": "additive", "n_kv_heads": 4}
LUONG = {"body": "lstm", "feeds_context": False, "score": "general"}
PLAIN = {"body": "rnn", "feeds_context": True, "score": "dot", "n_decoder_layers": 1}
HEAD = HeadRef(stack="cross", layer=0, head=2)


@pytest.mark.parametrize("choices", [BAHDANAU, LUONG, PLAIN], ids=lambda one: one["body"])
def test_that_every_vector_is_that_of_the_papers(choices: dict) -> None:
    model = tiny_model("encoder-decoder", **choices)
    found = ModelReading(model, SENTENCE, FRENCH, head=HEAD).decoded()
    inputs = model.encode(SENTENCE, FRENCH)
    source, target = list(inputs.source.ids), list(inputs.target.ids)
    slow = SlowRecurrent(model.own.module)
    asked: list[tuple[np.ndarray, np.ndarray]] = []
    attend = slow.attend

    def listening(state, memory, gates=None):
        context, weights = attend(state, memory, gates)
        asked.append((state, context))
        return context, weights

    slow.attend = listening
    logits, weights = slow.run(source, target)
    n = len(found.target_tokens)
    assert n == len(target)
    np.testing.assert_allclose(found.h, np.array(slow.encode(source)), atol=1e-5)
    np.testing.assert_allclose(found.s, np.array([state for state, _ in asked]), atol=1e-5)
    np.testing.assert_allclose(found.c, np.array([context for _, context in asked]), atol=1e-5)
    np.testing.assert_allclose(found.weights, weights[2], atol=1e-5)
    hidden = np.tanh(found.c + found.joined @ slow.w["readout.weight"].T)
    np.testing.assert_allclose(found.t, hidden, atol=1e-5)
    words = slow.w.get("head.weight", slow.w["tokens.weight"])
    np.testing.assert_allclose(found.t @ words.T, logits, atol=1e-4)
    for i in range(n):
        exponents = [math.exp(one) for one in found.scores[i]]
        np.testing.assert_allclose(np.array(exponents) / sum(exponents), weights[2, i], atol=1e-5)
        p = np.exp(logits[i] - logits[i].max())
        p /= p.sum()
        np.testing.assert_allclose(
            [one for _, one in found.best[i]], np.sort(p)[::-1][: len(found.best[i])], atol=1e-5
        )


@pytest.mark.parametrize("word", [0, 2, 199])
def test_that_ten_steps_are_told_with_the_numbers_of_the_word(word: int) -> None:
    model = tiny_model("encoder-decoder", **BAHDANAU)
    options = with_values(QUESTION.options, {"word": word})
    answer = ask_model(QUESTION, model, SENTENCE, FRENCH, head=HEAD, options=options)
    found = ModelReading(model, SENTENCE, FRENCH, head=HEAD).decoded()
    i = min(word, len(found.target_tokens) - 1)
    assert [row[0].split()[0] for row in answer.tables[0].rows] == [str(k) for k in range(1, 11)]
    np.testing.assert_array_equal(answer.charts[1].series[0].ys, found.weights[i])
    np.testing.assert_array_equal(answer.cells[1].values[1], found.c[i, :16])
    best, _ = found.best[i][0]
    assert f"writes {best!r}" in answer.sentence
    assert answer.tables[0].rows[9][2] == (
        repr(found.target_tokens[i + 1].piece)
        if i + 1 < len(found.target_tokens)
        else "the end of the output"
    )


def test_that_a_head_with_its_mean_is_told_as_it_is_run() -> None:
    model = tiny_model("encoder-decoder", **BAHDANAU)
    reading = ModelReading(model, SENTENCE, FRENCH, head=HEAD, interventions=(MakeMean(head=HEAD),))
    found = reading.decoded()
    logits = model.trace(SENTENCE, FRENCH, interventions=(MakeMean(head=HEAD),)).logits
    words = SlowRecurrent(model.own.module).w
    told = found.t @ words.get("head.weight", words["tokens.weight"]).T
    np.testing.assert_allclose(told, np.asarray(logits), atol=1e-4)


def test_that_other_models_are_refused() -> None:
    with pytest.raises(UserError, match="no recurrent decoder with attention"):
        ask_model(QUESTION, tiny_model("decoder"), SENTENCE)
    with pytest.raises(UserError, match="no recurrent decoder with attention"):
        ask_model(QUESTION, tiny_model("encoder-decoder"), SENTENCE, FRENCH)

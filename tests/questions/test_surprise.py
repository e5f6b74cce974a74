"""Next-token surprise, against loops in float64 over a slow Transformer."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.questions import QUESTIONS
from attnscope.records import Token

QUESTION = QUESTIONS["surprise"]
NATS = with_values(QUESTION.options, {"unit": "nats"})


def slowly(model: object, text: str) -> list[tuple[float, float, float, int]]:
    """−ln p, entropy, p and place of each token after the first."""
    ids = model.encode(text).source.ids
    rows = SlowDecoder(model).run(ids).logits
    found = []
    for row, id in zip(rows, ids[1:], strict=False):
        total = sum(math.exp(one - max(row)) for one in row)
        p = [math.exp(one - max(row)) / total for one in row]
        entropy = -sum(one * math.log(one) for one in p)
        found.append((-math.log(p[id]), entropy, p[id], sorted(p, reverse=True).index(p[id]) + 1))
    return found


def test_that_every_number_equals_a_slow_float64_version() -> None:
    model = tiny_model("decoder")
    found = ask_model(QUESTION, model, SENTENCE, options=NATS)
    expected = slowly(model, SENTENCE)
    assert [row[0] for row in found.tables[0].rows] == SENTENCE.split()
    for row, (surprise, entropy, p, place) in zip(found.tables[0].rows, expected, strict=True):
        assert row[1:] == pytest.approx((surprise, entropy, p, place), rel=1e-4)
    curves = {one.name: one for one in found.charts[0].series}
    assert curves["surprise"].ys.tolist() == pytest.approx([one[0] for one in expected], rel=1e-4)
    assert curves["entropy"].ys.tolist() == pytest.approx([one[1] for one in expected], rel=1e-4)
    assert found.charts[0].x_names == tuple(SENTENCE.split())


def test_that_the_sentence_has_the_mean_the_perplexity_and_bits_per_character() -> None:
    model = tiny_model("decoder")
    found = ask_model(QUESTION, model, SENTENCE)
    nats = [one[0] for one in slowly(model, SENTENCE)]
    mean = sum(nats) / len(nats)
    bits = sum(nats) / math.log(2)
    assert f"{mean / math.log(2):.3g} bits a token (perplexity {math.exp(mean):.3g})" in found.sentence
    assert f"{bits / len(SENTENCE):.2f} bits per character over 22 characters" in found.sentence
    most = SENTENCE.split()[max(range(len(nats)), key=nats.__getitem__)]
    assert f"the most surprising token is “{most}” ({max(nats) / math.log(2):.3g} bits)" in found.sentence


def test_that_long_texts_are_drawn_from_their_end() -> None:
    model = tiny_model("decoder", max_tokens=64)
    text = " ".join([SENTENCE] * 8)
    part = ask_model(QUESTION, model, text, options=with_values(QUESTION.options, {"n_shown": 8}))
    assert len(part.tables[0].rows) == 48
    assert len(part.charts[0].series[0].xs) == 8
    longest = ask_model(QUESTION, model, text, options=with_values(QUESTION.options, {"n_shown": 64}))
    assert longest.charts[0].x_names == ()
    assert longest.charts[0].series[0].xs[-1] == 48
    np.testing.assert_array_equal(part.charts[0].series[0].ys, longest.charts[0].series[0].ys[-8:])


def test_that_a_large_vocabulary_is_read_in_blocks_which_change_nothing() -> None:
    n, vocab_size, asked = 150, 40_000, []
    draw = np.random.default_rng(0)
    tokens = tuple(Token(id=int(id), piece=f"w{id}") for id in draw.integers(0, vocab_size, n))

    def log_p(positions: tuple[int, ...]) -> np.ndarray:
        asked.append(positions)
        rows = np.sin(np.outer(np.array(positions) + 1.0, np.arange(vocab_size)))
        return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))

    reading = SimpleNamespace(
        model=SimpleNamespace(vocab_size=vocab_size),
        next_tokens=lambda: SimpleNamespace(tokens=tokens, positions=tuple(range(n)), is_second=False),
        log_p=log_p,
    )
    rows = QUESTION.answer(reading, NATS).tables[0].rows
    assert [position for some in asked for position in some] == list(range(n))
    assert len(asked) > 1
    assert max(map(len, asked)) * vocab_size * 8 < 100e6, "bytes at a time"
    for k in (0, 7, len(asked[0]) - 1, len(asked[0]), n - 1):
        row = log_p((k,))[0]
        own = row[tokens[k].id]
        entropy = -float((np.exp(row) * row).sum())
        expected = (-own, entropy, math.exp(own), int((row > own).sum()) + 1)
        assert rows[k][1:] == pytest.approx(expected, rel=1e-9)


def test_that_a_translation_is_told_apart_from_its_end_token() -> None:
    form = "encoder-decoder"
    found = ask_model(QUESTION, tiny_model(form), SENTENCE, target_of(form))
    assert [row[0] for row in found.tables[0].rows] == target_of(form).split()


def test_that_models_of_hidden_tokens_are_refused() -> None:
    with pytest.raises(UserError, match="does not predict the next token"):
        ask_model(QUESTION, tiny_model("encoder"), SENTENCE)

"""Learning in context, against loops in float64 over a slow Transformer."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.questions import QUESTIONS
from attnscope.records import Token

QUESTION = QUESTIONS["learning-in-context"]
WORDS = SENTENCE.split()
ROW = " ".join([WORDS[0], WORDS[1], WORDS[2], WORDS[3], WORDS[0], WORDS[1], WORDS[0], WORDS[3], WORDS[2]])


def slowly(model: object, text: str) -> list[tuple[float, bool]]:
    """p of each word after those before it, and whether it was the most probable."""
    ids = model.encode(text).source.ids
    found = []
    for row, id in zip(SlowDecoder(model).run(ids).logits, ids[1:], strict=False):
        total = sum(math.exp(one - max(row)) for one in row)
        p = [math.exp(one - max(row)) / total for one in row]
        found.append((p[id], p[id] == max(p)))
    return found


@pytest.mark.parametrize("n_words", [2, 3, 4])
def test_that_every_number_equals_a_slow_float64_version(n_words: int) -> None:
    model = tiny_model("decoder", max_tokens=32)
    options = with_values(QUESTION.options, {"n_words": n_words})
    found = ask_model(QUESTION, model, ROW, options=options)
    told, words = slowly(model, ROW), ROW.split()
    expected, alike = [], {}
    for k in range(len(words) // n_words):
        asked = tuple(words[k * n_words : (k + 1) * n_words - 1])
        p, is_right = told[(k + 1) * n_words - 1]
        expected.append((" ".join(asked), words[(k + 1) * n_words - 1], alike.get(asked, 0), p, is_right))
        alike[asked] = alike.get(asked, 0) + 1
    rows = found.tables[0].rows
    assert [(row[0], row[1], row[2]) for row in rows] == [one[:3] for one in expected]
    assert [row[3] for row in rows] == pytest.approx([one[3] for one in expected], rel=1e-4)
    assert [row[4] == "yes" for row in rows] == [one[4] for one in expected]
    by_place, by_alike = found.charts
    assert by_place.series[0].ys.tolist() == pytest.approx([one[3] for one in expected], rel=1e-4)
    for n, mean, share in zip(*(by_alike.series[0].xs, *(one.ys for one in by_alike.series)), strict=True):
        some = [one for one in expected if one[2] == n]
        assert mean == pytest.approx(sum(one[3] for one in some) / len(some), rel=1e-4)
        assert share == pytest.approx(sum(one[4] for one in some) / len(some))


def test_that_the_sentence_tells_answers_that_were_given_before_apart() -> None:
    found = ask_model(QUESTION, tiny_model("decoder", max_tokens=32), ROW)
    assert "2 answers asked for the first time: p " in found.sentence
    assert "2 answers asked before: p " in found.sentence
    one = ask_model(QUESTION, tiny_model("decoder", max_tokens=32), " ".join(WORDS[:4]))
    assert "asked before" not in one.sentence
    assert one.sentence.endswith("the text holds nothing to answer from.")
    assert "nothing to answer from" not in found.sentence


def test_that_pieces_of_a_word_are_one_answer_and_special_tokens_none() -> None:
    pieces = (
        ("<s>", False),
        ("a", False),
        ("l", False),
        ("o", True),
        ("a", False),
        ("l", False),
        ("o", True),
    )
    tokens = tuple(
        Token(id=i, piece=piece, joins_previous=joins, is_special=piece == "<s>")
        for i, (piece, joins) in enumerate(pieces)
    )
    p = np.full((7, 8), 1e-3)
    for k, own in enumerate((0.1, 0.2, 0.6, 0.3, 0.4, 0.9, 0.8)):
        p[k, k] = own
    p[[0, 1, 3, 4], 7] = 0.5  # something else is more probable there
    reading = SimpleNamespace(
        model=SimpleNamespace(vocab_size=8),
        next_tokens=lambda: SimpleNamespace(tokens=tokens, positions=tuple(range(7)), is_second=False),
        log_p=lambda positions: np.log(p[list(positions)]),
    )
    first, second = QUESTION.answer(reading, QUESTION.options).tables[0].rows
    assert first == ("a", "lo", 0, pytest.approx(0.6 * 0.3), "no")
    assert second == ("a", "lo", 1, pytest.approx(0.9 * 0.8), "yes")


def test_that_one_example_is_too_few() -> None:
    with pytest.raises(UserError, match=r"has 1 example of 2 words.*at least 2"):
        ask_model(QUESTION, tiny_model("decoder"), " ".join(WORDS[:3]))
    with pytest.raises(UserError, match="next token"):
        ask_model(QUESTION, tiny_model("encoder"), SENTENCE)


def test_that_words_of_a_translation_are_no_examples() -> None:
    with pytest.raises(UserError, match=r"a second text for a first one.*predicts the next token"):
        ask_model(QUESTION, tiny_model("encoder-decoder"), SENTENCE)

"""The residual stream, against loops in float64 over a slow Transformer."""

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

QUESTION = QUESTIONS["residual-stream"]


def length(vector: np.ndarray) -> float:
    return math.sqrt(sum(float(one) ** 2 for one in vector))


@pytest.mark.parametrize("place", ["pre", "post"])
def test_that_norms_and_cosines_equal_a_slow_float64_version(place: str) -> None:
    model = tiny_model("decoder", norm_place=place)
    found = ask_model(QUESTION, model, SENTENCE)
    ids = model.encode(SENTENCE).source.ids
    slow = SlowDecoder(model).run(ids)
    norms, (norm_chart, cosine_chart) = found.cells[0].values, found.charts
    for level, x in enumerate(slow.x):
        assert norms[level].tolist() == pytest.approx([length(row) for row in x], rel=1e-5)
    assert norm_chart.series[0].ys.tolist() == pytest.approx(
        [sum(map(length, x)) / len(x) for x in slow.x[1:]], rel=1e-5
    )
    for k, part in enumerate(("attention", "feed-forward"), start=1):
        sizes = [[length(row) for row in given] for given in slow.added[part]]
        assert norm_chart.series[k].name == cosine_chart.series[k - 1].name == part
        assert norm_chart.series[k].ys.tolist() == pytest.approx([sum(s) / len(s) for s in sizes], rel=1e-5)
        for layer, given in enumerate(slow.added[part]):
            angles = [
                sum(a * b for a, b in zip(x, d, strict=True)) / (length(x) * length(d))
                for x, d in zip(slow.x[layer], given, strict=True)
            ]
            mean = sum(angles) / len(angles)
            assert cosine_chart.series[k - 1].ys[layer] == pytest.approx(mean, abs=1e-5)
            row = {name: numbers for name, *numbers in found.tables[0].rows}[f"{layer} {part}"]
            shares = [s / length(x) for s, x in zip(sizes[layer], slow.x[layer], strict=True)]
            assert row[2] == pytest.approx(sum(shares) / len(shares), rel=1e-5)
            assert row[3] == pytest.approx(mean, abs=1e-5)
    assert bool(found.note) == (place == "post")


def test_that_the_sentence_states_growth_and_the_largest_additions() -> None:
    found = ask_model(QUESTION, tiny_model("decoder"), SENTENCE)
    norms = found.cells[0].values.mean(axis=1)
    assert f"{norms[0]:.3g} at the input, {norms[-1]:.3g} after layer 1" in found.sentence
    assert "attention" in found.sentence
    assert "feed-forward" in found.sentence


def test_that_options_choose_the_stack_and_how_many_tokens_are_shown() -> None:
    form = "encoder-decoder"
    options = with_values(QUESTION.options, {"stack": "encoder", "n_shown": 8})
    text = "the cat sat on the mat a dog saw the bird"
    found = ask_model(QUESTION, tiny_model(form), text, target_of(form), options=options)
    assert found.cells[0].values.shape == (3, 8)
    assert found.cells[0].columns[-1] == "</s>"
    assert "last 8 of 12 tokens" in found.cells[0].note
    assert [one.name for one in found.charts[0].series] == ["stream", "attention", "feed-forward"]
    with pytest.raises(UserError, match="no encoder"):
        ask_model(QUESTION, tiny_model("decoder"), text, options=options)


def test_that_nothing_has_no_direction() -> None:
    x = np.array([[[1.0, 0.0], [2.0, 0.0]]] * 3)
    given = np.array([[[0.0, 0.0], [-1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    streams = SimpleNamespace(stack="decoder", tokens=(), x=x, added={"attention": given}, is_sum=True)
    found = QUESTION.answer(SimpleNamespace(streams=lambda stack: streams), QUESTION.options)
    first, second = (row[4] for row in found.tables[0].rows)
    assert first == -1.0
    assert math.isnan(second)
    np.testing.assert_array_equal(found.charts[1].series[0].ys, [-1.0, np.nan])

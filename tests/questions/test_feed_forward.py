"""Inside the feed-forward parts, against loops in float64 over a slow Transformer."""

import pytest
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.questions import QUESTIONS

QUESTION = QUESTIONS["feed-forward"]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_that_shares_and_the_largest_units_equal_a_slow_float64_version(
    activation: str, threshold: float
) -> None:
    model = tiny_model("decoder", activation=activation)
    options = with_values(QUESTION.options, {"threshold": threshold, "n_units": 5})
    found = ask_model(QUESTION, model, SENTENCE, options=options)
    units = SlowDecoder(model).run(model.encode(SENTENCE).source.ids).units
    shares = [[sum(u > threshold for u in row) / len(row) for row in layer] for layer in units]
    for layer, row in enumerate(shares):
        assert found.cells[0].values[layer].tolist() == pytest.approx(row)
        curves = {one.name: one.ys[layer] for one in found.charts[0].series}
        assert curves == pytest.approx({"mean": sum(row) / len(row), "most": max(row), "fewest": min(row)})
    largest = sorted(
        (
            (max(layer[:, unit]), number, unit, layer[:, unit])
            for number, layer in enumerate(units)
            for unit in range(layer.shape[1])
        ),
        key=lambda one: -one[0],
    )
    pieces = ("<s>", *SENTENCE.split())
    for row, (value, layer, unit, values) in zip(found.tables[0].rows, largest, strict=False):
        assert row[:2] == (f"L{layer} unit {unit}", pieces[int(values.argmax())])
        assert row[2:] == pytest.approx((value, values.mean()), rel=1e-4, abs=1e-5)
    assert len(found.tables[0].rows) == 5
    mean = sum(map(sum, shares)) / sum(map(len, shares))
    assert (
        f"On average {100 * mean:.3g} % of the 24 units of a layer give more than {threshold:g}"
        in found.sentence
    )
    assert f"unit {largest[0][2]} of layer {largest[0][1]}" in found.sentence


def test_that_each_stack_has_its_own_units() -> None:
    form = "encoder-decoder"
    model, options = tiny_model(form), with_values(QUESTION.options, {"stack": "encoder", "n_shown": 8})
    found = ask_model(QUESTION, model, SENTENCE, target_of(form), options=options)
    assert found.cells[0].columns[-1] == "</s>"
    other = ask_model(QUESTION, model, SENTENCE, target_of(form))
    assert other.cells[0].columns[0] == "<s>"


def test_that_a_model_without_feed_forward_parts_is_refused() -> None:
    with pytest.raises(UserError, match="no feed-forward part"):
        ask_model(QUESTION, tiny_model("decoder", has_feed_forward=False), SENTENCE)

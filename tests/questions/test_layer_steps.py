"""A layer step by step, against loops in float64 over a slow Transformer."""

import math

import numpy as np
import pytest
from slow_library import Numbers, SlowLayers, own_layers
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis import ModelReading, ask_model
from attnscope.errors import UserError
from attnscope.fields import with_values
from attnscope.models import Model
from attnscope.questions import QUESTIONS
from attnscope.questions.layer_steps import steps_of, units_words
from attnscope.records import Answer

QUESTION = QUESTIONS["layer-steps"]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
FORM = "encoder-decoder"


def asked(model: Model, target: str | None = None, **options: object) -> Answer:
    return ask_model(QUESTION, model, SENTENCE, target, options=with_values(QUESTION.options, options))


def names(answer: Answer) -> list[str]:
    return [str(row[0]) for row in answer.tables[0].rows]


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post", "sandwich"])
def test_that_every_step_equals_a_slow_float64_version(place: str, activation: str) -> None:
    model = tiny_model("decoder", norm_place=place, activation=activation)
    decoder = SlowDecoder(model)
    slow = decoder.run(model.encode(SENTENCE).source.ids)
    for layer, token in ((0, 0), (1, 3)):
        found = ModelReading(model, SENTENCE).passage(layer)
        stream, wanted = slow.x[layer], [slow.x[layer]]
        for part, path in zip(("attention", "feed-forward"), found.parts, strict=True):
            at = f"decoder.{layer}.{part.replace('-', '_')}"
            if place != "post":
                wanted.append(decoder.norm(stream, f"{at}_norm"))
            assert path.inside is not None
            last = "output" if part == "attention" else "down"
            wanted += [path.inside, decoder.product(path.inside, f"{at}.{last}")]
            if part == "feed-forward":
                np.testing.assert_allclose(path.inside, slow.units[layer], **CLOSE)
            if place == "sandwich":
                wanted.append(decoder.norm(wanted[-1], f"{at}_end"))
            np.testing.assert_allclose(wanted[-1], slow.added[part][layer], **CLOSE)
            stream = stream + slow.added[part][layer]
            wanted.append(stream)
            if place == "post":
                stream = decoder.norm(stream, f"{at}_norm")
                wanted.append(stream)
        wanted.append(slow.x[layer + 1])
        answer = asked(model, layer=layer, token=token)
        rows = answer.tables[0].rows
        assert len(rows) == len(wanted)
        for row, step, vectors in zip(rows, steps_of(found, token), wanted, strict=True):
            v, x = vectors[token], slow.x[layer][token]
            np.testing.assert_allclose(step.vector, v, **CLOSE)
            length = math.sqrt(sum(v * v))
            assert row[1:3] == (len(v), pytest.approx(length, rel=1e-5))
            if len(v) == len(x):
                angle = sum(v * x) / length / math.sqrt(sum(x * x))
                assert row[3] == pytest.approx(angle, abs=1e-5)
            else:
                assert math.isnan(row[3])
        units = slow.units[layer][token]
        assert f"{sum(units > 0)} are above 0, most of all unit {units.argmax()} " in answer.sentence
        assert not answer.note


def test_that_the_units_are_counted() -> None:
    assert units_words(np.array([0.0, 2.5, -1.0, 1.0])) == (
        "Of 4 feed-forward units 2 are above 0, most of all unit 1 (2.5)."
    )


@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_that_the_steps_of_a_translator_equal_a_slow_float64_version(stack: str, place: str) -> None:
    model = tiny_model(FORM, norm_place=place)
    module, memory = model.own.module, None
    reading = ModelReading(model, SENTENCE, target_of(FORM))
    inputs = reading._inputs
    for one in ("encoder", "decoder"):
        slow = SlowLayers(
            module,
            is_post=place == "post",
            is_causal=one == "decoder",
            epsilon=model.own.config.norm_epsilon,
            activation=model.own.config.activation,
        )
        ids = (inputs.source if one == "encoder" else inputs.target or inputs.source).ids
        positions = slow.weights[f"{one}_embedding.positions.weight"]
        x = np.stack([slow.weights["tokens.weight"][id] + positions[i] for i, id in enumerate(ids)])
        layers, last = slow.through(x, own_layers(one, model.own.config), memory)
        memory = last if place == "post" else slow.norm(last, f"{one}_norm")
        if one == stack:
            for layer, wanted in enumerate(layers):
                found = reading.passage(layer, stack)
                assert found.adds_up
                steps = list(steps_of(found, 2))
                assert len(steps) == len(wanted)
                for step, (name, vectors) in zip(steps, wanted, strict=True):
                    np.testing.assert_allclose(step.vector, vectors[2], **CLOSE, err_msg=f"{layer} {name}")
    assert sum("·W_O" in step.name or "·W_2" in step.name for step in steps) == (
        3 if stack == "decoder" else 2
    )


def test_that_the_norm_of_the_sum_has_read_the_sum_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(FORM, norm_place="post")
    block = model.own.module.decoder[1]
    join = type(block).join
    assert ModelReading(model, SENTENCE, target_of(FORM)).passage(1).adds_up
    monkeypatch.setattr(block, "join", lambda x, change, branch: join(block, x, change * 1.01, branch))
    answer = asked(model, target_of(FORM), layer=1)
    assert not any("residual" in name or "sum" in name for name in names(answer))
    assert "left out" in answer.note


def test_that_a_model_without_norms_shows_none() -> None:
    assert not any("norm" in name for name in names(asked(tiny_model("decoder", norm="none"))))


def slow_reversible(model: Model, x: Numbers) -> list[list[Numbers]]:
    """Each layer's streams a and b, before and after each part, and what the part read and gave."""
    config = model.own.config
    slow = SlowLayers(
        model.own.module,
        is_post=False,
        is_causal=True,
        epsilon=config.norm_epsilon,
        activation=config.activation,
    )
    a, b, every = x / 2, x / 2, []
    for parts in own_layers("decoder", config):
        steps = [a + b]
        for part in (parts[0], parts[-1]):
            read = slow.norm(b, part.norm)
            inside = slow.inside(part, read, None)
            given = slow.product(inside, part.output or part.down)
            a, b = b, a + given
            steps += [read, inside, given, a + b]
        every.append([*steps, a + b])
    return every


def test_that_a_reversible_layer_shows_the_sum_of_its_streams_and_says_so() -> None:
    model = tiny_model("decoder", residual="reversible")
    reading = ModelReading(model, SENTENCE)
    slow = slow_reversible(model, reading.passage(0).x)
    for layer, wanted in enumerate(slow):
        found = reading.passage(layer)
        assert (found.order, found.adds_up) == ("reversible", True)
        for step, vectors in zip(steps_of(found, 3), wanted, strict=True):
            np.testing.assert_allclose(step.vector, vectors[3], **CLOSE, err_msg=f"{layer} {step.name}")
    answer = asked(model, layer=1)
    assert "two streams" in answer.note
    assert "their sum" in answer.note
    assert sum("one stream's norm" in name for name in names(answer)) == 2


@pytest.mark.parametrize("place", ["pre", "post"])
def test_that_the_walk_ends_with_logits_and_probabilities(place: str) -> None:
    model = tiny_model("decoder", norm_place=place)
    decoder = SlowDecoder(model)
    slow = decoder.run(model.encode(SENTENCE).source.ids)
    for layer in (2, 96):
        answer = asked(model, layer=layer, token=3)
        assert answer.limits == (("layer", 2), ("token", len(slow.x[0]) - 1))
        logits = slow.logits[3]
        p = np.exp(logits) / np.exp(logits).sum()
        best = np.argsort(-p)[:8]
        told = answer.tables[1].rows
        np.testing.assert_allclose([row[1] for row in told], logits[best], **CLOSE)
        np.testing.assert_allclose([row[2] for row in told], p[best], **CLOSE)
        assert "probability" in answer.sentence
        last = [slow.x[2]] if place == "post" else [slow.x[2], decoder.norm(slow.x[2], "decoder_norm")]
        lengths = [math.sqrt(sum(one[3] ** 2)) for one in last]
        np.testing.assert_allclose([row[2] for row in answer.tables[0].rows], lengths, **CLOSE)


def test_that_an_encoder_tells_each_token_at_the_end() -> None:
    answer = asked(tiny_model("encoder"), layer=2, token=2)
    assert len(answer.tables) == 2


def test_that_a_model_of_labels_says_where_it_tells_them() -> None:
    model = tiny_model("encoder", n_labels=3)
    answer = asked(model, layer=2, token=2)
    assert "tells nothing at token 2: what it tells is of the whole input" in answer.sentence
    assert "stands for the whole input" in asked(model, layer=2, token=0).sentence


@pytest.mark.parametrize("mixer", ["retention", "selective", "convolution"])
def test_that_what_stands_in_the_place_of_attention_is_not_called_attention(mixer: str) -> None:
    model = tiny_model("decoder", mixer=mixer, n_kv_heads=None, position="none")
    assert ModelReading(model, SENTENCE).passage(1).adds_up
    shown = names(asked(model, layer=1))
    assert any(name.endswith(f"{mixer} gives") for name in shown)
    assert not any("attention" in name or "heads" in name for name in shown)


def test_that_models_that_replace_the_stream_are_refused() -> None:
    with pytest.raises(UserError, match="replace the stream"):
        asked(tiny_model("decoder", has_residual=False))

"""A layer step by step, against loops in float64 over a slow Transformer."""

import math

import numpy as np
import pytest
from slow_transformer import SlowDecoder
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope.analysis.model_reading import ModelReading, ask_model
from attnscope.fields import with_values
from attnscope.questions import QUESTIONS
from attnscope.questions.layer_steps import gap_of, steps_of, units_words

QUESTION = QUESTIONS["layer-steps"]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("place", ["pre", "post", "sandwich"])
def test_that_every_step_equals_a_slow_float64_version(place: str, activation: str) -> None:
    model = tiny_model("decoder", norm_place=place, activation=activation)
    decoder = SlowDecoder(model)
    slow = decoder.run(model.encode(SENTENCE).source.ids)
    for layer, token in ((0, 0), (1, 3)):
        stream, wanted = slow.x[layer], [slow.x[layer]]
        for part in ("attention", "feed-forward"):
            norm = f"decoder.{layer}.{part.replace('-', '_')}_norm"
            if place != "post":
                wanted.append(decoder.norm(stream, norm))
            stream = stream + slow.added[part][layer]
            wanted += [slow.added[part][layer], stream]
            if place == "post":
                stream = decoder.norm(stream, norm)
                wanted.append(stream)
        wanted.append(slow.x[layer + 1])
        options = with_values(QUESTION.options, {"layer": layer, "token": token})
        found = ask_model(QUESTION, model, SENTENCE, options=options)
        rows = found.tables[0].rows
        assert len(rows) == len(wanted)
        for row, vectors in zip(rows, wanted, strict=True):
            v, x = vectors[token], slow.x[layer][token]
            length = math.sqrt(sum(v * v))
            assert row[1] == pytest.approx(length, rel=1e-5)
            assert row[2] == pytest.approx(sum(v * x) / length / math.sqrt(sum(x * x)), abs=1e-5)
        reading = ModelReading(model, SENTENCE)
        reads = {name: part[layer, token] for name, part in reading.part_reads().items()}
        for step, vectors in zip(steps_of(reading.streams(), reads, layer, token), wanted, strict=True):
            np.testing.assert_allclose(step.vector, vectors[token], **CLOSE)
        units = slow.units[layer][token]
        assert f"{sum(units > 0)} are above 0, most of all unit {units.argmax()} " in found.sentence
        assert not found.note


def test_that_the_units_are_counted() -> None:
    assert units_words(np.array([0.0, 2.5, -1.0, 1.0])) == (
        "Of 4 feed-forward units 2 are above 0, most of all unit 1 (2.5)."
    )


@pytest.mark.parametrize("place", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_that_the_steps_of_a_translator_lead_to_the_next_layer(stack: str, place: str) -> None:
    form = "encoder-decoder"
    reading = ModelReading(tiny_model(form, norm_place=place), SENTENCE, target_of(form))
    found, reads = reading.streams(stack), reading.part_reads(stack)
    for layer in range(2):
        steps = steps_of(found, {name: part[layer, 2] for name, part in reads.items()}, layer, 2)
        assert gap_of(steps) < 1e-5
        assert sum("gives" in step.name for step in steps) == (3 if stack == "decoder" else 2)


def test_that_a_model_without_norms_shows_none() -> None:
    rows = ask_model(QUESTION, tiny_model("decoder", norm="none"), SENTENCE).tables[0].rows
    assert not any("norm" in row[0] for row in rows)

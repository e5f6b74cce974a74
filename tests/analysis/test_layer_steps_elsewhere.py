"""A layer of the library's models, step by step: pre-norm, gated and parallel."""

from typing import Any

import numpy as np
import pytest
from foreign_models import foreign

from attnscope.analysis.model_reading import ModelReading, ask_model
from attnscope.errors import UserError
from attnscope.questions import QUESTIONS
from attnscope.questions.layer_steps import gap_of, steps_of


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox", "mistral"])
def test_that_the_steps_of_the_librarys_models_lead_to_the_next_layer(family: str) -> None:
    reading = ModelReading(foreign(family), "the end of the way")
    found, reads = reading.streams(), reading.part_reads()
    for layer in range(len(found.x) - 1):
        steps = steps_of(found, {name: part[layer, 1] for name, part in reads.items()}, layer, 1)
        assert gap_of(steps) < 1e-5


def normed(x: np.ndarray, norm: Any) -> np.ndarray:
    """The norm of a row [d] in float64: LayerNorm where it has a bias, RMSNorm where it has none."""
    weight = norm.weight.detach().double().numpy()
    if getattr(norm, "bias", None) is None:
        return np.asarray(x / np.sqrt((x**2).mean() + norm.variance_epsilon) * weight)
    away = x - x.mean()
    return np.asarray(
        away / np.sqrt((away**2).mean() + norm.eps) * weight + norm.bias.detach().double().numpy()
    )


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "qwen2"])
def test_that_what_a_part_reads_is_the_norm_of_the_stream_before_it(family: str) -> None:
    model = foreign(family)
    module: Any = model.network.module  # type: ignore[attr-defined]
    blocks = module.transformer.h if family == "gpt2" else module.model.layers
    names = ("ln_1", "ln_2") if family == "gpt2" else ("input_layernorm", "post_attention_layernorm")
    reading = ModelReading(model, "the end of the way")
    found, reads = reading.streams(), reading.part_reads()
    for layer, block in enumerate(blocks):
        steps = steps_of(found, {name: part[layer, 2] for name, part in reads.items()}, layer, 2)
        shown = [(step.name, step.vector) for step in steps]
        for part, norm in zip(("attention", "feed-forward"), names, strict=True):
            at = [name for name, _ in shown].index(f"norm for {part}")
            wanted = normed(np.asarray(shown[at - 1][1], np.float64), getattr(block, norm))
            np.testing.assert_allclose(shown[at][1], wanted, rtol=1e-5, atol=1e-5)


def test_that_no_sum_is_shown_where_a_part_is_changed_before_it_is_added() -> None:
    answer = ask_model(QUESTIONS["layer-steps"], foreign("gemma2"), "the end of the way")
    assert not any("plus residual" in str(row[0]) for row in answer.tables[0].rows)
    assert "left out" in answer.note


@pytest.mark.parametrize("family", ["bert", "opt"])
def test_that_layers_whose_parts_read_something_unknown_are_refused(family: str) -> None:
    with pytest.raises(UserError, match="is not known"):
        ask_model(QUESTIONS["layer-steps"], foreign(family), "the end of the way")

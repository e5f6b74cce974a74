"""A layer of the library's models, step by step: pre-norm, gated and parallel."""

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


@pytest.mark.parametrize("family", ["bert", "opt"])
def test_that_layers_whose_parts_read_something_unknown_are_refused(family: str) -> None:
    with pytest.raises(UserError, match="is not known"):
        ask_model(QUESTIONS["layer-steps"], foreign(family), "the end of the way")

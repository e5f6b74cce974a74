import pytest
import torch

from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.nn.presets import PRESETS
from attnscope.nn.transformer import Transformer

pytestmark = pytest.mark.slow

PUBLISHED = {
    "transformer-base": 63_082_496,
    "transformer-big": 214_245_376,
    "bert-base": 109_482_240,
    "bert-base-masked": 109_514_298,
    "bert-large": 335_141_888,
    "gpt": 116_534_784,
    "gpt-2": 124_439_808,
    "gpt-2-medium": 354_823_168,
    "gpt-2-large": 774_030_080,
    "gpt-2-xl": 1_557_611_200,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
}


@pytest.mark.parametrize("name", PRESETS)
def test_that_a_preset_has_its_published_size(name):
    config = PRESETS[name]
    assert count_parameters(config).total == PUBLISHED[name]
    with torch.device("meta"):
        model = Transformer(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]
    assert ModelConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(("name", "millions"), [("transformer-base", 65), ("transformer-big", 213)])
def test_that_the_first_transformers_are_near_the_sizes_of_their_paper(name, millions):
    assert count_parameters(PRESETS[name]).total / 1e6 == pytest.approx(millions, rel=0.03)

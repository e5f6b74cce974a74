import pytest
import torch

from attnscope.nn import PRESETS, PUBLISHED, ModelConfig, Transformer, count_parameters

pytestmark = pytest.mark.slow

COUNTED = {
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
    "roberta-base": 124_695_129,
    "roberta-large": 355_408_985,
    "xlnet-large": 360_292_352,
    "megatron-lm-8b": 8_317_040_640,
    "turing-nlg": 17_176_845_728,
    "gpt-3": 174_604_259_328,
}


@pytest.mark.parametrize("name", PRESETS)
def test_that_a_preset_has_its_published_size(name):
    config = PRESETS[name]
    assert count_parameters(config).total == COUNTED[name]
    with torch.device("meta"):
        model = Transformer(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == COUNTED[name]
    assert ModelConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(("name", "millions"), [("transformer-base", 65), ("transformer-big", 213)])
def test_that_the_first_transformers_are_near_the_sizes_of_their_paper(name, millions):
    assert count_parameters(PRESETS[name]).total / 1e6 == pytest.approx(millions, rel=0.03)


def _published(name: str) -> float:
    number, unit = PUBLISHED[name].parameters.replace(",", "").split(" ")
    return float(number) * {"M": 1e6, "billion": 1e9}[unit]


@pytest.mark.parametrize("name", PRESETS)
def test_that_a_published_size_is_near_the_counted_one_or_says_why_not(name):
    published = PUBLISHED[name]
    counted = count_parameters(PRESETS[name]).total
    assert counted == pytest.approx(_published(name), rel=0.07)
    assert published.why or counted == pytest.approx(_published(name), rel=0.03)
    assert all((published.parameters, published.data, published.source))


def test_that_the_reasons_for_other_sizes_hold():
    base, big = COUNTED["transformer-base"], COUNTED["transformer-big"]
    assert 37_000 + (65e6 - base) / 512 == pytest.approx(40_700, abs=50)
    assert 37_000 + (213e6 - big) / 1024 == pytest.approx(35_800, abs=50)
    assert COUNTED["t5-large"] + 32_128 * 1024 == pytest.approx(770.6e6, abs=5e4)
    assert COUNTED["t5-3b"] + 32_128 * 1024 == pytest.approx(2.88e9, abs=5e6)

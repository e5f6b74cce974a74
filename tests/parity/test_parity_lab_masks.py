"""The masks of the lab, written in numpy, against the rules the engine computes with."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnscope.fields import fields_of
from attnscope.labs import LABS
from attnscope.nn import ModelConfig, build_self_mask
from attnscope.schemes.masks import MASKS as SCHEMES

LAB = LABS["Masks as structure"]
MASKS = next(field for field in fields_of(LAB.example) if field.name == "mask").options


def test_that_the_lab_has_every_mask_whose_keys_it_can_set() -> None:
    assert {*MASKS} == {"causal", *SCHEMES} - {"segment-recurrence"}
    assert MASKS["strided"] == SCHEMES["strided"].title


@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("n_padding", [0, 3])
def test_that_the_labs_mask_is_the_engines(mask: str, is_causal: bool, n_padding: int) -> None:
    for seed, window, n_global, block in ((0, 2, 1, 4), (5, 1, 3, 2), (9, 3, 0, 3)):
        choice = replace(
            LAB.example,
            mask=mask,
            n_tokens=29,
            is_causal=is_causal,
            n_padding=n_padding,
            n_prefix=7,
            window=window,
            dilation=3,
            n_global=n_global,
            n_random=2,
            block=block,
            seed=seed,
        )
        config = ModelConfig(
            form="decoder",
            vocab_size=8,
            mask="full" if mask == "causal" else mask,
            window=window,
            dilation=3,
            global_tokens=n_global,
            random_blocks=2,
            mask_block=block,
            mask_seed=seed,
            prefix_tokens=7,
        )
        key_valid = torch.ones(1, 29, dtype=torch.bool)
        key_valid[:, 29 - n_padding :] = False
        rule = build_self_mask(config, 29).rule(
            29, 29, is_causal=is_causal or mask == "causal", key_valid=key_valid
        )
        expected = rule.allowed(29, 29)[0, 0].numpy()
        np.testing.assert_array_equal(~np.isnan(LAB.resolve(choice).kinds), expected)

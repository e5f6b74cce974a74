"""Patches: their order against a slow cut, and a whole pass against equation 1 of Dosovitskiy et al. 2021."""

import numpy as np
import pytest
import torch

from attnscope.errors import RecipeError
from attnscope.nn import ModelConfig, build_own, count_parameters, patch_numbers


def _config(**changes: object) -> ModelConfig:
    values: dict[str, object] = {
        "form": "encoder",
        "vocab_size": 8,
        "d_model": 8,
        "n_heads": 2,
        "n_layers": 2,
        "d_ff": 12,
        "max_tokens": 7,
        "n_labels": 3,
        "pooling": "first",
        "patch_size": 2,
        "picture_height": 4,
        "picture_width": 6,
        "n_numbers": 12,
    }
    return ModelConfig.from_dict({**values, **changes})


@pytest.mark.parametrize(("height", "width", "patch", "channels"), [(4, 6, 2, 3), (6, 3, 3, 1), (5, 7, 1, 1)])
def test_that_patches_stand_line_by_line_behind_a_class_token_of_zeros(
    height: int, width: int, patch: int, channels: int
) -> None:
    pixels = np.random.default_rng(4).integers(0, 256, (2, height, width, channels), dtype=np.uint8)
    found = patch_numbers(pixels, patch)
    for one in range(2):
        expected = [[0] * (patch * patch * channels)]
        for top in range(0, height, patch):
            for left in range(0, width, patch):
                expected.append(
                    [
                        2 * int(pixels[one, top + y, left + x, c]) - 255
                        for y in range(patch)
                        for x in range(patch)
                        for c in range(channels)
                    ]
                )
        assert found[one].tolist() == expected
    assert (found[:, 1:] % 2 == 1).all(), "no pixel is like the class token"


def test_that_patches_that_leave_pixels_over_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fill"):
        patch_numbers(np.zeros((1, 4, 6, 1), dtype=np.uint8), 4)


@pytest.mark.parametrize("pooling", ["first", "mean", "max", "attention", "last"])
def test_that_a_pass_begins_with_projected_patches_and_positions(pooling: str) -> None:
    config = _config(pooling=pooling)
    module = build_own(config, 3).double().eval()
    assert count_parameters(config).total == sum(p.numel() for p in module.parameters())
    numbers = patch_numbers(np.random.default_rng(1).integers(0, 256, (2, 4, 6, 3), dtype=np.uint8), 2)
    weight, bias = module.projection.weight.tolist(), module.projection.bias.tolist()
    positions = module.encoder_embedding.positions.weight.tolist()
    expected = [
        [
            [
                sum(w * n / 255 for w, n in zip(row, numbers[one, token].tolist(), strict=True)) + b + p
                for row, b, p in zip(weight, bias, positions[token], strict=True)
            ]
            for token in range(7)
        ]
        for one in range(2)
    ]
    read: list[torch.Tensor] = []
    module.encoder[0].register_forward_pre_hook(lambda _, arguments: read.append(arguments[0]))
    with torch.no_grad():
        assert module(torch.from_numpy(numbers)).shape == (2, 3)
    np.testing.assert_allclose(read[0].numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"patch_size": 4}, "patch_size"),
        ({"n_numbers": 8}, "n_numbers"),
        ({"max_tokens": 6}, "max_tokens"),
        ({"patch_size": 0}, "picture_height"),
        ({"pooling": "none"}, "patch_size"),
        ({"pooling": "hierarchical"}, "pooling"),
        ({"reads_pair": True}, "reads_pair"),
        ({"n_segments": 2}, "n_segments"),
        ({"form": "decoder", "pooling": "mean", "n_numbers": 0}, "patch_size"),
        ({"n_labels": 0, "n_numbers": 0}, "patch_size"),
        ({"picture_width": 0}, "patch_size"),
    ],
)
def test_that_what_does_not_go_with_pictures_is_told(changes: dict[str, object], key: str) -> None:
    with pytest.raises(RecipeError, match=rf"model\.{key} is"):
        _config(**changes)


def test_that_ids_without_numbers_are_no_picture() -> None:
    module = build_own(_config(), 0)
    with pytest.raises(ValueError, match=r"expected \[batch, 1 to 7, 12\]"):
        module(torch.zeros(1, 7, dtype=torch.int64))

"""Pictures as our own models read them: named by a text, cut into patches behind a class token."""

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import UserError
from attnscope.models.inputs import Inputs
from attnscope.models.patches import patch_tokens
from attnscope.nn.config import ModelConfig
from attnscope.nn.patches import patch_numbers
from attnscope.records.pictures import Picture
from attnscope.text.pictures import fitted, read_picture


def encode_picture(config: ModelConfig, text: str, target: str | None = None) -> Inputs:
    """The picture that `text` names as tokens and the numbers of its patches; raises UserError."""
    if target is not None and target.strip():
        raise UserError("This model reads one picture.", expected="no second text", action="Leave it out.")
    return _inputs(config, text, _seen(config, text))


def own_picture(config: ModelConfig, text: str) -> Picture:
    """The picture that `text` names, as the model sees it; raises UserError."""
    height, width = config.picture_height, config.picture_width
    pixels = np.broadcast_to(_seen(config, text), (height, width, 3))
    n_rows, n_columns = config.patch_grid
    return Picture(text=text, pixels=pixels, n_rows=n_rows, n_columns=n_columns, n_first=1)


def noise_pictures(config: ModelConfig, n: int, seed: int) -> list[Inputs]:
    """Pictures of random pixels, the same for the same seed."""
    rng = np.random.default_rng(seed)
    shape = (config.picture_height, config.picture_width, config.n_channels)
    return [_inputs(config, "", rng.integers(0, 256, shape, dtype=np.uint8)) for _ in range(n)]


def _seen(config: ModelConfig, text: str) -> NDArray[np.uint8]:
    return fitted(read_picture(text), config.picture_height, config.picture_width, config.n_channels)


def _inputs(config: ModelConfig, text: str, pixels: NDArray[np.uint8]) -> Inputs:
    numbers = patch_numbers(pixels[None], config.patch_size)[0]  # [n_tokens, n_numbers]
    tokens = patch_tokens(text, config.patch_grid, config.n_patch_tokens)
    return Inputs(source=tokens, patches=tuple(map(tuple, numbers.tolist())))

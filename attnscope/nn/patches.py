"""Pictures as the vectors that a model reads: a class token, then the patches line by line.

    pixels   0…255                                        [n, height, width, n_channels], uint8
    p        pixels of a side of a patch
    numbers  2 · pixel − 255 of each patch, 0 of the class token      [n, n_tokens, n_channels · p²], int64

Dosovitskiy et al. 2021, equation 1: z_0 = [x_class; x_1 E; …; x_N E] + E_pos.
A model divides the numbers by 255, which gives −1…1, and projects them with E. No pixel becomes 0 exactly, so
that no patch is like the class token: what is read of that are the projection's bias and the first of the
positions, both learned. Numbers stay whole up to the model, so that batches carry them as they carry ids.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

SCALE = 255


def patch_numbers(pixels: NDArray[np.uint8], patch_size: int) -> NDArray[np.int64]:
    """The numbers of pictures; raises ValueError where patches do not fill them.

    Within a patch: rows of pixels from top to bottom, each from left to right, the channels of each.
    """
    n, height, width, n_channels = pixels.shape
    p = patch_size
    if p < 1 or height % p or width % p:
        raise ValueError(f"patches of {p} px do not fill pictures of {height} × {width}")
    patches = pixels.reshape(n, height // p, p, width // p, p, n_channels).transpose(0, 1, 3, 2, 4, 5)
    numbers = patches.reshape(n, -1, p * p * n_channels).astype(np.int64)  # [n, n_patches, n_numbers]
    numbers = 2 * numbers - SCALE
    return np.concatenate([np.zeros_like(numbers[:, :1]), numbers], axis=1)


def as_vectors(numbers: Tensor, like: Tensor) -> Tensor:
    """What is projected, −1…1, of the shape of `numbers` and the dtype of `like`."""
    return numbers.to(like.dtype) / SCALE

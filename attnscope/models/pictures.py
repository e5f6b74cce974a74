"""What a vision model sees of a picture, for laying its attention over it. Its tokens: special ones first (a
class token, registers), then the patches line by line, written `row,column`.
"""

import re
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import UserError
from attnscope.models.inputs import Inputs
from attnscope.nn.config import ModelConfig
from attnscope.nn.embedding_and_head import patch_numbers
from attnscope.records.maps import Picture
from attnscope.records.tokens import Token, Tokens
from attnscope.text.pictures import fitted_pixels, read_picture

if TYPE_CHECKING:
    from attnscope.models.model import Model

_FIRST_NAMES = ("CLS", "DIST")
_PATCH = re.compile(r"(\d{1,4}),(\d{1,4})")
MAX_FIRST = 64
"""The most tokens before the patches that are taken for special ones."""


def patch_tokens(text: str, grid: tuple[int, int], n_tokens: int) -> Tokens:
    """Tokens for a sequence of `n_tokens`: what stands before the patches, then `row,column` of each.

    Where the sequence is no grid with something before it, the tokens are numbered.
    """
    n_rows, n_columns = grid
    n_first = n_tokens - n_rows * n_columns
    if not 0 <= n_first <= MAX_FIRST:
        numbered = tuple(Token(id=i, piece=str(i)) for i in range(n_tokens))
        return Tokens(text=text, tokens=numbered)
    names = [*_FIRST_NAMES[:n_first], *(f"REG{i}" for i in range(n_first - len(_FIRST_NAMES)))]
    if n_first > len(_FIRST_NAMES):
        names = ["CLS", *(f"REG{i}" for i in range(n_first - 1))]
    first = tuple(Token(id=i, piece=f"[{name}]", is_special=True) for i, name in enumerate(names))
    patches = tuple(
        Token(id=n_first + row * n_columns + column, piece=f"{row},{column}")
        for row in range(n_rows)
        for column in range(n_columns)
    )
    return Tokens(text=text, tokens=first + patches)


def patch_grid(source: Tokens) -> tuple[int, int] | None:
    """Rows and columns of the patches that `patch_tokens` made tokens of; None for other tokens."""
    last = _PATCH.fullmatch(source.tokens[-1].piece) if len(source) else None
    if last is None:
        return None
    grid = int(last[1]) + 1, int(last[2]) + 1
    n_tokens = len(source)
    is_right = grid[0] * grid[1] <= n_tokens and patch_tokens("", grid, n_tokens).pieces == source.pieces
    return grid if is_right else None


# Pictures as our own models read them: named by a text, cut into patches behind a class token.


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
    return fitted_pixels(read_picture(text), config.picture_height, config.picture_width, config.n_channels)


def _inputs(config: ModelConfig, text: str, pixels: NDArray[np.uint8]) -> Inputs:
    numbers = patch_numbers(pixels[None], config.patch_size)[0]  # [n_tokens, n_numbers]
    tokens = patch_tokens(text, config.patch_grid, config.n_patch_tokens)
    return Inputs(source=tokens, patches=tuple(map(tuple, numbers.tolist())))


@runtime_checkable
class ReadsPictures(Protocol):
    """A network whose text is the path of a picture."""

    def picture(self, text: str) -> Picture:
        """The picture as it is seen; raises UserError when it cannot be read or is no grid of patches."""
        ...


def picture(model: "Model", text: str) -> Picture:
    """The picture whose path is `text`, as the model sees it; raises UserError for a model of text."""
    network = model.network
    if model.info.reads != "picture" or not isinstance(network, ReadsPictures):
        raise UserError(
            f"{model.info.name} reads no pictures.",
            expected="a vision model, such as a ViT",
            action="Open one from its folder, or look at the heatmap.",
        )
    return network.picture(text)


def picture_of_tokens(source: Tokens) -> Picture | None:
    """The picture that the tokens of a kept trace lie on, without its model: as it was named, not resized.

    None where the tokens are no patches, or the picture is not there any more.
    """
    grid = patch_grid(source)
    if grid is None:
        return None
    try:
        pixels = read_picture(source.text)
    except UserError:
        return None
    n_rows, n_columns = grid
    n_first = len(source) - n_rows * n_columns
    return Picture(text=source.text, pixels=pixels, n_rows=n_rows, n_columns=n_columns, n_first=n_first)


def picture_under(model: "Model", text: str) -> Picture | None:
    """The picture that maps of patches are laid over; None for a text, or without a grid of patches."""
    if model.info.reads != "picture":
        return None
    try:
        return picture(model, text)
    except UserError:
        return None

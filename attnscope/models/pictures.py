"""What a vision model sees of a picture, for laying its attention over it."""

from typing import Protocol, runtime_checkable

from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.models.patches import patch_grid
from attnscope.records.pictures import Picture
from attnscope.records.tokens import Tokens
from attnscope.text.pictures import read_picture


@runtime_checkable
class ReadsPictures(Protocol):
    """A network whose text is the path of a picture."""

    def picture(self, text: str) -> Picture:
        """The picture as it is seen; raises UserError when it cannot be read or is no grid of patches."""
        ...


def picture(model: Model, text: str) -> Picture:
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


def picture_under(model: Model, text: str) -> Picture | None:
    """The picture that maps of patches are laid over; None for a text, or without a grid of patches."""
    if model.info.reads != "picture":
        return None
    try:
        return picture(model, text)
    except UserError:
        return None

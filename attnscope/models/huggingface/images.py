"""Pictures as a vision model reads them: a file, its pixels prepared, and one token for each patch.

The "text" of such a model is the path of a picture. Its tokens are what the model's attention sees:
special ones first (a class token, registers), then the patches line by line, written `row,column`.

| symbol | meaning                                  | shape                       |
|--------|------------------------------------------|-----------------------------|
| pixels | colours, rescaled and normalised         | [1, 3, height, width]       |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from attnscope.errors import LoadError, UserError
from attnscope.models.huggingface.facts import read_processor

_BILINEAR, _N_FILTERS = 2, 6
"""Filters are numbered as in Pillow: nearest, Lanczos, bilinear, bicubic, box, Hamming."""
_SQUARED = ("DeiT", "Flava")
"""Those that crop and take a single number for both sides, not for the shorter one (transformers 5.23)."""
_NO_PROCESSOR = (
    "Its folder has no preprocessor_config.json: pictures are read with colours from −1 to 1, which may not "
    "be those it was trained on."
)
MAX_SIDE = 2_048
"""The largest picture, in pixels a side, that a processor's file may ask for."""
_A_SIDE = f"whole numbers of pixels from 1 to {MAX_SIDE:,}"
_MOST_RESIZED = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How a picture becomes pixels; sizes in pixels.

    It is resized to `resized` or, keeping its shape, until its shorter side is `shortest`; then height ×
    width are cut out of its middle. Without both it is resized to height × width at once. `filter` is
    Pillow's number. `note` tells what the folder leaves open, and what was taken instead.
    """

    height: int
    width: int
    shortest: int | None = None
    resized: tuple[int, int] | None = None
    filter: int = _BILINEAR
    rescale: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    deviation: tuple[float, ...] = (0.5, 0.5, 0.5)
    note: str = ""


def read_preparation(folder: Path, image_size: tuple[int, int]) -> Preparation:
    """The preparation that a folder's processor describes; raises LoadError when it cannot be meant.

    Its own crop or size is what the model was made for; `image_size` counts where it names none.
    """
    values, path = read_processor(folder, "image_processor")
    size, crops = values.get("size"), values.get("do_center_crop", "crop_size" in values)
    shortest = size.get("shortest_edge") if isinstance(size, dict) else None
    kind = str(values.get("image_processor_type") or values.get("feature_extractor_type") or "")
    if isinstance(size, int) and crops and not kind.startswith(_SQUARED):
        shortest = size
    if shortest is not None and not _is_side(shortest):
        raise _impossible(path, "size", _A_SIDE)
    own = _sides(values.get("crop_size"), path, "crop_size") if crops else None
    resized = _sides(size, path, "size") if shortest is None and values.get("do_resize", True) else None
    height, width = own or resized or image_size
    note = "" if values else _NO_PROCESSOR
    if shortest is not None and own is None:
        note = (
            f"Its processor keeps the shape of a picture: {height} × {width} pixels of its middle are read."
        )
    mean, deviation = (_colours(values, key, path) for key in ("image_mean", "image_std"))
    is_normalised = values.get("do_normalize", True)
    rescale = values.get("rescale_factor", 1 / 255) if values.get("do_rescale", True) else 1.0
    if not _is_number(rescale) or not rescale:
        raise _impossible(path, "rescale_factor", "a number other than 0")
    number = values.get("resample")
    resample = _BILINEAR if number is None else number
    if type(resample) is not int or not 0 <= resample < _N_FILTERS:
        raise _impossible(path, "resample", "the number of a filter of Pillow, 0 to 5")
    return Preparation(
        height=height,
        width=width,
        shortest=shortest,
        resized=resized,
        filter=resample,
        rescale=float(rescale),
        mean=mean if is_normalised else (0.0,) * 3,
        deviation=deviation if is_normalised else (1.0,) * 3,
        note=note,
    )


def prepared_pixels(picture: NDArray[np.uint8], how: Preparation) -> Tensor:
    """Pixels of a picture: resized, cut out of the middle, rescaled, normalised; float32 [1, 3, H, W].

    Raises UserError for one so long and narrow that it would become too large.
    """
    from PIL import Image

    height, width = picture.shape[:2]
    if how.shortest is None:
        size = how.resized or (how.height, how.width)
    else:
        short = min(height, width)
        size = (height * how.shortest // short, width * how.shortest // short)  # as the library cuts it off
    if size[0] * size[1] > _MOST_RESIZED:
        raise UserError(
            f"The picture has {width:,} × {height:,} pixels: with a shorter side of {how.shortest:,}, as the "
            f"model reads it, there would be {size[1]:,} × {size[0]:,}.",
            expected=f"at most {_MOST_RESIZED:,} pixels",
            action="Crop it.",
        )
    resized = Image.fromarray(picture).resize(size[::-1], Image.Resampling(how.filter))
    pixels = torch.from_numpy(np.array(resized)).permute(2, 0, 1)[None].float()  # [1, 3, height, width]
    if size != (how.height, how.width):
        top, left = (size[0] - how.height) // 2, (size[1] - how.width) // 2
        pixels = functional.pad(pixels, (-left, how.width - size[1] + left, -top, how.height - size[0] + top))
    mean, deviation = (torch.tensor(v)[None, :, None, None] for v in (how.mean, how.deviation))
    return (pixels * how.rescale - mean) / deviation


def seen_pixels(pixels: Tensor, how: Preparation) -> NDArray[np.uint8]:
    """The colours [height, width, 3] of what `prepare` gave: its last step taken back."""
    mean, deviation = (torch.tensor(v)[:, None, None] for v in (how.mean, how.deviation))
    colours = (pixels[0].cpu() * deviation + mean) / how.rescale  # [3, height, width]
    shown: NDArray[np.uint8] = colours.clamp(0, 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return shown


def _colours(values: Mapping[str, Any], key: str, path: Path) -> tuple[float, ...]:
    found = values.get(key, [0.5, 0.5, 0.5])
    found = [found] * 3 if _is_number(found) else found
    if not isinstance(found, list) or len(found) != 3 or not all(map(_is_number, found)):
        raise _impossible(path, key)
    if key == "image_std" and not all(found):
        raise _impossible(path, key)
    return tuple(float(n) for n in found)


def _sides(value: object, path: Path, key: str) -> tuple[int, int] | None:
    """Height and width as a processor writes them; None where it names none."""
    if value is None or (isinstance(value, dict) and not {"height", "width"} <= value.keys()):
        return None
    if isinstance(value, list):
        height, width = value if len(value) == 2 else (None, None)
    else:
        height, width = (value["height"], value["width"]) if isinstance(value, dict) else (value, value)
    if not _is_side(height) or not _is_side(width):
        raise _impossible(path, key, _A_SIDE)
    return height, width


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_side(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SIDE


def _impossible(path: Path, key: str, expected: str = "numbers for three colours") -> LoadError:
    return LoadError(
        f"{path} cannot be used: its {key} has no usable value.",
        kind="config",
        expected=expected,
        action="Restore it from the model's origin.",
    )

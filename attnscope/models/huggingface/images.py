"""Pictures as a vision model reads them: a file, its pixels prepared, and one token for each patch.

The "text" of such a model is the path of a picture. Its tokens are what the model's attention sees:
special ones first (a class token, registers), then the patches line by line, written `row,column`.

| symbol | meaning                                  | shape                       |
|--------|------------------------------------------|-----------------------------|
| pixels | colours, rescaled and normalised         | [1, 3, height, width]       |
"""

import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFile
from torch import Tensor
from torch.nn import functional

from attnscope.errors import LoadError, UserError
from attnscope.models.huggingface.cache import contained_file
from attnscope.outside import read_outside
from attnscope.records.tokens import Token, Tokens
from attnscope.strict_json import as_object, read_json

_PREPROCESSOR = "preprocessor_config.json"
_MAX_BYTES = 200_000_000
_MAX_PIXELS = 50_000_000
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""What is tried on a file: pictures of pixels; none that starts another program, as EPS does."""
_MODES = {0: "nearest", 2: "bilinear", 3: "bicubic"}
_FIRST_NAMES = ("CLS", "DIST")
MAX_SIDE = 2_048
"""The largest picture, in pixels a side, that a processor's file may ask for."""
MAX_FIRST = 64
"""The most tokens before the patches that are taken for special ones."""
_ACTION = "Type the path of a picture, for instance a PNG or JPEG file."


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """How a picture becomes pixels; sizes in pixels, `shortest` None when both sides are given."""

    height: int
    width: int
    shortest: int | None = None
    mode: str = "bilinear"
    rescale: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    deviation: tuple[float, ...] = (0.5, 0.5, 0.5)


def read_preparation(folder: Path, image_size: tuple[int, int]) -> Preparation:
    """The preparation that preprocessor_config.json describes; raises LoadError when it cannot be meant.

    Its own crop or size is what the model was made for; `image_size` counts where it names none.
    """
    values: Mapping[str, Any] = {}
    path = folder / _PREPROCESSOR
    if path.exists():
        content = as_object(read_json(contained_file(folder, _PREPROCESSOR)), what=str(path), kind="config")
        values = content
    size, crops = values.get("size"), values.get("do_center_crop", "crop_size" in values)
    shortest = size.get("shortest_edge") if isinstance(size, dict) else None
    shortest = size if isinstance(size, int) and crops else shortest
    if shortest is not None and not _is_side(shortest):
        raise _impossible(path, "size")
    own = _sides(values.get("crop_size"), path, "crop_size") if crops else None
    if own is None and shortest is None and values.get("do_resize", True):
        own = _sides(size, path, "size")
    height, width = own or image_size
    mean, deviation = (_colours(values, key, path) for key in ("image_mean", "image_std"))
    is_normalised = values.get("do_normalize", True)
    rescale = values.get("rescale_factor", 1 / 255) if values.get("do_rescale", True) else 1.0
    if isinstance(rescale, bool) or not isinstance(rescale, (int, float)):
        raise _impossible(path, "rescale_factor")
    return Preparation(
        height=height,
        width=width,
        shortest=shortest,
        mode=_MODES.get(values.get("resample", 2), "bilinear"),
        rescale=float(rescale),
        mean=mean if is_normalised else (0.0,) * 3,
        deviation=deviation if is_normalised else (1.0,) * 3,
    )


def read_picture(text: str) -> NDArray[np.uint8]:
    """The picture in the file that `text` names, uint8 [height, width, 3]; raises UserError."""
    name = text.strip().strip("\"'")
    path = Path(name).expanduser()
    try:
        is_there = bool(name) and path.exists()
    except (OSError, ValueError):
        is_there = False
    if not is_there:
        raise UserError(
            f"There is no picture {name[:200]!r}.", expected="the path of a picture", action=_ACTION
        )
    data = read_outside(path, expected="a picture", max_bytes=_MAX_BYTES, action=_ACTION)
    return decode_picture(data, str(path))


def decode_picture(data: bytes, what: str) -> NDArray[np.uint8]:
    """A file's bytes as RGB, uint8 [height, width, 3]; raises LoadError, naming `what`.

    Sizes are checked before anything is unpacked.
    """
    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with (
            warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning),
            Image.open(BytesIO(data), formats=_FORMATS) as picture,
        ):
            return _rgb(picture)
    except (OSError, ValueError, SyntaxError, EOFError, LookupError, struct.error, *bombs) as error:
        reason = " ".join(str(error).split())[:200]
        reason = "it is damaged or not a picture" if isinstance(error, PIL.UnidentifiedImageError) else reason
        raise LoadError(
            f"{what} cannot be read as a picture: {reason}.",
            kind="too-large" if isinstance(error, bombs) else "picture",
            expected=f"a {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]} file of at most {_MAX_PIXELS:,} pixels",
            action="Open it in another program and save it again.",
        ) from error


def _rgb(picture: ImageFile.ImageFile) -> NDArray[np.uint8]:
    if picture.width * picture.height > _MAX_PIXELS:
        raise Image.DecompressionBombError(f"it has {picture.width} × {picture.height} pixels")
    if picture.mode in ("I", "F"):
        raise ValueError("it has more than 16 bits per channel")
    palette = picture.palette if picture.format == "PNG" else None
    n_colours = len(palette.palette) // 3 if palette else None
    pixels = np.asarray(picture)
    if n_colours is not None and int(pixels.max()) >= n_colours:
        raise ValueError("a pixel has a colour that its palette lacks")
    if pixels.dtype == np.uint16:  # greys; Pillow would cut them off at 255
        return np.repeat((pixels[..., None] >> 8).astype(np.uint8), 3, axis=2)
    return np.asarray(picture.convert("RGB"), dtype=np.uint8)


def prepare(picture: NDArray[np.uint8], how: Preparation) -> Tensor:
    """Pixels of a picture: resized, cut out of the middle, rescaled, normalised; float32 [1, 3, H, W]."""
    pixels = torch.from_numpy(picture.copy()).permute(2, 0, 1)[None].float()  # [1, 3, height, width]
    if how.shortest is None:
        size = (how.height, how.width)
    else:
        height, width = pixels.shape[-2:]
        short = min(height, width)
        size = (height * how.shortest // short, width * how.shortest // short)  # as the library cuts it off
    if how.mode == "nearest":
        pixels = functional.interpolate(pixels, size=size, mode=how.mode)
    else:
        pixels = functional.interpolate(pixels, size=size, mode=how.mode, antialias=True, align_corners=False)
    pixels = pixels.clamp(0, 255).round()
    top, left = (size[0] - how.height) // 2, (size[1] - how.width) // 2
    if top or left:
        pixels = functional.pad(pixels, (-left, how.width - size[1] + left, -top, how.height - size[0] + top))
    mean, deviation = (torch.tensor(v)[None, :, None, None] for v in (how.mean, how.deviation))
    return (pixels * how.rescale - mean) / deviation


def seen_pixels(pixels: Tensor, how: Preparation) -> NDArray[np.uint8]:
    """The colours [height, width, 3] of what `prepare` gave: its last step taken back."""
    mean, deviation = (torch.tensor(v)[:, None, None] for v in (how.mean, how.deviation))
    colours = (pixels[0].cpu() * deviation + mean) / how.rescale  # [3, height, width]
    shown: NDArray[np.uint8] = colours.clamp(0, 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return shown


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


def _colours(values: Mapping[str, Any], key: str, path: Path) -> tuple[float, ...]:
    found = values.get(key, [0.5, 0.5, 0.5])
    found = [found] * 3 if isinstance(found, (int, float)) else found
    if not isinstance(found, list) or len(found) != 3 or not all(isinstance(n, (int, float)) for n in found):
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
        raise _impossible(path, key)
    return height, width


def _is_side(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SIDE


def _impossible(path: Path, key: str) -> LoadError:
    return LoadError(
        f"{path} cannot be used: {key} is not a usable size or colour.",
        kind="config",
        expected="numbers for three colours",
        action="Restore it from the model's origin.",
    )

"""Pictures, each identified by a text: drawn by the program, in a file of many, or in a file of its own.

    star x12 y20 r9      drawn (`shapes.py`)
    digits.npz#12        number 12, from 0, of the pictures of a file for numpy
    cat.png              a file of pixels

Those to learn from have a label each. Either a folder holds a folder for each label, with files of pixels of
one size, or a file for numpy has the arrays

    pictures    [n, height, width] or [n, height, width, 3], uint8
    labels      [n], words, or whole numbers from 0
    names       [n_labels], if numbers have names: words

Pillow is imported when a file of pixels is read, and not before.

Of a file for numpy (NPZ) nothing is ever run: pickles are refused, and sizes are looked at before anything is
unpacked.
"""

import io
import lzma
import math
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attnscope.counting import listed
from attnscope.errors import LoadError, UserError
from attnscope.outside import read_outside
from attnscope.shapes import drawn_picture, is_name
from attnscope.text.corpora import MAX_LABEL_CHARACTERS, MAX_LABELS, PointedText, is_label, pointed_words

if TYPE_CHECKING:
    from PIL import ImageFile

_MOST_BYTES = 1 << 30
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, OSError, EOFError, KeyError),
    *(NotImplementedError, RuntimeError),  # a way to pack that Python lacks; encrypted
)


def read_arrays(
    path: Path, needed: Sequence[str], also: Sequence[str] = (), *, kind: str, expected: str
) -> dict[str, NDArray[Any]]:
    """The arrays of these names, and those of `also` if present; raises LoadError of this `kind`."""
    data = read_outside(path, expected=expected, max_bytes=_MOST_BYTES)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            if unpacked > _MOST_BYTES:
                raise wrong_array(path, f"unpacks to {unpacked:,} bytes", f"at most {_MOST_BYTES:,}", kind)
            there = {*archive.namelist()}
            found = {name: _read(archive, name) for name in (*needed, *also) if f"{name}.npy" in there}
    except _DAMAGED as error:
        told = f"cannot be read as arrays: {str(error)[:160]}"
        raise wrong_array(path, told, expected, kind) from error
    for name in needed:
        if name not in found:
            raise wrong_array(path, f"has no array {name}", expected, kind)
    return found


def _read(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read one array; raises ValueError before allocating more numbers than the file has bytes for."""
    n_bytes = archive.getinfo(f"{name}.npy").file_size
    with archive.open(f"{name}.npy") as member:
        read_header = _HEADERS.get(npy.read_magic(member))
        if read_header is None:
            raise ValueError(f"{name} is of a version of the format that plain numbers and words do not need")
        shape, _, dtype = read_header(member)
        if math.prod(shape) * dtype.itemsize > n_bytes:
            raise ValueError(f"{name} is said to have the shape {list(shape)}, and has {n_bytes:,} bytes")
        member.seek(0)
        array: NDArray[Any] = npy.read_array(member, allow_pickle=False)
    return array


def shape_words(array: NDArray[Any]) -> str:
    """Shape and type of an array, for messages: shape [3, 2], float64."""
    return f"shape {list(array.shape)}, {array.dtype}"


def wrong_array(path: Path, what: str, expected: str, kind: str) -> LoadError:
    """Error for an invalid file of arrays."""
    return LoadError(
        f"{path} {what}.",
        kind=kind,
        expected=expected,
        action="Write it with numpy.savez, or choose another file.",
    )


# Sets of vectors from a file for numpy (NPZ), with one member of each that is meant.
#
# vectors     [n_vectors, n_numbers], finite numbers
# sets        [n_sets, n_members], whole numbers: rows of `vectors`
# odd         [n_sets], whole numbers: which member is meant
# names       [n_vectors], optional: a word for each vector, else v_0, v_1 and so on


_MOST_VECTORS, _MOST_NUMBERS, _MOST_MEMBERS = 100_000, 4_096, 1_000
_LARGEST = 1e18
"""So that squares of vectors, which scores and norms are made of, are numbers in float32."""
_ARRAYS_EXPECTED = "an NPZ file with the arrays vectors, sets and odd, and names if they have some"
_NAME = re.compile(r"\w{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSets:
    """Vectors [n_vectors, n_numbers] with their names, and sets of them as texts of names."""

    names: tuple[str, ...]
    vectors: NDArray[np.float64]
    sets: tuple[PointedText, ...]


def read_vectors(path: Path) -> VectorSets:
    """The sets of a file; raises LoadError naming the faulty array and what is expected."""
    needed = ("vectors", "sets", "odd")
    arrays = read_arrays(path, needed, ("names",), kind="vectors", expected=_ARRAYS_EXPECTED)
    vectors, sets, odd = (arrays[name] for name in needed)
    n = len(vectors) if vectors.ndim else 0
    is_table = vectors.ndim == 2 and vectors.dtype.kind in "fiu" and 2 <= n <= _MOST_VECTORS
    if not is_table or not 1 <= vectors.shape[1] <= _MOST_NUMBERS:
        told = f"numbers, [2 to {_MOST_VECTORS:,}, 1 to {_MOST_NUMBERS:,}]"
        raise _wrong(path, f"has vectors of {shape_words(vectors)}", told)
    if not (np.abs(vectors.astype(np.float64)) <= _LARGEST).all():
        told = f"finite numbers of at most {_LARGEST:g}"
        raise _wrong(path, "has vectors with NaN, infinite or too large numbers", told)
    is_sets = sets.ndim == 2 and sets.dtype.kind in "iu" and 2 <= sets.shape[1] <= _MOST_MEMBERS
    if not is_sets or len(sets) < 2 or sets.min() < 0 or sets.max() >= n:
        told = f"at least 2 sets of 2 to {_MOST_MEMBERS:,} whole numbers from 0 to {n - 1:,}"
        raise _wrong(path, f"has sets of {shape_words(sets)}", told)
    is_odd = odd.shape == (len(sets),) and odd.dtype.kind in "iu"
    if not is_odd or odd.min() < 0 or odd.max() >= sets.shape[1]:
        told = f"{len(sets):,} whole numbers from 0 to {sets.shape[1] - 1}, a member of each set"
        raise _wrong(path, f"has odd of {shape_words(odd)}", told)
    names = _names(arrays.get("names"), n, path)
    texts = (
        pointed_words([names[i] for i in row], (place,))
        for row, place in zip(sets.tolist(), odd.tolist(), strict=True)
    )
    return VectorSets(names=names, vectors=vectors.astype(np.float64), sets=tuple(texts))


def _names(given: NDArray[Any] | None, n: int, path: Path) -> tuple[str, ...]:
    if given is None:
        return tuple(f"v_{i}" for i in range(n))
    names = tuple(map(str, given.tolist())) if given.shape == (n,) and given.dtype.kind == "U" else ()
    if len({*names}) != n or not all(map(_NAME.fullmatch, names)):
        told = f"{n:,} different words of letters, digits and underscores, at most 40 long"
        raise _wrong(path, f"has names of {shape_words(given)}", told)
    return names


def _wrong(path: Path, what: str, expected: str) -> LoadError:
    return wrong_array(path, what, expected, "vectors")


Pixels = NDArray[np.uint8]
_MAX_BYTES = 200_000_000
_MAX_PIXELS = 50_000_000
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""What is tried on a file: pictures of pixels; none that starts another program, as EPS does."""
_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm")
_MOST_PICTURES, _MOST_SIDE = 1_000_000, 1_024
_MOST_TOGETHER = 1 << 30
_IN_FILE = re.compile(r"(?s)(.+\.npz)#(\d{1,9})")
_ACTION = "Type the path of a picture, for instance a PNG or JPEG file."
_EXPECTED = (
    "an NPZ file with the arrays pictures and labels, or a folder with a folder of pictures for each label"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPictures:
    """Pictures of one size, [n, height, width, n_channels] with 1 channel (grey) or 3, and their labels."""

    pixels: Pixels
    labels: tuple[str, ...]


def read_picture(text: str) -> Pixels:
    """The picture named by `text`, uint8 [height, width, 3]; raises UserError."""
    name = text.strip().strip("\"'")
    numbered = _IN_FILE.fullmatch(name)
    path = Path(numbered[1] if numbered else name).expanduser()
    try:
        is_there = bool(name) and path.exists()
    except (OSError, ValueError):
        is_there = False
    if not is_there and is_name(name):
        return _three_channels(_drawn(name))
    if not is_there:
        raise UserError(
            f"There is no picture {name[:200]!r}.", expected="the path of a picture", action=_ACTION
        )
    if numbered:
        return _three_channels(_numbered(path, int(numbered[2])))
    data = read_outside(path, expected="a picture", max_bytes=_MAX_BYTES, action=_ACTION)
    return decode_picture(data, str(path))


def _drawn(name: str) -> Pixels:
    try:
        return drawn_picture(name)
    except ValueError as error:
        raise UserError(
            f"{name[:80]!r} is no picture: it {error}.",
            expected="a name such as: star x12 y20 r9 t30 s7",
            action="Change that word.",
        ) from error


def _numbered(path: Path, number: int) -> Pixels:
    pictures = _checked(
        path, read_arrays(path, ("pictures",), kind="pictures", expected=_EXPECTED)["pictures"]
    )
    if number >= len(pictures):
        told = f"a number from 0 to {len(pictures) - 1:,}"
        raise wrong_array(
            path, f"has {len(pictures):,} pictures, and none of number {number:,}", told, "pictures"
        )
    return np.asarray(pictures[number])


def _three_channels(pixels: Pixels) -> Pixels:
    """[height, width] or [height, width, 1 or 3] as colours, [height, width, 3]."""
    return np.array(np.broadcast_to(pixels.reshape(*pixels.shape[:2], -1), (*pixels.shape[:2], 3)))


def fitted_pixels(pixels: Pixels, height: int, width: int, n_channels: int) -> Pixels:
    """Colours [any height, any width, 3] as [height, width, n_channels]: cropped to the middle, resized if
    needed.

    Greys are weighted as in ITU-R BT.601, 0.299 red + 0.587 green + 0.114 blue.
    """
    if pixels.shape[:2] != (height, width):
        from PIL import Image, ImageOps

        way = Image.Resampling.BILINEAR
        pixels = np.asarray(ImageOps.fit(Image.fromarray(pixels), (width, height), way), dtype=np.uint8)
    if n_channels == 3:
        return pixels
    grey = np.rint(pixels @ np.array([0.299, 0.587, 0.114]))
    return np.asarray(grey[..., None], dtype=np.uint8)


# Labelled pictures.


def read_labelled_pictures(path: Path) -> LabelledPictures:
    """The pictures of an NPZ file or a folder; raises LoadError with the fault and its place."""
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    names = {*found.labels}
    bad = next((name for name in names if not is_label(name)), None)
    if bad is not None:
        raise LoadError(
            f"{path} has the label {bad[:20]!r}.",
            kind="pictures",
            expected=f"words of 1 to {MAX_LABEL_CHARACTERS} letters",
            action="Give it another name.",
        )
    if not 2 <= len(names) <= MAX_LABELS:
        told = (
            f"only the label {found.labels[0]!r}" if len(names) == 1 else f"{len(names):,} different labels"
        )
        raise LoadError(
            f"{path} has {told}.",
            kind="pictures",
            expected=f"2 to {MAX_LABELS:,} labels",
            action="Check the labels, or choose other pictures.",
        )
    return found


def _of_file(path: Path) -> LabelledPictures:
    arrays = read_arrays(path, ("pictures", "labels"), ("names",), kind="pictures", expected=_EXPECTED)
    pictures, labels, names = _checked(path, arrays["pictures"]), arrays["labels"], arrays.get("names")
    n = len(pictures)
    if labels.shape != (n,):
        told = f"{n:,} labels, one for each picture"
        raise wrong_array(path, f"has labels of {shape_words(labels)}", told, "pictures")
    if labels.dtype.kind in "iu":
        words = _numbers_as_words(path, labels, names)
    elif labels.dtype.kind == "U":
        words = tuple(map(str, labels.tolist()))
    else:
        told = "whole numbers or words"
        raise wrong_array(path, f"has labels of {shape_words(labels)}", told, "pictures")
    return LabelledPictures(pixels=pictures.reshape(*pictures.shape[:3], -1), labels=words)


def _numbers_as_words(path: Path, labels: NDArray[Any], names: NDArray[Any] | None) -> tuple[str, ...]:
    n_names = len(names) if names is not None and names.ndim == 1 else 0
    if names is not None and (
        names.ndim != 1 or names.dtype.kind != "U" or len({*names.tolist()}) != n_names
    ):
        raise wrong_array(
            path, f"has names of {shape_words(names)}", "different words, [n_labels]", "pictures"
        )
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or (names is not None and most >= n_names):
        told = (
            f"from 0 to {n_names - 1}, since there are {n_names} names" if names is not None else "from 0 on"
        )
        raise wrong_array(path, f"has labels from {least} to {most}", told, "pictures")
    width = len(str(most))  # so that the order of words is that of numbers
    if names is None:
        return tuple(f"{i:0{width}}" for i in labels.tolist())
    known = names.tolist()
    return tuple(known[i] for i in labels.tolist())


def _checked(path: Path, pictures: NDArray[Any]) -> Pixels:
    is_right = pictures.ndim == 3 or (pictures.ndim == 4 and pictures.shape[3] in (1, 3))
    is_right = is_right and pictures.dtype == np.uint8 and 2 <= len(pictures) <= _MOST_PICTURES
    if not is_right or not all(1 <= side <= _MOST_SIDE for side in pictures.shape[1:3]):
        told = f"uint8, [n, height, width] or [n, height, width, 3], sides of at most {_MOST_SIDE:,}"
        raise wrong_array(path, f"has pictures of {shape_words(pictures)}", told, "pictures")
    return pictures


def _of_folder(path: Path) -> LabelledPictures:
    folders = sorted(inner for inner in path.iterdir() if inner.is_dir() and not inner.name.startswith("."))
    files = [(file, folder.name) for folder in folders for file in _files_in(folder)]
    if not 2 <= len(files) <= _MOST_PICTURES:
        raise LoadError(
            f"{path} has {len(files):,} pictures in {len(folders):,} folders.",
            kind="pictures",
            expected=f"{_EXPECTED}, at least 2 pictures",
            action="Put each picture into a folder named after its label.",
        )
    rows: list[Pixels] = []
    for file, _ in files:
        read = decode_picture(read_outside(file, expected="a picture", max_bytes=_MAX_BYTES), str(file))
        first = rows[0].shape[:2] if rows else read.shape[:2]
        if read.shape[:2] != first or max(first) > _MOST_SIDE:
            told = f"{first[0]} × {first[1]} px as {files[0][0].name}, at most {_MOST_SIDE:,} a side"
            raise _wrong_size(file, f"has {read.shape[0]} × {read.shape[1]} px (height × width)", told)
        if len(files) * read.nbytes > _MOST_TOGETHER:
            raise _wrong_size(
                path, f"has {len(files) * read.nbytes:,} bytes of pixels", f"{_MOST_TOGETHER:,}"
            )
        rows.append(read)
    pixels = np.stack(rows)
    is_grey = bool((pixels == pixels[..., :1]).all())
    return LabelledPictures(
        pixels=pixels[..., :1] if is_grey else pixels, labels=tuple(label for _, label in files)
    )


def _files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in _ENDINGS)


def _wrong_size(path: Path, what: str, expected: str) -> LoadError:
    return LoadError(
        f"{path} {what}.",
        kind="pictures",
        expected=expected,
        action="Bring all pictures to one size.",
    )


# A file of pixels.


def decode_picture(data: bytes, what: str) -> Pixels:
    """A file's bytes as RGB, uint8 [height, width, 3]; raises LoadError, naming `what`.

    Sizes are checked before anything is unpacked.
    """
    import PIL
    from PIL import Image

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
            expected=f"a {listed(_FORMATS, 'or')} file of at most {_MAX_PIXELS:,} pixels",
            action="Open it in another program and save it again.",
        ) from error


def _rgb(picture: "ImageFile.ImageFile") -> Pixels:
    from PIL import Image

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

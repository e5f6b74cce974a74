"""Arrays from a file for numpy (NPZ), for all kinds of data that are kept in one.

Nothing in the file is ever run: pickles are refused, and sizes are looked at before anything is unpacked.
"""

import io
import lzma
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from attnscope.errors import LoadError
from attnscope.outside import read_outside

_MOST_BYTES = 1 << 30
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, ValueError, OSError, EOFError, KeyError),
    *(NotImplementedError, RuntimeError),  # a way to pack that Python lacks; encrypted
)


def read_arrays(
    path: Path, needed: Sequence[str], also: Sequence[str] = (), *, kind: str, expected: str
) -> dict[str, NDArray[Any]]:
    """The arrays of these names, those of `also` where they are there; raises LoadError of this `kind`."""
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
    """One array; raises ValueError before room is made for more numbers than the file has bytes for."""
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
    """What an array is, for messages: shape [3, 2], float64."""
    return f"shape {list(array.shape)}, {array.dtype}"


def wrong_array(path: Path, what: str, expected: str, kind: str) -> LoadError:
    """What is wrong with a file of arrays, to be raised."""
    return LoadError(
        f"{path} {what}.",
        kind=kind,
        expected=expected,
        action="Write it with numpy.savez, or choose another file.",
    )

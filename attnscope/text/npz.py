"""Arrays from a file for numpy (NPZ), for all kinds of data that are kept in one.

Nothing in the file is ever run: pickles are refused, and sizes are looked at before anything is unpacked.
"""

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import LoadError
from attnscope.outside import read_outside

_MOST_BYTES = 1 << 30


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
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            take: Callable[[str], NDArray[Any]] = archive.__getitem__
            found = {name: take(name) for name in (*needed, *also) if name in archive.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, KeyError, NotImplementedError) as error:
        told = f"cannot be read as arrays: {str(error)[:80]}"
        raise wrong_array(path, told, expected, kind) from error
    for name in needed:
        if name not in found:
            raise wrong_array(path, f"has no array {name}", expected, kind)
    return found


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

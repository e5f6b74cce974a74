"""Arrays from a file for numpy (NPZ), for all kinds of data that are kept in one.

Nothing in the file is ever run: pickles are refused, and sizes are looked at before anything is unpacked.
"""

import io
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attnscope.errors import LoadError
from attnscope.outside import read_outside
from attnscope.text.labelled import PointedText, pointed_words

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


# Sets of vectors from a file for numpy (NPZ), with one member of each that is meant.
#
# vectors     [n_vectors, n_numbers], finite numbers
# sets        [n_sets, n_members], whole numbers: rows of `vectors`
# odd         [n_sets], whole numbers: which member is meant
# names       [n_vectors], optional: a word for each vector, else v_0, v_1 and so on


_MOST_VECTORS, _MOST_NUMBERS, _MOST_MEMBERS = 100_000, 4_096, 1_000
_LARGEST = 1e18
"""So that squares of vectors, which scores and norms are made of, are numbers in float32."""
_EXPECTED = "an NPZ file with the arrays vectors, sets and odd, and names if they have some"
_NAME = re.compile(r"\w{1,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSets:
    """Vectors [n_vectors, n_numbers] with their names, and sets of them as texts of names."""

    names: tuple[str, ...]
    vectors: NDArray[np.float64]
    sets: tuple[PointedText, ...]


def read_vectors(path: Path) -> VectorSets:
    """The sets of a file; raises LoadError that says which array is wrong, and how it should be."""
    needed = ("vectors", "sets", "odd")
    arrays = read_arrays(path, needed, ("names",), kind="vectors", expected=_EXPECTED)
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

"""Reads safetensors files after checking their header, and writes them.

The header is checked here before anything is allocated: sizes against the file, caps, duplicate
names, overlaps and holes. Each tensor is read into memory of its own, once: a file that changes later
changes nothing, and one that is cut short while it is read is told of (a mapped one would end the process).
Format: https://huggingface.co/docs/safetensors (8 bytes length, JSON header, data without holes).

Telling what a file is from its first bytes, without opening it as anything.

Pickles can run code when they are opened, so they are named and refused, never read.
"""

import hashlib
import math
import pickletools
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO

import torch
from safetensors.torch import save
from torch import Tensor

from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.nn import stop_if_unwanted
from attnscope.outside import as_object, open_outside, parse_object, regular_size, unreadable

_N_BYTES = 512
SAFE = "weights in the safetensors format"
_PICKLE_SUFFIXES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}
_MAX_BYTES = 4_000_000
_HARMLESS = ("torch", "collections", "numpy")
_MAX_OPCODES = 200_000


def refuse_foreign(path: Path) -> None:
    """Raise LoadError if `path` is recognisably not a safetensors file, or unreadable."""
    with open_outside(path, expected=SAFE) as stream:
        start = stream.read(_N_BYTES)
    if not start:
        raise LoadError(
            f"{path} is an empty file.",
            kind="truncated",
            expected=SAFE,
            action="Download or copy the file again.",
        )
    if start.startswith(b"version https://git-lfs"):
        raise LoadError(
            f"{path} is a Git LFS pointer, not the weights themselves.",
            kind="lfs-pointer",
            expected=SAFE,
            action="Run `git lfs pull` in its repository and open it again.",
        )
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise LoadError(
            f"{path} is a web page, not weights.",
            kind="web-page",
            expected=SAFE,
            action="Download the file itself rather than the page that shows it.",
        )
    if start.startswith(b"PK\x03\x04"):
        raise _archive_error(path)
    if _is_pickle(start) or path.suffix.lower() in _PICKLE_SUFFIXES:
        raise _pickle_error(path, start)


def _is_pickle(start: bytes) -> bool:
    return len(start) > 2 and start[0] == 0x80 and 2 <= start[1] <= 5 and start[2:8] != b"\0" * 6


def _archive_error(path: Path) -> LoadError:
    names: list[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()[:10_000]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        pass
    if names and all(name.endswith(".npy") for name in names):
        return LoadError(
            f"{path} holds arrays of numbers for other programs (NPZ), neither a model nor a trace.",
            kind="arrays",
            expected="a model, or a trace saved as .safetensors",
            action="Save the trace with a name that ends in .safetensors to open it again; numpy.load reads "
            "this file, and attnscope.from_arrays takes weights from it.",
        )
    if any("/code/" in name or name.endswith("constants.pkl") for name in names):
        return LoadError(
            f"{path} is a TorchScript program, not a checkpoint.",
            kind="torchscript",
            expected=SAFE,
            action="Save the model's state_dict with safetensors instead.",
        )
    if names and not any(name.endswith(".pkl") for name in names):
        return LoadError(
            f"{path} is a ZIP archive.",
            kind="archive",
            expected=SAFE,
            action="Unpack it, and open the folder that holds config.json and the weights.",
        )
    return _pickle_error(path, b"PK")


def _pickle_error(path: Path, start: bytes) -> LoadError:
    is_torch = start.startswith(b"PK") or _is_pickle(start)
    what = (
        "a PyTorch pickle, which can run code when opened" if is_torch else "not a PyTorch checkpoint at all"
    )
    if names := _foreign_names(path) if is_torch else ():
        what = f"a pickle that contains code ({', '.join(names)})"
    return LoadError(
        f"{path} is {what}; it was not opened.",
        kind="pickle" if is_torch else "not-weights",
        expected=SAFE,
        action="Where you trust its origin, convert it in Python: "
        "safetensors.torch.save_file(torch.load(path, weights_only=True), 'model.safetensors'). "
        "It opens in its model's folder only, beside config.json and the tokenizer.",
    )


def _foreign_names(path: Path) -> tuple[str, ...]:
    """Classes and functions outside torch and numpy that the pickle in `path` refers to, at most five."""
    found: dict[str, None] = {}
    strings: list[str] = []
    try:
        for n, (opcode, argument, _) in enumerate(pickletools.genops(_pickle_bytes(path))):
            if isinstance(argument, str) and opcode.name != "GLOBAL":
                strings = [*strings[-1:], argument]
            name = _imported(opcode.name, argument, strings)
            if name and not name.startswith(_HARMLESS):
                found[name[:80]] = None
            if n >= _MAX_OPCODES or len(found) >= 5:
                break
    except (
        ValueError,
        OSError,
        IndexError,
        KeyError,
        zipfile.BadZipFile,
        NotImplementedError,
        OverflowError,
    ):
        pass  # damaged: the names found so far are still worth telling
    return tuple(found)


def _imported(opcode: str, argument: object, strings: list[str]) -> str:
    if opcode == "GLOBAL":
        return str(argument).replace(" ", ".")
    if opcode == "STACK_GLOBAL" and len(strings) == 2:
        return ".".join(strings)
    return ""


def _pickle_bytes(path: Path) -> bytes:
    if not zipfile.is_zipfile(path):
        with open_outside(path, expected="a checkpoint") as stream:
            return stream.read(_MAX_BYTES)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist()[:10_000]:
            if member.filename.endswith("data.pkl") and member.file_size <= _MAX_BYTES:
                return archive.read(member)
    return b""


MAX_HEADER_BYTES = 10_000_000
MAX_TENSORS = 20_000
MAX_AXES = 8
_LENGTH_BYTES = 8
_ADVICE = "Download or copy the file again; nothing was opened."
_DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}
MIN_DIGESTED_BYTES = 2**26
"""Less is not worth a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """The location of one tensor in the data; `begin` and `end` are byte offsets after the header."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFile:
    """The tensors of one file, by name, and its text metadata."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    sha256: Callable[[], str] = str
    """Of all the bytes that were read; worked out on another thread meanwhile. Empty where none were."""


def read_tensors(path: Path) -> TensorFile:
    """Read a safetensors file into memory; raises LoadError for anything else."""
    n_bytes = require_regular_file(path)
    refuse_foreign(path)
    try:
        with open_outside(path, expected=SAFE) as stream:
            header, start, raw = _header_of(stream, path)
            metadata = _text_metadata(header.pop("__metadata__", {}), path)
            entries = sorted(_checked_entries(header, n_bytes - start, path), key=lambda e: e.begin)
            tensors = {}
            with (_ThreadedDigest if n_bytes >= MIN_DIGESTED_BYTES else _Digest)(raw) as digest:
                for entry in entries:
                    stop_if_unwanted()
                    tensors[entry.name], data = _own_memory(entry)
                    n_read = stream.readinto(data)
                    if n_read != len(data):
                        raise _truncated(path, start + entry.begin + n_read, n_bytes)
                    digest.update(data)
    except OSError as error:
        raise unreadable(path, error, expected=SAFE) from error
    return TensorFile(tensors=tensors, metadata=metadata, sha256=digest.hexdigest)


def read_shapes(path: Path) -> TensorFile:
    """As `read_tensors`, but only the header and scalars are read; other tensors stay unfilled.

    Memory that nobody writes to is not taken from the system, so that files of any size cost little.
    """
    n_bytes = require_regular_file(path)
    refuse_foreign(path)
    try:
        with open_outside(path, expected=SAFE) as stream:
            return _shapes_of(stream, n_bytes, path)
    except OSError as error:
        raise unreadable(path, error, expected=SAFE) from error


def _shapes_of(stream: BinaryIO, n_bytes: int, path: Path) -> TensorFile:
    header, start, _ = _header_of(stream, path)
    metadata = _text_metadata(header.pop("__metadata__", {}), path)
    tensors = {}
    for entry in _checked_entries(header, n_bytes - start, path):
        tensors[entry.name] = torch.empty(entry.shape, dtype=entry.dtype)
        if not entry.shape:
            stream.seek(start + entry.begin)
            data = bytearray(stream.read(entry.end - entry.begin))
            tensors[entry.name] = torch.frombuffer(data, dtype=entry.dtype)[0]
    return TensorFile(tensors=tensors, metadata=metadata)


def _header_of(stream: BinaryIO, path: Path) -> tuple[dict[str, object], int, bytes]:
    """The header, the offset of the data, and all bytes before it."""
    length = stream.read(_LENGTH_BYTES)
    n_read = min(int.from_bytes(length, "little"), MAX_HEADER_BYTES)
    raw = length + stream.read(n_read)
    header, start = _read_header(raw, path)
    return header, start, raw


def _own_memory(entry: TensorEntry) -> tuple[Tensor, memoryview]:
    """An unfilled tensor, and its bytes."""
    tensor = torch.empty(entry.shape, dtype=entry.dtype)
    data: memoryview = tensor.reshape(-1).view(torch.uint8).numpy().data
    return tensor, data


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors to `path` in one step; on any error raises SaveError and leaves the old file."""
    compact: dict[str, Tensor] = {}
    written: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        # The format refuses tensors that share memory, as the rules of several layers do.
        compact[name] = own.clone() if own.data_ptr() in written else own
        written.add(own.data_ptr())
    replace_file(path, save(compact, metadata=dict(metadata)))


def require_regular_file(path: Path) -> int:
    """The size of a regular file in bytes; raises LoadError for folders, pipes, devices and missing files."""
    return regular_size(path, action="Choose the file itself.")


def _read_header(data: bytes, path: Path) -> tuple[dict[str, object], int]:
    if len(data) < _LENGTH_BYTES:
        raise _truncated(path, len(data), _LENGTH_BYTES)
    n_header = int.from_bytes(data[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + n_header
    if n_header > MAX_HEADER_BYTES:
        raise LoadError(
            f"{path} claims a header of {n_header} bytes.",
            kind="header-too-large",
            expected=f"at most {MAX_HEADER_BYTES}",
            action="It is damaged or not a safetensors file. " + _ADVICE,
        )
    if start > len(data):
        raise _truncated(path, len(data), start)
    text = bytes(data[_LENGTH_BYTES:start])
    if not text.startswith(b"{"):
        raise _damaged(path, "its header does not begin with an object", kind="header")
    return parse_object(text.rstrip(b" "), what=f"The header of {path}", kind="header"), start


def _text_metadata(value: object, path: Path) -> dict[str, str]:
    pairs = as_object(value, what=f"The metadata of {path}", kind="header")
    if not all(isinstance(text, str) for text in pairs.values()):
        raise _damaged(path, "its metadata holds something other than text", kind="header")
    return {key: str(text) for key, text in pairs.items()}


def _checked_entries(header: dict[str, object], n_data: int, path: Path) -> list[TensorEntry]:
    if len(header) > MAX_TENSORS:
        raise LoadError(
            f"{path} names {len(header)} tensors.",
            kind="too-many-tensors",
            expected=f"at most {MAX_TENSORS}",
            action=_ADVICE,
        )
    entries = [_entry(name, value, path) for name, value in header.items()]
    position = 0
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != position:
            word = "overlaps another" if entry.begin < position else "leaves a hole before it"
            raise _damaged(path, f"the tensor {entry.name[:80]!r} {word}")
        position = entry.end
    if position > n_data:
        missing = position - n_data
        raise LoadError(
            f"{path} is cut short: {missing} of its {position} bytes of data are missing.",
            kind="truncated",
            expected=f"{position} bytes of data, found {n_data}",
            action=_ADVICE,
        )
    if position < n_data:
        raise _damaged(path, f"{n_data - position} bytes follow its last tensor")
    return entries


def _entry(name: str, value: object, path: Path) -> TensorEntry:
    fields = value if isinstance(value, dict) else {}
    if set(fields) != {"dtype", "shape", "data_offsets"}:
        raise _damaged(path, f"the entry {name[:80]!r} is not dtype, shape and data_offsets", kind="header")
    shape, offsets = _sizes(fields["shape"]), _sizes(fields["data_offsets"])
    if shape is None or offsets is None or len(shape) > MAX_AXES or len(offsets) != 2:
        raise _damaged(path, f"the tensor {name[:80]!r} has an impossible shape or position")
    dtype = _DTYPES.get(str(fields["dtype"]))
    if dtype is None:
        raise LoadError(
            f"The tensor {name[:80]!r} in {path} has the type {str(fields['dtype'])[:20]!r}.",
            kind="dtype",
            expected=", ".join(_DTYPES),
            action="Save the model again in float32.",
        )
    begin, end = offsets
    n_bytes = math.prod(shape) * dtype.itemsize
    if end - begin != n_bytes:
        raise _damaged(path, f"the tensor {name[:80]!r} has {end - begin} bytes for a shape of {n_bytes}")
    return TensorEntry(name=name, dtype=dtype, shape=shape, begin=begin, end=end)


def _sizes(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    if any(isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < 2**63 for n in value):
        return None
    return tuple(value)


def _truncated(path: Path, n_found: int, n_expected: int) -> LoadError:
    return LoadError(
        f"{path} is cut short: it has {n_found} of at least {n_expected} bytes.",
        kind="truncated",
        expected=f"{n_expected} bytes or more",
        action=_ADVICE,
    )


def _damaged(path: Path, reason: str, *, kind: str = "damaged") -> LoadError:
    return LoadError(
        f"{path} is damaged or not a safetensors file: {reason}.",
        kind=kind,
        expected="a safetensors file",
        action=_ADVICE,
    )


class _Digest:
    """The SHA-256 of bytes added in pieces, which must not change until it is requested.

    No more can be given after the block.
    """

    def __init__(self, first: bytes) -> None:
        self._sha256 = hashlib.sha256(first)

    def update(self, data: memoryview) -> None:
        """Add some more bytes."""
        self._sha256.update(data)

    def __enter__(self) -> "_Digest":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def hexdigest(self) -> str:
        """The result in hexadecimal."""
        return self._sha256.hexdigest()


class _ThreadedDigest(_Digest):
    """The same on a separate thread, while the next bytes are read or written."""

    def __init__(self, first: bytes) -> None:
        super().__init__(first)
        self._waiting: SimpleQueue[memoryview | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="digest", daemon=True)
        self._thread.start()

    def update(self, data: memoryview) -> None:
        self._waiting.put(data)

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)

    def hexdigest(self) -> str:
        """Wait for the thread, and give the result."""
        self._thread.join()
        return super().hexdigest()

    def _work(self) -> None:
        while (data := self._waiting.get()) is not None:
            self._sha256.update(data)

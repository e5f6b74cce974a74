"""The weights of a foreign model folder: one safetensors file or several shards, copied into memory.

Only safetensors is read. A pickle is named and refused; so is a shard outside the folder.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import LoadError
from attnscope.models.huggingface.cache import contained_file
from attnscope.models.machine import available_bytes
from attnscope.nn.long_work import stoppable
from attnscope.strict_json import as_object, read_json
from attnscope.trace.tensor_file import read_tensors, refuse_foreign, require_regular_file

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.ckpt")
_OTHERS = ("*.h5", "*.msgpack", "*.gguf", "*.onnx")
_SHARD = re.compile(r"-(\d{1,6})-of-(\d{1,6})")
_MAX_SHARDS = 1_000
_INDEX_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Every tensor by name, and what waits for the SHA-256 of the file (of several: of theirs in order)."""

    tensors: Mapping[str, Tensor]
    sha256: Callable[[], str]
    n_bytes: int


def weight_paths(folder: Path) -> list[Path]:
    """The files that hold the weights, in order; raises LoadError naming what is missing or not safe."""
    single, index = folder / WEIGHTS, folder / INDEX
    if single.exists() or single.is_symlink():
        paths = [contained_file(folder, WEIGHTS)]
    elif index.exists() or index.is_symlink():
        paths = [contained_file(folder, name) for name in _shard_names(_read_index(folder), index)]
    else:
        raise _no_weights(folder)
    for number, path in enumerate(paths, start=1):
        if not path.exists():
            raise LoadError(
                f"Shard {number} of {len(paths)} is missing: {path.name}.",
                kind="missing",
                expected=f"all {len(paths)} files that {INDEX} names",
                action="Download the missing file into the folder.",
            )
        require_regular_file(path)
    return paths


def read_weights(folder: Path, paths: list[Path]) -> Weights:
    """Copy the weights into memory; raises LoadError."""
    n_bytes = sum(require_regular_file(path) for path in paths)
    if n_bytes > available_bytes():
        raise LoadError(
            f"The weights in {folder} take {n_bytes / 1e9:.1f} GB.",
            kind="too-large",
            expected=f"at most the {available_bytes() / 1e9:.1f} GB of free memory",
            action="Close other programs, or open a smaller model.",
        )
    tensors: dict[str, Tensor] = {}
    digests = []
    for path in paths:
        file = read_tensors(path)
        digests.append(file.sha256)
        for name, tensor in file.tensors.items():
            if name in tensors:
                raise _damaged(folder, f"two of its files hold the tensor {name[:80]!r}")
            tensors[name] = tensor
    if len(paths) > 1 or paths[0].name != WEIGHTS:
        _check_index(folder, tensors)
    return Weights(tensors=tensors, sha256=lambda: _joint([digest() for digest in digests]), n_bytes=n_bytes)


@contextmanager
def reading_weights(folder: Path, paths: list[Path]) -> Iterator[Callable[[], Weights]]:
    """Copy the weights into memory on a thread of its own, while the block does what needs none of them.

    The block gets them, or their LoadError, where it asks. If it ends before, the reading is given up.
    """
    is_over = threading.Event()

    def read() -> Weights:
        with stoppable(is_over.is_set):
            return read_weights(folder, paths)

    with ThreadPoolExecutor(1, "weights") as thread:
        try:
            yield thread.submit(read).result
        finally:
            is_over.set()


def _read_index(folder: Path) -> dict[str, str]:
    path = contained_file(folder, INDEX)
    content = as_object(read_json(path, max_bytes=_INDEX_BYTES), what=str(path))
    names = as_object(content.get("weight_map"), what=f"{path}, weight_map")
    if not names or not all(isinstance(name, str) for name in names.values()):
        raise _damaged(folder, f"{INDEX} names no files")
    return {tensor: str(name) for tensor, name in names.items()}


def _shard_names(index: Mapping[str, str], path: Path) -> list[str]:
    """The files of an index in order, with those that only their numbering gives away."""
    names = sorted(set(index.values()))
    if len(names) > _MAX_SHARDS:
        raise _damaged(path.parent, f"{INDEX} names {len(names)} files")
    counts = {int(match[2]) for name in names if (match := _SHARD.search(name))}
    if len(counts) == 1 and (n := counts.pop()) > len(names) and n <= _MAX_SHARDS:
        first = next(name for name in names if _SHARD.search(name))
        width = len(_SHARD.search(first)[1])  # type: ignore[index]
        names = sorted({*names, *(_SHARD.sub(_numbered(i, n, width), first) for i in range(1, n + 1))})
    return names


def _numbered(number: int, count: int, width: int) -> str:
    return f"-{number:0{width}}-of-{count:0{width}}"


def _check_index(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    absent = [name for name in _read_index(folder) if name not in tensors]
    if absent:
        raise LoadError(
            f"{INDEX} in {folder} names {plural(len(absent), 'tensor')} that its files do not hold, "
            f"for instance {absent[0][:80]!r}.",
            kind="keys",
            expected="every tensor of the index in one of the files",
            action="Download the model again.",
        )


def _joint(digests: list[str]) -> str:
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _no_weights(folder: Path) -> LoadError:
    for pattern in _PICKLES:
        for path in sorted(folder.glob(pattern)):
            require_regular_file(path)
            refuse_foreign(path)
    others = [path.name for pattern in _OTHERS for path in sorted(folder.glob(pattern))]
    found = f"; {', '.join(others[:3])[:120]} cannot be read here" if others else ""
    return LoadError(
        f"{folder} has no {WEIGHTS}{found}.",
        kind="missing",
        expected=f"{WEIGHTS}, or {INDEX} with its shards",
        action="Save the model with save_pretrained, which writes safetensors.",
    )


def _damaged(folder: Path, reason: str) -> LoadError:
    return LoadError(
        f"The weights in {folder} are damaged: {reason}.",
        kind="damaged",
        expected="safetensors files with different tensors",
        action="Download the model again; nothing was opened.",
    )

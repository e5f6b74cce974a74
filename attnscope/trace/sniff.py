"""Telling what a file is from its first bytes, without opening it as anything.

Pickles can run code when they are opened, so they are named and refused, never read.
"""

import pickletools
import zipfile
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.outside import open_outside

_N_BYTES = 512
SAFE = "weights in the safetensors format"
_PICKLE_SUFFIXES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}
_MAX_BYTES = 4_000_000
_HARMLESS = ("torch", "collections", "numpy")
_MAX_OPCODES = 200_000


def refuse_foreign(path: Path) -> None:
    """Raise LoadError when `path` is recognisably something else than a safetensors file, or unreadable."""
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
    """Classes and functions outside torch and numpy that the pickle in `path` asks for, at most five."""
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

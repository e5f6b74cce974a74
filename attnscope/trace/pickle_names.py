"""Naming what a pickle would import, without opening it: its opcodes are read, never run."""

import pickletools
import zipfile
from pathlib import Path

from attnscope.outside import open_outside

_MAX_BYTES = 4_000_000
_HARMLESS = ("torch", "collections", "numpy")
_MAX_OPCODES = 200_000


def foreign_names(path: Path) -> tuple[str, ...]:
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

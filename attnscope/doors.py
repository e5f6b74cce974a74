"""Doors of packages: the names that a package offers, from any of its files, imported on first use."""

import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis import Instruction


def door_of(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the package that calls this.

    It offers what it imports under `TYPE_CHECKING`, as type checkers read it: names of a file, or with a star
    all that a file makes. A name costs nothing of the other files.
    """
    code = sys._getframe(1).f_code

    def find(wanted: str) -> object:
        home = next((home for home, names in _imports(code) if wanted in names), None)
        if home is None and not wanted.startswith("_") and find_spec(f"{package}.{wanted}") is None:
            whole = (home for home, names in _imports(code) if names == ("*",))
            home = next((home for home in whole if wanted in _made_in(home)), None)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {wanted!r}")
        found: object = getattr(import_module(home), wanted)
        setattr(sys.modules[package], wanted, found)
        return found

    def offered() -> list[str]:
        given = [_made_in(home) if names == ("*",) else names for home, names in _imports(code)]
        return sorted({*vars(sys.modules[package]), *(name for names in given for name in names)})

    return find, offered


@cache
def _imports(code: CodeType) -> list[tuple[str, tuple[str, ...]]]:
    """The modules of the program that a module imports from, with the names."""
    return [
        (step.argval, before.argval)
        for before, step in _steps(code)
        if step.opname == "IMPORT_NAME" and step.argval.startswith("attnscope.")
    ]


@cache
def _made_in(module: str) -> tuple[str, ...]:
    """The public names that a module makes itself; it is not imported."""
    spec = find_spec(module)
    code = spec.loader.get_code(module)  # type: ignore[union-attr]  # compiled: a bundle has no source
    return tuple(
        step.argval
        for before, step in _steps(code)
        if step.opname == "STORE_NAME" and before.opname not in ("IMPORT_NAME", "IMPORT_FROM")
        if not step.argval.startswith("_")
    )


def _steps(code: CodeType) -> Iterable[tuple["Instruction", "Instruction"]]:
    """Pairs of each instruction and the one before it."""
    from dis import get_instructions  # `import attnscope` alone does without

    return pairwise(get_instructions(code))

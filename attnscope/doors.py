"""Doors of packages: names that are imported when they are first used: one costs nothing of the others."""

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def door_of(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package: each name of `homes` is that of the module it says, below the package.

    Type checkers read the same names from imports under `TYPE_CHECKING`.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(modules[package], name, found)
        return found

    return find

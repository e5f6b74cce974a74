"""Registries with a file for each entry: kinds of tokenizers, scores, norms, optimisers, measures of heads.

An entry says what it is called and how it is made or computed. Nothing here imports a heavy library before it
is needed, so that the window reads the same lists.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import ClassVar, TypeVar


class Scheme:
    """One scheme: `name` in files, `title` on the screen, `order` among the others."""

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    order: ClassVar[int] = 0


SchemeT = TypeVar("SchemeT", bound=Scheme)
KindT = TypeVar("KindT")


def module_names(package: str) -> tuple[str, ...]:
    """The modules of a package, in alphabetical order; neither it nor they are imported."""
    found = find_spec(package)
    folders = found.submodule_search_locations if found is not None else None
    return tuple(sorted(module.name for module in iter_modules(folders or [])))


def classes_of(package: str, base: type[KindT]) -> list[type[KindT]]:
    """The classes below `base` in every module of a package, each once; modules in alphabetical order."""
    modules = [import_module(f"{package}.{name}") for name in module_names(package)]
    kinds = dict.fromkeys(one for module in modules for one in vars(module).values() if isinstance(one, type))
    return [kind for kind in kinds if issubclass(kind, base)]


def schemes_of(package: str, base: type[SchemeT]) -> dict[str, SchemeT]:
    """One object of each class below `base` that has a name, from every module of a package, in order.

    Raises ValueError when two have the same name.
    """
    found: dict[str, SchemeT] = {}
    for kind in sorted(classes_of(package, base), key=lambda kind: kind.order):
        if kind.name in found:
            raise ValueError(f"{package} has two schemes called {kind.name!r}")
        if kind.name:
            found[kind.name] = kind()
    return found

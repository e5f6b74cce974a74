"""Making records quickly while the window is imported.

`dataclasses` of Python 3.11 and 3.12 writes six functions of a frozen class as source and compiles each by
itself. For the window's five hundred records that is half of the time until they are imported. Only
`__init__` needs it: the others say the same of every class, but for the names of its fields. Python 3.13
compiles the functions of a class together: drop this when no older one is supported.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any


@contextmanager
def quick_records() -> Iterator[None]:
    """Have classes that are decorated meanwhile take shared functions; they behave as without it."""
    known = vars(dataclasses)
    quicker = _QUICKER if sys.version_info < (3, 13) and known.keys() >= _QUICKER.keys() else {}
    before = {name: known[name] for name in quicker}
    known.update(quicker)
    try:
        yield
    finally:
        known.update(before)


def _values_of(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """What gives these fields of an object, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _frozen(kind: Any, fields: Sequence["dataclasses.Field[Any]"], _: object) -> tuple[object, object]:
    names = frozenset(field.name for field in fields)

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is kind or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    return __setattr__, __delattr__


def _compared(name: str, sign: str, own: str, other: str, globals: Mapping[str, object]) -> object:
    if name != "__eq__":
        return _SLOW(name, sign, own, other, globals=globals)
    values = _values_of(re.findall(r"self\.(\w+)", own))

    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(fields: Sequence["dataclasses.Field[Any]"], _: object) -> object:
    values = _values_of([field.name for field in fields])

    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _repr(fields: Sequence["dataclasses.Field[Any]"], _: object) -> object:
    names = [field.name for field in fields]

    def __repr__(self: object) -> str:
        said = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({said})"

    return vars(dataclasses)["_recursive_repr"](__repr__)


_SLOW: Any = vars(dataclasses).get("_cmp_fn")
_QUICKER = {"_frozen_get_del_attr": _frozen, "_cmp_fn": _compared, "_hash_fn": _hash, "_repr_fn": _repr}
"""By the names under which `dataclasses` asks for them."""

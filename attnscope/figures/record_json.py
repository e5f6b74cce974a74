"""Frozen records as JSON and back, led by their annotations: what a file says is never a name to look up.

Arrays are their bytes, little-endian, packed by zlib and written as base64. Numbers that JSON does not know
are texts. What is empty is left out of a file; a field that is left out has its default.
"""

import base64
import dataclasses
import functools
import math
import types
import typing
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnscope.records.interventions import Interventions, interventions_as_json, interventions_from_json
from attnscope.records.sites import Gates

MAX_ARRAY_BYTES = 256_000_000
"""Of all arrays of a file together: a short file may unpack to much more than itself."""
MAX_ITEMS = 1_000_000
MAX_NUMBER, MAX_WHOLE = 1e30, 2**40
"""Larger ones overflow where they are drawn, and mean nothing in a figure."""
_MAX_TEXT = 4_000_000
_KIND = "view"
"""The class variable that tells kinds of a record apart, and stands with its fields in a file."""
_ODD_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_Record = TypeVar("_Record")


def record_as_json(record: object) -> dict[str, object]:
    """A frozen record as JSON can hold it; raises TypeError for what no annotation here knows."""
    name = getattr(type(record), _KIND, None)
    found: dict[str, object] = {_KIND: name} if isinstance(name, str) else {}
    hints = _hints(type(record))  # type: ignore[arg-type]
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        name, hint, value = field.name, hints[field.name], getattr(record, field.name)
        if not _is_left_out(field.default, value):
            found[name] = interventions_as_json(value) if hint == Interventions else _as_json(value)
    return found


def record_from_json(kind: type[_Record], values: object) -> _Record:
    """The record of this kind; raises ValueError saying in which field what is wrong."""
    return _Reader().record(kind, values)


def kind_from_json(kinds: Mapping[str, type[_Record]], values: object) -> _Record:
    """The record of the kind that its object names; raises ValueError as `record_from_json`.

    A field that only other kinds have is passed over: up to version 0.10 every kind had those of all.
    """
    return _Reader(kinds).kind(kinds, values)


class _Reader:
    """Reads one file, whose arrays share one room."""

    def __init__(self, kinds: Mapping[str, type[Any]] = MappingProxyType({})) -> None:
        self._room = MAX_ARRAY_BYTES
        self._names = {name for kind in kinds.values() for name in _hints(kind)}  # type: ignore[arg-type]

    def kind(self, kinds: Mapping[str, type[_Record]], values: object) -> _Record:
        """A record of one of these kinds."""
        if not isinstance(values, dict):
            raise ValueError(f"{_shown(values)} is not an object")
        name = values.get(_KIND)
        if not isinstance(name, str) or name not in kinds:
            raise ValueError(f"{_KIND}: {_shown(name)} is none of {', '.join(kinds)}")
        passed_over = {_KIND, *(self._names - _hints(kinds[name]).keys())}  # type: ignore[arg-type]
        return self.record(kinds[name], {key: one for key, one in values.items() if key not in passed_over})

    def record(self, kind: type[_Record], values: object) -> _Record:
        """A record from an object that holds its fields, and no others."""
        if not isinstance(values, dict):
            raise ValueError(f"{_shown(values)} is not an object")
        hints = _hints(kind)  # type: ignore[arg-type]
        unknown = sorted(values.keys() - hints.keys())
        if unknown:
            raise ValueError(f"'{unknown[0][:40]}' is not known")
        found = {}
        for name, value in values.items():
            try:
                found[name] = self.value(hints[name], value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        try:
            return kind(**found)
        except (TypeError, ArithmeticError) as error:
            raise ValueError("a part of it is missing, or 0 where it cannot be") from error

    def value(self, hint: Any, value: object) -> object:
        """A value as its annotation wants it."""
        if hint == Interventions:
            return _changes(value)
        if hint is Gates:
            return Gates.of(dict(self.value(_hints(Gates)["values"], value)))  # type: ignore[call-overload]
        if dataclasses.is_dataclass(hint):
            return self.record(hint, value)  # type: ignore[arg-type]
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Literal:
            return _one_of(inner, value)
        if origin in (typing.Union, types.UnionType):
            return self._optional(inner, value)
        if origin is tuple:
            return self._tuple(inner, value)
        if origin is np.ndarray:
            return self._array(np.dtype(typing.get_args(inner[1])[0]), value)
        return _plain(hint, value)

    def _optional(self, kinds: tuple[Any, ...], value: object) -> object:
        if value is None and type(None) in kinds:
            return None
        one, *others = (kind for kind in kinds if kind is not type(None))
        return (
            self.kind({getattr(kind, _KIND): kind for kind in (one, *others)}, value)
            if others
            else self.value(one, value)
        )

    def _tuple(self, kinds: tuple[Any, ...], value: object) -> tuple[object, ...]:
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise ValueError(f"{_shown(value)} is not a list")
        if kinds[-1] is Ellipsis:
            return tuple(self.value(kinds[0], one) for one in value)
        if len(value) != len(kinds):
            raise ValueError(f"{len(value)} entries, expected {len(kinds)}")
        return tuple(self.value(kind, one) for kind, one in zip(kinds, value, strict=True))

    def _array(self, dtype: np.dtype[Any], value: object) -> NDArray[Any]:
        match value:
            case {"dtype": dtype.name, "shape": list(shape), "zlib": str(packed)} if all(
                type(n) is int and n >= 0 for n in shape
            ):
                pass
            case _:
                raise ValueError(f"not an array of {dtype.name} with its shape")
        n_bytes = math.prod(shape) * dtype.itemsize
        self._room -= n_bytes
        if self._room < 0:
            raise ValueError(f"the arrays hold over {MAX_ARRAY_BYTES:,} bytes")
        try:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(base64.b64decode(packed, validate=True), n_bytes + 1)
        except (ValueError, zlib.error) as error:
            raise ValueError("the bytes of the array are damaged") from error
        if len(data) != n_bytes or not unpacker.eof:
            raise ValueError(f"the bytes of the array are not {n_bytes:,}")
        array = np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype).reshape(shape)
        array.flags.writeable = False
        if dtype.kind == "f" and (np.abs(array[np.isfinite(array)]) > MAX_NUMBER).any():
            raise ValueError(f"a number is over {MAX_NUMBER:g}")
        return array


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    """The annotations of a record's fields."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _is_left_out(default: object, value: object) -> bool:
    """Whether a field holds nothing, as it does where nobody fills it."""
    is_nothing = value is None or (isinstance(value, tuple | str) and not value)
    return is_nothing and type(value) is type(default)


def _as_json(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _odd_name(value)
        case np.ndarray():
            packed = zlib.compress(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes())
            text = base64.b64encode(packed).decode("ascii")
            return {"dtype": value.dtype.name, "shape": list(value.shape), "zlib": text}
        case Gates(values=values):
            return _as_json(values)
        case tuple():
            return [_as_json(one) for one in value]
        case np.generic():
            return _as_json(value.item())
        case _ if dataclasses.is_dataclass(value):
            return record_as_json(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no place in a file")


def _odd_name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _changes(value: object) -> Interventions:
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} is not a list")
    try:
        return interventions_from_json(value)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("a change of a head that is not known") from error


def _one_of(known: tuple[object, ...], value: object) -> object:
    for one in known:
        if type(one) is type(value) and one == value:
            return one
    raise ValueError(f"{_shown(value)} is none of {', '.join(map(str, known))}")


def _plain(kind: Any, value: object) -> object:
    if kind is float:
        if isinstance(value, str) and value in _ODD_NUMBERS:
            return _ODD_NUMBERS[value]
        if type(value) is int and abs(value) < MAX_WHOLE:
            return float(value)
    is_kind = type(value) is kind and kind in (bool, int, float, str)
    most = {int: MAX_WHOLE, float: MAX_NUMBER}.get(kind)
    if not is_kind or (most is not None and isinstance(value, int | float) and abs(value) > most):
        raise ValueError(f"{_shown(value)} is not {_WORDS.get(kind, 'known')}")
    if isinstance(value, str) and (len(value) > _MAX_TEXT or "\0" in value):
        raise ValueError("the text is too long, or holds a zero byte")
    return value


_WORDS: dict[object, str] = {str: "a text", float: "a number", int: "a whole number", bool: "true or false"}


def _shown(value: object) -> str:
    return f"{str(value)[:40]!r}"

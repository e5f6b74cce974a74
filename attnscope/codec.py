"""Converts documents to frozen records and back, guided by annotations: values in a file are never looked up
as names.

A `Codec` says how records stand in one kind of document: which types have a form of their own, which records
are rows, how much anything may hold. A field says the rest in its annotation, `Annotated[str, AtMost(80)]`:
where it stands (`At`), its range (`Between`), its length (`AtMost`). Objects may lack fields that have a
default. Arrays are their bytes, little-endian, packed by zlib and written as base64. Must not import torch,
and NumPy for arrays only.
"""

import base64
import dataclasses
import functools
import json
import math
import types
import typing
import zlib
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from attnscope.errors import UserError

MAX_ARRAY_BYTES = 256_000_000
"""Of all arrays of a file together: a short file may unpack to much more than itself."""
_ODD_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_WORDS = {
    str: "a text", float: "a finite number", int: "a whole number without quotes", bool: "true or false"
}  # fmt: skip
_R = TypeVar("_R")


class Fault(ValueError):
    """A fault in a document: the reason, and the path of the value in it, such as `look.page`.

    `expected` says what the value may be, where that can be said in a few words.
    """

    def __init__(self, reason: str, place: str = "", *, expected: str = "") -> None:
        self.reason, self.place, self.expected = reason, place, expected
        super().__init__(f"the key '{place}': {reason}" if place else reason)

    def within(self, name: str) -> "Fault":
        """Prefix the fault with the key of the object that holds the value."""
        place = f"{name[:40]}.{self.place}" if self.place else name[:40]
        return Fault(self.reason, place, expected=self.expected)


@dataclasses.dataclass(frozen=True, slots=True)
class At:
    """Path of a field in the object of its record: `page.dpi` is the key `dpi` of the object `page`.

    An empty place means that the fields of the field's own record stand there; None that it is in no file.
    """

    place: str | None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Once:
    """JSON value assumed for files older than the field."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class AtMost:
    """The maximum length of a text, or number of entries of a list."""

    n: int


@dataclasses.dataclass(frozen=True, slots=True)
class Between:
    """A number's range, both ends included."""

    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class AllowedNames:
    """The names that a text may be, such as those of a registry."""

    names: Collection[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Through:
    """A type stored in a file as another one: `write` converts to it, and `read` converts back."""

    hint: Any
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Form(NamedTuple):
    """How values of a type are written and read; `width` is the number of row entries they take."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    width: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Upper limits for a text, a list or a number of a document."""

    text: int = 4_000_000
    items: int = 1_000_000
    whole: int = 2**40
    number: float = 1e30


class Codec:
    """Writes and reads the records of one kind of document; every `read` raises a Fault for an error.

    `forms` are for types, or for what is beside a type in `Annotated`; `rows` are records and pairs that are
    written as a list of their fields, with what a reader is told that they are. `tag` is the class variable
    that tells records apart where several kinds may stand, and its key in a file. With `is_strict` unknown
    keys are refused, but for those `of_others` in a record that has a tag. With `is_sparse` what is empty is
    not written. Odd numbers (NaN, infinite) are refused, or stand as texts, or all of them as null. Where one
    of some names is expected, a fault lists them in quotes if there is a `quote`.
    """

    def __init__(
        self,
        *,
        forms: Mapping[Any, Through] = types.MappingProxyType({}),
        rows: Mapping[Any, str] = types.MappingProxyType({}),
        tag: str = "",
        is_strict: bool = False,
        of_others: frozenset[str] = frozenset(),
        is_sparse: bool = False,
        odd: Literal["refused", "texts", "null"] = "refused",
        quote: str = "",
        caps: Caps = Caps(),
    ) -> None:
        self._own, self._rows, self._tag, self._quote = forms, rows, tag, quote
        self._caps, self._odd = caps, odd
        self._is_strict, self._of_others, self._is_sparse = is_strict, of_others, is_sparse
        self._known: dict[Any, Form] = {}
        self._room = MAX_ARRAY_BYTES

    def write(self, record: Any) -> dict[str, Any]:
        """Convert a record to JSON; raises TypeError for unsupported types."""
        found: dict[str, Any] = self._tagged((type(record),)).write(record)
        return found

    def read(self, hint: "type[_R]", value: object) -> _R:
        """Read a JSON value as this type."""
        self._room = MAX_ARRAY_BYTES
        found: _R = self.form(hint).read(value)
        return found

    def read_one_of(self, kinds: Mapping[str, type[_R]], value: object) -> _R:
        """Read a record of the kind that its object names."""
        self._room = MAX_ARRAY_BYTES
        found: _R = self._tagged(tuple(kinds.values())).read(value)
        return found

    def expected(self, hint: Any) -> str:
        """Short description of the values that a type allows."""
        try:
            self.form(hint).read(object())
        except Fault as fault:
            return fault.expected
        return "anything"

    def form(self, hint: Any) -> Form:
        """Form of a type's values in this document."""
        if hint not in self._known:  # a record may hold others of its own kind
            known = self._known
            known[hint] = Form(lambda v: known[hint].write(v), lambda v: known[hint].read(v))
            try:
                self._known[hint] = self._made(hint)
            except TypeError:
                del self._known[hint]
                raise
        return self._known[hint]

    def _made(self, hint: Any) -> Form:
        plain, about = (
            (hint.__origin__, hint.__metadata__) if typing.get_origin(hint) is Annotated else (hint, ())
        )
        if (named := getattr(typing.get_origin(plain), "__value__", None)) is not None:
            plain = named[typing.get_args(plain)]  # NDArray is an alias with a name from numpy 2.5 on
        own = next((self._own[key] for key in (hint, *about, plain) if key in self._own), None)
        if own is not None:
            return self._through(own.write, own.read, self.form(own.hint))
        most = _beside(AtMost, hint)
        origin, inner = typing.get_origin(plain), typing.get_args(plain)
        if dataclasses.is_dataclass(plain):
            return self._record(plain)  # type: ignore[arg-type]
        if (names := _beside(AllowedNames, hint)) is not None:
            return Form(_same, functools.partial(_one_of, names.names, self._quote))
        if origin is Literal:
            return Form(_same, functools.partial(_one_of, inner, self._quote))
        if origin in (typing.Union, types.UnionType):
            return self._union(inner)
        if origin is tuple and inner[-1] is Ellipsis:
            return self._list(self.form(inner[0]), self._caps.items if most is None else most.n)
        if origin is tuple:
            return self._row(plain, [self.form(kind) for kind in inner], lambda values: values)
        if origin is dict:
            return self._table(self.form(inner[1]), self._caps.items if most is None else most.n)
        if getattr(origin, "__module__", "") == "numpy":
            return self._array(typing.get_args(inner[1])[0])
        if plain is object:
            return Form(_same, _same)
        if plain not in _WORDS:
            raise TypeError(f"{plain} cannot be stored in a file")
        if plain is str:
            return Form(_same, functools.partial(_text, self._caps.text if most is None else most.n))
        if plain is bool:
            return Form(bool, _flag)
        cap = self._caps.whole if plain is int else self._caps.number
        between = _beside(Between, hint) or Between(-cap, cap)
        words = _WORDS[plain], _range_words(plain, _beside(Between, hint))
        if plain is int:
            return Form(int, functools.partial(_number, int, between, words))
        return Form(self._float_as_json, functools.partial(self._float, between, words))

    def _record(self, kind: type[Any]) -> Form:
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = {one.name: (one, self.form(hints[one.name])) for one in dataclasses.fields(kind) if one.init}
        if kind in self._rows:
            forms = [form for _, form in fields.values()]
            row = self._row(
                kind, forms, lambda values: _built(kind, **dict(zip(fields, values, strict=True)))
            )
            return row._replace(write=lambda record: row.write([getattr(record, name) for name in fields]))
        kept = [_Place.of(one, hints[name], form) for name, (one, form) in fields.items()]
        kept = [place for place in kept if place.at is not None]
        known = {place.at.partition(".")[0] for place in kept}

        def write(record: object) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for _, parent, key, field, form, _ in kept:
                value = getattr(record, field.name)
                if not (self._is_sparse and _is_nothing(field.default, value)):
                    part = found.setdefault(parent, {}) if parent else found
                    part.update({key: form.write(value)} if key else form.write(value))
            return found

        def read(value: object) -> object:
            values = _object(value)
            if self._is_strict and (unknown := sorted(values.keys() - known)):
                raise Fault(f"'{unknown[0][:40]}' is not known")
            found: dict[str, Any] = {}
            for at, parent, key, field, form, once in kept:
                part = _read_at(parent, _object, values.get(parent, {})) if parent else values
                if not key or key in part:
                    try:
                        found[field.name] = form.read(part[key] if key else part)
                    except Fault as fault:
                        raise (fault.within(at) if key else fault) from fault
                elif once is not None:
                    found[field.name] = form.read(once.value)
                elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                    raise Fault("it is missing", at, expected=self.expected(hints[field.name]))
            return _built(kind, **found)

        return Form(write, read)

    def _row(self, kind: Any, parts: list[Form], build: Callable[[list[Any]], Any]) -> Form:
        """A list of fixed length; a value of several entries is stored in it without brackets."""
        words = self._rows.get(kind, "")
        widths = [part.width if words else 1 for part in parts]
        starts = [sum(widths[:n]) for n in range(len(widths) + 1)]

        def write(values: Any) -> list[Any]:
            entries = [part.write(value) for part, value in zip(parts, values, strict=True)]
            return [
                one for entry, n in zip(entries, widths, strict=True) for one in (entry if n > 1 else [entry])
            ]

        def read(value: object) -> object:
            try:
                if not isinstance(value, list) or len(value) != starts[-1]:
                    raise Fault(f"{_shown(value)} is not a list of {starts[-1]} entries")
                cut = [value[i : i + n] if n > 1 else value[i] for i, n in zip(starts, widths, strict=False)]
                found = build([part.read(one) for part, one in zip(parts, cut, strict=True)])
            except Fault as fault:
                raise (Fault(f"{str(value)[:60]} is not {words}") if words else fault) from fault
            return tuple(found) if isinstance(found, list) else found

        return Form(write, read, starts[-1])

    def _list(self, form: Form, most: int) -> Form:
        def read(value: object) -> tuple[object, ...]:
            if not isinstance(value, list):
                raise Fault(f"{_shown(value)} is not a list")
            if len(value) > most:
                raise Fault(f"it has {len(value):,} entries, at most {most:,} are read")
            return tuple([form.read(one) for one in value])

        return Form(lambda values: [form.write(one) for one in values], read)

    def _table(self, form: Form, most: int) -> Form:
        def read(value: object) -> dict[str, Any]:
            if len(values := _object(value)) > most:
                raise Fault(f"it has {len(values):,} keys, at most {most:,} are read")
            return {name: _read_at(name, form.read, one) for name, one in values.items()}

        return Form(lambda values: {name: form.write(one) for name, one in values.items()}, read)

    def _through(self, write: Callable[[Any], Any], read: Callable[[Any], Any], form: Form) -> Form:
        return Form(lambda value: form.write(write(value)), lambda value: _built(read, form.read(value)))

    def _union(self, inner: tuple[Any, ...]) -> Form:
        kinds = tuple(kind for kind in inner if kind is not type(None))
        if len(kinds) == 1:
            form = self.form(kinds[0])
        elif dataclasses.is_dataclass(kinds[0]):
            form = self._tagged(kinds)
        else:
            form = self._plain_union(kinds)
        if len(kinds) == len(inner):
            return form
        return Form(
            lambda value: None if value is None else form.write(value),
            lambda value: None if value is None else form.read(value),
        )

    def _plain_union(self, kinds: tuple[Any, ...]) -> Form:
        forms = {
            kind.__origin__ if typing.get_origin(kind) is Annotated else kind: self.form(kind)
            for kind in kinds
        }

        def read(value: object) -> object:
            if type(value) not in forms:
                raise Fault(f"{_shown(value)} is not {' or '.join(_WORDS[kind] for kind in forms)}")
            return forms[type(value)].read(value)

        return Form(lambda value: forms[type(value)].write(value), read)

    def _tagged(self, kinds: tuple[type[Any], ...]) -> Form:
        """Records of several kinds, each with its tag if it has one."""
        by_name = {name: kind for kind in kinds if isinstance(name := getattr(kind, self._tag, None), str)}

        def write(record: object) -> dict[str, Any]:
            name = getattr(type(record), self._tag, None)
            return {
                **({self._tag: name} if isinstance(name, str) else {}),
                **self.form(type(record)).write(record),
            }

        def read(value: object) -> object:
            values = _object(value)
            name = values.get(self._tag)
            if not isinstance(name, str) or name not in by_name:
                raise Fault(f"{_shown(name)} is not one of {', '.join(by_name)}", self._tag)
            own = {field.name for field in dataclasses.fields(by_name[name])}
            passed_over = {self._tag, *(self._of_others - own)}
            return self.form(by_name[name]).read(
                {k: one for k, one in values.items() if k not in passed_over}
            )

        return Form(write, read)

    def _float_as_json(self, value: float) -> object:
        if math.isfinite(value) or self._odd == "refused":
            return float(value)
        return None if self._odd == "null" else json.dumps(float(value))

    def _float(self, between: Between, words: tuple[str, str], value: Any) -> object:
        if self._odd == "null" and value is None:
            return math.nan
        if self._odd == "texts" and isinstance(value, str) and value in _ODD_NUMBERS:
            return _ODD_NUMBERS[value]
        if type(value) is int and abs(value) <= self._caps.whole:
            value = float(value)
        return _number(float, between, words, value)

    def _array(self, kind: Any) -> Form:
        import numpy as np

        dtype: Any = np.dtype(kind)

        def write(array: Any) -> dict[str, object]:
            packed = zlib.compress(np.ascontiguousarray(array, dtype.newbyteorder("<")).tobytes())
            text = base64.b64encode(packed).decode("ascii")
            return {"dtype": dtype.name, "shape": list(array.shape), "zlib": text}

        def read(value: object) -> Any:
            match value:
                case {"dtype": dtype.name, "shape": list(shape), "zlib": str(packed)} if all(
                    type(n) is int and n >= 0 for n in shape
                ):
                    pass
                case _:
                    raise Fault(f"it is not an array of {dtype.name} with its shape")
            n_bytes = math.prod(shape) * dtype.itemsize
            self._room -= n_bytes
            if self._room < 0:
                raise Fault(f"the arrays hold over {MAX_ARRAY_BYTES:,} bytes")
            try:
                unpacker = zlib.decompressobj()
                data = unpacker.decompress(base64.b64decode(packed, validate=True), n_bytes + 1)
            except (ValueError, zlib.error) as error:
                raise Fault("the bytes of the array are damaged") from error
            if len(data) != n_bytes or not unpacker.eof:
                raise Fault(f"the bytes of the array are not {n_bytes:,}")
            array = np.frombuffer(data, dtype=dtype.newbyteorder("<")).astype(dtype).reshape(shape)
            array.flags.writeable = False
            if dtype.kind == "f" and (np.abs(array[np.isfinite(array)]) > self._caps.number).any():
                raise Fault(f"a number is over {self._caps.number:g}")
            return array

        return Form(write, read)


@functools.cache
def keys_of(kind: type[Any]) -> tuple[str, ...]:
    """The keys of a record's fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple(_beside(At, hints[one.name], At(one.name)).place for one in dataclasses.fields(kind))


class _Place(NamedTuple):
    """Path of a field in the object of its record: a key of the object itself, or of one in it."""

    at: Any
    parent: str
    key: str
    field: "dataclasses.Field[Any]"
    form: Form
    once: Once | None

    @staticmethod
    def of(field: "dataclasses.Field[Any]", hint: Any, form: Form) -> "_Place":
        at = _beside(At, hint, At(field.name)).place
        parent, _, key = (at or "").rpartition(".")
        return _Place(at, parent, key, field, form, _beside(Once, hint))


def _beside(kind: type[Any], hint: Any, default: Any = None) -> Any:
    about = hint.__metadata__ if typing.get_origin(hint) is Annotated else ()
    return next((one for one in about if isinstance(one, kind)), default)


def _built(build: Callable[..., Any], *values: Any, **named: Any) -> Any:
    try:
        return build(*values, **named)
    except Fault:
        raise
    except LookupError as error:
        raise Fault(f"it contains something unknown ({str(error)[:80]})") from error
    except (TypeError, ValueError, ArithmeticError, UserError) as error:
        raise Fault(str(error)[:300].rstrip(".")) from error


def _read_at(place: str, read: Callable[[Any], Any], value: object) -> Any:
    try:
        return read(value)
    except Fault as fault:
        raise fault.within(place) from fault


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Fault(f"{_shown(value)} is not an object")
    return value


def _same(value: Any) -> Any:
    return value


def _flag(value: object) -> object:
    if not isinstance(value, bool):
        raise _wrong(value, _WORDS[bool])
    return value


def _text(most: int, value: object) -> object:
    expected = f"a text of at most {most:,} characters"
    if not isinstance(value, str):
        raise _wrong(value, expected)
    if len(value) > most:
        raise Fault(f"it has {len(value):,} characters, at most {most:,} are read", expected=expected)
    if "\0" in value:
        raise Fault("it holds a zero byte", expected=expected)
    return value


def _number(kind: Any, between: Between, words: tuple[str, str], value: Any) -> object:
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise _wrong(value, words[1] if kind is float and words[1] else words[0])
    if not between.low <= value <= between.high:
        way, end = ("below", between.low) if value < between.low else ("above", between.high)
        raise Fault(f"{_shown(value)} is {way} {end:,}", expected=words[1] or words[0])
    return value


def _range_words(kind: Any, between: Between | None) -> str:
    if between is None:
        return ""
    if kind is int:
        return f"a whole number from {between.low:,} to {between.high:,}"
    return f"a number from {between.low:g} to {between.high:g}"


def _one_of(known: Collection[object], quote: str, value: object) -> object:
    for one in known:
        if type(one) is type(value) and one == value:
            return one
    names = ", ".join(f"{quote}{one}{quote}" for one in known)
    raise Fault(f"{_shown(value)} is not one of {names}", expected=f"one of {names}")


def _wrong(value: object, expected: str) -> Fault:
    return Fault(f"{_shown(value)} is not {expected}", expected=expected)


def _is_nothing(default: object, value: object) -> bool:
    """Whether a field is empty by default."""
    is_empty = value is None or (isinstance(value, tuple | str) and not value)
    return is_empty and type(value) is type(default)


def _shown(value: object) -> str:
    try:
        return repr(value)[:42]
    except ValueError:  # Python refuses to write whole numbers of more than 4,300 digits
        return "a number of thousands of digits"

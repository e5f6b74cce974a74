"""Settings as data: names, allowed values and defaults.

A choice is a frozen dataclass; these functions make its settings:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Choice:
        d_k: int = number(64, (16, 32, 64), title="d", tip="Width of queries and keys")
        is_causal: bool = switch(False, title="causal mask", tip="No key after the query")

From its fields follow the controls in the window, `--set d_k=32` on the command line, the arguments of a
Python function, the check of each with its message, and rows of the help. A member of the dataclass that is
made in no such way is not a setting. Must not import Qt or torch.

Keyword arguments that several functions share: name, type and default of each in one place.

    class PaperOptions(TypedDict, total=False):
        dpi: Annotated[int, 300]

    @spelled_out
    def draw(trace: Trace, **paper: Unpack[PaperOptions]) -> Figure:
        dpi = filled(PaperOptions, paper)["dpi"]

Type checkers and editors know the names from the type, `help` and `inspect.signature` from `spelled_out`.
"""

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as member
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, TypeVar, Unpack, cast, get_args, get_origin, get_type_hints

from attnscope.errors import UserError, meant
from attnscope.errors import shown as shortened

Value = bool | int | float | str
C = TypeVar("C")
_KEY = "field"
_MOST_LETTERS = 120
_LARGEST_SEED = 1_000_000
_YES, _NO = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


def _always(_choice: object) -> bool:
    return True


def _plain(value: float) -> str:
    return f"{value:g}"


def _is_text(_text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(ABC):
    """One setting: `name` in Python, files and after `--set`, `title` on the screen, `tip` one sentence.

    `is_used` says of a choice whether the setting matters there; `shown` what holds where another setting
    decides.
    """

    name: str = ""
    default: Value = 0
    title: str
    tip: str
    is_used: Callable[[Any], bool] = _always
    shown: Callable[[Any], Value] | None = None

    @property
    @abstractmethod
    def expected(self) -> str:
        """Description of the allowed values."""

    @abstractmethod
    def fits(self, value: object) -> bool:
        """Whether the value is allowed."""

    @abstractmethod
    def from_text(self, text: str) -> object:
        """Parse typed text; raises ValueError if it is no value of this kind."""

    def checked(self, value: object) -> Value:
        """The value in its own type; raises UserError if it is not allowed."""
        if not self.fits(value):
            raise self.fault(value)
        return cast("Value", value)

    def parsed(self, text: str) -> Value:
        """The value of a typed text; raises UserError."""
        try:
            return self.checked(self.from_text(text.strip()))
        except ValueError:
            raise self.fault(text) from None

    def fault(self, value: object) -> UserError:
        """The error for a value that is not allowed."""
        told = repr(value) if isinstance(value, str) else str(value)
        return UserError(f"{self.name} is {shortened(told)}.", expected=self.expected)

    def words(self, value: Any) -> str:
        """A value in words."""
        return str(value)

    def of(self, choice: object) -> Value:
        """Value of this field in a choice."""
        return cast("Value", self.shown(choice) if self.shown is not None else getattr(choice, self.name))

    def put(self, choice: C, value: Value) -> C:
        """The choice with another value, unchecked."""
        return cast("C", replace(cast("Any", choice), **{self.name: value}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Field):
    """A number. `values`, ascending, are the stops of its slider.

    Whole numbers are one of them; others may lie anywhere from the least to the largest. The control of one
    that `is_walked` goes a stop on or back, too.
    """

    values: tuple[float, ...]
    is_walked: bool = False
    text: Callable[[float], str] = _plain

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return all(isinstance(value, int) for value in self.values)

    @property
    def expected(self) -> str:
        low, high = self.values[0], self.values[-1]
        if not self.is_whole:
            return f"a number from {low:g} to {high:g}"
        if self.values == tuple(range(int(low), int(high) + 1)):
            return f"a whole number from {low:,} to {high:,}"
        return f"one of {', '.join(map(str, self.values))}"

    def fits(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, Integral if self.is_whole else Real):
            return False
        number = float(cast("float", value))
        return number in self.values if self.is_whole else self.values[0] <= number <= self.values[-1]

    def from_text(self, text: str) -> object:
        number = float(text.replace("−", "-"))
        return int(number) if self.is_whole and number.is_integer() else number

    def checked(self, value: object) -> Value:
        value = Field.checked(self, value)
        return int(value) if self.is_whole else float(value)

    def words(self, value: Any) -> str:
        return self.text(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf(Field):
    """One of several; `options` are the values and their labels."""

    options: Mapping[str, str]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.options)}"

    def fits(self, value: object) -> bool:
        return isinstance(value, str) and value in self.options

    def from_text(self, text: str) -> object:
        names = {words.lower(): key for key, words in self.options.items()}
        return text if text in self.options else names.get(text.lower(), text)

    def words(self, value: Any) -> str:
        return self.options[value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Field):
    """On or off."""

    @property
    def expected(self) -> str:
        return "on or off"

    def fits(self, value: object) -> bool:
        return isinstance(value, bool)

    def from_text(self, text: str) -> object:
        return True if text.lower() in _YES else False if text.lower() in _NO else text

    def words(self, value: Any) -> str:
        return "on" if value else "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed(Field):
    """A random seed; its control is a button that draws another, `step` further on."""

    step: int = 1

    @property
    def expected(self) -> str:
        return f"a whole number from 0 to {_LARGEST_SEED:,}"

    def fits(self, value: object) -> bool:
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        return is_whole and 0 <= int(cast("int", value)) <= _LARGEST_SEED

    def from_text(self, text: str) -> object:
        return int(text)

    def checked(self, value: object) -> Value:
        return int(Field.checked(self, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Field):
    """A line of text; `is_text` accepts valid lines, `form` describes them, `example` shows one."""

    most: int = _MOST_LETTERS
    is_text: Callable[[str], bool] = _is_text
    form: str = "a line"
    example: str = ""

    @property
    def expected(self) -> str:
        return f"{self.form} of at most {self.most} characters"

    def fits(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.most and self.is_text(value)

    def from_text(self, text: str) -> object:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName(Text):
    """The path of a file, or nothing; `read` raises UserError for a file that it cannot read.

    `kinds` is what a dialog offers, such as `CoNLL-U (*.conllu)`.
    """

    read: Callable[[str], object]
    kinds: str

    def fits(self, value: object) -> bool:
        try:
            self.checked(value)
        except UserError:
            return False
        return True

    def checked(self, value: object) -> Value:
        if not Text.fits(self, value):
            raise self.fault(value)
        if value:
            self.read(cast("str", value))
        return cast("str", value)


def number(
    default: float,
    values: Sequence[float],
    *,
    title: str,
    tip: str,
    text: Callable[[float], str] = _plain,
    is_used: Callable[[Any], bool] = _always,
    shown: Callable[[Any], float] | None = None,
    is_walked: bool = False,
) -> Any:
    """A number, set with a slider over `values`, among them whole numbers. `text` formats it."""
    described = Number(
        title=title,
        tip=tip,
        values=tuple(values),
        text=text,
        is_used=is_used,
        shown=shown,
        is_walked=is_walked,
    )
    return _member(default, described)


def one_of(
    default: str,
    options: Mapping[Any, str],
    *,
    title: str,
    tip: str,
    is_used: Callable[[Any], bool] = _always,
) -> Any:
    """One of several: the values and their labels."""
    return _member(default, OneOf(title=title, tip=tip, options=dict(options), is_used=is_used))


def switch(
    default: bool,
    *,
    title: str,
    tip: str,
    is_used: Callable[[Any], bool] = _always,
    shown: Callable[[Any], bool] | None = None,
) -> Any:
    """On or off."""
    return _member(default, Switch(title=title, tip=tip, is_used=is_used, shown=shown))


def redraw(*, title: str, tip: str, step: int = 1, is_used: Callable[[Any], bool] = _always) -> Any:
    """A seed field, set with a button."""
    return _member(0, Seed(title=title, tip=tip, step=step, is_used=is_used))


def line(
    default: str,
    *,
    title: str,
    tip: str,
    most: int = _MOST_LETTERS,
    is_text: Callable[[str], bool] = _is_text,
    form: str = "a line",
    example: str = "",
) -> Any:
    described = Text(title=title, tip=tip, most=most, is_text=is_text, form=form, example=example)
    return _member(default, described)


def file_line(*, tip: str, kinds: str, read: Callable[[str], object]) -> Any:
    """The path of a file, initially none; `read` raises UserError for one that it cannot read."""
    return _member(
        "", FileName(title="file", tip=tip, kinds=kinds, read=read, most=1000, form="the path of a file")
    )


def _member(default: Value, described: Field) -> Any:
    return member(default=default, metadata={_KEY: described})


@lru_cache(maxsize=256)
def _fields_of(kind: type) -> tuple[Field, ...]:
    found = ((one.metadata.get(_KEY), one) for one in fields(cast("Any", kind)))
    return tuple(replace(known, name=one.name, default=one.default) for known, one in found if known)


def fields_of(choice: object) -> tuple[Field, ...]:
    """The settings of a choice, or of a class of choices, in the order of their definition."""
    return _fields_of(choice if isinstance(choice, type) else type(choice))


def values_of(choice: object) -> dict[str, Value]:
    """Settings of a choice, by name."""
    return {one.name: getattr(choice, one.name) for one in fields_of(choice)}


def with_values(choice: C, values: Mapping[str, object]) -> C:
    """The choice with these settings; raises UserError for an unknown name or a value that is not allowed."""
    known = {one.name: one for one in fields_of(choice)}
    return _made(choice, {name: _named(known, name).checked(value) for name, value in values.items()})


def with_texts(choice: C, settings: Iterable[str]) -> C:
    """The choice with settings that are typed as `name=value`; raises UserError as `with_values`."""
    known, values = {one.name: one for one in fields_of(choice)}, {}
    for setting in settings:
        name, sign, text = setting.partition("=")
        if not sign:
            raise UserError(f"'{shortened(setting)}' has no value.", expected="NAME=VALUE")
        values[name.strip()] = _named(known, name.strip()).parsed(text)
    return _made(choice, values)


def help_rows(choice: object) -> tuple[tuple[str, str, str, str], ...]:
    """Each setting's name, meaning, allowed values and default."""
    return tuple((one.name, one.tip, one.expected, str(one.default)) for one in fields_of(choice))


def _named(known: Mapping[str, Field], name: str) -> Field:
    if name not in known:
        raise UserError(
            f"There is no setting '{shortened(name)}'.",
            expected=", ".join(known) or "no settings",
            action=meant(name, known).strip(),
        )
    return known[name]


def _made(choice: C, values: Mapping[str, Value]) -> C:
    try:
        return cast("C", replace(cast("Any", choice), **values))
    except ValueError as error:  # settings that do not go together
        raise UserError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error


_Function = TypeVar("_Function", bound=Callable[..., object])
_Options = TypeVar("_Options", bound=Mapping[str, Any])


def filled(kind: type[_Options], given: _Options) -> _Options:
    """The given options, and the defaults of all others."""
    return {name: given.get(name, default) for name, _, default in _each(kind)}  # type: ignore[return-value]


def picked(kind: type[_Options], given: Mapping[str, Any]) -> _Options:
    """The given options that this kind has."""
    known = get_type_hints(kind)
    return {name: value for name, value in given.items() if name in known}  # type: ignore[return-value]


def options_of(function: Callable[..., object]) -> type | None:
    """The type of the keyword arguments that a function takes as `**options: Unpack[…]`; None for none."""
    for one in inspect.signature(inspect.unwrap(function)).parameters.values():
        if one.kind is one.VAR_KEYWORD and get_origin(one.annotation) is Unpack:
            kind: type = get_args(one.annotation)[0]
            return kind
    return None


def spelled_out(function: _Function) -> _Function:
    """The same function, with every option in its signature; raises TypeError at once for any other."""
    kind, signature = options_of(function), inspect.signature(function)
    if kind is None:
        raise ValueError(f"{function} takes no options")
    named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in _each(kind)
    ]
    known = {one.name for one in (*named, *options)}

    @functools.wraps(function)
    def checked(*args: Any, **given: Any) -> object:
        for name in given:
            if name not in known:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'")
        return function(*args, **given)

    checked.__signature__ = signature.replace(parameters=[*named, *options])  # type: ignore[attr-defined]
    return cast("_Function", checked)


def _each(kind: type) -> list[tuple[str, Any, Any]]:
    every = get_type_hints(kind, include_extras=True)
    return [(name, get_args(one)[0], one.__metadata__[0]) for name, one in every.items()]

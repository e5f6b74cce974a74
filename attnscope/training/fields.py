"""What a key of a recipe may hold: one small checker for each kind of value.

A recipe section is a dataclass whose fields carry a checker; `read_section` turns a TOML table into
it and names section, key, value found and value expected when something is off.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Protocol, TypeVar, cast

from attnscope.errors import RecipeError, meant, shown

Value = str | int | float | bool
S = TypeVar("S")


class Checker(Protocol):
    """Accepts the right values of one key."""

    @property
    def expected(self) -> str:
        """What the key may hold, in words."""
        ...

    def accept(self, value: object) -> Value | None:
        """The value as the program holds it, or None when it is not acceptable."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number in a range."""

    low: int
    high: int

    @property
    def expected(self) -> str:
        """The range in words."""
        return f"a whole number from {self.low:,} to {self.high:,}"

    def accept(self, value: object) -> int | None:
        """The number, when it is one and in range (True and False are not numbers)."""
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if self.low <= value <= self.high else None


@dataclass(frozen=True, slots=True)
class Real:
    """A finite number in a range, both ends allowed."""

    low: float
    high: float

    @property
    def expected(self) -> str:
        """The range in words."""
        return f"a number from {self.low:g} to {self.high:g}"

    def accept(self, value: object) -> float | None:
        """The number as a float, when it is finite and in range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return float(value) if self.low <= value <= self.high else None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        """The words, quoted."""
        return "one of " + ", ".join(f'"{word}"' for word in self.words)

    def accept(self, value: object) -> str | None:
        """The word, when it is one of them."""
        return value if isinstance(value, str) and value in self.words else None


@dataclass(frozen=True, slots=True)
class Words:
    """Any text up to a length."""

    max_characters: int = 4096

    @property
    def expected(self) -> str:
        """The limit in words."""
        return f"a text of at most {self.max_characters:,} characters"

    def accept(self, value: object) -> str | None:
        """The text, when it is one and short enough."""
        return value if isinstance(value, str) and len(value) <= self.max_characters else None


@dataclass(frozen=True, slots=True)
class Switch:
    """True or false."""

    expected: str = "true or false"

    def accept(self, value: object) -> bool | None:
        """The value, when it is one of the two."""
        return value if isinstance(value, bool) else None


def key(checker: Checker, default: Any = MISSING, *, name: str = "") -> Any:
    """A dataclass field whose TOML value `checker` looks at; `name` is its key where Python forbids it."""
    return field(default=default, metadata={"checker": checker, "name": name})


def key_name(description: "Field[Any]") -> str:
    """The key of a field, as recipes write it."""
    return description.metadata.get("name") or description.name


def read_section(kind: type[S], name: str, table: object) -> S:
    """Build the section record `kind` from a TOML table; raises RecipeError naming `name.key`."""
    if not isinstance(table, Mapping):
        raise RecipeError(
            f"[{name}] is {_shown(table)}.",
            expected=f"a table headed [{name}]",
            action="Write it as a table.",
        )
    known = {key_name(f): f for f in fields(cast("Any", kind))}
    for given in table:
        if given not in known:
            near = meant(str(given), known)
            raise RecipeError(
                f"The key {shown(f'{name}.{given}')} is unknown. {near}".rstrip(),
                expected="" if near else "one of " + ", ".join(known),
                action="Correct its spelling, or remove it.",
            )
    values: dict[str, Value] = {}
    for written, description in known.items():
        if written in table:
            values[description.name] = _checked(
                f"{name}.{written}", description.metadata["checker"], table[written]
            )
        elif description.default is MISSING:
            raise RecipeError(
                f"The key {name}.{written} is missing.",
                expected=description.metadata["checker"].expected,
                action=f"Add it under [{name}].",
            )
    return kind(**values)


def _checked(name: str, checker: Checker, value: object) -> Value:
    accepted = checker.accept(value)
    if accepted is None:
        raise RecipeError(
            f"{name} is {_shown(value)}.", expected=checker.expected, action="Change it and start again."
        )
    return accepted


def _shown(value: object) -> str:
    return shown(f'"{value}"' if isinstance(value, str) else repr(value))

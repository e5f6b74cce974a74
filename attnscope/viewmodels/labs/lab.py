"""What every lab is: a choice of the person, and what follows from it, worked out at once."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar, cast

from attnscope.records.experiments import Answer
from attnscope.viewmodels.listeners import Listener, Listeners

Choice = TypeVar("Choice")
Shown = TypeVar("Shown")
LabValues = tuple[tuple[str, bool | int | float | str], ...]
"""What is set in a lab, by name: what can be kept in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabWords:
    """What a lab says: its formula, the live numbers in it, and one sentence on what to see."""

    formula: tuple[str, ...]
    numbers: tuple[tuple[str, str], ...]
    sentence: str


class Lab(Generic[Choice, Shown]):
    """Holds a frozen choice and what `resolve` makes of it; `subscribe` tells "shown" when it changes."""

    def __init__(self, choice: Choice, resolve: Callable[[Choice], Shown]) -> None:
        self._listeners = Listeners()
        self._resolve = resolve
        self.choice = choice
        self.shown = resolve(choice)

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Tell `callback` the name of what changed; the function given back ends it."""
        return self._listeners.add(callback)

    def choose(self, choice: Choice) -> None:
        """Take another choice and work out what follows; the same one again does nothing."""
        if choice != self.choice:
            self.shown = self._resolve(choice)
            self.choice = choice
            self._listeners.tell("shown")


def values_of(choice: object) -> LabValues:
    """The fields of a choice that a person sets: numbers, texts, yes and no."""
    found = ((f.name, getattr(choice, f.name)) for f in fields(cast("Any", choice)))
    return tuple((name, value) for name, value in found if isinstance(value, bool | int | float | str))


def with_values(choice: Choice, values: LabValues) -> Choice:
    """The choice with these values; what it does not know, or cannot be, is left as it is."""
    own = dict(values_of(choice))
    for name, value in values:
        kind = type(own.get(name))
        if name in own and (type(value) is kind or (kind is float and type(value) is int)):
            with suppress(ValueError):  # such as a window larger than the text
                choice = replace(cast("Any", choice), **{name: kind(value)})
    return choice


def claimed(claim: str, answer: Answer) -> str:
    """What a lab is to show, while its numbers are worked out; what went wrong, where they are not."""
    if answer.error:
        return answer.error
    done = f" ({answer.n_done:,} of {answer.n_total:,})" if answer.n_total else ""
    return f"{claim} Measured here now{done}…" if answer.is_asked else claim


def said(value: float, digits: int = 3) -> str:
    """A number as people write it, with a few significant digits."""
    if value != value:
        return "–"
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e7):
        mantissa, exponent = f"{value:.{max(digits - 2, 0)}e}".split("e")
        return f"{mantissa}·10{_raised(int(exponent))}".replace("-", "−")
    text = f"{value:,.0f}" if size >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))

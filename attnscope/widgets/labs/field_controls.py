"""Controls of a lab that read and change one field of its choice, which is a frozen record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnscope.widgets.labs.controls import Pick, Push, Slide, Switch


def _always(_choice: object) -> bool:
    return True


def _plain(value: float) -> str:
    return f"{value:g}"


def slide(
    name: str,
    tip: str,
    field: str,
    values: Sequence[float],
    *,
    text: Callable[[float], str] = _plain,
    is_used: Callable[[Any], bool] = _always,
) -> Slide[Any]:
    """A slider over the values of a field; whole numbers stay whole."""
    kind = int if all(isinstance(value, int) for value in values) else float
    return Slide(
        name=name,
        tip=tip,
        values=tuple(float(value) for value in values),
        get=lambda choice: float(getattr(choice, field)),
        change=lambda choice, value: replace(choice, **{field: kind(value)}),
        text=text,
        is_used=is_used,
    )


def pick(name: str, tip: str, field: str, options: Mapping[Any, str]) -> Pick[Any]:
    """One of the values of a field; `options` are the values and what is read for them."""
    return Pick(
        name=name,
        tip=tip,
        options={str(key): words for key, words in options.items()},
        get=lambda choice: str(getattr(choice, field)),
        change=lambda choice, key: replace(choice, **{field: key}),
    )


def switch(name: str, tip: str, field: str) -> Switch[Any]:
    """A field that is on or off."""
    return Switch(
        name=name,
        tip=tip,
        get=lambda choice: bool(getattr(choice, field)),
        change=lambda choice, is_on: replace(choice, **{field: is_on}),
    )


def redraw(name: str, tip: str, *, step: int = 1, is_used: Callable[[Any], bool] = _always) -> Push[Any]:
    """A button that draws other random numbers: it raises the field `seed` by `step`."""
    return Push(
        name=name,
        tip=tip,
        change=lambda choice: replace(choice, seed=choice.seed + step),
        is_used=is_used,
    )

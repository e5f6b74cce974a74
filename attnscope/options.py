"""Keyword arguments that several functions share: name, type and default of each in one place.

    class PaperOptions(TypedDict, total=False):
        dpi: Annotated[int, 300]

    @spelled_out
    def draw(trace: Trace, **paper: Unpack[PaperOptions]) -> Figure:
        dpi = filled(PaperOptions, paper)["dpi"]

Type checkers and editors know the names from the type, `help` and `inspect.signature` from `spelled_out`.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, cast, get_args, get_origin, get_type_hints

_Function = TypeVar("_Function", bound=Callable[..., object])
_Options = TypeVar("_Options", bound=Mapping[str, Any])


def filled(kind: type[_Options], given: _Options) -> _Options:
    """The options that were given, and the defaults of all others."""
    return {name: given.get(name, default) for name, _, default in _each(kind)}  # type: ignore[return-value]


def picked(kind: type[_Options], given: Mapping[str, Any]) -> _Options:
    """Those of the given options that this kind has."""
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
    """The same function, whose signature names every option; raises TypeError at once for any other."""
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
    """Name, type and default of every option."""
    every = get_type_hints(kind, include_extras=True)
    return [(name, get_args(one)[0], one.__metadata__[0]) for name, one in every.items()]

"""Choices of a figure that are given as words and numbers, looked at before anything is drawn."""

from attnscope.errors import UserError
from attnscope.figures.colours import COLOUR_MAPS
from attnscope.figures.presets import PRESETS
from attnscope.figures.spec import Caption, FigureOrigin
from attnscope.figures.style import SCALES, TURNS, MapStyle


def check_look(style: MapStyle) -> None:
    """Raise UserError for a colour map, scale or turn that there is not, or a number below 0."""
    _require_one_of("colour_map", style.colour_map, COLOUR_MAPS)
    _require_one_of("scale", style.scale, SCALES)
    _require_one_of("turn", style.turn, (*TURNS, None))
    for name in ("least_weight", "n_strongest", "label_every"):
        value = getattr(style, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise _refusal(name, value, "a number from 0")


def check_about(size: object, title: object, caption: object, origin: object) -> None:
    """Raise UserError unless these are a page's name, a text, a Caption and a FigureOrigin, or None."""
    _require_one_of("size", size, (*(preset.name for preset in PRESETS), None))
    if not isinstance(title, str):
        raise _refusal("title", title, "a text")
    if not isinstance(caption, Caption | None):
        raise _refusal("caption", caption, 'attnscope.Caption(model="…", text="…"), or None')
    if not isinstance(origin, FigureOrigin | None):
        raise _refusal("origin", origin, 'attnscope.FigureOrigin(source="…", text="…"), or None')


def _require_one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    if not any(type(value) is type(one) and value == one for one in known):
        raise _refusal(name, value, ", ".join(map(str, known)))


def _refusal(name: str, value: object, expected: str) -> UserError:
    return UserError(
        f"A figure cannot be drawn with {name} {str(value)[:40]!r}.",
        expected=expected,
        action="Correct this value.",
    )

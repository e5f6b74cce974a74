"""Choices of a figure that are given as words and numbers, looked at before anything is drawn."""

import difflib

from PySide6.QtGui import QFontDatabase

from attnscope.errors import UserError
from attnscope.figures.colours import COLOUR_MAPS
from attnscope.figures.page import PRESETS
from attnscope.figures.spec import Caption, FigureOrigin
from attnscope.figures.style import SCALES, TURNS, MapStyle


def check_look(style: MapStyle) -> None:
    """Raise UserError for a colour map, scale or turn that there is not, or a number below 0."""
    _require_one_of("colour_map", style.colour_map, COLOUR_MAPS)
    _require_one_of("scale", style.scale, SCALES)
    _require_one_of("turn", style.turn, (*TURNS, None))
    for name in ("key_name", "query_name", "font"):
        if not isinstance(getattr(style, name), str):
            raise _refusal(name, getattr(style, name), "a text")
    for name in ("least_weight", "n_strongest", "label_every"):
        value = getattr(style, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise _refusal(name, value, "a number from 0")


def check_font(family: str) -> None:
    """Raise UserError for a font that this computer does not have; the empty name is the system's."""
    known = {name.casefold(): name for name in QFontDatabase.families()}
    if family and family.casefold() not in known:
        alike = difflib.get_close_matches(family.casefold(), known, n=3, cutoff=0.5) or sorted(known)[:5]
        raise UserError(
            f"There is no font '{family[:60]}' on this computer.",
            expected="one of them, such as " + ", ".join(known[name] for name in alike),
            action="Install it, or choose another one.",
        )


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

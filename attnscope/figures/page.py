"""A page: common sizes, a height without blank space, readability, title and caption.

Columns of journals are 85, 114 and 174 mm wide, which suits the author guides of most; a slide is 16:9.
Heights are worked out from the layouts that painting uses, in layout pixels at the type's size on paper.
Figures are light, whatever the window's theme.
"""

import difflib
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypedDict

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFontDatabase, QPaintEngine, QPainter

from attnscope.errors import UserError
from attnscope.figures.colours import COLOUR_MAPS, LIGHT, Palette
from attnscope.figures.map_painting import BAR_WIDTH_PX
from attnscope.figures.spec import (
    LAYOUT_DPI,
    MAX_MM,
    MIN_MM,
    MM_PER_INCH,
    PAGE_MM,
    PAGE_PT,
    Caption,
    FigureOrigin,
    FigureSpec,
    FigureT,
    as_drawn,
)
from attnscope.figures.style import (
    LARGE_PX,
    LINE_PX,
    SCALES,
    SMALL_PX,
    TURNS,
    MapStyle,
    font,
    paper_type,
    plain_text,
    value_px,
    wrapped,
)
from attnscope.figures.words_and_numbers import caption_lines, wrong_words

PresetName = Literal["single", "one-and-half", "double", "slide"]


class PaperOptions(TypedDict, total=False):
    """The page of a figure: a named one, or its own lengths in millimetres, points and dots per inch."""

    size: Annotated[PresetName | None, None]
    width_mm: Annotated[float | None, None]
    height_mm: Annotated[float | None, None]
    font_pt: Annotated[float | None, None]
    dpi: Annotated[int, 300]


class PageOptions(PaperOptions, total=False):
    """A page and its words: a title, and whether the figure's caption is below."""

    title: Annotated[str, ""]
    has_caption: Annotated[bool, False]


_TOLERANCE_MM = 0.06
_LEAST_BODY_PX = 120.0
_BAR_PX = BAR_WIDTH_PX + 18.0
_MARGIN_PX = 12.0
_TITLE_LINE_PX = 23.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A size in millimetres and points, with a name for the command line and one for display.

    A slide `is_whole`: its height belongs to it. The height of a column is up to what stands in it.
    """

    name: PresetName
    title: str
    width_mm: float
    height_mm: float
    font_pt: float
    is_whole: bool = False


PRESETS: tuple[Preset, ...] = (
    Preset(name="single", title="single column", width_mm=85.0, height_mm=90.0, font_pt=7.0),
    Preset(name="one-and-half", title="1.5 columns", width_mm=114.0, height_mm=105.0, font_pt=7.5),
    Preset(name="double", title="double column", width_mm=PAGE_MM[0], height_mm=PAGE_MM[1], font_pt=PAGE_PT),
    Preset(name="slide", title="slide 16:9", width_mm=338.7, height_mm=190.5, font_pt=14.0, is_whole=True),
)


def preset_named(name: str) -> Preset | None:
    """The preset of that name; None for any other, such as `custom`."""
    return next((preset for preset in PRESETS if preset.name == name), None)


def preset_of(spec: FigureSpec) -> Preset | None:
    """The preset with the figure's width and type; None if the size is its own."""
    for preset in PRESETS:
        is_wide = abs(spec.width_mm - preset.width_mm) < _TOLERANCE_MM
        is_high = not preset.is_whole or abs(spec.height_mm - preset.height_mm) < _TOLERANCE_MM
        if is_wide and is_high and abs(spec.font_pt - preset.font_pt) < 0.01:
            return preset
    return None


def suiting_preset(spec: FigureSpec) -> Preset:
    """A single column for one map of a short text and for lines, two columns otherwise."""
    name = "single" if spec.suits_column() else "double"
    return next(preset for preset in PRESETS if preset.name == name)


def sized(
    spec: FigureT,
    *,
    preset: str | None = None,
    width_mm: float | None = None,
    height_mm: float | None = None,
    font_pt: float | None = None,
) -> FigureT:
    """`spec` on the given page; the rest from a preset: the given one or the default.

    Without a height the page ends where the figure does, except that of a slide.
    """
    named = preset_named(preset or "")
    page = named or suiting_preset(spec)
    type_pt = page.font_pt if named is not None or width_mm is None else PAGE_PT
    spec = replace(
        spec,
        width_mm=page.width_mm if width_mm is None else width_mm,
        height_mm=page.height_mm if height_mm is None else height_mm,
        font_pt=type_pt if font_pt is None else font_pt,
    )
    return spec if height_mm is not None or page.is_whole else fitted(spec)


def page_of(spec: FigureSpec) -> tuple[float, float, float]:
    """Width and height in millimetres and size of type in points."""
    return spec.width_mm, spec.height_mm, spec.font_pt


def is_fitted(spec: FigureSpec) -> bool:
    """Whether the page ends with the figure."""
    return spec.follows_width and fitted(spec).height_mm == spec.height_mm


def fitted(spec: FigureT) -> FigureT:
    """`spec` at the height of its content at its width; unchanged if a view takes any height."""
    width_px = spec.width_px / spec.type_scale
    if not spec.follows_width or spec.is_empty or not spec.font_pt > 0 or not width_px > 0:
        return spec
    drawn = as_drawn(spec)
    with paper_type(spec.style.font):
        above, below = frame_heights(drawn)
        natural = drawn.natural_height(width_px)
    if natural is None:
        return spec
    body = max(natural, _LEAST_BODY_PX)
    height_mm = (above + body + below + 1.0) * spec.type_scale / LAYOUT_DPI * MM_PER_INCH
    return replace(spec, height_mm=min(max(round(height_mm, 1), MIN_MM), MAX_MM))


def least_width_mm(spec: FigureSpec) -> float:
    """The least width of a figure at its size of type; 0 for a view that takes any width."""
    width = spec.least_px + (_BAR_PX if spec.has_colour_bar() else 0.0)
    return round(width * _mm_of_px(spec) + 0.05, 1) if spec.least_px else 0.0


def check_width(spec: FigureSpec) -> None:
    """Raise UserError if the figure is too narrow to be readable."""
    least = least_width_mm(spec)
    if 0 < spec.width_mm < least:
        raise UserError(
            f"The figure is {spec.width_mm:g} mm wide, too narrow for {spec.font_pt:g} pt type.",
            expected=f"at least {least:g} mm",
            action="Choose a wider page, smaller type, or omit the colour bar.",
        )


def values_hint(spec: FigureSpec, *, wider: str = "--width-mm {:.0f}") -> str:
    """Why requested weights are not in their cells, and what to do; empty if they are.

    `wider` names the width in mm that has room.
    """
    if not spec.style.show_values:
        return ""
    if not spec.has_cells:
        return "values belong to the view head"
    cell_px = _too_narrow(spec)
    if cell_px is None:
        return ""
    follows = is_fitted(spec)
    widths = range(10 * int(spec.width_mm // 10 + 1), int(MAX_MM) + 1, 10)
    grown = (fitted(s) if follows else s for s in (replace(spec, width_mm=float(width)) for width in widths))
    wide = next((figure.width_mm for figure in grown if _too_narrow(figure) is None), None)
    told = f"values do not fit: cells are {cell_px * _mm_of_px(spec):.1f} mm wide"
    return f"{told}; {wider.format(wide)} has room" if wide is not None else told


def _too_narrow(spec: FigureSpec) -> float | None:
    """Width of the cells, in layout pixels, if it is too small for their weights; else None."""
    whole = QRectF(0.0, 0.0, spec.width_px / spec.type_scale, spec.height_px / spec.type_scale)
    with paper_type(spec.style.font):
        cell_px = spec.cell_px(whole.adjusted(0.0, 0.0, 0.0, -sum(frame_heights(spec))))
        return None if cell_px is None or value_px(cell_px, spec.widest_value()) else cell_px


def _mm_of_px(spec: FigureSpec) -> float:
    return spec.type_scale / LAYOUT_DPI * MM_PER_INCH


def paint_figure(painter: QPainter, spec: FigureSpec, *, palette: Palette = LIGHT) -> None:
    """Draw the figure in layout pixels (96 to the inch) from the painter's origin."""
    painter.save()
    painter.scale(spec.type_scale, spec.type_scale)
    is_text = painter.paintEngine().type() == QPaintEngine.Type.SVG
    with paper_type(spec.style.font, is_of_reader=is_text):
        _paint_page(painter, spec, palette)
    painter.restore()


def frame_heights(spec: FigureSpec) -> tuple[float, float]:
    """The heights of the title and of the caption, in layout pixels at the size of type on paper."""
    titles, lines = _frame_lines(spec)
    above = _MARGIN_PX + 24.0 + (len(titles) - 1) * _TITLE_LINE_PX if titles else 0.0
    return above, len(lines) * LINE_PX + 2 * 8 if lines else 0.0


def _frame_lines(spec: FigureSpec) -> tuple[list[str], list[str]]:
    """The lines of the title and of the caption, wrapped to the page's width."""
    width = spec.width_px / spec.type_scale - 2 * _MARGIN_PX
    face = font(LARGE_PX, is_bold=True)
    titles = wrapped((plain_text(spec.title),), width, face) if spec.title else []
    tells_wrong = "badge" in spec.choices and not spec.style.is_plain  # beside the title of its map
    wrong = "" if tells_wrong else wrong_words(spec)
    return titles, wrapped((*filter(None, [wrong]), *caption_lines(spec)), width)


def _paint_page(painter: QPainter, spec: FigureSpec, palette: Palette) -> None:
    whole = QRectF(0, 0, spec.width_px / spec.type_scale, spec.height_px / spec.type_scale)
    painter.fillRect(whole, QColor(palette.background))
    titles, lines = _frame_lines(spec)
    top, caption_px = frame_heights(spec)
    painter.setFont(font(LARGE_PX, is_bold=True))
    painter.setPen(QColor(palette.text))
    for k, line in enumerate(titles):
        painter.drawText(QPointF(_MARGIN_PX, _MARGIN_PX + 17 + k * _TITLE_LINE_PX), line)
    body = QRectF(0, top, whole.width(), max(40.0, whole.height() - top - caption_px))
    spec.paint(painter, body, palette)
    _paint_caption(painter, QRectF(0, whole.height() - caption_px, whole.width(), caption_px), lines, palette)


def _paint_caption(painter: QPainter, rect: QRectF, lines: list[str], palette: Palette) -> None:
    if not lines:
        return
    painter.setPen(QColor(palette.line))
    painter.drawLine(QPointF(_MARGIN_PX, rect.top()), QPointF(rect.right() - _MARGIN_PX, rect.top()))
    painter.setFont(font(SMALL_PX))
    for i, line in enumerate(lines):
        painter.setPen(QColor(palette.warning if line.startswith("⚠") else palette.muted))
        painter.drawText(QPointF(_MARGIN_PX, rect.top() + 8 + 11 + i * LINE_PX), line)


def check_look(style: MapStyle) -> None:
    """Raise UserError for an unknown colour map, scale or turn, or a negative number."""
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
    """Raise UserError for a font missing on this computer; the empty name is the system's."""
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

"""Figures of several panels: which they are, their letters, and the one scale they share.

Two charts never use two legends for one thing: every map of the page is coloured on the same scale, and one
colour bar stands for all of them.
"""

import dataclasses
import string
from collections.abc import Sequence

import numpy as np

from attnscope.errors import UserError
from attnscope.figures.spec import FigureSpec, View
from attnscope.figures.style import Scale
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.sites import gate_note

PANEL_VIEWS: tuple[View, ...] = ("head", "lines", "grid")
MAX_PANELS = len(string.ascii_lowercase)
"""One letter each: a figure of more is no figure that anybody reads."""


def panels_figure(
    base: FigureSpec,
    maps: tuple[HeadMap, ...],
    *,
    has_lines: bool = False,
    grids: tuple[SiteGrid, ...] = (),
) -> FigureSpec:
    """A page with one panel for each map, then their lines, then the grid; the rest is as in `base`.

    Raises UserError for more panels than there are letters.
    """
    plain = _bare(base)
    panels = [dataclasses.replace(plain, view="head", maps=(head_map,)) for head_map in maps]
    if has_lines and maps:
        panels.append(dataclasses.replace(plain, view="lines", maps=maps))
    if grids:
        chosen = tuple(m.head for m in maps if not m.name)
        panels.append(dataclasses.replace(plain, view="grid", grids=grids, selection=chosen))
    return _page(base, panels)


def panels_of(parts: Sequence[FigureSpec], titles: Sequence[str], base: FigureSpec) -> FigureSpec:
    """Figures of heads, lines and grids as the panels of one page, whoever read which text in them.

    `titles` tell the panels apart beside their letters; look, page, title and caption are those of `base`.
    Raises UserError, naming the panel, for a figure that is no panel.
    """
    _check_count(len(parts))
    panels = []
    for letter, part, title in zip(string.ascii_lowercase, parts, titles, strict=False):
        if part.view not in PANEL_VIEWS or part.part is not None:
            shown = f"a map of {len(part.part.queries):,} tokens" if part.part else f"the view '{part.view}'"
            raise UserError(
                f"Panel {letter} cannot show {shown}.",
                expected="one head of a text that is not too long, lines, or a grid",
                action="Leave it out, or save it as a figure of its own.",
            )
        panels.append(
            dataclasses.replace(
                _bare(part),
                view=part.view,
                maps=part.maps,
                grids=part.grids,
                selection=part.selection,
                title=title,
            )
        )
    return _page(base, panels)


def _page(base: FigureSpec, panels: Sequence[FigureSpec]) -> FigureSpec:
    _check_count(len(panels))
    styled = tuple(dataclasses.replace(panel, style=base.style) for panel in panels)
    page = dataclasses.replace(_bare(base), view="panels", panels=styled, title=base.title)
    return dataclasses.replace(page, caption=base.caption)


def _check_count(n_panels: int) -> None:
    if n_panels > MAX_PANELS:
        raise UserError(
            f"A figure of panels shows up to {MAX_PANELS}, not {n_panels}.",
            expected=f"1 to {MAX_PANELS} panels, a to z",
            action="Choose fewer heads, or show their lines or the grid.",
        )


def _bare(spec: FigureSpec) -> FigureSpec:
    """The figure without what it shows and its words."""
    return dataclasses.replace(
        spec, grids=(), maps=(), part=None, compared=None, selection=(), title="", caption=None, panels=(),
        gold=(),
    )  # fmt: skip


def panel_letters(spec: FigureSpec) -> str:
    """One letter for each panel, in reading order."""
    return string.ascii_lowercase[: len(spec.panels)]


def panel_title(panel: FigureSpec) -> str:
    """What a panel shows and, after a dot, what tells it from the others."""
    return " · ".join(filter(None, (panel_subject(panel), panel.title)))


def panel_subject(panel: FigureSpec) -> str:
    """What a panel shows, in as few words as stand beside its letter."""
    if panel.view == "grid":
        stacks = dict.fromkeys(grid.site.stack for grid in panel.grids)
        return f"{' and '.join(stacks)}, all heads"
    if panel.view == "lines":
        return "lines"
    head_map = panel.maps[0]
    words = "" if head_map.name else gate_note(panel.gates.value(head_map.head))
    return f"{head_map.name or head_map.head.label} {head_map.head.stack}{words}"


def map_key(head_map: HeadMap) -> tuple[object, ...]:
    """What two maps share only when they are the same one: head, tokens and weights."""
    return (
        head_map.head, head_map.name, head_map.queries, head_map.keys, head_map.weights.tobytes()
    )  # fmt: skip


def shown_maps(spec: FigureSpec) -> tuple[HeadMap, ...]:
    """Every map of a figure once, in order: its own, or those of its panels."""
    return tuple(head_map for _, _, head_map in lettered_maps(spec))


def lettered_maps(spec: FigureSpec) -> tuple[tuple[str, str, HeadMap], ...]:
    """Every map of a figure once, with letter and title of the first panel that shows it.

    The letter is empty where heads alone tell the maps apart.
    """
    found: dict[tuple[object, ...], tuple[str, str, HeadMap]] = {}
    for letter, part in zip(panel_letters(spec) or "a", spec.panels or (spec,), strict=True):
        title = part.title if spec.panels else ""
        for head_map in part.maps[:1] if part.view == "head" else part.maps:
            found.setdefault(map_key(head_map), (letter, title, head_map))
    are_told_apart = len({(m.head, m.name) for _, _, m in found.values()}) == len(found)
    return tuple(("" if are_told_apart else letter, title, m) for letter, title, m in found.values())


def lines_are_named(spec: FigureSpec, i: int) -> bool:
    """Whether panel `i` names its lines itself: the dashes before the heads' titles do not."""
    lines = [panel for panel in spec.panels if panel.view == "lines"]
    heads = {map_key(panel.maps[0]) for panel in spec.panels if panel.view == "head"}
    panel = spec.panels[i]
    return panel.view == "lines" and (len(lines) > 1 or any(map_key(m) not in heads for m in panel.maps))


def common_peak(spec: FigureSpec) -> float:
    """The weight that the end of the colours stands for in every panel; never 0."""
    maps = shown_maps(spec)
    if spec.style.scale != "head":
        return max((m.full for m in maps), default=1.0)
    peaks = [float(m.weights[np.isfinite(m.weights)].max(initial=0.0)) for m in maps]
    for panel in spec.panels:
        peaks += [float(grid.peaks[np.isfinite(grid.peaks)].max(initial=0.0)) for grid in panel.grids]
    return max(peaks, default=1.0) or 1.0


def on_common_scale(spec: FigureSpec) -> tuple[FigureSpec, ...]:
    """The panels, their maps and grids coloured on one scale without a bar of their own.

    Colours by row have no end in common; each row then ends at its own largest weight in every panel.
    """
    peak = common_peak(spec)
    scale: Scale = "row" if spec.style.scale == "row" else "fixed"
    style = dataclasses.replace(spec.style, scale=scale, has_bar=False)
    return tuple(
        dataclasses.replace(
            panel,
            style=style,
            maps=tuple(dataclasses.replace(m, full=peak) for m in panel.maps),
            grids=tuple(dataclasses.replace(g, peaks=g.peaks / np.float32(peak)) for g in panel.grids),
        )
        for panel in spec.panels
    )

"""Figures of several panels: which they are, their letters, and the one scale they share.

Two charts never use two legends for one thing: every map of the page is coloured on the same scale, and one
colour bar stands for all of them.
"""

import dataclasses
import string

import numpy as np

from attnscope.errors import UserError
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import Scale
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.sites import HeadRef

MAX_HEAD_PANELS = 4


def panels_figure(
    base: FigureSpec,
    maps: tuple[HeadMap, ...],
    *,
    has_lines: bool = False,
    grids: tuple[SiteGrid, ...] = (),
) -> FigureSpec:
    """A page with one panel for each map, then their lines, then the grid; the rest is as in `base`.

    Raises UserError for more maps than a page holds.
    """
    if len(maps) > MAX_HEAD_PANELS:
        raise UserError(
            f"A figure of panels shows {MAX_HEAD_PANELS} heads, not {len(maps)}.",
            expected=f"1 to {MAX_HEAD_PANELS} heads",
            action="Choose fewer heads, or show their lines or the grid.",
        )
    plain = dataclasses.replace(
        base, grids=(), maps=(), part=None, compared=None, selection=(), title="", caption=None, panels=()
    )
    panels = [dataclasses.replace(plain, view="head", maps=(head_map,)) for head_map in maps]
    if has_lines and maps:
        panels.append(dataclasses.replace(plain, view="lines", maps=maps))
    if grids:
        chosen = tuple(m.head for m in maps if not m.name)
        panels.append(dataclasses.replace(plain, view="grid", grids=grids, selection=chosen))
    return dataclasses.replace(
        plain, view="panels", panels=tuple(panels), title=base.title, caption=base.caption
    )


def panel_letters(spec: FigureSpec) -> str:
    """One letter for each panel, in reading order."""
    return string.ascii_lowercase[: len(spec.panels)]


def panel_title(panel: FigureSpec) -> str:
    """What a panel shows, in as few words as stand beside its letter."""
    if panel.view == "grid":
        stacks = dict.fromkeys(grid.site.stack for grid in panel.grids)
        return f"{' and '.join(stacks)}, all heads"
    if panel.view == "lines":
        return "lines"
    head_map = panel.maps[0]
    gate = panel.gates.value(head_map.head)
    words = "" if gate == 1 or head_map.name else " · off" if gate == 0 else f" · gate {gate:.2f}"
    return f"{head_map.name or head_map.head.label} {head_map.head.stack}{words}"


def shown_maps(spec: FigureSpec) -> tuple[HeadMap, ...]:
    """Every map of a figure once, in order: its own, or those of its panels."""
    found: dict[tuple[HeadRef, str], HeadMap] = {}
    for part in spec.panels or (spec,):
        for head_map in part.maps[:1] if part.view == "head" else part.maps:
            found.setdefault((head_map.head, head_map.name), head_map)
    return tuple(found.values())


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

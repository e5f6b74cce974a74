"""`attnscope.figure(trace, …)`: any picture the window can make, without a window."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from PySide6.QtGui import QGuiApplication

from attnscope.errors import UserError
from attnscope.figures import export
from attnscope.figures.colours import ColourMap
from attnscope.figures.spec import Caption, FigureSpec, View
from attnscope.figures.style import MapStyle, Scale
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.sites import Gates, HeadRef, Site, Stack, check_heads

_application: list[QGuiApplication] = []
HeadName = HeadRef | tuple[Stack, int, int]


class Traced(Protocol):
    """What a trace must offer to be drawn."""

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of the model, in order."""

    @property
    def gates(self) -> Gates:
        """The gates the trace was made with."""

    def grid(self, site: Site, max_px: int = 96) -> SiteGrid:
        """All heads of a site as thumbnails."""

    def head_map(self, head: HeadRef) -> HeadMap:
        """One head in full."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that can be saved, or shown by a notebook."""

    spec: FigureSpec

    def save(self, path: str | Path) -> Path:
        """Write SVG, PDF, PNG, CSV or NPZ, by the extension; returns the path written."""
        ensure_gui()
        return export.save(self.spec, path)

    def render(self, format: export.Format) -> bytes:
        """The bytes of a file in this format."""
        ensure_gui()
        return export.render(self.spec, format)

    def _repr_svg_(self) -> str:
        return self.render("svg").decode()


def figure(
    trace: Traced,
    view: View = "grid",
    *,
    head: HeadName | None = None,
    heads: tuple[HeadName, ...] = (),
    stack: Stack | None = None,
    colour_map: ColourMap = "viridis",
    scale: Scale = "fixed",
    show_values: bool = False,
    title: str = "",
    caption: Caption | None = None,
    width_mm: float = 160.0,
    height_mm: float = 130.0,
    dpi: int = 300,
) -> Figure:
    """A figure of a trace: the `grid` of a stack, one `head`, or the `lines` of several `heads`.

    Without `stack` the grid shows the first one; without a head, `head` and `lines` show the first.
    Raises UserError for a head or stack the model does not have.
    """
    if view not in ("grid", "head", "lines"):
        raise UserError(
            f"A trace has no view '{view}'.", expected="grid, head or lines", action="Choose one of these."
        )
    wanted = tuple(_head_ref(h) for h in ((head,) if head is not None else ()) + tuple(heads))
    check_heads(wanted, trace.sites)
    grids: tuple[SiteGrid, ...] = ()
    maps: tuple[HeadMap, ...] = ()
    if view == "grid":
        chosen = stack or (wanted[0].stack if wanted else trace.sites[0].stack)
        grids = tuple(trace.grid(site) for site in _sites_of(trace, chosen))
    else:
        maps = tuple(trace.head_map(h) for h in wanted or _sites_of(trace, stack)[0].heads[:1])
    return Figure(
        FigureSpec(
            view=view,
            grids=grids,
            maps=maps,
            gates=trace.gates,
            selection=wanted if view == "grid" else (),
            style=MapStyle(colour_map=colour_map, scale=scale, show_values=show_values),
            title=title,
            caption=caption,
            width_mm=width_mm,
            height_mm=height_mm,
            dpi=dpi,
        )
    )


def ensure_gui() -> None:
    """Start Qt for painting when nobody has; on Linux it needs no display."""
    if QGuiApplication.instance() is None:
        platform = ["-platform", "offscreen"] if sys.platform.startswith("linux") else []
        _application.append(QGuiApplication(["attnscope", *platform]))


def _head_ref(head: HeadName) -> HeadRef:
    if isinstance(head, HeadRef):
        return head
    stack, layer, index = head
    return HeadRef(stack=stack, layer=layer, head=index)


def _sites_of(trace: Traced, stack: Stack | None) -> tuple[Site, ...]:
    sites = tuple(site for site in trace.sites if stack is None or site.stack == stack)
    if not sites:
        known = ", ".join(dict.fromkeys(site.stack for site in trace.sites))
        raise UserError(
            f"The model has no stack '{stack}'.", expected=known, action="Choose one of these stacks."
        )
    return sites

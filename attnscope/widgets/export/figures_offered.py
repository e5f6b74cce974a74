"""The figures that can be exported now, made from what is shown."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from PySide6.QtWidgets import QWidget

from attnscope.errors import UserError
from attnscope.figures.page import sized
from attnscope.figures.spec import PAGE_MM, PAGE_PT, Caption, FigureOrigin, FigureSpec, Wanted
from attnscope.figures.tiles_painting import MapPart
from attnscope.figures.views import VIEWS
from attnscope.figures.views.grid import GridFigure
from attnscope.figures.views.head import HeadFigure
from attnscope.figures.views.inside import InsideFigure, InsidePart, paper_height_mm
from attnscope.figures.views.lines import LinesFigure
from attnscope.figures.views.panels import MAX_PANELS, panels_figure
from attnscope.figures.views.picture import PictureFigure, PicturePart
from attnscope.figures.words_and_numbers import caption_of
from attnscope.records.findings import GoldCell
from attnscope.records.interventions import Interventions
from attnscope.records.maps import HeadMap, SiteGrid
from attnscope.records.messages import Traced
from attnscope.records.models import ModelInfo
from attnscope.records.sites import Gates, HeadRef, Site
from attnscope.records.tiles import MapTile
from attnscope.records.tokens import Token, Tokens
from attnscope.viewmodels.maps.aspect import sides_of_site
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import Page, ViewState
from attnscope.widgets.map_widget import map_style

_MOST_SQUEEZED_MM = 180.0
Kept = TypeVar("Kept")
SpecOfPage = Callable[[], FigureSpec | None]


def offered_figures(
    session: Session,
    view: ViewState,
    pages: Mapping[Page, SpecOfPage],
    *,
    part: MapPart | None = None,
    long_lines: tuple[HeadMap, ...] = (),
    inside: InsidePart | None = None,
    gold: tuple[GoldCell, ...] = (),
    picture: PicturePart | None = None,
) -> dict[str, FigureSpec]:
    """Every figure that is not empty.

    `part` and `long_lines` are of a map shown by tiles, `inside` of the head that is looked into, `gold` the
    word links marked on the large map, `picture` what a vision model reads.
    """
    found = _session_figures(session, view, part, long_lines)
    head = found.get("head")
    if isinstance(head, HeadFigure):
        found["head"] = head = _with_role(_with_gold(head, gold), session.roles)
    if inside is not None and "grid" in found:
        found["inside"] = found["grid"].as_view(
            InsideFigure,
            inside=inside,
            origin=None,
            width_mm=PAGE_MM[0],
            font_pt=PAGE_PT,
            height_mm=paper_height_mm(inside.inside),
        )
    if picture is not None and head is not None:
        found["picture"] = head.as_view(PictureFigure, maps=head.held_maps(), picture=picture, origin=None)
    if "lines" in found:
        found |= {spec.view: spec for spec in _further_views(session, found)}
    found = {name: sized(spec) if spec.follows_width else spec for name, spec in found.items()}
    for make in pages.values():
        spec = make()
        if spec is not None:
            found[spec.view] = _in_columns(spec)
    return found


def current_figure(view: ViewState, offered: Mapping[str, FigureSpec]) -> str | None:
    """The offered figure in the user's current view."""
    wanted: tuple[str, ...] = ("head", "grid")
    if view.page == "compare":
        wanted = ("difference",)
    elif view.page == "positions":
        wanted = ("positions",)
    elif view.page == "train":
        wanted = ("curves",)
    elif view.page == "labs":
        wanted = ("lab",)
    elif "answer" in offered:
        wanted = ("answer",)
    elif view.view == "inside":
        wanted = ("inside", "head", "grid")
    elif view.view == "lines":
        wanted = ("lines", "grid")
    elif view.view == "picture":
        wanted = ("picture", "head", "grid")
    return next((name for name in wanted if name in offered), next(iter(offered), None))


def _session_figures(
    session: Session, view: ViewState, part: MapPart | None, long_lines: tuple[HeadMap, ...]
) -> dict[str, FigureSpec]:
    traced = session.traced
    if traced is None or session.model is None or not session.text.strip():
        return {}
    notes = filter(None, (traced.source.cut_words, traced.part_words, session.model.picture_words))
    caption = caption_of(session.model, traced, "; ".join(notes))
    origin = _origin(session, session.model, caption)
    style = map_style(view)
    found: dict[str, FigureSpec] = {}
    shown = (grid for grid in traced.grids if traced.knows(grid.site.key))
    grids = tuple(session.maps.grid(grid) for grid in shown if grid.site.stack == session.stack)
    if grids:
        found["grid"] = GridFigure(
            grids=grids,
            exact=session.maps.exact(grids),
            gates=traced.gates,
            interventions=traced.interventions,
            style=style,
            caption=caption,
            origin=origin,
        )
    primary = session.maps.of(session.primary)
    maps = long_lines or session.maps.shown
    if primary is not None or part is not None:
        found["head"] = HeadFigure(
            maps=(primary,) if primary is not None and part is None else (),
            part=part,
            gates=traced.gates,
            interventions=traced.interventions,
            style=style,
            caption=caption,
            origin=origin,
        )
    if maps:
        found["lines"] = LinesFigure(
            maps=maps,
            gates=traced.gates,
            interventions=traced.interventions,
            style=style,
            caption=caption,
            origin=origin if not long_lines else None,  # a part cannot be asked for again
        )
        found["panels"] = panels_figure(
            found["lines"], maps[2 - MAX_PANELS :], has_lines=True, grids=grids if not long_lines else ()
        )
    return found


@dataclass(frozen=True, slots=True)
class _ShownTrace:
    """The window's part of a trace: all thumbnails, and the maps of the selected heads."""

    session: Session
    traced: Traced

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(grid.site for grid in self.traced.grids)

    @property
    def source(self) -> Tokens:
        return self.traced.source

    @property
    def target(self) -> Tokens | None:
        return self.traced.target

    @property
    def gates(self) -> Gates:
        return self.traced.gates

    @property
    def interventions(self) -> Interventions:
        return self.traced.interventions

    def tokens(self, site: Site) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return sides_of_site(site, self.traced)

    def grid(self, site: Site, max_px: int = 96) -> SiteGrid:
        return next(grid for grid in self.traced.grids if grid.site == site)

    def head_map(self, head: HeadRef) -> HeadMap:
        found = (one for one in self.session.maps.raw if one.head == head)
        return _held(next(found, None), head)

    def head_tile(self, head: HeadRef) -> MapTile:
        return _held(None, head)


def _held(found: Kept | None, head: HeadRef) -> Kept:
    """The window's map of a head; raises UserError if it has none."""
    if found is None:
        raise UserError(f"The window holds no map of {head}.", expected="the map of a selected head")
    return found


def _further_views(session: Session, known: Mapping[str, FigureSpec]) -> Iterator[FigureSpec]:
    """The views of a trace that no page makes, of the selected heads, if the window has their data."""
    assert session.traced is not None
    wanted = Wanted(
        trace=_ShownTrace(session, session.traced),
        heads=session.selection,
        stack=session.stack,
        aspect=session.aspect,
    )
    lines = known["lines"]
    look = {name: getattr(lines, name) for name in ("gates", "interventions", "style", "caption")}
    for name, kind in VIEWS.items():
        if kind.reads_trace and name not in known:
            with suppress(UserError):
                yield kind.of_trace(wanted, **look)


def _in_columns(spec: FigureSpec) -> FigureSpec:
    """The figure of a page over two columns of a journal, unless it needs more room."""
    is_wider = spec.width_mm > _MOST_SQUEEZED_MM
    return spec if is_wider else replace(spec, width_mm=PAGE_MM[0], font_pt=PAGE_PT)


def _with_role(spec: HeadFigure, roles: Mapping[HeadRef, str]) -> HeadFigure:
    """The figure of a map with its head's role in the caption."""
    role = roles.get(spec.maps[0].head, "") if spec.maps and not spec.maps[0].name else ""
    return replace(spec, caption=replace(spec.caption, role=role)) if spec.caption is not None else spec


def _with_gold(spec: HeadFigure, gold: tuple[GoldCell, ...]) -> HeadFigure:
    """The figure of a map with gold links, with the marks explained in the caption."""
    if not gold:
        return spec
    marks = "squares: gold links" + ("" if all(cell.is_sure for cell in gold) else ", rings: possible ones")
    caption = spec.caption
    if caption is not None:
        caption = replace(caption, note="; ".join(filter(None, (caption.note, marks))))
    return replace(spec, gold=gold, caption=caption)


def _origin(session: Session, model: ModelInfo, caption: Caption) -> FigureOrigin:
    return FigureOrigin(
        source=model.source,
        model=model.name,
        sha256=model.sha256,
        text=caption.text,
        target=caption.target,
        past_trained=session.texts.is_past_trained,
        heads=session.selection,
        aspect=session.aspect,
    )


def export_one(spec: FigureSpec | None, parent: QWidget) -> None:
    """Open the dialog on a figure, if there is one."""
    if spec is None:
        return
    from attnscope.widgets.export.dialog import open_export  # not before the first paint

    open_export({spec.view: spec}, spec.view, parent)

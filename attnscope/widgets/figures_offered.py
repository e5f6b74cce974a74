"""The figures that can be exported at this moment, made from what is shown."""

from collections.abc import Callable, Mapping

from attnscope.figures.spec import Caption, FigureSpec, View
from attnscope.viewmodels.session import Session
from attnscope.viewmodels.view_state import Page, ViewState
from attnscope.widgets.map_style import map_style

SpecOfPage = Callable[[], FigureSpec | None]


def offered_figures(
    session: Session, view: ViewState, pages: Mapping[Page, SpecOfPage]
) -> dict[View, FigureSpec]:
    """Every figure there is something to show for."""
    found = _session_figures(session, view)
    for make in pages.values():
        spec = make()
        if spec is not None:
            found[spec.view] = spec
    return found


def current_figure(view: ViewState, offered: Mapping[View, FigureSpec]) -> View | None:
    """Which of the offered figures the person is looking at."""
    wanted: tuple[View, ...] = ("head", "grid")
    if view.page == "positions":
        wanted = ("positions",)
    elif view.page == "train":
        wanted = ("curves",)
    elif view.view == "lines":
        wanted = ("lines", "grid")
    return next((name for name in wanted if name in offered), next(iter(offered), None))


def _session_figures(session: Session, view: ViewState) -> dict[View, FigureSpec]:
    traced = session.traced
    if traced is None or session.model is None or not session.text.strip():
        return {}
    caption = Caption(
        model=session.model.name,
        sha256=session.model.sha256,
        text=traced.source.text,
        target=traced.target.text if traced.target else None,
        step=traced.step,
    )
    style = map_style(view)
    found: dict[View, FigureSpec] = {}
    grids = tuple(grid for grid in traced.grids if grid.site.stack == session.stack)
    if grids:
        found["grid"] = FigureSpec(
            view="grid",
            grids=grids,
            gates=traced.gates,
            style=style,
            caption=caption,
        )
    primary = session.map_of(session.primary)
    maps = tuple(m for m in map(session.map_of, session.selection) if m)
    if primary is not None:
        found["head"] = FigureSpec(
            view="head", maps=(primary,), gates=traced.gates, style=style, caption=caption
        )
    if maps:
        found["lines"] = FigureSpec(view="lines", maps=maps, gates=traced.gates, style=style, caption=caption)
    return found

"""The figures of `attnscope figure` that show no maps: graphs, positions, training curves, scaling laws."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from attnscope.cli.figure_building import build_caption
from attnscope.cli.inputs import open_model, parse_stack
from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.page import PresetName
    from attnscope.models import Model
    from attnscope.trace import Trace


class _Page(TypedDict):
    title: str
    size: "PresetName | None"
    width_mm: float | None
    height_mm: float | None
    font_pt: float | None
    dpi: int


def by_view(*makers: Callable[..., "Figure"]) -> dict[str, Callable[..., "Figure"]]:
    """The functions by the view that each is called after."""
    return {maker.__name__.removesuffix("_figure"): maker for maker in makers}


def graph_figure(arguments: argparse.Namespace, model: "Model", trace: "Trace") -> "Figure":
    """Attention as a graph, from one output token down to the inputs."""
    from attnscope.drawing import graph_figure

    try:
        token = int(arguments.query or "-1")
    except ValueError as error:
        raise UserError(
            f"--query {arguments.query!r} is no output token.",
            expected="a number from 0, or -1 for the last",
            action="For instance --query 3; tokens count from 0.",
        ) from error
    caption = build_caption(arguments, model, trace) if arguments.caption else None
    stack = parse_stack(arguments.stack, trace.sites) if arguments.stack else None
    return graph_figure(
        trace,
        token,
        stack=stack,
        threshold=arguments.threshold,
        caption=caption,
        **_page(arguments),
    )


def positions_figure(arguments: argparse.Namespace) -> "Figure":
    """Encodings of the model's size side by side, its own among them where it has one."""
    from attnscope.drawing import positions_figure

    model = open_model(arguments)
    return positions_figure(
        model, tuple(arguments.encodings.split(",")), has_caption=arguments.caption, **_page(arguments)
    )


def curves_figure(arguments: argparse.Namespace) -> "Figure":
    """The curves of a run folder, or of all runs in a folder."""
    from attnscope.drawing import curves_figure

    charts = tuple(filter(None, arguments.charts.split(",")))
    return curves_figure(
        arguments.model,
        charts=charts,
        over_seeds=arguments.over_seeds,
        has_caption=arguments.caption,
        **_page(arguments),
    )


def scaling_figure(arguments: argparse.Namespace) -> "Figure":
    """Loss against size over the finished runs in a folder."""
    from attnscope.drawing import scaling_figure

    return scaling_figure(arguments.model, has_caption=arguments.caption, **_page(arguments))


def _page(arguments: argparse.Namespace) -> _Page:
    return _Page(
        title=arguments.title,
        size=arguments.size,
        width_mm=arguments.width_mm,
        height_mm=arguments.height_mm,
        font_pt=arguments.font_pt,
        dpi=arguments.dpi,
    )

"""`attnscope figure`: any picture that the window can make, without a display."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import boot
from attnscope.cli.difference import add_other_arguments, build_difference
from attnscope.cli.figure_again import draw_again
from attnscope.cli.figure_batch import add_batch_arguments, draw_each
from attnscope.cli.figure_building import build_figure, other_stacks
from attnscope.cli.figure_options import (
    add_aspect_arguments,
    add_look_arguments,
    add_page_arguments,
    check_colours,
    on_page,
    settle_page,
)
from attnscope.cli.figure_panels import add_panel_arguments, draw_panels
from attnscope.cli.given import note_given
from attnscope.cli.inputs import add_file_argument, add_input_arguments, load_and_trace
from attnscope.cli.other_figures import (
    by_view,
    curves_figure,
    graph_figure,
    positions_figure,
    scaling_figure,
)
from attnscope.cli.pictures import on_picture
from attnscope.cli.ranges import real, whole
from attnscope.cli.terminal import say_saved
from attnscope.records.sites import require_heads
from attnscope.schemes.registry import module_names

if TYPE_CHECKING:
    from attnscope.figures.spec import FigureSpec

_NO_COMMAND = ("inside", "lab")
"""Views whose contents the window alone makes."""
_OF_TRACES = {"difference": build_difference, **by_view(graph_figure)}
_WITHOUT_TEXT = by_view(positions_figure, curves_figure, scaling_figure)


def view_names() -> list[str]:
    """Every view that the command draws: each has a file, but for what other views show too."""
    names = {*module_names("attnscope.figures.views"), *_WITHOUT_TEXT}
    return sorted(names - {*_NO_COMMAND})


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("figure")
    note_given(parser)
    add_input_arguments(parser, needs_text=False)
    add_file_argument(parser)
    parser.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="FILE",
        help=".svg, .pdf, .png, .csv, .npz, .html to hover over, or .figure.json to draw it again later",
    )
    parser.add_argument(
        "--view",
        default="grid",
        choices=view_names(),
        help="default: grid; curves takes a run folder, or a folder of several, as scaling does",
    )
    parser.add_argument(
        "--stack", help="as info names it: encoder, cross, pool…; needed where there are several"
    )
    parser.add_argument("--layer", type=whole(), help="counts from 0")
    parser.add_argument("--head", help="counts from 0; also several: 0,2,5, or L0H3,cross:L2H1")
    _add_view_arguments(parser)
    add_page_arguments(parser)
    add_look_arguments(parser)
    add_panel_arguments(parser)
    add_aspect_arguments(parser)
    add_other_arguments(parser)
    add_batch_arguments(parser)
    parser.set_defaults(run=run)


def _add_view_arguments(parser: argparse.ArgumentParser) -> None:
    """What one view alone asks for."""
    parser.add_argument(
        "--encodings",
        default="sinusoidal,rotary,model",
        help="for positions: some of sinusoidal, learned, rotary, binary, model (default: %(default)s)",
    )
    parser.add_argument(
        "--charts",
        default="",
        help="for curves: some of loss, rate, norm, speed, heads, pairs (default: all that have data)",
    )
    parser.add_argument(
        "--over-seeds",
        action="store_true",
        help="for curves: runs that differ only in the seed as one: mean held-out loss and deviation",
    )
    parser.add_argument(
        "--query",
        help="for picture: the token whose weights are shown, by number or as row,column (default: 0); "
        "for graph: the output token it starts from, by number, -1 the last (default: -1)",
    )
    parser.add_argument(
        "--threshold",
        type=real(),
        default=0.01,
        help="for graph: leave out lines that carry less of the output (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check everything that needs no model, trace, draw, write."""
    application = boot.offscreen_application()
    from attnscope.figures.figure_file import is_figure_file
    from attnscope.figures.file_names import checked_target

    is_again = is_figure_file(arguments.model)
    if is_again:
        check_colours(arguments)
    else:
        settle_page(arguments)
        if arguments.each and not arguments.panel:
            return draw_each(arguments)
    checked_target(arguments.out)
    if is_again:
        drawn, about = draw_again(arguments)
        path = drawn.save(Path(arguments.out))
    elif arguments.panel:
        drawn, about = draw_panels(arguments)
        path = drawn.save(Path(arguments.out))
        about += _hints(drawn.spec)
    elif arguments.view in _WITHOUT_TEXT:
        path, about = _WITHOUT_TEXT[arguments.view](arguments).save(Path(arguments.out)), arguments.view
    else:
        model, trace = load_and_trace(arguments)
        require_heads(trace.sites)
        drawn = _OF_TRACES.get(arguments.view, build_figure)(arguments, model, trace)
        if arguments.view == "picture":
            drawn = on_page(arguments, on_picture(drawn, model, arguments.text, arguments.query or "0").spec)
        path = drawn.save(Path(arguments.out))
        about = trace.check().sentence + other_stacks(arguments, trace.sites) + _hints(drawn.spec)
    say_saved(path, about)
    del application
    return 0


def _hints(spec: "FigureSpec") -> str:
    """What would make the figure tell more."""
    from attnscope.figures.page import values_hint

    hint = values_hint(spec) or spec.hint()
    return even_hint(spec) + (f"; {hint}" if hint else "")


def even_hint(spec: "FigureSpec") -> str:
    """What to do where the scale up to 1 shows all maps in one colour; empty otherwise."""
    from attnscope.figures.caption import evenness

    words = evenness(spec)
    return f"; {words}, --scale head shows the differences" if words else ""

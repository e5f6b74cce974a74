"""`attnscope figure`: any picture of the window, without a display."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import boot
from attnscope.cli.arguments import given_options, note_given, real, tell_unused, whole
from attnscope.cli.figure_many import (
    add_batch_arguments,
    add_panel_arguments,
    draw_again,
    draw_each,
    draw_panels,
)
from attnscope.cli.figure_options import (
    add_aspect_arguments,
    add_look_arguments,
    add_page_arguments,
    build_caption,
    build_figure,
    check_colours,
    chosen_heads,
    on_given_page,
    other_stacks,
    paper_of,
    settle_page,
)
from attnscope.cli.inputs import (
    add_file_argument,
    add_input_arguments,
    load_and_trace,
    open_model,
    parse_stack,
)
from attnscope.cli.terminal import say_saved
from attnscope.counting import listed
from attnscope.errors import UserError
from attnscope.records.sites import require_heads
from attnscope.schemes import module_names

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import FigureSpec
    from attnscope.models import Model
    from attnscope.records.maps import Picture
    from attnscope.trace import Trace


# `attnscope figure --view difference`: one head of two texts, models or settings, and their difference.


def add_other_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of B, for where it differs from A."""
    parser.add_argument(
        "--with-model", metavar="MODEL", help="for difference: the model of B (default: MODEL)"
    )
    parser.add_argument("--with-text", metavar="TEXT", help="for difference: text of B (default: --text)")
    parser.add_argument("--with-target", metavar="TEXT", help="for difference: the second text of B")
    parser.add_argument(
        "--with-gate",
        action="append",
        default=[],
        metavar="[STACK:]L0H1=0",
        help="for difference: a gate of B alone; may be given again",
    )
    parser.add_argument("--with-stack", metavar="STACK", help="for difference: the stack of B's head")
    parser.add_argument(
        "--align",
        default="pairs",
        choices=("pairs", "pieces", "position"),
        help="for difference: how tokens are aligned (default: %(default)s)",
    )
    parser.add_argument(
        "--delta-end",
        type=real(),
        default=0.0,
        metavar="X",
        help="for difference: the |B − A| at the ends of the colours (default: the largest)",
    )


def build_difference(arguments: argparse.Namespace, model: "Model", trace: "Trace") -> "Figure":
    """Build A from the usual arguments, and B from those changed by `--with`."""
    from attnscope.cli.inputs import parse_gates, parse_stack, tell_note
    from attnscope.figures.figure import figure
    from attnscope.models.opening import open_source

    if not _has_other(arguments):
        raise UserError(
            "A and B are the same.",
            expected="--gate for A, or --with-text, --with-target, --with-model or --with-gate for B",
            action="Say what B is, for instance --with-gate cross:L0H1=0.",
        )
    other_model = open_source(arguments.with_model, arguments.device) if arguments.with_model else model
    if other_model is not model:
        tell_note(other_model)
    target = arguments.with_target
    if target is None and arguments.with_text is None and other_model.info.takes_target:
        target = arguments.target
    text = arguments.with_text or arguments.text
    if other_model.info.is_recorded and other_model is not model:
        text, target = other_model.info.samples[0].text, other_model.info.samples[0].target
    other = other_model.trace(text, target, parse_gates(arguments.with_gate, other_model.sites))
    stack, heads = chosen_heads(arguments, trace.sites)
    other_head = heads[0]
    if arguments.with_stack is not None or other_head.stack not in {site.stack for site in other.sites}:
        other_head = replace(
            other_head, stack=parse_stack(arguments.with_stack, other.sites, how="--with-stack {}")
        )
    return figure(
        trace,
        "difference",
        stack=stack,
        heads=heads,
        other=other,
        other_head=other_head,
        align=arguments.align,
        delta_end=arguments.delta_end,
        names=_names(arguments),
        colour_map=arguments.colour_map,
        scale=arguments.scale,
        show_values=arguments.values,
        rows=arguments.rows,
        badge=arguments.badge,
        key_name=arguments.key_name,
        query_name=arguments.query_name,
        font=arguments.font,
        title=arguments.title,
        caption=build_caption(arguments, model, trace) if arguments.caption else None,
        **paper_of(arguments),
    )


def _has_other(arguments: argparse.Namespace) -> bool:
    others = (arguments.with_model, arguments.with_text, arguments.with_target, arguments.with_gate)
    return any(bool(wish) for wish in (*others, arguments.gate))


def _names(arguments: argparse.Namespace) -> tuple[str, str]:
    """Names of A and B: only what distinguishes them."""
    first, second = ["A"], ["B"]
    if arguments.with_model:
        first.append(_model_name(arguments.model, arguments.with_model))
        second.append(_model_name(arguments.with_model, arguments.model))
    if arguments.with_text:
        first.append(f"“{arguments.text}”")
        second.append(f"“{arguments.with_text}”")
    if arguments.with_target:
        first.append(f"target “{arguments.target or 'its own'}”")
        second.append(f"target “{arguments.with_target}”")
    if arguments.gate or arguments.with_gate:
        first.append(", ".join(arguments.gate) or "untouched")
        second.append(", ".join(arguments.with_gate) or "untouched")
    return " · ".join(first), " · ".join(second)


def _model_name(written: str, other: str) -> str:
    """A model's folder name, without its parents if that distinguishes it from the other."""
    name, others = Path(written).name, Path(other).name
    return name if name and name != others else written


# The figures of `attnscope figure` that show no maps: graphs, positions, training curves, scaling laws.


def by_view(*makers: Callable[..., "Figure"]) -> dict[str, Callable[..., "Figure"]]:
    """The builders by the name of their view."""
    return {maker.__name__.removeprefix("build_"): maker for maker in makers}


def build_graph(arguments: argparse.Namespace, model: "Model", trace: "Trace") -> "Figure":
    """Build attention as a graph, from one output token down to the inputs."""
    from attnscope.drawing import graph_figure

    try:
        token = int(arguments.query or "-1")
    except ValueError as error:
        raise UserError(
            f"--query {arguments.query!r} is not an output token.",
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
        title=arguments.title,
        **paper_of(arguments),
    )


def build_positions(arguments: argparse.Namespace) -> "Figure":
    """Encodings of the model's size side by side, its own among them where it has one."""
    from attnscope.drawing import positions_figure

    model = open_model(arguments)
    return positions_figure(
        model,
        tuple(arguments.encodings.split(",")),
        view=arguments.view,
        only=arguments.only,
        has_caption=arguments.caption,
        title=arguments.title,
        **paper_of(arguments),
    )


def build_curves(arguments: argparse.Namespace) -> "Figure":
    """The curves of a run folder, or of all runs in a folder."""
    from attnscope.drawing import curves_figure

    charts = tuple(filter(None, arguments.charts.split(",")))
    return curves_figure(
        arguments.model,
        charts=charts,
        over_seeds=arguments.over_seeds,
        has_caption=arguments.caption,
        title=arguments.title,
        **paper_of(arguments),
    )


def build_scaling(arguments: argparse.Namespace) -> "Figure":
    """Loss against size over the finished runs in a folder."""
    from attnscope.drawing import scaling_figure

    return scaling_figure(
        arguments.model, has_caption=arguments.caption, title=arguments.title, **paper_of(arguments)
    )


# `attnscope figure --view picture`: one head of a vision model over its picture.


def on_picture(drawn: "Figure", model: "Model", text: str, query: str) -> "Figure":
    """The figure of one head, laid over the picture that the text names.

    Raises UserError for a model of text, a long map, and a query that is not there.
    """
    from attnscope.models.inputs import picture

    seen = picture(model, text)
    return drawn.on_picture(seen, _token(query, seen))


def _token(query: str, picture: "Picture") -> int:
    """The token named by `--query`; raises UserError."""
    row, comma, column = query.partition(",")
    if row.strip().isdecimal() and (column.strip().isdecimal() or not comma):
        numbers = (int(row), int(column or 0))
        if comma and numbers[0] < picture.n_rows and numbers[1] < picture.n_columns:
            return picture.token(*numbers)
        if not comma and numbers[0] < picture.n_tokens:
            return numbers[0]
    raise UserError(
        f"--query {query!r} is not a token of this picture.",
        expected=f"a number from 0 to {picture.n_tokens - 1}, or row,column of {picture.n_rows} × "
        f"{picture.n_columns} patches, from 0",
        action="Correct it, for instance --query 3,4.",
    )


_NO_COMMAND = ("answer", "inside", "lab")
"""Views that are not of a trace: `ask` and `lab` draw theirs, the window *Step by step*."""
_OF_TRACES = {"difference": build_difference, **by_view(build_graph)}
_WITHOUT_TEXT = by_view(build_curves, build_scaling)


def view_names() -> list[str]:
    """All views of the command: each has a file, except those shown by other views too."""
    names = {*module_names("attnscope.figures.views"), *_WITHOUT_TEXT}
    return sorted(names - {*_NO_COMMAND})


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
    parser.add_argument(
        "--encodings",
        default="sinusoidal,rotary,model",
        help="for positions: position schemes that have a matrix, and model for the model's own; a name that "
        "is not among them is answered with all (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="WHICH",
        help="for other views of encodings: what to draw, for instance the dimensions of waves: 0,4-7",
    )
    parser.add_argument(
        "--charts",
        default="",
        help="for curves: some of loss, rate, norm, speed, accuracy, heads, spans, pairs, sizes (default: "
        "all that have data)",
    )
    parser.add_argument(
        "--over-seeds",
        action="store_true",
        help=(
            "for curves: draw runs that differ only in their seed as one: mean held-out loss and its "
            "deviation"
        ),
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


def _tell_unused(arguments: argparse.Namespace) -> None:
    """Report on standard error the options for some views that the drawn view ignores."""
    from attnscope.figures.views import VIEWS

    read = {name: view.options | _of_encodings(view) for name, view in VIEWS.items()}
    given = given_options(arguments)
    for option in sorted(given & frozenset().union(*read.values())):
        views = [name for name, options in read.items() if option in options]
        if arguments.view not in views:
            tell_unused([option], f"on the view {arguments.view}: it is for {listed(views)}")


def _of_encodings(view: "type[FigureSpec]") -> frozenset[str]:
    """Options that a view reads because it shows positional encodings."""
    return frozenset(
        name for name, is_read in (("encodings", view.reads_positions), ("only", view.asks)) if is_read
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
        if not arguments.panel:
            _tell_unused(arguments)
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
    elif maker := _maker_without_text(arguments.view):
        path, about = maker(arguments).save(Path(arguments.out)), arguments.view
    else:
        model, trace = load_and_trace(arguments)
        require_heads(trace.sites)
        drawn = _OF_TRACES.get(arguments.view, build_figure)(arguments, model, trace)
        if arguments.view == "picture":
            drawn = on_given_page(
                arguments, on_picture(drawn, model, arguments.text, arguments.query or "0").spec
            )
        path = drawn.save(Path(arguments.out))
        about = trace.check().sentence + other_stacks(arguments, trace.sites) + _hints(drawn.spec)
    say_saved(path, about)
    del application
    return 0


def _maker_without_text(view: str) -> "Callable[[argparse.Namespace], Figure] | None":
    from attnscope.figures.views import VIEWS

    reads_positions = view in VIEWS and VIEWS[view].reads_positions
    return build_positions if reads_positions else _WITHOUT_TEXT.get(view)


def _hints(spec: "FigureSpec") -> str:
    """Hints that would make the figure more informative."""
    from attnscope.figures.page import values_hint

    hint = values_hint(spec) or spec.hint()
    return even_hint(spec) + (f"; {hint}" if hint else "")


def even_hint(spec: "FigureSpec") -> str:
    """Hint for when the scale up to 1 shows all maps in one colour; empty otherwise."""
    from attnscope.figures.words_and_numbers import evenness

    words = evenness(spec)
    return f"; {words}, --scale head shows the differences" if words else ""

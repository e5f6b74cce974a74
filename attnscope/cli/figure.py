"""`attnscope figure`: any picture that the window can make, without a display."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import boot
from attnscope.cli.difference import add_other_arguments, build_difference
from attnscope.cli.figure_again import draw_again
from attnscope.cli.figure_batch import add_batch_arguments, draw_each
from attnscope.cli.figure_options import (
    add_aspect_arguments,
    add_look_arguments,
    add_page_arguments,
    origin_of,
    settle_page,
)
from attnscope.cli.inputs import (
    add_file_argument,
    add_input_arguments,
    load_and_trace,
    parse_heads,
    parse_stack,
)
from attnscope.cli.other_figures import curves_figure, positions_figure, scaling_figure
from attnscope.cli.pictures import on_picture
from attnscope.cli.terminal import say
from attnscope.errors import UserError
from attnscope.records.sites import HeadRef, Site, Stack, check_heads, require_heads

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption, View
    from attnscope.figures.style import Turn
    from attnscope.models import Model
    from attnscope.trace import Trace

VIEWS = ("grid", "head", "lines", "picture", "panels", "difference", "positions", "curves", "scaling")
_WITHOUT_TEXT = {"positions": positions_figure, "curves": curves_figure, "scaling": scaling_figure}
_TURNS: "dict[str, Turn | None]" = {"auto": None, "0": 0, "45": 45, "90": 90}
_LABELS = re.compile(r"L\d{1,6}H\d{1,6}(,L\d{1,6}H\d{1,6})*")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "figure", help="draw a figure: attention, positions, training curves, or a .figure.json again"
    )
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
        choices=VIEWS,
        help="default: grid; curves takes a run folder, or a folder of several, as scaling does",
    )
    parser.add_argument(
        "--stack", help="as info names it: encoder, cross, pool…; needed where there are several"
    )
    parser.add_argument("--layer", type=int, help="counts from 0")
    parser.add_argument("--head", help="counts from 0; also several, such as 0,2,5, or L0H3,L2H1")
    parser.add_argument(
        "--encodings",
        default="sinusoidal,rotary,model",
        help="for positions: some of sinusoidal, learned, rotary, binary, model (default: %(default)s)",
    )
    parser.add_argument(
        "--query",
        default="0",
        help="for picture: the token whose weights are shown, by number or as row,column (default: 0)",
    )
    add_page_arguments(parser)
    add_look_arguments(parser)
    add_aspect_arguments(parser)
    add_other_arguments(parser)
    add_batch_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check everything that needs no model, trace, draw, write."""
    application = boot.offscreen_application()
    from attnscope.figures.export import target_of
    from attnscope.figures.figure_file import is_figure_file

    settle_page(arguments)
    if arguments.each:
        return draw_each(arguments)
    target_of(arguments.out)
    if is_figure_file(arguments.model):
        drawn, trace = draw_again(arguments)
        path, about = drawn.save(Path(arguments.out)), trace.check().sentence
    elif arguments.view in _WITHOUT_TEXT:
        path, about = _WITHOUT_TEXT[arguments.view](arguments).save(Path(arguments.out)), arguments.view
    else:
        model, trace = load_and_trace(arguments)
        require_heads(trace.sites)
        build = build_difference if arguments.view == "difference" else build_figure
        drawn = build(arguments, model, trace)
        if arguments.view == "picture":
            drawn = on_picture(drawn, model, arguments.text, arguments.query)
        path = drawn.save(Path(arguments.out))
        about = trace.check().sentence + other_stacks(arguments, trace.sites)
    say(f"{path}: {path.stat().st_size:,} bytes, {about}")
    del application
    return 0


def build_figure(
    arguments: argparse.Namespace, model: "Model", trace: "Trace", *, head: HeadRef | None = None
) -> "Figure":
    """The figure that the arguments ask for, or of `head`; raises UserError for a head that is not there."""
    from attnscope.figures.export import target_of
    from attnscope.figures.figure import figure

    stack, heads = chosen_heads(arguments, trace.sites) if head is None else (head.stack, (head,))
    view: View = "head" if arguments.view == "picture" else arguments.view
    if view == "grid" and target_of(arguments.out)[1] == "html":
        chosen = stack or trace.sites[0].stack  # a page shows whole maps: every head of the stack
        view, heads = "lines", tuple(h for s in trace.sites if s.stack == chosen for h in s.heads)
    return figure(
        trace,
        view,
        stack=stack,
        heads=heads,
        also=tuple(filter(None, arguments.also.split(","))),
        colour_map=arguments.colour_map,
        scale=arguments.scale,
        show_values=arguments.values,
        blend=arguments.blend,
        over=arguments.over,
        hidden=arguments.hidden,
        renormalised=arguments.renormalised,
        by_word=arguments.by_word,
        block=arguments.block,
        least_weight=arguments.least_weight,
        n_strongest=arguments.n_strongest,
        turn=_TURNS[arguments.turn],
        label_every=arguments.label_every,
        has_bar=not arguments.no_bar,
        title=arguments.title or (trace.sites[0].stack if other_stacks(arguments, trace.sites) else ""),
        caption=build_caption(arguments, model, trace) if arguments.caption else None,
        width_mm=arguments.width_mm,
        height_mm=arguments.height_mm,
        font_pt=arguments.font_pt,
        dpi=arguments.dpi,
        origin=origin_of(arguments, model, trace, heads),
    )


def chosen_heads(
    arguments: argparse.Namespace, sites: tuple[Site, ...]
) -> tuple[Stack | None, tuple[HeadRef, ...]]:
    """The stack and heads to draw. A grid needs neither: it shows the model's first stack then."""
    is_grid = arguments.view == "grid"
    if is_grid and arguments.stack is None and arguments.head is None:
        return None, ()
    stack = parse_stack(arguments.stack, sites)
    if is_grid and arguments.head is None:
        return stack, ()
    only = _only_head(stack, sites)
    if only is not None and arguments.layer is None and arguments.head is None:
        return stack, (only,)
    if arguments.head is not None and _LABELS.fullmatch(arguments.head):
        heads = labelled_heads(arguments.head, stack, sites)
        return stack, _one_or_more(arguments, heads)
    if arguments.layer is None or arguments.head is None:
        raise UserError(
            f"The view '{arguments.view}' needs a layer and a head.",
            expected="--layer and --head, which count from 0",
            action="For instance: --layer 1 --head 3.",
        )
    return stack, _one_or_more(arguments, parse_heads(arguments.head, stack, arguments.layer, sites))


def _only_head(stack: Stack, sites: tuple[Site, ...]) -> HeadRef | None:
    """The head of a stack that has but one."""
    heads = [head for site in sites if site.stack == stack for head in site.heads]
    return heads[0] if len(heads) == 1 else None


def other_stacks(arguments: argparse.Namespace, sites: tuple[Site, ...]) -> str:
    """Which stacks a grid leaves out because none was named, and how to draw them; empty otherwise."""
    first, *others = dict.fromkeys(site.stack for site in sites)
    if arguments.view != "grid" or arguments.stack or arguments.head is not None or not others:
        return ""
    return f"; these are the heads of the {first} stack, --stack {' or '.join(others)} draws the others"


def labelled_heads(text: str, stack: Stack, sites: tuple[Site, ...]) -> tuple[HeadRef, ...]:
    """Heads of several layers from `L0H3,L2H1`; raises UserError for one that is not there."""
    places = (part[1:].split("H") for part in text.split(","))
    heads = tuple(HeadRef(stack=stack, layer=int(layer), head=int(head)) for layer, head in places)
    check_heads(heads, sites)
    return heads


def _one_or_more(arguments: argparse.Namespace, heads: tuple[HeadRef, ...]) -> tuple[HeadRef, ...]:
    """The heads, when the view can show so many; raises UserError."""
    if arguments.view in ("head", "picture", "difference") and len(heads) != 1 and arguments.blend == "none":
        raise UserError(
            f"The view '{arguments.view}' shows one head, not {len(heads)}.",
            expected="one number after --head",
            action="Use --view lines for several, or --view head with --blend mean.",
        )
    return heads


def build_caption(arguments: argparse.Namespace, model: "Model", trace: "Trace") -> "Caption":
    """Which model and texts the figure shows; the target is the one that was read, given or not."""
    from attnscope.figures.spec import Caption

    info = model.info
    target = arguments.target
    if target is None and trace.target is not None:
        target = trace.target.text
    source = trace.source
    text = source.read_text if source.n_dropped else arguments.text
    return Caption(model=info.name, sha256=info.sha256, text=text, target=target, note=source.cut_words)

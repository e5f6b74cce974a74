"""`attnscope figure`: any picture that the window can make, without a display."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import boot
from attnscope.cli.inputs import add_input_arguments, load_and_trace, parse_heads, parse_stack
from attnscope.cli.other_figures import curves_figure, positions_figure
from attnscope.cli.terminal import say
from attnscope.errors import UserError
from attnscope.records.sites import HeadRef, Site, Stack

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption
    from attnscope.models import Model
    from attnscope.trace import Trace

VIEWS = ("grid", "head", "lines", "positions", "curves")
SCALES = ("fixed", "head", "row")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("figure", help="draw a figure: attention, positions, training curves")
    add_input_arguments(parser, needs_text=False)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help=".svg, .pdf, .png, .csv or .npz")
    parser.add_argument(
        "--view", default="grid", choices=VIEWS, help="default: grid; curves takes a run folder"
    )
    parser.add_argument("--stack", help="encoder, decoder or cross; may be left out where there is one only")
    parser.add_argument("--layer", type=int, help="counts from 0")
    parser.add_argument("--head", help="counts from 0; for lines also several, such as 0,2,5")
    parser.add_argument(
        "--encodings",
        default="sinusoidal,rotary,model",
        help="for positions: some of sinusoidal, learned, rotary, binary, model (default: %(default)s)",
    )
    parser.add_argument("--width-mm", type=float, default=160.0, metavar="MM", help="default: 160")
    parser.add_argument("--height-mm", type=float, default=130.0, metavar="MM", help="default: 130")
    parser.add_argument("--dpi", type=int, default=300, help="dots per inch of a .png (default: 300)")
    parser.add_argument("--colour-map", default="viridis", help="viridis, cividis, magma or greys")
    parser.add_argument("--scale", default="fixed", choices=SCALES, help="what the largest colour stands for")
    parser.add_argument("--values", action="store_true", help="write each weight into its cell")
    parser.add_argument("--title", default="", help="a line above the figure")
    parser.add_argument("--caption", action="store_true", help="say below which model, text and head it is")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check everything that needs no model, trace, draw, write."""
    application = boot.offscreen_application()
    from attnscope.figures.colours import COLOUR_MAPS
    from attnscope.figures.export import target_of

    target_of(arguments.out)
    if arguments.colour_map not in COLOUR_MAPS:
        raise UserError(
            f"There is no colour map '{arguments.colour_map}'.",
            expected=", ".join(COLOUR_MAPS),
            action="Choose one of these.",
        )
    if arguments.view in ("positions", "curves"):
        draw = positions_figure if arguments.view == "positions" else curves_figure
        path, about = draw(arguments).save(Path(arguments.out)), arguments.view
    else:
        model, trace = load_and_trace(arguments)
        path = build_figure(arguments, model, trace).save(Path(arguments.out))
        about = trace.check().sentence
    say(f"{path}: {path.stat().st_size:,} bytes, {about}")
    del application
    return 0


def build_figure(arguments: argparse.Namespace, model: "Model", trace: "Trace") -> "Figure":
    """The figure that the arguments ask for; raises UserError for a head that is not there."""
    from attnscope.figures.figure import figure

    stack, heads = chosen_heads(arguments, trace.sites)
    return figure(
        trace,
        arguments.view,
        stack=stack,
        heads=heads,
        colour_map=arguments.colour_map,
        scale=arguments.scale,
        show_values=arguments.values,
        title=arguments.title,
        caption=build_caption(arguments, model, trace) if arguments.caption else None,
        width_mm=arguments.width_mm,
        height_mm=arguments.height_mm,
        dpi=arguments.dpi,
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
    if arguments.layer is None or arguments.head is None:
        raise UserError(
            f"The view '{arguments.view}' needs a layer and a head.",
            expected="--layer and --head, which count from 0",
            action="For instance: --layer 1 --head 3.",
        )
    heads = parse_heads(arguments.head, stack, arguments.layer, sites)
    if arguments.view == "head" and len(heads) != 1:
        raise UserError(
            f"The view 'head' shows one head, not {len(heads)}.",
            expected="one number after --head",
            action="Use --view lines for several.",
        )
    return stack, heads


def build_caption(arguments: argparse.Namespace, model: "Model", trace: "Trace") -> "Caption":
    """Which model and texts the figure shows; the target is the one that was read, given or not."""
    from attnscope.figures.spec import Caption

    info = model.info
    target = arguments.target
    if target is None and trace.target is not None:
        target = trace.target.text
    return Caption(model=info.name, sha256=info.sha256, text=arguments.text, target=target)

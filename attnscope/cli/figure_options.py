"""The options of `attnscope figure` that say how a figure looks: page, type, labels, panels, aspect.

The figure of attention that the arguments of `attnscope figure` ask for: which heads, in which look.
"""

import argparse
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

from attnscope.cli.arguments import real, whole
from attnscope.cli.inputs import parse_heads, parse_stack
from attnscope.errors import UserError
from attnscope.records.sites import ROWS, Blend, Block, HeadRef, Hidden, Over, Scale, Site, Stack, check_heads

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.page import PaperOptions
    from attnscope.figures.spec import Caption, FigureOrigin, FigureSpec
    from attnscope.figures.style import Turn
    from attnscope.models import Model
    from attnscope.trace import Trace

TURNS: "dict[str, Turn | None]" = {"auto": None, "0": 0, "45": 45, "90": 90}
SIZES = ("single", "one-and-half", "double", "slide")
ALSO = ("lines", "grid", "lines,grid")
COLOURS = "viridis, cividis, magma, greys or diverging"


PAGE = ("size", "width_mm", "height_mm", "font_pt", "dpi", "title", "caption")


def add_page_arguments(parser: argparse.ArgumentParser) -> None:
    """The page, its type and its words: `PAGE`."""
    parser.add_argument(
        "--size",
        choices=SIZES,
        help="85, 114 or 174 mm wide for the columns of a journal, or a 16:9 slide (default: single for one "
        "head of a short text and for lines, else double)",
    )
    parser.add_argument("--width-mm", type=real(1, 10_000), metavar="MM", help="default: that of --size")
    parser.add_argument(
        "--height-mm",
        type=real(1, 10_000),
        metavar="MM",
        help="default: where the figure ends, or the slide's",
    )
    parser.add_argument(
        "--font-pt", type=real(1, 1_000), metavar="PT", help="default: that of --size, 7 to 14"
    )
    parser.add_argument(
        "--dpi", type=whole(1, 100_000), default=300, help="dots per inch of a .png (default: 300)"
    )
    parser.add_argument("--title", default="", help="a line above the figure")
    parser.add_argument("--caption", action="store_true", help="state the model, text and head below")


def paper_of(arguments: argparse.Namespace) -> "PaperOptions":
    """The page asked for, as every figure takes it."""
    return {
        "size": arguments.size,
        "width_mm": arguments.width_mm,
        "height_mm": arguments.height_mm,
        "font_pt": arguments.font_pt,
        "dpi": arguments.dpi,
    }


def add_look_arguments(parser: argparse.ArgumentParser) -> None:
    """Colours, labels and panels."""
    parser.add_argument("--colour-map", default="viridis", help=f"{COLOURS} (default: %(default)s)")
    parser.add_argument(
        "--scale", default="fixed", choices=get_args(Scale), help="what the top of the colour scale means"
    )
    parser.add_argument("--values", action="store_true", help="print each weight in its cell")
    parser.add_argument("--turn", default="auto", choices=TURNS, help="rotation of key labels in degrees")
    parser.add_argument(
        "--label-every", type=whole(), default=0, metavar="N", help="label every N-th token (0: as they fit)"
    )
    parser.add_argument("--no-bar", action="store_true", help="omit the colour bar")
    parser.add_argument(
        "--plain", action="store_true", help="leave out the head's name and the self-check above a map"
    )
    parser.add_argument(
        "--badge", action="store_true", help="show the self-check even if it found nothing wrong"
    )
    parser.add_argument("--no-special", action="store_true", help="omit rows and columns of special tokens")
    parser.add_argument(
        "--key-name",
        default="",
        metavar="WORDS",
        help="the columns, such as 'Key (English)' (default: Key)",
    )
    parser.add_argument(
        "--query-name",
        default="",
        metavar="WORDS",
        help="the rows, such as 'Query (French)' (default: Query, or Written after what rows write)",
    )
    parser.add_argument("--font", default="", metavar="NAME", help="the font of all type, such as Helvetica")
    parser.add_argument(
        "--panels",
        action="store_true",
        help="the heads of --head, up to 12, as panels a, b, c … of one page",
    )
    parser.add_argument(
        "--columns",
        type=whole(),
        default=0,
        metavar="N",
        help="panels side by side: 3 puts three in one row (default: as many as suit the width)",
    )
    parser.add_argument(
        "--also",
        default="",
        choices=ALSO,
        metavar="PANELS",
        help="further panels beside those of the heads: lines, grid, or lines,grid",
    )


def add_aspect_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the aspect of maps, and for the lines drawn."""
    parser.add_argument("--blend", default="none", choices=get_args(Blend), help="one map of several heads")
    parser.add_argument("--over", default="selection", choices=get_args(Over), help="which heads are blended")
    parser.add_argument("--hidden", default="nothing", choices=get_args(Hidden), help="keys to leave out")
    parser.add_argument("--renormalised", action="store_true", help="renormalise what is left of each row")
    parser.add_argument("--by-word", action="store_true", help="merge subwords into words")
    parser.add_argument(
        "--block",
        default="all",
        choices=get_args(Block),
        help="where two texts are read as one: which of them queries and keys come from",
    )
    parser.add_argument(
        "--rows",
        default="written",
        choices=ROWS,
        help="name the rows of cross-attention after the token written there, or the one read last "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--least-weight", type=real(), default=0.0, metavar="W", help="leave out lines of less weight"
    )
    parser.add_argument(
        "--n-strongest",
        type=whole(),
        default=0,
        metavar="N",
        help="how many lines for each query of a head (0: all)",
    )


def turn_of(arguments: argparse.Namespace) -> "Turn | None":
    """The rotation of key labels in degrees; None: as space allows."""
    return TURNS[arguments.turn]


def looks_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Style of the maps and selection of weights, as arguments of `figure`."""
    return {
        "colour_map": arguments.colour_map,
        "scale": arguments.scale,
        "show_values": arguments.values,
        "blend": arguments.blend,
        "over": arguments.over,
        "hidden": arguments.hidden,
        "renormalised": arguments.renormalised,
        "by_word": arguments.by_word,
        "block": arguments.block,
        "rows": arguments.rows,
        "least_weight": arguments.least_weight,
        "n_strongest": arguments.n_strongest,
        "turn": turn_of(arguments),
        "label_every": arguments.label_every,
        "has_bar": not arguments.no_bar,
        "badge": arguments.badge,
        "special_tokens": not arguments.no_special,
        "key_name": arguments.key_name,
        "query_name": arguments.query_name,
        "font": arguments.font,
    }


def settle_page(arguments: argparse.Namespace) -> None:
    """Settle that panels are a view, and check the colours; raises UserError."""
    check_colours(arguments)
    if arguments.panels or arguments.panel:
        arguments.view = arguments.view if arguments.panel else "panels"
    elif arguments.also and arguments.view != "panels":
        raise UserError("--also adds panels.", expected="--panels with it", action="Add --panels --head …")
    if arguments.columns and arguments.view != "panels" and not arguments.panel:
        raise UserError(
            "--columns arranges panels.", expected="--panels with it", action="Add --panels --head …"
        )


def check_colours(arguments: argparse.Namespace) -> None:
    """Raise UserError for an unknown colour map."""
    from attnscope.figures.colours import COLOUR_MAPS

    if arguments.colour_map not in COLOUR_MAPS:
        raise UserError(
            f"There is no colour map '{arguments.colour_map}'.",
            expected=", ".join(COLOUR_MAPS),
            action="Choose one of these.",
        )


def origin_of(
    arguments: argparse.Namespace, model: "Model", trace: "Trace", heads: tuple[HeadRef, ...]
) -> "FigureOrigin":
    """Origin of the figure, for a figure file; the target is the one that was read, given or not."""
    from attnscope.figures.spec import FigureOrigin
    from attnscope.viewmodels.maps.aspect import Aspect

    info = model.info
    target = arguments.target
    if target is None and trace.target is not None:
        target = trace.target.text
    return FigureOrigin(
        source=info.source,
        model=info.name,
        sha256=info.sha256,
        text=arguments.text,
        target=target,
        past_trained=bool(arguments.past_trained and info.can_read_past),
        heads=heads,
        aspect=Aspect(
            blend=arguments.blend,
            over=arguments.over,
            hidden=arguments.hidden,
            is_renormalised=arguments.renormalised,
            is_by_word=arguments.by_word,
            block=arguments.block,
            rows=arguments.rows,
        ),
    )


def on_given_page(arguments: argparse.Namespace, spec: "FigureSpec") -> "Figure":
    from attnscope.figures.figure import Figure
    from attnscope.figures.page import sized

    page = sized(
        replace(spec, style=replace(spec.style, font=arguments.font)),
        preset=arguments.size,
        width_mm=arguments.width_mm,
        height_mm=arguments.height_mm,
        font_pt=arguments.font_pt,
    )
    return Figure(page)


_LABEL = r"(?:[a-z-]+[: ])?L\d{1,6}H\d{1,6}"
LABELS = re.compile(rf"{_LABEL}(, ?{_LABEL})*")
"""`L0H3`, `cross L1H0`, `cross:L0H1,L2H1`."""


def build_figure(
    arguments: argparse.Namespace, model: "Model", trace: "Trace", *, head: HeadRef | None = None
) -> "Figure":
    """Build the figure of the arguments, or of `head`; raises UserError for a missing head."""
    from attnscope.figures.figure import figure
    from attnscope.figures.file_names import target_of

    stack, heads = chosen_heads(arguments, trace.sites) if head is None else (head.stack, (head,))
    view = "head" if arguments.view == "picture" else arguments.view
    if view == "grid" and target_of(arguments.out)[1] == "html":
        chosen = stack or trace.sites[0].stack  # a page shows whole maps: every head of the stack
        view, heads = "lines", tuple(h for s in trace.sites if s.stack == chosen for h in s.heads)
    return figure(
        trace,
        view,
        stack=stack,
        heads=heads,
        also=tuple(filter(None, arguments.also.split(","))),
        **looks_of(arguments),
        title=arguments.title or (trace.sites[0].stack if other_stacks(arguments, trace.sites) else ""),
        caption=build_caption(arguments, model, trace) if arguments.caption else None,
        columns=arguments.columns,
        **paper_of(arguments),
        origin=origin_of(arguments, model, trace, heads),
    )


def chosen_heads(
    arguments: argparse.Namespace, sites: tuple[Site, ...]
) -> tuple[Stack | None, tuple[HeadRef, ...]]:
    """The stack and heads to draw. A view of all heads needs neither: it takes the first stack then."""
    is_of_all = shows(arguments) == "all heads"
    if is_of_all and arguments.stack is None and arguments.head is None:
        return None, ()
    if arguments.head is not None and LABELS.fullmatch(arguments.head):
        heads = labelled_heads(arguments.head, arguments.stack, sites)
        return arguments.stack and heads[0].stack, _one_or_more(arguments, heads)
    stack = parse_stack(arguments.stack, sites)
    if is_of_all and arguments.head is None:
        return stack, ()
    blended = _blended_as_a_whole(arguments, stack, sites)
    if blended:
        return stack, blended
    only = _only_head(stack, sites)
    if only is not None and arguments.layer is None and arguments.head is None:
        return stack, (only,)
    if arguments.layer is None or arguments.head is None:
        raise UserError(
            f"The view '{arguments.view}' needs a layer and a head.",
            expected="--layer and --head, which count from 0"
            if getattr(arguments, "over", "") != "layer"
            else "--layer, which counts from 0",
            action="For instance: --layer 1 --head 3, or --head L1H3.",
        )
    return stack, _one_or_more(arguments, parse_heads(arguments.head, stack, arguments.layer, sites))


def shows(arguments: argparse.Namespace) -> str:
    """Which heads the view draws: see `FigureSpec.shows`."""
    from attnscope.figures.views import VIEWS

    return VIEWS[arguments.view].shows


def _blended_as_a_whole(
    arguments: argparse.Namespace, stack: Stack, sites: tuple[Site, ...]
) -> tuple[HeadRef, ...]:
    """First head of the layer, or of the stack, that is blended whichever heads are named; else none."""
    if arguments.head is not None or getattr(arguments, "blend", "none") == "none":
        return ()
    layer = arguments.layer
    if arguments.over == "layer" and layer is not None:
        return parse_heads("0", stack, layer, sites)
    if arguments.over == "stack":
        return next(site.heads[:1] for site in sites if site.stack == stack)
    return ()


def _only_head(stack: Stack, sites: tuple[Site, ...]) -> HeadRef | None:
    heads = [head for site in sites if site.stack == stack for head in site.heads]
    return heads[0] if len(heads) == 1 else None


def other_stacks(arguments: argparse.Namespace, sites: tuple[Site, ...]) -> str:
    """The stacks that a view of all heads leaves out if none is named, and how to draw them; else empty."""
    first, *others = dict.fromkeys(site.stack for site in sites)
    if shows(arguments) != "all heads" or arguments.stack or arguments.head is not None or not others:
        return ""
    return f"; these are the heads of the {first} stack, --stack {' or '.join(others)} draws the others"


def labelled_heads(
    text: str, stack: str | None, sites: tuple[Site, ...], *, how: str = "--stack {}"
) -> tuple[HeadRef, ...]:
    """Heads from `L0H3,L2H1` of one stack, or `encoder:L0H0,cross:L1H1`; raises UserError for a wrong one."""
    heads = []
    for part in text.split(","):
        *named, place = re.split("[: ]", part.strip())
        layer, head = place[1:].split("H")
        own = parse_stack(named[0] if named else stack, sites, how=how)
        heads.append(HeadRef(stack=own, layer=int(layer), head=int(head)))
    check_heads(heads, sites)
    return tuple(heads)


def _one_or_more(arguments: argparse.Namespace, heads: tuple[HeadRef, ...]) -> tuple[HeadRef, ...]:
    """The heads, if the view can show so many; raises UserError."""
    if shows(arguments) == "one head" and len(heads) != 1 and arguments.blend == "none":
        raise UserError(
            f"The view '{arguments.view}' shows one head, not {len(heads)}.",
            expected="one number after --head",
            action="Use --view lines for several, or --view head with --blend mean.",
        )
    return heads


def build_caption(arguments: argparse.Namespace, model: "Model", trace: "Trace") -> "Caption":
    """Caption with the model and texts of the figure; the target is the one that was read, given or not."""
    from attnscope.figures.spec import Caption

    info = model.info
    target = arguments.target
    if target is None and trace.target is not None:
        target = trace.target.text
    source = trace.source
    text = source.read_text if source.n_dropped else arguments.text
    note = "; ".join(filter(None, (source.cut_words, info.picture_words)))
    return Caption(model=info.name, sha256=info.sha256, text=text, target=target, note=note)

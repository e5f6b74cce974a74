"""The figure of attention that the arguments of `attnscope figure` ask for: which heads, in which look."""

import argparse
import re
from typing import TYPE_CHECKING

from attnscope.cli.figure_options import looks_of, origin_of, paper_of
from attnscope.cli.inputs import parse_heads, parse_stack
from attnscope.errors import UserError
from attnscope.records.sites import HeadRef, Site, Stack, check_heads

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption
    from attnscope.models import Model
    from attnscope.trace import Trace

_LABEL = r"(?:[a-z-]+[: ])?L\d{1,6}H\d{1,6}"
LABELS = re.compile(rf"{_LABEL}(, ?{_LABEL})*")
"""`L0H3`, `cross L1H0`, `cross:L0H1,L2H1`."""


def build_figure(
    arguments: argparse.Namespace, model: "Model", trace: "Trace", *, head: HeadRef | None = None
) -> "Figure":
    """The figure that the arguments ask for, or of `head`; raises UserError for a head that is not there."""
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
    """The stack and heads to draw. A grid needs neither: it shows the model's first stack then."""
    is_grid = arguments.view == "grid"
    if is_grid and arguments.stack is None and arguments.head is None:
        return None, ()
    if arguments.head is not None and LABELS.fullmatch(arguments.head):
        heads = labelled_heads(arguments.head, arguments.stack, sites)
        return arguments.stack and heads[0].stack, _one_or_more(arguments, heads)
    stack = parse_stack(arguments.stack, sites)
    if is_grid and arguments.head is None:
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


def _blended_as_a_whole(
    arguments: argparse.Namespace, stack: Stack, sites: tuple[Site, ...]
) -> tuple[HeadRef, ...]:
    """The first head of the layer, or of the stack, that is blended whichever heads are named; else none."""
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
    """Which stacks a grid leaves out because none was named, and how to draw them; empty otherwise."""
    first, *others = dict.fromkeys(site.stack for site in sites)
    if arguments.view != "grid" or arguments.stack or arguments.head is not None or not others:
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
    note = "; ".join(filter(None, (source.cut_words, info.picture_words)))
    return Caption(model=info.name, sha256=info.sha256, text=text, target=target, note=note)

"""`attnscope figure --view difference`: one head of two texts, models or settings, and their difference."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.figure_building import build_caption, chosen_heads
from attnscope.cli.ranges import real
from attnscope.errors import UserError

if TYPE_CHECKING:
    from attnscope.figures.figure import Figure
    from attnscope.models import Model
    from attnscope.trace import Trace


def add_other_arguments(parser: argparse.ArgumentParser) -> None:
    """What B is, where it is not what A is."""
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
    """A as the usual arguments say, B as those that begin with `--with` change it."""
    from attnscope.cli.inputs import parse_gates, parse_stack, tell_note
    from attnscope.figures.figure import figure
    from attnscope.models.recording.opening import open_source

    if not _has_other(arguments):
        raise UserError(
            "Nothing differs between A and B.",
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
        size=arguments.size,
        width_mm=arguments.width_mm,
        height_mm=arguments.height_mm,
        font_pt=arguments.font_pt,
        dpi=arguments.dpi,
    )


def _has_other(arguments: argparse.Namespace) -> bool:
    others = (arguments.with_model, arguments.with_text, arguments.with_target, arguments.with_gate)
    return any(bool(wish) for wish in (*others, arguments.gate))


def _names(arguments: argparse.Namespace) -> tuple[str, str]:
    """What A and B are, naming only what tells them apart."""
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
    """A model's folder without the folders that it lies in, where that tells it from the other one."""
    name, others = Path(written).name, Path(other).name
    return name if name and name != others else written

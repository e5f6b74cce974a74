"""`attnscope weights`: what a head's weights say without any text."""

import argparse
from typing import TYPE_CHECKING

from attnscope.cli.inputs import add_device_argument, parse_stack
from attnscope.cli.samples import add_figure_arguments, tell_progress
from attnscope.cli.terminal import say, say_json
from attnscope.errors import UserError
from attnscope.files import replace_file
from attnscope.records.sites import HeadRef, Site, check_heads

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.records.head_weights import HeadWeightsFound, WeightPart

_MAX_PAIRS = 1000


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "weights",
        help="say what a head's weights write and look for, and how many dimensions it uses",
        description="The strongest token pairs of a head's OV and QK products, and their singular values.",
    )
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    parser.add_argument("head", metavar="[STACK:]L0H1", help="the head")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="pairs of each end (default 10)")
    add_figure_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the weights, print, write."""
    if not 1 <= arguments.top <= _MAX_PAIRS:
        raise UserError(f"--top is {arguments.top}.", expected=f"1 to {_MAX_PAIRS}")
    from attnscope.analysis.weight_parts import read_weights
    from attnscope.models import load
    from attnscope.records.head_weights import HeadWeightsFound

    model = load(arguments.model, device=arguments.device)
    head = _head(arguments.head, model.sites)
    found = HeadWeightsFound(head=head)
    for one in tell_progress(read_weights(model, head, arguments.top)):
        found = one if isinstance(one, HeadWeightsFound) else found
    if all(part.circuit is None and part.spectrum is None for part in found.parts):
        raise UserError(found.parts[0].refusal)
    _write(arguments, model, found)
    if arguments.json:
        from attnscope.figures.weights_charts import json_of_weights

        say_json(json_of_weights(found, model.info.name))
        return 0
    for part in found.parts:
        for line in _lines(part, head):
            say(line)
    return 0


def _write(arguments: argparse.Namespace, model: "Model", found: "HeadWeightsFound") -> None:
    from attnscope.figures.weights_charts import csv_of_pairs, weights_charts

    if arguments.csv is not None:
        replace_file(arguments.csv, csv_of_pairs(found).encode())
    if arguments.out is None:
        return
    charts = weights_charts(found)
    if not charts:
        raise UserError(f"There are no singular values to draw: {found.parts[0].no_spectrum}")
    from attnscope import boot

    application = boot.offscreen_application()
    from attnscope.figures.figure import Figure
    from attnscope.figures.spec import Caption, FigureSpec

    caption = Caption(model=model.info.name, sha256=model.info.sha256)
    Figure(FigureSpec(view="curves", charts=charts, caption=caption)).save(arguments.out)
    del application


def _lines(part: "WeightPart", head: HeadRef) -> list[str]:
    """One product as a table."""
    if part.circuit is None:
        return [f"{part.kind.upper()}: {part.refusal}", ""]
    circuit, joint = part.circuit, "→" if part.kind == "ov" else "↔"
    lines = [f"{part.kind.upper()} of {head.stack} {head.label}: Σ Re λ / Σ |λ| = {circuit.sameness:+.3f}"]
    for name, pairs in (("largest", circuit.largest), ("smallest", circuit.smallest)):
        lines.append(f"  {name}")
        lines += [f"{p.value:>12.4f}  {p.first.piece!r} {joint} {p.second.piece!r}" for p in pairs]
    if part.spectrum is not None:
        values = "  ".join(f"{value:.3g}" for value in part.spectrum.single[head.head][:12])
        lines.append(f"  singular values  {values}")
    return [*lines, ""]


def _head(text: str, sites: tuple[Site, ...]) -> HeadRef:
    """The head of `[STACK:]L0H1`; raises UserError for anything else."""
    name, _, label = text.rpartition(":")
    layer, _, number = label.removeprefix("L").partition("H")
    if not label.startswith("L") or not (layer.isdecimal() and number.isdecimal()):
        raise UserError(f"There is no head {text!r}.", expected="a head such as L0H1 or cross:L0H1")
    stack = parse_stack(name or None, sites, how="{}:L0H1")
    head = HeadRef(stack=stack, layer=int(layer), head=int(number))
    check_heads((head,), sites)
    return head

"""`attnscope weights`: a head's weights without any text."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from attnscope.cli.arguments import whole
from attnscope.cli.figure_options import labelled_heads
from attnscope.cli.inputs import (
    add_device_argument,
    add_figure_arguments,
    add_model_argument,
    open_model,
    save_figure,
    tell_progress,
)
from attnscope.cli.terminal import save_finished, say, say_json
from attnscope.errors import UserError
from attnscope.files import replace_file
from attnscope.records.sites import HeadRef, Site, is_head_label

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.records.measures import HeadWeightsFound, WeightPart

_MAX_PAIRS = 1000
_N_READ = 2000
"""Pairs of each end that are read, so that enough of them are text."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "weights",
        description="The strongest token pairs of a head's OV and QK products, and their singular values.",
    )
    add_model_argument(parser)
    parser.add_argument("head", metavar="[STACK:]L0H1", help="the head")
    parser.add_argument(
        "--top",
        type=whole(1, _MAX_PAIRS),
        default=10,
        metavar="N",
        help="pairs listed at each end (default 10); single bytes are printed last",
    )
    add_figure_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the weights, print, write."""
    from attnscope.analysis.one_head import read_head_weights
    from attnscope.records.measures import HeadWeightsFound

    model = open_model(arguments)
    head = _head(arguments.head, model.sites)
    read = HeadWeightsFound(head=head)
    for one in tell_progress(read_head_weights(model, head, _N_READ), unit=f"tokens, {head.label}"):
        read = one if isinstance(one, HeadWeightsFound) else read
    found = _cut(read, arguments.top)
    if all(part.circuit is None and part.spectrum is None for part in found.parts):
        raise UserError(found.parts[0].refusal)
    _write(arguments, model, found)
    if arguments.json:
        from attnscope.figures.charts import json_of_weights

        say_json(json_of_weights(found, model.info.name))
        return 0
    for part in read.parts:
        for line in _lines(part, head, arguments.top):
            say(line)
    return 0


def _cut(found: "HeadWeightsFound", top: int) -> "HeadWeightsFound":
    """The pairs asked for, of the more that were read so that enough of them are text."""
    parts = []
    for part in found.parts:
        circuit = part.circuit
        if circuit is not None:
            circuit = replace(circuit, largest=circuit.largest[:top], smallest=circuit.smallest[:top])
        parts.append(replace(part, circuit=circuit))
    return replace(found, parts=tuple(parts))


def _write(arguments: argparse.Namespace, model: "Model", found: "HeadWeightsFound") -> None:
    from attnscope.figures.charts import csv_of_pairs, weights_charts

    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, csv_of_pairs(found).encode())
    if arguments.out is None:
        return
    charts = weights_charts(found)
    if not charts:
        raise UserError(f"There are no singular values to draw: {found.parts[0].no_spectrum}")
    save_finished(arguments, save_figure, "curves", arguments.out, model, charts=charts)


def _lines(part: "WeightPart", head: HeadRef, top: int) -> list[str]:
    """One product as a table, in the window's words."""
    from attnscope.viewmodels.heads.tabs import KIND_NAMES, KIND_TIPS, readable_first, sameness_words

    title = f"{part.kind.upper()} of {head.stack} {head.label}"
    if part.circuit is None:
        return [f"{title}: {part.refusal}", *_values(part, head), ""]
    circuit, joint = part.circuit, "→" if part.kind == "ov" else "↔"
    lines = [
        f"{title}, {KIND_NAMES[part.kind].rpartition(' (')[0].lower()}: {sameness_words(circuit)}",
        f"  {KIND_TIPS[part.kind].rpartition(' (')[0]}",
    ]
    for name, pairs in (("largest", circuit.largest), ("smallest", circuit.smallest)):
        shown = readable_first(pairs)[:top]
        n_passed = sum(not pair.is_text for pair in pairs[:top]) - sum(not pair.is_text for pair in shown)
        more = f"; {n_passed} of single bytes among them left out" if n_passed else ""
        lines.append(f"  the {name} values{more}")
        lines += [f"{p.value:>12.4f}  {p.first.piece!r} {joint} {p.second.piece!r}" for p in shown]
    return [*lines, *_values(part, head), ""]


def _values(part: "WeightPart", head: HeadRef) -> list[str]:
    """The largest singular values, where they are known."""
    if part.spectrum is None:
        return [f"  {part.no_spectrum}"] if part.no_spectrum not in ("", part.refusal) else []
    return [
        "  singular values  " + "  ".join(f"{value:.3g}" for value in part.spectrum.single[head.head][:12])
    ]


def _head(text: str, sites: tuple[Site, ...]) -> HeadRef:
    """The head of `[STACK:]L0H1`; raises UserError for anything else."""
    if not is_head_label(text):
        raise UserError(f"There is no head {text!r}.", expected="a head such as L0H1 or cross:L0H1")
    (head,) = labelled_heads(text, None, sites, how="{}:L0H1")
    return head

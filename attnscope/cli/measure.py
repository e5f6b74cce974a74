"""`attnscope measure`: what every head did on one text, in numbers."""

import argparse
import dataclasses
from typing import TYPE_CHECKING

from attnscope.cli.inputs import add_input_arguments, load_and_trace
from attnscope.cli.terminal import say, say_json

if TYPE_CHECKING:
    from attnscope.records.maps import HeadMeasures

COLUMNS = ("entropy", "distance", "confidence", "previous", "first", "diagonal")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("measure", help="measure every head on a text")
    add_input_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Trace, measure and print."""
    from attnscope.analysis.measures import measure

    model, trace = load_and_trace(arguments)
    measures = measure(trace)
    if arguments.json:
        say_json(
            {
                "model": model.info.name,
                "sha256": model.info.sha256,
                "text": arguments.text,
                "target": arguments.target,
                "check": dataclasses.asdict(trace.check()),
                "heads": [dataclasses.asdict(one) for one in measures],
            }
        )
    else:
        say(f"{model.info.name}: {trace.check().sentence}")
        say(table(measures))
    return 0


def table(measures: "tuple[HeadMeasures, ...]") -> str:
    """The measures as a table, one head to a line; a dash where a measure does not apply."""
    lines = [f"{'head':<16}" + "".join(f"{name:>12}" for name in COLUMNS)]
    for one in measures:
        values = (getattr(one, name) for name in COLUMNS)
        cells = "".join(f"{value:>12.4f}" if value == value else f"{'–':>12}" for value in values)
        lines.append(f"{one.head.stack + ' ' + one.head.label:<16}{cells}")
    return "\n".join(lines)

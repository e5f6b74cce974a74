"""`attnscope bench`: measure what the program promises on this machine."""

import argparse

from attnscope import boot
from attnscope.cli.outputs import output_file
from attnscope.cli.ranges import whole
from attnscope.cli.terminal import json_text, say
from attnscope.errors import UserError
from attnscope.files import replace_file

NAMES = ("start", "grid", "window", "trace", "typing", "lag", "analysis", "train", "tiles", "write")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("bench")
    parser.add_argument("group", nargs="?", metavar="GROUP", help=f"one of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the numbers there as JSON")
    parser.add_argument(
        "--device",
        default=argparse.SUPPRESS,
        metavar="NAME",
        help="where models compute: cpu, cuda, mps or auto",
    )
    parser.add_argument(
        "--texts", type=whole(), default=0, metavar="N", help="texts of the corpus that analysis measures"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure one group or all, print each number, write the JSON."""
    if arguments.group is not None and arguments.group not in NAMES:
        raise UserError(
            f"There is no group '{arguments.group}'.",
            expected=", ".join(NAMES),
            action="Choose one of these, or none for all.",
        )
    application = boot.offscreen_application(has_widgets=True)
    from attnscope.bench.groups import GROUPS, Wish
    from attnscope.bench.report import Measurement, report

    wish = Wish(device=arguments.device, n_texts=max(0, arguments.texts))
    done: dict[str, tuple[Measurement, ...]] = {}
    for name in (arguments.group,) if arguments.group else NAMES:
        say(f"{name}")
        done[name] = GROUPS[name](wish)
        for measurement in done[name]:
            say(f"  {measurement.sentence}")
    if arguments.json is not None:
        replace_file(arguments.json, json_text(report(done)).encode())
    del application
    return 0

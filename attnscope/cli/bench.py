"""`attnscope bench`: benchmarks of the program on this machine, run from a checkout."""

import argparse

from attnscope.cli.arguments import output_file, whole
from attnscope.errors import UserError
from attnscope.paths import checkout_file, import_file

NAMES = ("start", "grid", "window", "trace", "typing", "lag", "analysis", "train", "tiles", "write")
_ABOUT = """\
Runs the benchmarks of a checkout of AttnScope; an installed copy has none. Each row is printed as soon as it
is measured: its value, the spread of its samples (eight of ten lie within it), its limit, and whether the
limit was kept. Rivals run with their best settings and alternate with the program, which runs with its
defaults. What is not installed is reported as not run. Exit status 0: every measured limit was kept. 1: a
limit was exceeded, or a group could not be measured. 2: an error that you can correct, such as missing
benchmarks; one message says how.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("bench", description=_ABOUT)
    parser.add_argument("group", nargs="?", metavar="GROUP", help=f"one of {', '.join(NAMES)} (default: all)")
    parser.add_argument(
        "--json",
        type=output_file,
        nargs="?",
        const=True,
        metavar="FILE",
        help="write the numbers there as JSON; without FILE each row as a line of JSON",
    )
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
    """Measure one group or all; returns 1 if a limit was missed. Raises UserError outside a checkout."""
    if arguments.group is not None and arguments.group not in NAMES:
        raise UserError(
            f"There is no group '{arguments.group}'.",
            expected=", ".join(NAMES),
            action="Choose one of these, or leave it out to run all.",
        )
    benchmarks = checkout_file("tests/bench/__init__.py")
    if benchmarks is None:
        raise UserError(
            "The benchmarks are not installed with AttnScope.",
            action="Run 'python -m attnscope bench' in the root of a checkout of its source.",
        )
    import_file(benchmarks, "bench")
    return int(import_file(benchmarks.with_name("groups.py"), "bench.groups").run(arguments))

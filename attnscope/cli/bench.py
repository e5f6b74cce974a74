"""`attnscope bench`: measure what the program promises on this machine."""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import boot
from attnscope.cli.outputs import output_file
from attnscope.cli.ranges import whole
from attnscope.cli.terminal import json_text, say, say_progress
from attnscope.errors import UserError
from attnscope.files import replace_file

if TYPE_CHECKING:
    from attnscope.bench.report import Row, Rows

NAMES = ("start", "grid", "window", "trace", "typing", "lag", "analysis", "train", "tiles", "write")
KEPT, MISSED = 0, 1
_ABOUT = """\
Each row is printed once it is measured: its number, the spread of its samples (eight of ten lie within), the
most that it may be, and whether it kept to that. Rivals run with their best settings, in turns with the
program, which runs with its own defaults. What is not installed is told as not run. Exit status 0: every
promise that was measured is kept. 1: one was missed, or a group could not be measured.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
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
    """Measure one group or all, print each row as it comes, write the JSON; 1 when a promise was missed."""
    if arguments.group is not None and arguments.group not in NAMES:
        raise UserError(
            f"There is no group '{arguments.group}'.",
            expected=", ".join(NAMES),
            action="Choose one of these, or none for all.",
        )
    application = boot.offscreen_application(has_widgets=True)
    from attnscope.bench.groups import GROUPS, Wish
    from attnscope.bench.report import busy_words, has_failed, machine, report, row_facts, summary

    busy = busy_words()
    is_lines, begin_s = arguments.json is True, time.monotonic()
    wish = Wish(device=arguments.device, n_texts=max(0, arguments.texts))
    names = (arguments.group,) if arguments.group else NAMES
    done: dict[str, list[Row]] = {}
    try:
        for number, name in enumerate(names, start=1):
            if not is_lines:
                say(f"{name}: {GROUPS[name].about}")
            done[name] = []
            for row in _measured(name, GROUPS[name].measure(wish), f"{number} of {len(names)}"):
                done[name].append(row)
                if is_lines:
                    say(json_text({"group": name, **row_facts(row)}, indent=None))
                else:
                    say(f"  {row.sentence}")
    finally:
        if isinstance(arguments.json, Path):
            replace_file(arguments.json, json_text(report(done)).encode())
    rows = [row for found in done.values() for row in found]
    told = f"{summary(rows)}. {time.monotonic() - begin_s:.0f} s. {busy}".strip()
    if is_lines:
        say(json_text({"machine": machine(), "summary": told}, indent=None))
    else:
        say(told)
    del application
    return MISSED if has_failed(rows) else KEPT


def _measured(name: str, rows: "Rows", place: str) -> "Iterator[Row]":
    """The rows of a group; one that says why where the group had to end. Progress is told between them."""
    from attnscope.bench.report import Doing, NotRun

    begin_s, what = time.monotonic(), ""
    try:
        for row in rows:
            _tell_progress("")
            if isinstance(row, Doing):
                what = row.what
            else:
                yield row
            _tell_progress(f"{name} ({place}), {time.monotonic() - begin_s:.0f} s: {what}")
    except UserError as error:
        yield NotRun(name=f"the rest of {name}", reason=str(error), is_fault=True)
    _tell_progress("")


def _tell_progress(text: str) -> None:
    if sys.stderr.isatty():
        say_progress(text)

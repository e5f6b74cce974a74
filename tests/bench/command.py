"""`attnscope bench`: measure group after group, print each row as it comes, write the JSON."""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from attnscope import boot
from attnscope.cli.terminal import json_text, say, say_progress
from attnscope.errors import UserError
from attnscope.files import replace_file
from bench import groups
from bench.report import (
    Doing,
    NotRun,
    Row,
    Rows,
    busy_words,
    has_failed,
    machine,
    report,
    row_facts,
    summary,
)

KEPT, MISSED = 0, 1


def run(arguments: argparse.Namespace) -> int:
    """Measure one group or all, print each row as it comes, write the JSON; 1 when a promise was missed."""
    application = boot.offscreen_application(has_widgets=True)
    busy = busy_words()
    is_lines, begin_s = arguments.json is True, time.monotonic()
    wish = groups.Wish(device=arguments.device, n_texts=max(0, arguments.texts))
    names = (arguments.group,) if arguments.group else tuple(groups.GROUPS)
    done: dict[str, list[Row]] = {}
    try:
        for number, name in enumerate(names, start=1):
            group = groups.GROUPS[name]
            if not is_lines:
                say(f"{name}: {group.about}")
            done[name] = []
            for row in _measured(name, group.measure(wish), f"{number} of {len(names)}"):
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


def _measured(name: str, rows: Rows, place: str) -> Iterator[Row]:
    """The rows of a group; one that says why where the group had to end. Progress is told between them."""
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

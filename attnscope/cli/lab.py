"""`attnscope lab`: list the labs, or evaluate one: its picture as a file, its numbers as JSON."""

import argparse
from typing import TYPE_CHECKING, Any

from attnscope import boot
from attnscope.cli.arguments import figure_file, given_options, note_given, tell_unused
from attnscope.cli.ask import json_of_map
from attnscope.cli.figure_options import PAGE, add_page_arguments, paper_of
from attnscope.cli.terminal import JobProgress, save_finished, say, say_json, say_saved
from attnscope.fields import fields_of, values_of, with_texts
from attnscope.labs import GROUPS, LABS, Lab

if TYPE_CHECKING:
    from attnscope.lab_drawing import WorkedOut
    from attnscope.labs import LabEntry


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "lab",
        description="Small experiments with attention. Without a name they are listed; with one it says what "
        "follows from its settings.",
    )
    note_given(parser)
    parser.add_argument("name", nargs="?", metavar="NAME", help="which lab, such as 'Scaling by √d'")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a setting; repeat it for more. Without -o and --json the settings are listed",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=figure_file,
        metavar="FILE",
        help="the picture or its numbers: .svg, .pdf, .png, .csv, .npz, .html or .figure.json",
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    add_page_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the labs, or evaluate one, print, write."""
    given = given_options(arguments)
    if arguments.name is None:
        tell_unused(given - {"json"}, "without the name of a lab")
        _list(is_json=arguments.json)
        return 0
    if arguments.out is None:
        tell_unused(given.intersection(PAGE), "without --out")
    application = boot.offscreen_application() if arguments.out is not None else None
    from attnscope.lab_drawing import drawn_lab, work_out

    lab = drawn_lab(arguments.name)
    choice = with_texts(lab.example, arguments.set)
    progress = JobProgress()
    made = work_out(lab, choice, lambda n_done, n_total: progress.tell(lab.name, n_done, n_total))
    progress.end()
    if arguments.json:
        say_json(json_of_lab(made))
    is_saved = arguments.out is not None and save_finished(arguments, _save, made, arguments)
    if not (is_saved or arguments.json):
        _tell(made)
    del application
    return 0


def _save(made: "WorkedOut", arguments: argparse.Namespace) -> None:
    from attnscope.lab_drawing import figure_of

    figure = figure_of(
        made,
        title=arguments.title,
        has_caption=arguments.caption,
        **paper_of(arguments),
    )
    path = figure.save(arguments.out)
    if not arguments.json:
        say_saved(path, made.lab.name)


def json_of_lab(made: "WorkedOut") -> dict[str, Any]:
    """Settings and results; missing numbers are null."""
    words, lab = made.shown.words, made.lab
    return {
        "lab": lab.name,
        "settings": values_of(made.choice),
        "formula": words.formula,
        "numbers": dict(words.numbers),
        "sentence": words.sentence,
        "charts": [
            {
                "title": chart.title,
                "x": chart.x_label,
                "y": chart.y_label,
                "series": [
                    {"name": one.name, "xs": one.xs.tolist(), "ys": one.ys.tolist()} for one in chart.series
                ],
            }
            for chart in lab.charts(made.shown)
        ],
        "maps": [json_of_map(cells) for cells in lab.cells(made.shown)],
    }


def json_of_entry(entry: "LabEntry") -> dict[str, Any]:
    """A lab's entry in the list, with its settings."""
    settings = fields_of(entry.example) if isinstance(entry, Lab) else ()
    return {
        "lab": entry.name,
        "group": entry.group,
        "shows": entry.shows,
        "source": entry.source,
        "is_drawn": isinstance(entry, Lab),
        "settings": [
            {"name": one.name, "what": one.tip, "expected": one.expected, "default": one.default}
            for one in settings
        ],
    }


def _list(*, is_json: bool) -> None:
    if is_json:
        say_json([json_of_entry(entry) for entry in LABS.values()])
        return
    width = max(len(entry.name) for entry in LABS.values())
    for group in GROUPS:
        say(group)
        for entry in LABS.values():
            if entry.group == group:
                say(
                    f"  {entry.name:<{width}}  {entry.shows}"
                    + ("" if isinstance(entry, Lab) else " (in the window)")
                )


def _tell(made: "WorkedOut") -> None:
    words, lab = made.shown.words, made.lab
    say(f"{lab.name}: {lab.shows} ({lab.source})")
    for formula in words.formula:
        say(f"  {formula}")
    for name, value in words.numbers:
        say(f"  {name:<36}{value}")
    say(words.sentence)
    say("Settings:")
    for field in fields_of(made.choice):
        value = values_of(made.choice)[field.name]
        told = ("on" if value else "off") if isinstance(value, bool) else str(value)
        say(f"  {field.name + '=' + told:<24}{field.tip} ({field.expected})")

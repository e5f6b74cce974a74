"""`attnscope patch`: patch pieces of one text's run into another's, and measure how much is restored."""

import argparse
from typing import TYPE_CHECKING

from attnscope.cli.attribute import add_answer_arguments, check_text, read_target, save_maps
from attnscope.cli.inputs import (
    add_device_argument,
    add_figure_arguments,
    open_model,
    parse_gates,
    tell_progress,
)
from attnscope.cli.terminal import save_finished, say, say_json
from attnscope.counting import csv_text
from attnscope.errors import UserError
from attnscope.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attnscope.models import Model
    from attnscope.records.causes import PatchMap


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "patch",
        description="Activation patching: 1 where the output becomes that of the clean text, 0 where it stays"
        " that of the corrupt one.",
    )
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    parser.add_argument(
        "--clean", required=True, metavar="TEXT", help="the text, or picture, whose pieces are put in"
    )
    parser.add_argument(
        "--corrupt", required=True, metavar="TEXT", help="the text, or picture, they are put into"
    )
    parser.add_argument("--target", help="the second text of a translation (default: what clean gives)")
    parser.add_argument(
        "--kind", choices=("stream", "head"), default="stream", help="what is put in (default: stream)"
    )
    parser.add_argument(
        "--stack",
        choices=("encoder", "decoder"),
        help="whose stream (default: the encoder's, which reads the texts, where there is one)",
    )
    add_answer_arguments(parser)
    add_figure_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Patch, print, write."""
    check_text(arguments.clean, "--clean")
    check_text(arguments.corrupt, "--corrupt")

    model = open_model(arguments)
    target = read_target(model, arguments.clean, arguments.target)
    found, position = _patch(model, arguments, target)
    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, csv_of_patches(found).encode())
    if arguments.out is not None:
        note = f"“{arguments.clean}” into “{arguments.corrupt}”, output at token {position}"
        from attnscope.figures.cause_maps import patch_cells

        save_finished(arguments, save_maps, (patch_cells(found),), arguments.out, model, note)
    if arguments.json:
        say_json(
            {
                "model": model.info.name,
                "sha256": model.info.sha256,
                "clean": arguments.clean,
                "corrupt": arguments.corrupt,
                "target": target,
                "position": position,
                "kind": found.kind,
                "answer": found.answer.piece,
                "other": found.other.piece,
                "clean_difference": found.clean_difference,
                "corrupt_difference": found.corrupt_difference,
                "rows": found.rows,
                "columns": found.columns,
                "patched": found.patched.tolist(),
            }
        )
        return 0
    say(
        f"logit({found.answer.piece}) − logit({found.other.piece}) at token {position}:"
        f" clean {found.clean_difference:.5f}, corrupt {found.corrupt_difference:.5f}"
    )
    say(table_of_patches(found))
    return 0


def table_of_patches(found: "PatchMap") -> str:
    """The map as lines of text, a row for each position of the stream or for each layer's heads."""
    values, across, down = found.patched, found.columns, found.rows
    if found.kind == "stream":  # texts are longer than models are deep
        values, across, down = values.T, found.rows, found.columns
    wide = max(12, *(len(name) + 2 for name in across))
    lines = ["".join([f"{'':<16}", *(f"{name:>{wide}}" for name in across)])]
    for name, numbers in zip(down, values, strict=True):
        cells = (f"{value:>{wide}.4f}" if value == value else f"{'–':>{wide}}" for value in numbers)
        lines.append("".join([f"{name[:15]:<16}", *cells]))
    return "\n".join(lines)


def csv_of_patches(found: "PatchMap") -> str:
    """One line for each cell."""
    header = ("stack", "layer", "head" if found.kind == "head" else "position", "token", "share")
    return csv_text(header, _csv_rows(found))


def _csv_rows(found: "PatchMap") -> "Iterator[tuple[object, ...]]":
    for name, numbers in zip(found.rows, found.patched.tolist(), strict=True):
        for column, value in enumerate(numbers):
            if value == value:
                token = "" if found.kind == "head" else found.columns[column]
                yield (*name.split(), column, token, value)


def _patch(model: "Model", arguments: argparse.Namespace, target: str | None) -> "tuple[PatchMap, int]":
    from attnscope.analysis.answers import comparing_position, read_logits, resolve_token
    from attnscope.analysis.causes import Patching, patch_map
    from attnscope.analysis.influence import check_position
    from attnscope.records.causes import PatchMap

    gates = parse_gates(arguments.gate, model.sites)
    stack = arguments.stack
    if stack is not None and stack not in {site.stack for site in model.sites}:
        raise UserError(f"The model {model.info.name} has no {stack}.", action="Leave out --stack.")
    clean, corrupt = (
        read_logits(model, text, target, gates) for text in (arguments.clean, arguments.corrupt)
    )
    position = arguments.position
    if position is None:
        position = comparing_position(model, arguments.clean, target, clean, corrupt)
    row = clean[check_position(position, len(clean))]
    events = patch_map(
        model,
        (arguments.clean, target),
        (arguments.corrupt, target),
        Patching(
            kind=arguments.kind,
            stack=stack if arguments.kind == "stream" else None,
            position=position,
            answer=resolve_token(model, arguments.answer, row),
            other=resolve_token(model, arguments.other, row),
        ),
        gates,
    )
    found = next(event for event in tell_progress(events) if isinstance(event, PatchMap))
    return found, position % len(clean)

"""`attnscope lens`: the prediction of each layer of a model if it were the last."""

import argparse
from typing import TYPE_CHECKING

from attnscope.cli.arguments import output_file, token_place, whole
from attnscope.cli.attribute import check_text, read_target
from attnscope.cli.inputs import (
    add_device_argument,
    add_gate_argument,
    add_text_arguments,
    open_model,
    parse_gates,
)
from attnscope.cli.terminal import save_finished, say, say_json
from attnscope.counting import csv_text
from attnscope.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attnscope.records.causes import LensTable

_HEADER = (
    "level", "position", "token", "place", "candidate", "candidate_probability",
    "probability", "rank", "kl_nats", "entropy",
)  # fmt: skip


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "lens",
        description="The logit lens (nostalgebraist 2020): the stream after each layer is passed through "
        "the model's own last norm and output layer. The result after the last layer is the model's "
        "own prediction.",
    )
    add_text_arguments(parser, "the text to look at")
    parser.add_argument(
        "--position", type=token_place, metavar="N", help="one token, from the end if negative (default: all)"
    )
    parser.add_argument("--top", type=whole(1), default=5, metavar="N", help="candidates of each layer (5)")
    add_gate_argument(parser)
    parser.add_argument("--csv", type=output_file, metavar="OUT", help="write the numbers there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Apply the lens, print, write."""
    check_text(arguments.text, "--text")
    from attnscope.analysis.causes import logit_lens

    model = open_model(arguments)
    target = read_target(model, arguments.text, arguments.target)
    table = logit_lens(
        model,
        arguments.text,
        target,
        gates=parse_gates(arguments.gate, model.sites),
        positions=slice(None) if arguments.position is None else (arguments.position,),
        top=arguments.top,
    )
    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, csv_text(_HEADER, _csv_rows(table)).encode())
    if arguments.json:
        about = {"model": model.info.name, "sha256": model.info.sha256, "text": arguments.text}
        say_json({**about, "target": target, **json_of_lens(table)})
        return 0
    for line in lines_of_lens(table):
        say(line)
    return 0


def json_of_lens(table: "LensTable") -> dict[str, object]:
    """The table as JSON; its lists run over levels, then positions."""
    return {
        "stack": table.stack,
        "levels": table.levels,
        "positions": table.positions,
        "tokens": [token.piece for token in table.tokens],
        "candidates": [
            [[{"token": one.token.piece, "probability": one.probability} for one in cell] for cell in level]
            for level in table.candidates
        ],
        **{name: getattr(table, name).tolist() for name in ("probability", "rank", "kl_nats", "entropy")},
    }


def lines_of_lens(table: "LensTable") -> "Iterator[str]":
    """Positions down, levels across: the first candidate of each with its probability."""
    cells = [
        [f"{level[column][0].token.piece} {level[column][0].probability:.2f}" for level in table.candidates]
        for column in range(len(table.positions))
    ]
    wide = 2 + max(map(len, (*table.levels, *(cell for line in cells for cell in line))))
    yield "".join([f"{'after':<20}", *(f"{name:<{wide}}" for name in table.levels)]).rstrip()
    for position, token, line in zip(table.positions, table.tokens, cells, strict=True):
        name = f"{position} {token.piece}"[:19]
        yield "".join([f"{name:<20}", *(f"{cell:<{wide}}" for cell in line)]).rstrip()


def _csv_rows(table: "LensTable") -> "Iterator[tuple[object, ...]]":
    for level, name in enumerate(table.levels):
        for column, position in enumerate(table.positions):
            numbers = (getattr(table, part)[level, column].item() for part in _HEADER[6:])
            own = tuple(numbers)
            for place, one in enumerate(table.candidates[level][column]):
                at = (name, position, table.tokens[column].piece, place)
                yield (*at, one.token.piece, one.probability, *own)

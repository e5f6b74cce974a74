"""`attnscope attribute`: what every part of the model adds to the difference of two logits."""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.arguments import token_place
from attnscope.cli.inputs import (
    add_device_argument,
    add_figure_arguments,
    add_gate_argument,
    add_text_arguments,
    open_model,
    parse_gates,
    refuse_second,
    save_figure,
)
from attnscope.cli.terminal import save_finished, say, say_error, say_json
from attnscope.counting import csv_text
from attnscope.errors import UserError
from attnscope.files import replace_file

if TYPE_CHECKING:
    from attnscope.models import Model
    from attnscope.records.causes import Attribution
    from attnscope.records.charts import CellMap

_BAR_CELLS = 24


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "attribute",
        description="Direct logit attribution: the parts add up to logit(answer) − logit(other).",
    )
    add_text_arguments(parser, "the text to look at, or the path of a picture")
    add_answer_arguments(parser)
    parser.add_argument(
        "--sort", choices=("size", "model"), default="size", help="order of the table (default: size)"
    )
    add_figure_arguments(parser)
    add_device_argument(parser)
    parser.set_defaults(run=run)


def add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --position, --answer, --other and --gate."""
    parser.add_argument(
        "--position",
        type=token_place,
        metavar="N",
        help="the token whose output is explained, from 0, or from the end if negative",
    )
    parser.add_argument("--answer", metavar="TOKEN", help="default: the model's prediction there")
    parser.add_argument("--other", metavar="TOKEN", help="the token to compare it with")
    add_gate_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Take one output apart, print, write."""
    check_text(arguments.text, "--text")

    model = open_model(arguments)
    target = read_target(model, arguments.text, arguments.target)
    found = _attribute(model, arguments, target)
    if arguments.position is None:
        token = f"token {found.position} “{found.token.piece}”"
        say_error(f"attnscope: the output at {token} is used; --position N chooses another.")
    if arguments.csv is not None:
        save_finished(arguments, replace_file, arguments.csv, csv_of_parts(found).encode())
    if arguments.out is not None:
        note = f"Output at token {found.position} “{found.token.piece}” of: {target or arguments.text}"
        save_finished(arguments, save_maps, _maps(model, arguments.text, found), arguments.out, model, note)
    if arguments.json:
        about = {"model": model.info.name, "sha256": model.info.sha256, "text": arguments.text}
        values = {**dataclasses.asdict(found), "reads": None if found.reads is None else found.reads.tolist()}
        say_json({**about, "target": target, "total": found.total, **values})
        return 0
    for line in table_of_parts(found, arguments.sort):
        say(line)
    return 0


def _maps(model: "Model", text: str, found: "Attribution") -> "tuple[CellMap, ...]":
    """The parts, and of a picture what heads read at its patches."""
    from attnscope.figures.cause_maps import attribution_cells, reads_cells
    from attnscope.models.inputs import picture_under

    picture = None if found.reads is None else picture_under(model, text)
    parts = attribution_cells(found)
    return (parts,) if picture is None else (parts, reads_cells(found, picture))


def save_maps(cells: "tuple[CellMap, ...]", path: Path, model: "Model", note: str) -> None:
    """Write maps as a figure."""
    save_figure("lab", path, model, note=note, cells=cells, height_mm=100.0)


def check_text(text: str, option: str) -> None:
    """Raise UserError for a text without a word."""
    if not text.strip():
        raise UserError("There is no text to look at.", expected=f"at least one word after {option}")


def read_target(model: "Model", text: str, target: str | None) -> str | None:
    """The second text: as given, or what a translation model writes; raises UserError where none is read."""
    refuse_second(model, target)
    if target is None and model.info.form == "encoder-decoder":
        written = model.encode(text).target
        return written.text if written is not None else None
    return target


def table_of_parts(found: "Attribution", order: str) -> list[str]:
    """A sentence, a line for each part with a bar, and the sum."""
    parts = list(found.contributions)
    if order == "size":
        parts.sort(key=lambda one: -abs(one.value))
    top = max((abs(one.value) for one in parts), default=0.0) or 1.0
    lines = [
        f"logit({found.answer.piece}) − logit({found.other.piece}) at token {found.position}"
        f" “{found.token.piece}”: {found.difference:.5f}"
    ]
    for part in parts:
        bar = ("+" if part.value > 0 else "-") * round(_BAR_CELLS * abs(part.value) / top)
        lines.append(f"{part.label:<24}{part.value:>12.5f}  {bar}".rstrip())
    lines.append(f"{'sum of the parts':<24}{found.total:>12.5f}")
    if found.reads is not None:
        lines.append(f"{'read by heads':<24}{found.reads.sum():>12.5f}  at all patches and special tokens")
    return [*lines, found.note] if found.note else lines


def csv_of_parts(found: "Attribution") -> str:
    """One line for each part, in the order of the model."""
    rows = (
        (
            part.label,
            part.kind,
            part.stack,
            "" if part.layer < 0 else part.layer,
            "" if part.head is None else part.head.head,
            part.value,
        )
        for part in found.contributions
    )
    return csv_text(("part", "kind", "stack", "layer", "head", "logits"), rows)


def _attribute(model: "Model", arguments: argparse.Namespace, target: str | None) -> "Attribution":
    from attnscope.analysis.answers import read_logits, resolve_token, telling_position
    from attnscope.analysis.attribution import attribute_logits
    from attnscope.analysis.influence import check_position

    gates = parse_gates(arguments.gate, model.sites)
    logits = read_logits(model, arguments.text, target, gates)
    position = arguments.position
    if position is None:
        position = telling_position(model, arguments.text, target)
    row = logits[check_position(position, len(logits))]
    return attribute_logits(
        model,
        arguments.text,
        target,
        position=position,
        answer=resolve_token(model, arguments.answer, row),
        other=resolve_token(model, arguments.other, row),
        gates=gates,
    )

"""`attnscope prune`: a smaller model without some heads, checked to be equivalent, and saved.

`attnscope convert`: a model of ours in the format of transformers, its logits compared, and saved.
"""

import argparse
import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.arguments import path_of, text_file
from attnscope.cli.inputs import add_device_argument, open_model, parse_stack, read_file_argument
from attnscope.cli.terminal import one_line, say, say_json
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.outside import as_object, read_json
from attnscope.records.importance import ModelSize, PruningReport, SpeedChange
from attnscope.records.sites import Gates, HeadRef, Site, Stack, check_heads

if TYPE_CHECKING:
    from attnscope.models import Model

_HEAD = re.compile(r"L(?P<layer>\d{1,6})H(?P<head>\d{1,6})")
_NAMED = re.compile(r"(?:(?P<stack>[a-z]+)[ :])?(?P<head>L\d{1,6}H\d{1,6})")
_HOW = "'{} L0H1'"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str) -> None:
    (_add_convert if name == "convert" else _add_prune)(commands)


def _add_convert(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "convert",
        description="Write a model of AttnScope in the format of the library transformers, where one of its "
        "architectures can be it: GPT-2 (learned positions, layer norms, GELU) or Llama (rotary positions, "
        "RMS norms, SwiGLU, no biases). Before it is written its logits are compared with ours.",
    )
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    parser.add_argument("-o", "--out", required=True, type=path_of, metavar="FOLDER", help="where to save it")
    add_device_argument(parser)
    parser.set_defaults(run=convert)


def convert(arguments: argparse.Namespace) -> int:
    """Convert, compare, save, report."""
    _refuse_taken(arguments.out)
    title, difference = open_model(arguments).save_for_transformers(arguments.out)
    words = f"{title} in the format of transformers; its logits differ by at most {difference:.1g}"
    say(f"{arguments.out}: {words}")
    return 0


def _add_prune(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("prune")
    parser.add_argument("model", metavar="MODEL", help="a demo model's name, a model folder or a run folder")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--heads",
        metavar='"[STACK] L0H1 …"',
        help="the heads to remove; a stack holds until the next is named (default: those closed in training)",
    )
    which.add_argument(
        "--gates",
        type=path_of,
        metavar="FILE",
        help='JSON such as {"encoder L0H1": 0, "cross L2H3": 0.5}: 0 removes, others are multiplied in',
    )
    parser.add_argument("-o", "--out", required=True, type=path_of, metavar="FOLDER", help="where to save it")
    text = parser.add_mutually_exclusive_group()
    text.add_argument("--text", default="", help="a text for the proof and the speed")
    text.add_argument("-f", "--file", type=text_file, metavar="FILE", help="a UTF-8 text file for the same")
    parser.add_argument("--target", help="the second text, where the model reads one")
    parser.add_argument(
        "--shape",
        choices=("small", "same"),
        default="small",
        help=(
            "small: the parameters of removed heads are gone, and the report's line “opens in” names the "
            "programs that open the folder. same (Hugging Face models only): removed heads become zeros, "
            "nothing is smaller or faster, and the folder opens wherever the model did"
        ),
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Remove heads, check, measure, save, report."""
    from attnscope.models.pruning import prune, shapes_of

    _refuse_taken(arguments.out)
    text = read_file_argument(arguments.file) if arguments.file is not None else arguments.text
    model = open_model(arguments)
    if arguments.shape not in shapes_of(model.network):
        raise UserError(
            f"{model.info.name} cannot be saved in the shape '{arguments.shape}'.",
            expected=" or ".join(shapes_of(model.network)),
            action="Leave out --shape.",
        )
    gates = _wanted_gates(arguments, model)
    read = model.encode(text, arguments.target) if text.strip() else None
    pruned = prune(model.network, gates, read, shape=arguments.shape)
    report = pruned.save(arguments.out)
    if arguments.json:
        proof = {"relative": report.proof.relative, "is_good": report.proof.is_good}
        say_json({**dataclasses.asdict(report), "proof": {**dataclasses.asdict(report.proof), **proof}})
    else:
        say(report_text(report))
    return 0


def _wanted_gates(arguments: argparse.Namespace, model: "Model") -> Gates:
    """The gates asked for, and those of heads that the model's training closed."""
    if arguments.gates:
        given = _read_gates(arguments.gates, model.sites)
    elif arguments.heads is not None:
        given = Gates.of(dict.fromkeys(parse_head_list(arguments.heads, model.sites), 0.0))
    elif model.first_gates:
        return model.first_gates
    else:
        raise UserError(
            f"No heads of {model.info.name} were chosen for removal.",
            expected="--heads or --gates, since its training closed none",
            action="For instance: --heads 'L0H1 L2H3'.",
        )
    return Gates.of({**dict(model.first_gates.values), **dict(given.values)})


def _refuse_taken(out: Path) -> None:
    """Raise UserError before any work if a new model would replace something."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(
            f"{out} already exists.",
            expected="a new or an empty folder",
            action="Choose another folder for -o; nothing was written.",
        )


def parse_head_list(text: str, sites: tuple[Site, ...]) -> tuple[HeadRef, ...]:
    """Parse heads such as `encoder L0H1 L0H2 cross L2H3`; raises UserError naming the wrong word."""
    stack: Stack | None = None
    heads: list[HeadRef] = []
    for word in filter(None, re.split(r"[\s,:;]+", text)):
        match = _HEAD.fullmatch(word)
        if match is None:
            stack = parse_stack(word, sites, how=_HOW)
            continue
        stack = stack or parse_stack(None, sites, how=_HOW)
        head = HeadRef(stack=stack, layer=int(match["layer"]), head=int(match["head"]))
        check_heads((head,), sites)
        heads.append(head)
    if not heads:
        raise UserError(
            "No head is named.", expected="at least one", action="For instance: --heads 'L0H1 L2H3'."
        )
    return tuple(heads)


def report_text(report: PruningReport) -> str:
    """The report in lines of name and value."""
    removed = [f"{head.stack} {head.label}" for head in report.removed]
    rows = {
        "saved in": report.folder,
        "opens in": report.opens_in,
        "removed": f"{plural(len(removed), 'head')}: {', '.join(removed)}",
        "multiplied": ", ".join(f"{head.stack} {head.label} × {value:g}" for head, value in report.folded),
        "proof": report.proof.sentence,
        "parameters": f"{report.before.n_parameters:,} → {report.after.n_parameters:,}",
        "weights": f"{_bytes(report.before)} → {_bytes(report.after)}",
        "speed": "" if report.speed is None else _speed(report.speed),
    }
    lines = [f"{name:<12}{one_line(value)}" for name, value in rows.items() if value]
    return "\n".join([*lines, *(f"{'note':<12}{one_line(note)}" for note in report.notes)])


def _bytes(size: ModelSize) -> str:
    return f"{size.n_bytes:,} bytes in memory" if size.file_bytes is None else f"{size.file_bytes:,} bytes"


def _speed(speed: SpeedChange) -> str:
    words = f"{speed.ratio:.2f}× as fast" if speed.is_certain else "no certain difference"
    return (
        f"{words}: {speed.before_ms:.1f} → {speed.after_ms:.1f} ms for "
        f"{plural(speed.n_tokens, 'token')}, median of "
        f"{speed.n_turns} turns (half of them {speed.ratio_low:.2f} to {speed.ratio_high:.2f}× as fast)"
    )


def _read_gates(path: Path, sites: tuple[Site, ...]) -> Gates:
    if not path.exists():
        raise UserError(
            f"There is no file {path}.", expected="a JSON file of heads and numbers", action="Check the path."
        )
    gates: dict[HeadRef, float] = {}
    for name, value in as_object(read_json(path), what=str(path)).items():
        match = _NAMED.fullmatch(name)
        if match is None or isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(
                f"{path} holds {str(name)[:40]!r}: {str(value)[:20]}.",
                expected='heads with numbers from 0 to 1, such as "encoder L0H1": 0',
                action="Correct that entry.",
            )
        words = " ".join(part for part in (match["stack"], match["head"]) if part)
        gates[parse_head_list(words, sites)[0]] = float(value)
    return Gates.of(gates)

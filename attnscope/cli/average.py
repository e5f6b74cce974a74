"""`attnscope average`: one model from the mean of a run's last checkpoints."""

import argparse
from typing import TYPE_CHECKING

from attnscope.cli.inputs import add_device_argument
from attnscope.cli.outputs import path_of
from attnscope.cli.ranges import whole
from attnscope.cli.terminal import say, say_json
from attnscope.records.loss_units import loss_unit

if TYPE_CHECKING:
    from attnscope.records.training import Evaluated


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser(
        "average",
        description="The mean of the weights of a run's last checkpoints (Vaswani 2017, section 6.1) as a "
        "model folder, and its held-out loss beside that of the last checkpoint alone.",
    )
    parser.add_argument("run_folder", metavar="RUN", type=path_of, help="a run folder, as training writes it")
    parser.add_argument("-o", "--out", type=path_of, required=True, metavar="FOLDER", help="the model folder")
    parser.add_argument(
        "--last", type=whole(1), default=5, metavar="N", help="how many checkpoints (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Average, measure, write, print."""
    from attnscope.training.averaging import average_run

    found = average_run(arguments.run_folder, last=arguments.last, device=arguments.device)
    found.model.save(arguments.out)
    if arguments.json:
        losses = {"mean": found.held_out, "last": found.last_alone}
        told = {k: None if e is None else {"loss": e.loss, "accuracy": e.accuracy} for k, e in losses.items()}
        say_json({"steps": found.steps, "held_out": told, "folder": str(arguments.out), "note": found.note})
        return 0
    unit = loss_unit((found.model.info.objective,))
    say(f"{arguments.out}: the mean of the steps {', '.join(f'{step:,}' for step in found.steps)}.")
    if found.held_out is not None and found.last_alone is not None:
        say(f"held out: {_words(found.held_out, unit)}; the last alone {_words(found.last_alone, unit)}.")
    if found.note:
        say(found.note)
    return 0


def _words(seen: "Evaluated", unit: str) -> str:
    return f"{seen.loss:.4f} {unit} ({seen.accuracy:.1%} right)"

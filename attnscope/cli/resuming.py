"""`attnscope train --resume RUN`: going on with a run from its own recipe, and beyond the length it had."""

import argparse
from pathlib import Path

from attnscope.cli.outputs import name_of
from attnscope.cli.ranges import whole
from attnscope.errors import UserError


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --resume and --steps."""
    parser.add_argument(
        "--resume",
        type=name_of,
        metavar="RUN",
        default="",
        help="go on with the run in this folder, from its own recipe; without RECIPE and --out",
    )
    parser.add_argument(
        "--steps",
        type=whole(1),
        metavar="N",
        help="with --resume: how long the whole run is to be, also where it is finished; with the schedules "
        "linear and cosine the learning rate is then that of the new length, and a note says so",
    )


def take_resumed(arguments: argparse.Namespace, overrides: dict[str, str]) -> None:
    """Write what --resume means into RECIPE, --out and the overrides; raises UserError for what clashes."""
    if not arguments.resume:
        _refuse_without_resume(arguments)
        return
    named = {"RECIPE": arguments.recipe, "--out": arguments.out, "--sweep": arguments.sweep}
    given = [name for name, value in {**named, "--seeds": arguments.seeds}.items() if value]
    if given:
        raise UserError(
            f"--resume goes on with a run from its own recipe, in its own folder; {given[0]} was given too.",
            expected="--resume RUN alone, with --steps N for more steps",
            action=f"Leave out {given[0]}.",
        )
    from attnscope.training.resume_points import lengthened
    from attnscope.training.run import RunFolder

    folder = Path(arguments.resume)
    overrides.update(lengthened(overrides, folder, arguments.steps))
    arguments.recipe, arguments.out = str(RunFolder(folder).recipe), str(folder)


def resumed_words(arguments: argparse.Namespace) -> list[str]:
    """The words that say so on a command line; none for a run that is not resumed."""
    if not arguments.resume:
        return []
    steps = [] if arguments.steps is None else ["--steps", str(arguments.steps)]
    return ["--resume", arguments.resume, *steps]


def _refuse_without_resume(arguments: argparse.Namespace) -> None:
    if arguments.steps is not None:
        raise UserError(
            "--steps tells how long a run is to be that goes on.",
            expected="--resume RUN beside it",
            action="Name the run, or give a new one its length with --set training.n_steps=N.",
        )
    if not arguments.recipe:
        raise UserError(
            "There is no recipe.",
            expected="a recipe, or --resume RUN",
            action="Name one: see attnscope train --help.",
        )

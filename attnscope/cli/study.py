"""`attnscope study`: reproduce a published result, with the published numbers beside ours."""

import argparse
import time

from attnscope import boot
from attnscope.cli.arguments import path_of, seed
from attnscope.cli.inputs import add_device_argument, tell_progress
from attnscope.cli.terminal import say, say_json
from attnscope.errors import UserError
from attnscope.studies.study import Choices, Study, find_card, find_study, studies

_OPTIONS = {"model": "--model", "corpus": "--corpus", "trees": "--conllu"}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("study")
    parser.add_argument("name", nargs="?", metavar="NAME", help="which; without one they are listed")
    parser.add_argument(
        "--out", type=path_of, metavar="DIR", help="the folder for its files and training runs"
    )
    parser.add_argument(
        "--model",
        default="",
        metavar="MODEL",
        help=(
            "a model to use instead of the study's own; collapse takes those that AttnScope trained or saved"
        ),
    )
    parser.add_argument(
        "--corpus", type=path_of, metavar="FILE", help="texts for it; pairs have a tab between"
    )
    parser.add_argument(
        "--conllu", type=path_of, metavar="FILE", dest="trees", help="dependency trees for it"
    )
    parser.add_argument("--seed", type=seed, default=1, help="default 1")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="finish in seconds, to check that it runs; the numbers mean nothing",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the studies, or run one: write its files, print the comparison."""
    if arguments.name is None:
        return _list(is_json=arguments.json)
    card = find_card(arguments.name)
    if arguments.out is None:
        raise UserError("There is no folder for the study.", expected="--out DIR", action="Name one.")
    for option, flag in _OPTIONS.items():
        if getattr(arguments, option) and option not in card.takes:
            raise UserError(f"The study {card.name} does not use {flag}.", action=f"Leave out {flag}.")
    application = boot.offscreen_application()
    from attnscope.studies.making import make_folder, signed, study_table, write_study

    make_folder(arguments.out)
    started_at = time.monotonic()
    choices = Choices(
        folder=arguments.out,
        is_quick=arguments.quick,
        seed=arguments.seed,
        device=arguments.device,
        model=arguments.model,
        corpus=arguments.corpus,
        trees=arguments.trees,
    )
    events = tell_progress(find_study(card.name)(choices))
    study = signed(next(event for event in events if isinstance(event, Study)), choices)
    paths = write_study(study, arguments.out)
    if arguments.json:
        say_json(study_table(study))
    else:
        _tell(study, arguments.quick)
        say(f"{time.monotonic() - started_at:.0f} s. Written: {', '.join(str(path) for path in paths)}")
    del application
    return 0


def _list(*, is_json: bool) -> int:
    if is_json:
        say_json([{"name": card.name, "paper": card.paper, "question": card.question} for card in studies()])
        return 0
    for card in studies():
        say(f"{card.name:<15}{card.question}")
        say(f"{'':<15}{card.paper}")
    return 0


def _tell(study: Study, is_quick: bool) -> None:
    from attnscope.studies.making import agreement_text, ours_text

    say(f"{study.name}: {study.question}")
    for one in study.comparisons:
        say(f"  {one.what}")
        say(f"    published {one.published}; ours {ours_text(one)}; as published: {agreement_text(one)}")
    if is_quick:
        say("Quick: these numbers mean nothing; they only show that the study runs.")

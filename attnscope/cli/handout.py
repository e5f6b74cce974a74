"""`attnscope handout`: the kept views of a session as a PDF, made as the window makes it, without one."""

import argparse
from pathlib import Path

from attnscope import boot
from attnscope.cli.arguments import output_file, path_of
from attnscope.cli.inputs import add_device_argument
from attnscope.errors import UserError
from attnscope.figures.file_names import is_stream
from attnscope.settings import StartOptions


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "handout",
        description="The views that were kept in a session, one on each page with its note (in the window: "
        "File ▸ Save handout…).",
    )
    parser.add_argument("session", type=path_of, metavar="SESSION", help="a session file (*.attnscope)")
    parser.add_argument("-o", "--out", required=True, type=_pdf, metavar="FILE", help="the .pdf to write")
    add_device_argument(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the session; the window, offscreen, opens it and makes the handout. Ends the process itself."""
    from attnscope.viewmodels.session.file import ENDING, read_session

    if arguments.session.suffix.lower() != ENDING:
        raise UserError(
            f"{arguments.session} is not named as a session is.", expected=f"a name ending in {ENDING}"
        )
    if not read_session(arguments.session).views:
        raise UserError(
            f"No views are kept in {arguments.session}.",
            action="Keep some in the window (Ctrl+Shift+K), and save the session.",
        )
    session, out = arguments.session.absolute(), arguments.out
    return boot.open_window(StartOptions(source=str(session), device=arguments.device, handout=str(out)))


def _pdf(text: str) -> Path:
    """As `output_file`, with the ending of a PDF."""
    path = output_file(text)
    if path.suffix.lower() != ".pdf" and not is_stream(path):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} does not end in .pdf")
    return path

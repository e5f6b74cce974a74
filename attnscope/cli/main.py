"""The command line: which command, and how it ends.

Exit code 0: done. 2: something the person can mend, told in one line. 1: a fault of the program, with
the name of its crash log. 130: stopped with Ctrl+C.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from attnscope import __version__, boot, paths
from attnscope.cli.interrupting import STOPPED, Interrupts
from attnscope.cli.terminal import say, say_error
from attnscope.crash import CrashLog, fault_sentence
from attnscope.errors import UserError
from attnscope.settings import StartOptions

DONE, FAULT, MENDABLE = 0, 1, 2
_DEVICES = {"bench": "cpu"}
"""Where a command computes when nothing is said, other than where it can best."""
_WINDOW_FLAGS = {
    "--smoke": "open offscreen, trace, export, leave; for tests",
    "--json": "with --smoke: print its times as JSON",
    "--reset": "start with default settings; the old file is kept",
    "--safe-mode": "neither read nor write settings",
}


class Parser(argparse.ArgumentParser):
    """Tells a wrong argument in one line, without the terminal escapes it may hold."""

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with exit code 2."""
        say_error(f"{self.prog}: {message}. See {self.prog} --help.")
        raise SystemExit(MENDABLE)


def build_parser(*, has_commands: bool = True) -> argparse.ArgumentParser:
    """The parser of all commands, or of the window alone, which need not wait for what they import."""
    parser = Parser(
        prog="attnscope",
        description="See every attention head of a Transformer: train, prune, compare, export. "
        "Without a command the window opens.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    _add_window_options(parser)
    parser.set_defaults(run=_open_window, source="")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    opening = commands.add_parser("open", help="open the window on a model, a run or a text file")
    meaning = "a demo model's name, a model or run folder, a session, recorded attention, or a .txt file"
    opening.add_argument("source", metavar="PATH", help=meaning)
    _add_window_options(opening, is_repeated=True)
    opening.set_defaults(run=_open_window)
    if has_commands:
        _add_commands(commands)
    return parser


def opens_window(argv: Sequence[str]) -> bool:
    """Whether these arguments can be read by the parser of the window alone; False where it is not plain."""
    return not argv or argv[0] == "open" or set(argv) <= _WINDOW_FLAGS.keys() | {"--version"}


def _with_open(argv: Sequence[str]) -> Sequence[str]:
    """The arguments, with `open` before a file that stands where a command would."""
    is_file = bool(argv) and not argv[0].startswith("-") and Path(argv[0]).suffix and os.path.isfile(argv[0])
    return ["open", *argv] if is_file else argv


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    boot.open_missing_output()
    with Interrupts():
        try:
            return _run(argv)
        except KeyboardInterrupt:
            say_error("attnscope: stopped.")
            return STOPPED


def _run(argv: Sequence[str] | None) -> int:
    try:
        given = _with_open(sys.argv[1:] if argv is None else argv)
        arguments = build_parser(has_commands=not opens_window(given)).parse_args(given)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else MENDABLE
    has_window = arguments.run is _open_window
    if not has_window and not arguments.device:
        arguments.device = _DEVICES.get(arguments.command, "auto")
    boot.prepare_environment(has_window=has_window)
    if arguments.version:
        arguments.run = _tell_version
    return run_guarded(arguments)


def run_guarded(arguments: argparse.Namespace) -> int:
    """Run the parsed command; every error becomes one line and an exit code."""
    try:
        return int(arguments.run(arguments))
    except UserError as error:
        say_error(f"attnscope: {error}")
        return MENDABLE
    except KeyboardInterrupt:
        say_error("attnscope: stopped.")
        return STOPPED
    except BrokenPipeError:
        boot.forget_output()
        return DONE
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  the outer edge: panics of native libraries end here
        lost = _lost_device(error)
        if lost is not None:
            say_error(f"attnscope: {lost}")
            return MENDABLE
        log = CrashLog(paths.logs_folder()).write(error, f"attnscope {' '.join(sys.argv[1:])}"[:2000])
        say_error(f"attnscope: {fault_sentence(error, log)}")
        return FAULT


def _lost_device(error: BaseException) -> UserError | None:
    """What to tell when an accelerator gave up; nothing is imported for it that was not needed before."""
    if "torch" not in sys.modules:
        return None
    from attnscope.models.device import lost_device

    return lost_device(error)


def _add_commands(commands: "argparse._SubParsersAction[Parser]") -> None:
    """The commands that need no window."""
    from attnscope.cli import (
        attribute,
        average,
        bench,
        curve,
        figure,
        generate,
        importance,
        info,
        measure,
        patch,
        predict,
        prune,
        study,
        trace,
        train,
        translate,
        weights,
    )

    for command in (
        train,
        average,
        trace,
        predict,
        generate,
        translate,
        figure,
        measure,
        importance,
        curve,
        attribute,
        patch,
        weights,
        prune,
        info,
        study,
        bench,
    ):
        command.add_parser(commands)


def _add_window_options(parser: argparse.ArgumentParser, *, is_repeated: bool = False) -> None:
    """The options of the window; a repeated set leaves alone what the first has read."""
    for name, meaning in _WINDOW_FLAGS.items():
        default = argparse.SUPPRESS if is_repeated else False
        parser.add_argument(name, action="store_true", help=meaning, default=default)
    default_device = argparse.SUPPRESS if is_repeated else ""
    meaning = "auto, cpu, cuda, cuda:1 or mps (default: as remembered)"
    parser.add_argument("--device", default=default_device, help=meaning)


def _tell_version(_arguments: argparse.Namespace) -> int:
    say(f"attnscope {__version__}")
    return DONE


def _open_window(arguments: argparse.Namespace) -> int:
    return boot.open_window(
        StartOptions(
            source=arguments.source,
            is_safe_mode=arguments.safe_mode,
            is_reset=arguments.reset,
            is_smoke=arguments.smoke,
            is_json=arguments.json,
            device=arguments.device,
        )
    )

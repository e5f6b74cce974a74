"""The command line: dispatch and exit codes.

Exit code 0: done. 2: something the user can mend, told in one line. 1: a fault of the program, with the name
of its crash log. 130: stopped with Ctrl+C; a training that saved and stopped for another signal ends with 129
(its terminal was closed) or 143 (SIGTERM).
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from attnscope import __version__, boot
from attnscope.cli.terminal import STOPPED, Interrupts, flush_said, say, say_error
from attnscope.errors import UserError, no_access

DONE, FAULT, MENDABLE = 0, 1, 2
_DEVICES = {"bench": "cpu"}
"""Where a command computes when nothing is said, other than where it can best."""
COMMANDS = {
    "train": "train a recipe into a run folder; resumes what it holds",
    "trace": "write the attention of a text to a file",
    "predict": "show what a model predicts",
    "generate": "generate a text",
    "translate": "translate a text, or a file line by line, and compute BLEU",
    "figure": "draw a figure: attention, positions, training curves, or a .figure.json again",
    "handout": "write the kept views of a session as a PDF, one on each page with its note",
    "measure": "measure every head on a text or over a corpus",
    "importance": "score how much each head matters to the loss",
    "curve": "remove heads a tenth at a time and measure",
    "attribute": "show what each head and layer adds to an output",
    "patch": "patch pieces of one text's run into that of another",
    "ask": "ask a question about a model and a text: the residual stream, a head's projections and more",
    "lens": "show what the model would predict after each layer (logit lens)",
    "rollout": "trace an output back to the inputs by attention rollout",
    "flow": "trace an output back to the inputs by attention flow",
    "relevance": "trace an output back to the inputs by attention and its gradient",
    "weights": "show what a head's weights write and look for, and how many dimensions it uses",
    "lab": "list the labs, or work one out: its picture, its numbers",
    "prune": "remove heads permanently: a smaller model with the same output as with the heads off",
    "convert": "write a model in the format of the library transformers",
    "models": "list the models that come with the program, and what each is for",
    "get": "get a well-known open model: list the shelf, download one after confirmation",
    "info": "describe a model: its parts, parameters and cost",
    "study": "reproduce a published result: a figure, a table, a report",
    "bench": "measure speed on this computer, from a checkout",
    "completion": "print what bash, zsh or fish needs to complete commands, options and names",
}
"""Each has its module beside this one, which is imported when its name is given; but for these:"""
_IN_ONE = {
    **dict.fromkeys(("rollout", "flow", "relevance"), "influence"),
    **dict.fromkeys(("prune", "convert"), "prune"),
}
_GONE = {
    "average": (
        "`average` was removed in version 0.10. Use attnscope open RUN instead, for its last checkpoint."
    )
}
"""Commands of earlier versions, and what to do without them."""
_WINDOW_FLAGS = {
    "--smoke": "open offscreen, trace, export, exit; for tests",
    "--json": "with --smoke: print its times as JSON",
    "--reset": "start with default settings; the old file is kept",
    "--safe-mode": "do not read or write settings",
    "--new-window": "open a window of its own, even if one is open that could take the file",
}


class Parser(argparse.ArgumentParser):
    """Reports a wrong argument in one line, without terminal escapes in it; its help has examples."""

    def format_help(self) -> str:
        """The help of this command, with examples."""
        return super().format_help() + examples_text(self.prog.rpartition(" ")[2])

    def error(self, message: str) -> NoReturn:
        """Print the message and leave with exit code 2."""
        say_error(f"{self.prog}: {message}. See {self.prog} --help.")
        raise SystemExit(MENDABLE)


def module_of(command: str) -> str:
    """The module that adds a command's options and runs it."""
    return f"attnscope.cli.{_IN_ONE.get(command, command)}"


def add_command(commands: "argparse._SubParsersAction[Any]", name: str) -> None:
    """Import a command's module, and let it add its options."""
    add_parser = import_module(module_of(name)).add_parser
    if name in _IN_ONE:
        add_parser(commands, name)
    else:
        add_parser(commands)


def build_parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these arguments: with the options of the commands they name."""
    parser = Parser(
        prog="attnscope",
        description="See every attention head of a Transformer: train, prune, compare, export. "
        "Without a command the window opens.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    _add_window_options(parser)
    parser.set_defaults(run=_open_window, source="")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    opening = commands.add_parser("open", help="open the window on a model, a run or a text file")
    meaning = "a demo model's name, a model or run folder, a session, recorded attention, or a .txt file"
    opening.add_argument("source", metavar="PATH", help=meaning)
    _add_window_options(opening, is_repeated=True)
    opening.set_defaults(run=_open_window)
    for name, meaning in COMMANDS.items():
        if name in given:
            add_command(commands, name)
        else:
            commands.add_parser(name, help=meaning)
    return parser


def _with_open(argv: Sequence[str]) -> Sequence[str]:
    """The arguments, with `open` inserted before a file in place of a command."""
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
        if given and given[0] in _GONE:
            say_error(f"attnscope: {_GONE[given[0]]}")
            return MENDABLE
        parser = build_parser(given)
        arguments, unknown = parser.parse_known_args(given)
        if unknown:
            parser.prog = " ".join(
                filter(None, (parser.prog, arguments.command))
            )  # whose help names the rest
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else MENDABLE
        return run_guarded(argparse.Namespace(run=lambda _: flush_said() or code))
    has_window = arguments.run is _open_window
    if not has_window and not arguments.device:
        arguments.device = _DEVICES.get(arguments.command, "auto")
    arguments.may_choose_threads = "OMP_NUM_THREADS" not in boot.environment()
    boot.prepare_environment(has_window=has_window)
    if arguments.version:
        arguments.run = _tell_version
    return run_guarded(arguments)


def run_guarded(arguments: argparse.Namespace) -> int:
    """Run the parsed command; every error becomes one line and an exit code."""
    try:
        boot.require_folder()
        return _done(arguments)
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
        lost = no_access(error) or _lost_device(error)
        if lost is not None:
            say_error(f"attnscope: {lost}")
            return MENDABLE
        from attnscope import paths
        from attnscope.crash import CrashLog, fault_sentence

        log = CrashLog(paths.logs_folder()).write(error, f"attnscope {' '.join(sys.argv[1:])}"[:2000])
        say_error(f"attnscope: {fault_sentence(error, log)}")
        return FAULT


def _done(arguments: argparse.Namespace) -> int:
    """Exit code of a command; unsaved files are reported last."""
    try:
        code = int(arguments.run(arguments))
    finally:
        unsaved = dict.fromkeys(str(error) for error in vars(arguments).get("unsaved", ()))
        for reason in unsaved:
            say_error(f"attnscope: {reason}")
    return MENDABLE if unsaved else code


def _lost_device(error: BaseException) -> UserError | None:
    """Message for an accelerator that failed; imports nothing that was not needed before."""
    if "torch" not in sys.modules:
        return None
    from attnscope.nn.machine import lost_device

    return lost_device(error)


def _add_window_options(parser: argparse.ArgumentParser, *, is_repeated: bool = False) -> None:
    """Add the options of the window; a second set keeps values that the first has read."""
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
    from attnscope.settings import StartOptions

    return boot.open_window(
        StartOptions(
            source=arguments.source,
            is_safe_mode=arguments.safe_mode,
            is_reset=arguments.reset,
            is_smoke=arguments.smoke,
            is_json=arguments.json,
            is_new_window=arguments.new_window,
            device=arguments.device,
            may_choose_threads=arguments.may_choose_threads,
        )
    )


_WIDTH = 79

EXAMPLES = MappingProxyType(
    {
        "open": (
            ("the window on a demo model", "attnscope open grammar"),
            ("a saved session, in a window of its own", "attnscope open lesson.attnscope --new-window"),
        ),
        "train": (
            ("train a built-in recipe into a run folder", "attnscope train reverse --out runs/reverse"),
            ("what a recipe would cost", "attnscope train grammar --plan"),
        ),
        "trace": (
            (
                "every weight of a text, for numpy",
                'attnscope trace stories --text "The cat sat on the mat." -o trace.npz',
            ),
            (
                "for AttnScope, which opens it in the window",
                'attnscope trace grammar --text "the white cat sleeps" -o trace.safetensors',
            ),
        ),
        "predict": (
            (
                "the candidates for a masked word",
                'attnscope predict stories-masked --text "I put <mask> fork down on the table."',
            ),
            (
                "without one head: before and after",
                'attnscope predict grammar --text "the white cat sleeps" --gate cross:L1H0=0',
            ),
        ),
        "generate": (
            (
                "four beams of twelve tokens",
                'attnscope generate stories --text "Once upon a time" --beams 4 --max-tokens 12',
            ),
            ("sampled", 'attnscope generate stories --text "The girl" --temperature 0.8 --seed 1'),
        ),
        "translate": (
            ("a sentence", 'attnscope translate english-french --text "Where did you buy this bread?"'),
            (
                "a file of pairs, with BLEU",
                "attnscope translate english-french -f pairs.tsv --beams 4 -o out.txt",
            ),
        ),
        "figure": (
            (
                "one head",
                'attnscope figure grammar --text "the white cat sleeps" --view head --stack cross --layer 1 '
                "--head 0 -o head.svg",
            ),
            (
                "positional encodings, as wide as two columns",
                "attnscope figure grammar --view positions --size double -o positions.pdf",
            ),
        ),
        "handout": (
            ("the kept views of a session", "attnscope handout lesson.attnscope -o lesson.pdf"),
            (
                "where there is a GPU but it is busy",
                "attnscope handout lesson.attnscope --device cpu -o lesson.pdf",
            ),
        ),
        "measure": (
            (
                "every head on a text, the most diffuse first",
                'attnscope measure stories --text "The cat sat on the mat." --sort entropy',
            ),
            ("over a corpus", "attnscope measure stories --corpus sentences.txt --csv heads.csv"),
        ),
        "importance": (
            ("by gradient, on the model's own samples", "attnscope importance grammar"),
            (
                "by removing each head in turn, on your texts",
                "attnscope importance stories --corpus sentences.txt --ranking leave-one-out --csv heads.csv",
            ),
        ),
        "curve": (
            ("two rankings", "attnscope curve grammar --rankings gradient,random -o curve.svg"),
            ("the scores of one pass for all steps", "attnscope curve grammar --once --metric accuracy"),
        ),
        "attribute": (
            ("the model's own prediction", 'attnscope attribute grammar --text "the white cat sleeps"'),
            (
                "drawn, the parts in the model's order",
                'attnscope attribute stories --text "The cat sat on the" --sort model -o parts.svg',
            ),
        ),
        "patch": (
            (
                "the residual stream",
                'attnscope patch grammar --clean "the white cat sleeps" --corrupt "the black cat sleeps"',
            ),
            (
                "heads, drawn",
                'attnscope patch grammar --clean "the white cat sleeps" --corrupt "the white dog sleeps" '
                "--kind head -o heads.svg",
            ),
        ),
        "ask": (
            ("the questions", "attnscope ask"),
            (
                "one of them",
                'attnscope ask surprise stories --text "Once upon a time there was a girl." -o surprise.svg',
            ),
        ),
        "lens": (
            ("every token", 'attnscope lens stories --text "Only I love you." --csv lens.csv'),
            (
                "the last one, ten candidates",
                'attnscope lens stories --text "The cat sat on the" --position=-1 --top 10',
            ),
        ),
        "rollout": (
            ("drawn", 'attnscope rollout grammar --text "the white cat sleeps" -o rollout.svg'),
            ("of the first output", 'attnscope rollout grammar --text "the white cat sleeps" --position 0'),
        ),
        "flow": (
            ("of the last output", 'attnscope flow stories --text "Only I love you."'),
            ("of another", 'attnscope flow grammar --text "the white cat sleeps" --position 1 -o flow.svg'),
        ),
        "relevance": (
            (
                "as JSON",
                'attnscope relevance stories-masked --text "I put <mask> fork down on the table." --json',
            ),
            ("drawn", 'attnscope relevance grammar --text "the white cat sleeps" -o relevance.svg'),
        ),
        "weights": (
            ("a head of cross-attention", "attnscope weights grammar cross:L1H0"),
            ("the three strongest pairs, drawn", "attnscope weights stories L0H1 --top 3 -o head.svg"),
        ),
        "lab": (
            ("the labs", "attnscope lab"),
            ("one of them, drawn", 'attnscope lab "Scaling by √d" --set d_k=64 -o scaling.svg'),
        ),
        "prune": (
            (
                "two heads, removed permanently",
                'attnscope prune grammar --heads "encoder L0H1 cross L1H6" -o smaller',
            ),
            (
                "those of a file, with the proof on a text",
                'attnscope prune grammar --gates gates.json --text "the cat sleeps" -o smaller',
            ),
        ),
        "convert": (
            ("a run, for transformers", "attnscope convert runs/notes -o notes-gpt2"),
            ("a model folder, computed on the processor", "attnscope convert mine --device cpu -o mine-gpt2"),
        ),
        "models": (
            ("the models that come with the program, and what each is for", "attnscope models"),
            ("the same for programs", "attnscope models --json"),
        ),
        "get": (
            ("the shelf, without the network", "attnscope get --list"),
            ("one of its models", "attnscope get gpt2"),
        ),
        "info": (
            ("a demo model", "attnscope info grammar"),
            ("published models by name: their size and cost", "attnscope info --presets"),
        ),
        "study": (
            ("the studies", "attnscope study"),
            ("one of them", "attnscope study collapse --out studies"),
        ),
        "bench": (
            ("the start, in a checkout", "attnscope bench start"),
            ("everything, into a file", "attnscope bench --json bench.json"),
        ),
        "completion": (
            ("this shell, now (bash)", 'eval "$(attnscope completion bash)"'),
            (
                "every shell from now on (fish)",
                "attnscope completion fish > ~/.config/fish/completions/attnscope.fish",
            ),
        ),
    }
)
"""Of each command: what an example shows, and the line to type."""


def examples_text(command: str) -> str:
    """The end of a command's help: a remark and a line for each example; empty if there are none."""
    lines = [line for words, typed in EXAMPLES.get(command, ()) for line in (f"  # {words}", _folded(typed))]
    return "\n".join(("", "examples:", *lines, "")) if lines else ""


def _folded(typed: str) -> str:
    """A command line wrapped to a terminal's width, between words, never within quotes."""
    held = typed.replace(" -", "\0-") if len(typed) > _WIDTH - 2 else typed
    parts = [part for part in held.split("\0") if part]
    lines, line = [], parts[0]
    for part in parts[1:]:
        if len(line) + 1 + len(part) > _WIDTH - 6:
            lines.append(line)
            line = part
        else:
            line = f"{line} {part}"
    lines.append(line)
    return "  " + " \\\n    ".join(lines)

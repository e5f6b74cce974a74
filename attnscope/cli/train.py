"""`attnscope train`: train a recipe into a run folder, with a progress bar, and export the model."""

import argparse
import dataclasses
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import boot
from attnscope.cli.arguments import name_argument, whole
from attnscope.cli.inputs import tell_columns
from attnscope.cli.sweep import add_sweep_arguments, run_sweep
from attnscope.cli.terminal import (
    TrainingSignals,
    add_stop_argument,
    at_end_of_input,
    draw_over,
    json_text,
    say,
    say_error,
)
from attnscope.counting import percent, shell_line
from attnscope.errors import RecipeError, UserError
from attnscope.files import refuse_foreign_content
from attnscope.records.runs import (
    Evaluated,
    Finished,
    Saved,
    SaveFailed,
    Started,
    Step,
    TrainingEvent,
    Watched,
    loss_unit,
)

if TYPE_CHECKING:
    import torch

    from attnscope.training import Recipe
    from attnscope.training.distributed import Ranks
    from attnscope.training.loop import TrainingRun


# `attnscope train --resume RUN`: going on with a run from its own recipe, and beyond the length it had.


_LENGTH = "training.n_steps"


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--resume",
        type=name_argument,
        metavar="RUN",
        default="",
        help="continue the run in this folder, from its own recipe; without RECIPE and --out",
    )
    parser.add_argument(
        "--steps",
        type=whole(1),
        metavar="N",
        help=(
            "the number of steps, instead of the recipe's; with --resume the total, even if the run is "
            "finished: the schedules linear and cosine then follow the new length, and a note says so"
        ),
    )


def take_resumed(arguments: argparse.Namespace, overrides: dict[str, str]) -> None:
    """Resolve --resume into RECIPE, --out and the overrides; raises UserError for conflicts."""
    if not arguments.resume:
        _take_new(arguments, overrides)
        return
    named = {"RECIPE": arguments.recipe, "--out": arguments.out, "--sweep": arguments.sweep}
    given = [name for name, value in {**named, "--seeds": arguments.seeds}.items() if value]
    if given:
        raise UserError(
            f"--resume continues a run from its own recipe, in its own folder; {given[0]} was given too.",
            expected="--resume RUN alone, with --steps N for more steps",
            action=f"Leave out {given[0]}.",
        )
    from attnscope.training.run import RunFolder
    from attnscope.training.saving import lengthened

    folder = Path(arguments.resume)
    overrides.update(lengthened(overrides, folder, arguments.steps))
    arguments.recipe, arguments.out = str(RunFolder(folder).recipe), str(folder)


def resumed_words(arguments: argparse.Namespace) -> list[str]:
    """Command-line words for resuming; none for a run that is not resumed."""
    if not arguments.resume:
        return []
    steps = [] if arguments.steps is None else ["--steps", str(arguments.steps)]
    return ["--resume", arguments.resume, *steps]


def _take_new(arguments: argparse.Namespace, overrides: dict[str, str]) -> None:
    """Put a new run's length into the overrides; raises UserError without a recipe or with two lengths."""
    if arguments.steps is not None:
        if _LENGTH in overrides:
            raise UserError(
                f"The length is given twice: {arguments.steps} steps and {overrides[_LENGTH]}.",
                expected="one of them",
                action="Leave out one.",
            )
        overrides[_LENGTH] = str(arguments.steps)
        arguments.overrides.append(f"{_LENGTH}={arguments.steps}")
    if not arguments.recipe:
        raise UserError(
            "There is no recipe.",
            expected="a recipe, or --resume RUN",
            action="Name one: see attnscope train --help.",
        )


_BAR_WIDTH = 24
_REDRAW_S, _LOOK_S = 0.1, 0.2
_EPILOG = (
    "Your own text, a file or a folder of .txt files: attnscope train shakespeare --set data.path=FILE --out "
    "DIR. Fine-tuning: --set start.from=MODEL starts from a trained model, start.lora_rank=4 trains only "
    "low-rank adapters (LoRA), start.layer_decay and start.reinit_layers fine-tune gently. --set "
    "gates.l0_penalty=0.1 "
    "learns which heads to close. The window's help has a page on recipes."
)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("train", epilog=_EPILOG)
    parser.add_argument(
        "recipe",
        type=name_argument,
        metavar="RECIPE",
        nargs="?",
        default="",
        help="a recipe in TOML, or the name of a built-in one or of a preset",
    )
    add_resume_arguments(parser)
    parser.add_argument("--out", type=name_argument, metavar="DIR", default="", help="the run folder")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="change one value of the recipe, for instance training.n_steps=500",
    )
    parser.add_argument("--device", default=argparse.SUPPRESS, help="auto, cpu, cuda or mps")
    parser.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    parser.add_argument("--until", type=whole(1), metavar="STEP", help="save and stop after this step")
    parser.add_argument(
        "--tensorboard", action="store_true", help="mirror the curves into event files under DIR/tensorboard"
    )
    add_stop_argument(parser)
    add_sweep_arguments(parser)
    parser.add_argument(
        "--export",
        metavar="DIR",
        help="after the last step save the model there, with a card of what was measured",
    )
    parser.add_argument(
        "--half", action="store_true", help="with --export: weights in float16, half as large a file"
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="only show what it would cost: parameters, operations, memory, time, disk; nothing is allocated",
    )
    parser.add_argument(
        "--show-batch",
        action="store_true",
        help="only show what the model reads: the first batch, what is hidden, what is to be predicted",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, reporting progress; a signal saves once and stops. torchrun may start several."""
    from attnscope.cli.model_tables import recipe_of
    from attnscope.nn.machine import choose_device
    from attnscope.training import read_recipe
    from attnscope.training.distributed import joined, ranks_of

    overrides = dict(read_overrides(arguments.overrides))
    if arguments.tensorboard:
        overrides["training.tensorboard"] = "true"
    take_resumed(arguments, overrides)
    if arguments.sweep or arguments.seeds:
        return run_sweep(arguments, overrides)
    recipe = read_recipe(recipe_of(arguments.recipe), overrides, needs_data=not arguments.plan)
    if arguments.plan:
        from attnscope.cli.model_tables import tell_plan

        return tell_plan(recipe, out=arguments.out, device=arguments.device, is_json=arguments.json)
    if arguments.show_batch:
        return _tell_batch(recipe, is_json=arguments.json)
    if not arguments.out:
        raise UserError(
            "There is no run folder.", expected="--out DIR", action="Name one, or ask for --plan only."
        )
    if arguments.export:
        refuse_foreign_content(Path(arguments.export))
    ranks = ranks_of(boot.environment())
    with joined(ranks, choose_device(arguments.device)) as device:
        return _train(arguments, recipe, device, ranks)


def _tell_batch(recipe: "Recipe", *, is_json: bool) -> int:
    from attnscope.training.beginning import first_batch
    from attnscope.viewmodels.training.planning import batch_lines

    batch = first_batch(recipe)
    if is_json:
        say(json_text(dataclasses.asdict(batch)))
    else:
        say("\n".join(batch_lines(batch)))
    return 0


def _train(arguments: argparse.Namespace, recipe: "Recipe", device: "torch.device", ranks: "Ranks") -> int:
    from attnscope.training.loop import TrainingRun

    if recipe.data.kind == "pairs" and ranks.is_writer:
        tell_columns(Path(recipe.data.path))
    started_at, cpu_at = time.monotonic(), time.process_time()
    is_resumed = bool(arguments.resume)
    training = TrainingRun(
        recipe,
        Path(arguments.out),
        device,
        ranks=ranks,
        may_lengthen=is_resumed,
        wait=lambda seconds: _wait(training, seconds),
    )
    if arguments.stop_at_eof:
        at_end_of_input(training.request_stop)
    if getattr(arguments, "may_choose_threads", False):
        training.choose_threads()
    teller = _teller(arguments, ranks)
    last_evaluated: Evaluated | None = None
    finished: Finished | None = None
    untold: UserError | None = None
    # torchrun passes a signal on that has come already: there a second one says nothing new
    with TrainingSignals(lambda number: _stop(training, ranks, number), may_leave=ranks.n == 1) as signals:
        for event in training.events():
            try:
                teller.tell(event)
            except BrokenPipeError:
                signals.reader_gone()
            except UserError as error:  # standard output takes no more
                untold = error
                training.request_stop()
            if arguments.until is not None and event.step >= arguments.until:
                training.request_stop()
            match event:
                case Evaluated():
                    last_evaluated = event
                case Finished():
                    finished = event
    if untold is not None:
        raise untold
    if finished is None or finished.reason in ("diverged", "out-of-memory") or not training.is_saved:
        return 2
    if finished.reason == "stopped":
        is_as_told = arguments.until is not None and training.step >= arguments.until
        return 0 if is_as_told else signals.exit_code
    if arguments.export and ranks.is_writer:
        from attnscope.cli.card import export_model

        seconds = (time.monotonic() - started_at, time.process_time() - cpu_at)
        folder = Path(arguments.export)
        export_model(training, folder, _command(arguments), seconds, last_evaluated, is_half=arguments.half)
        if not arguments.json:
            say(f"Exported to {arguments.export}.")
    return 0


def read_overrides(pairs: Sequence[str]) -> Mapping[str, str]:
    """`section.key=value` pairs by key; raises RecipeError for one without an equals sign."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise RecipeError(
                f"--set {pair} changes nothing.",
                expected="section.key=value, for instance training.n_steps=500",
                action="Add = and a value.",
            )
        overrides[key.strip()] = value.strip()
    return overrides


def _stop(training: "TrainingRun", ranks: "Ranks", number: int) -> None:
    if ranks.is_writer:
        again = "; press Ctrl+C again to leave without saving" if number == signal.SIGINT else ""
        say_error(f"attnscope: stopping after this step{again if ranks.n == 1 else ''}.")
    training.request_stop()


def _wait(training: "TrainingRun", seconds: float) -> None:
    """Wait before trying again to save the finished model, unless stopped."""
    say_error(f"attnscope: the finished model is in memory only; the next attempt is in {seconds:.0f} s.")
    until = time.monotonic() + seconds
    while not training.is_stop_wanted and time.monotonic() < until:
        time.sleep(_LOOK_S)


def _teller(arguments: argparse.Namespace, ranks: "Ranks") -> "_JsonTeller | _BarTeller | _Silence":
    if not ranks.is_writer:
        return _Silence()
    return _JsonTeller() if arguments.json else _BarTeller(arguments.until)


class _Silence:
    """Reports nothing: of several processes only one does."""

    def tell(self, event: TrainingEvent) -> None:
        """Say nothing."""


class _JsonTeller:
    """Reports each event as one line of JSON, named by `event`, for machines."""

    def tell(self, event: TrainingEvent) -> None:
        """Print it."""
        values = {"event": type(event).__name__, **dataclasses.asdict(event)}
        say(" ".join(json_text(values).split()))


_NEXT = {
    "done": ("To look at it", "attnscope", "open"),
    "stopped": ("To go on with it", "attnscope", "train", "--resume"),
}
"""Next steps for a run that has ended."""


class _BarTeller:
    """A progress bar on a terminal; elsewhere a line for each evaluation on held-out data."""

    def __init__(self, until: int | None = None) -> None:
        self._n_steps, self._until = 1, until
        self._first_step = 0
        self._is_terminal = sys.stderr.isatty()
        self._started_at = self._drawn_at = time.monotonic()
        self._evaluated = self._folder = self._unit = ""

    def tell(self, event: TrainingEvent) -> None:
        """Show what changed."""
        match event:
            case Started():
                self._n_steps, self._first_step, self._folder = event.n_steps, event.step, event.folder
                self._unit = f" {loss_unit([event.objective])}"
                self._started_at = time.monotonic()
                self._say(
                    f"{event.n_parameters:,} parameters on {event.device}; {event.folder}. {event.note}"
                )
            case Step():
                self._draw(event)
            case Evaluated():
                self._evaluated = (
                    f"  validation {event.loss:.4f}{self._unit}, accuracy {percent(event.accuracy, 1)}"
                )
                if event.next_sentence_accuracy is not None:
                    self._evaluated += f", next sentence {percent(event.next_sentence_accuracy, 1)}"
                if not self._is_terminal:
                    self._say(f"step {event.step:,} of {self._n_steps:,}:{self._evaluated}")
            case Saved() | Watched():
                pass
            case SaveFailed():
                self._folder = ""  # the note says where the model is
                self._say(event.reason)
            case Finished():
                ended = f"{self._evaluated}." if self._evaluated else ""
                self._say(f"{event.reason} at step {event.step:,}.{ended} {event.note}")
                if self._folder and event.reason in _NEXT:
                    what, *words = _NEXT[event.reason]
                    self._say(f"{what}: {shell_line([*words, self._folder])}")

    def _say(self, text: str) -> None:
        if self._is_terminal:
            draw_over("")
        say_error(text)

    def _draw(self, step: Step) -> None:
        now = time.monotonic()
        is_last = step.step == self._n_steps
        if not self._is_terminal or (now - self._drawn_at < _REDRAW_S and not is_last):
            return
        self._drawn_at = now
        draw_over(self.bar(step, now - self._started_at))

    def bar(self, step: Step, elapsed_s: float) -> str:
        """The bar as one line: progress, loss, speed, and time left."""
        filled = round(_BAR_WIDTH * step.step / self._n_steps)
        last = min(self._n_steps, self._until or self._n_steps)
        left_s = elapsed_s / max(1, step.step - self._first_step) * max(0, last - step.step)
        return (
            f"[{'█' * filled}{'·' * (_BAR_WIDTH - filled)}] {step.step:,}/{self._n_steps:,}  "
            f"loss {step.loss:.4f}  {step.tokens_per_s:,.0f} tokens/s  {_open_heads(step)}"
            f"{int(left_s) // 60}:{int(left_s) % 60:02d} left{self._evaluated.replace(self._unit, '')}"
        )


def _open_heads(step: Step) -> str:
    return "" if step.open_heads is None else f"{step.open_heads:.1f} heads open  "


def _command(arguments: argparse.Namespace) -> str:
    words = ["attnscope", "train", *resumed_words(arguments)]
    if not arguments.resume:
        words += [arguments.recipe, "--out", arguments.out]
    for pair in arguments.overrides:
        words += ["--set", pair]
    if arguments.export:
        words += ["--export", arguments.export, *(["--half"] if arguments.half else [])]
    return shell_line(words)

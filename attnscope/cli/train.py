"""`attnscope train`: train a recipe into a run folder, with a progress bar, and export the model."""

import argparse
import dataclasses
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.cli.inputs import tell_columns
from attnscope.cli.terminal import json_text, say, say_error
from attnscope.errors import RecipeError
from attnscope.records.training import (
    Evaluated,
    Finished,
    Saved,
    SaveFailed,
    Started,
    Step,
    TrainingEvent,
)

if TYPE_CHECKING:
    from attnscope.training.loop import TrainingRun

_BAR_WIDTH = 24
_REDRAW_S = 0.1


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("train", help="train a recipe into a run folder; resumes what it holds")
    parser.add_argument("recipe", metavar="RECIPE", help="a recipe in TOML, or the name of a built-in one")
    parser.add_argument("--out", metavar="DIR", required=True, help="the run folder")
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
    parser.add_argument(
        "--export",
        metavar="DIR",
        help="after the last step save the model there, with a card of what was measured",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, telling the progress; Ctrl+C once saves and stops."""
    from attnscope.training import read_recipe
    from attnscope.training.loop import TrainingRun

    overrides = read_overrides(arguments.overrides)
    recipe = read_recipe(arguments.recipe, overrides)
    if recipe.data.kind == "pairs":
        tell_columns(Path(recipe.data.path))
    started_at, cpu_at = time.monotonic(), time.process_time()
    training = TrainingRun(recipe, Path(arguments.out), arguments.device)
    teller = _JsonTeller() if arguments.json else _BarTeller()
    last_evaluated: Evaluated | None = None
    finished: Finished | None = None
    for event in _until_interrupted(training):
        teller.tell(event)
        match event:
            case Evaluated():
                last_evaluated = event
            case Finished():
                finished = event
    if finished is not None and finished.reason == "diverged":
        return 2
    if arguments.export and finished is not None and finished.reason == "done":
        from attnscope.cli.card import export_model

        seconds = (time.monotonic() - started_at, time.process_time() - cpu_at)
        export_model(training, Path(arguments.export), _command(arguments), seconds, last_evaluated)
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


def _until_interrupted(training: "TrainingRun") -> Iterator[TrainingEvent]:
    """The run's events; the first Ctrl+C asks the run to save and stop, the second leaves at once."""
    n_presses = 0

    def on_press(number: int, frame: object) -> None:
        nonlocal n_presses
        n_presses += 1
        if n_presses > 1:
            raise KeyboardInterrupt
        say_error("attnscope: stopping after this step; press Ctrl+C again to leave without saving.")
        training.request_stop()

    before = signal.signal(signal.SIGINT, on_press)
    try:
        yield from training.events()
    finally:
        signal.signal(signal.SIGINT, before)


class _JsonTeller:
    """Each event as one line of JSON, named by `event`, for machines."""

    def tell(self, event: TrainingEvent) -> None:
        """Print it."""
        values = {"event": type(event).__name__, **dataclasses.asdict(event)}
        say(" ".join(json_text(values).split()))


class _BarTeller:
    """A progress bar on a terminal; elsewhere a line for each look at held-out data."""

    def __init__(self) -> None:
        self._n_steps = 1
        self._first_step = 0
        self._is_terminal = sys.stderr.isatty()
        self._started_at = self._drawn_at = time.monotonic()
        self._evaluated = ""

    def tell(self, event: TrainingEvent) -> None:
        """Show what changed."""
        match event:
            case Started():
                self._n_steps, self._first_step = event.n_steps, event.step
                self._started_at = time.monotonic()
                self._say(
                    f"{event.n_parameters:,} parameters on {event.device}; {event.folder}. {event.note}"
                )
            case Step():
                self._draw(event)
            case Evaluated():
                self._evaluated = f"  validation {event.loss:.4f} ({event.accuracy:.1%})"
                if not self._is_terminal:
                    self._say(f"step {event.step:,} of {self._n_steps:,}{self._evaluated}")
            case Saved():
                pass
            case SaveFailed():
                self._say(event.reason)
            case Finished():
                self._say(f"{event.reason} at step {event.step:,}.{self._evaluated} {event.note}")

    def _say(self, text: str) -> None:
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr)
        say_error(text)

    def _draw(self, step: Step) -> None:
        now = time.monotonic()
        is_last = step.step == self._n_steps
        if not self._is_terminal or (now - self._drawn_at < _REDRAW_S and not is_last):
            return
        self._drawn_at = now
        print("\r\033[K" + self.bar(step, now - self._started_at), end="", file=sys.stderr, flush=True)

    def bar(self, step: Step, elapsed_s: float) -> str:
        """The bar as one line: how far, the loss, the speed, and how long it will take still."""
        filled = round(_BAR_WIDTH * step.step / self._n_steps)
        left_s = elapsed_s / max(1, step.step - self._first_step) * (self._n_steps - step.step)
        return (
            f"[{'█' * filled}{'·' * (_BAR_WIDTH - filled)}] {step.step:,}/{self._n_steps:,}  "
            f"loss {step.loss:.4f}  {step.tokens_per_s:,.0f} tokens/s  "
            f"{int(left_s) // 60}:{int(left_s) % 60:02d} left{self._evaluated}"
        )


def _command(arguments: argparse.Namespace) -> str:
    words = ["attnscope", "train", arguments.recipe, "--out", arguments.out]
    for pair in arguments.overrides:
        words += ["--set", pair]
    if arguments.export:
        words += ["--export", arguments.export]
    return shlex.join(words)

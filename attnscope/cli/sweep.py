"""`attnscope train --sweep`: the same recipe with several settings, and the best of the runs."""

import argparse
import dataclasses
import json
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope import boot
from attnscope.cli.arguments import whole
from attnscope.cli.terminal import (
    STOP_AT_EOF,
    TrainingSignals,
    at_end_of_input,
    in_columns,
    say,
    say_error,
    say_json,
)
from attnscope.counting import duration_text, fixed, format_number
from attnscope.errors import RecipeError, UserError
from attnscope.paths import own_command
from attnscope.records.runs import loss_unit

if TYPE_CHECKING:
    from attnscope.records.runs import (
        RunSummary,  # brings numpy, which --help need not wait for
        SweepRun,
    )
    from attnscope.training.loop import TrainingRun
    from attnscope.training.recipe import Recipe


# Several runs as a table for people and as values for machines.

_HEADINGS = (
    *("run", "step", "validation", "best", "at step"),
    *("parameters", "tokens", "operations", "time", "end"),
)
_TOLD = (
    *("folder", "name", "end", "step", "n_steps", "n_parameters", "n_body", "last_loss", "best_loss"),
    *("best_step", "n_tokens", "flops", "seconds", "note", "objective"),
)


def table_of_runs(runs: "Sequence[RunSummary]") -> str:
    """One line for each run, the lowest held-out loss first, and the unit of losses."""
    ranked = sorted(runs, key=lambda run: (not math.isfinite(run.best_loss), run.best_loss, run.name))
    rows = [_HEADINGS, *map(_cells, ranked)]
    table = in_columns(rows, left=(0, len(_HEADINGS) - 1))
    return f"{table}\nLosses are in {loss_unit(run.objective for run in runs)}."


def values_of_runs(runs: "Sequence[RunSummary]") -> list[dict[str, object]]:
    """All runs without their curves and recipes."""
    return [
        {
            **{name: getattr(run, name) for name in _TOLD},
            "loss_unit": loss_unit([run.objective]),
            "settings": dict(run.settings),
        }
        for run in runs
    ]


def _cells(run: "RunSummary") -> tuple[str, ...]:
    return (
        run.name,
        f"{run.step:,}" if run.step == run.n_steps else f"{run.step:,} of {run.n_steps:,}",
        fixed(run.last_loss, 4),
        fixed(run.best_loss, 4),
        f"{run.best_step:,}",
        f"{run.n_parameters:,}",
        format_number(run.n_tokens, 4),
        format_number(run.flops, 4),
        duration_text(run.seconds) if math.isfinite(run.seconds) else "–",
        run.end,
    )


_ENDS = ("done", "stopped")
"""How a complete run ends."""


def add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("many runs", "each in a folder below DIR; finished runs are kept")
    group.add_argument(
        "--sweep",
        metavar="KEY=V1,V2,…",
        action="append",
        default=[],
        help="train with each of these values; several --sweep give every combination",
    )
    group.add_argument("--seeds", metavar="0,1,2", default="", help="train with each of these seeds")
    group.add_argument(
        "--jobs", type=whole(1, 10_000), default=1, metavar="N", help="run this many at a time (default 1)"
    )
    group.add_argument(
        "--keep-best", type=whole(1), metavar="K", help="continue only the K best after --after"
    )
    group.add_argument("--after", type=whole(1), metavar="STEP", help="the step at which --keep-best chooses")


def run_sweep(arguments: argparse.Namespace, overrides: Mapping[str, str]) -> int:
    """Train every combination; runs finished by an earlier call are skipped."""
    from attnscope.records.runs import parse_axes, sweep_runs

    runs = sweep_runs(parse_axes(arguments.sweep, arguments.seeds))
    sweep = _Sweep(arguments, overrides, runs)
    if arguments.stop_at_eof:
        at_end_of_input(sweep.stop)
    kept = runs
    is_whole = True
    if arguments.keep_best is not None:
        is_whole = sweep.train(runs, until=arguments.after)
        kept = sweep.best(runs) if is_whole else ()
    return sweep.tell_end(is_whole and sweep.train(kept))


class _Sweep:
    """The runs of one sweep, some at a time, and the reports about them."""

    def __init__(
        self, arguments: argparse.Namespace, overrides: Mapping[str, str], runs: Sequence["SweepRun"]
    ) -> None:
        self._arguments, self._overrides, self._out = arguments, overrides, Path(arguments.out)
        self._places = {run.name: k for k, run in enumerate(runs, start=1)}
        self._recipes = _checked_recipes(arguments, overrides, runs)
        self._is_stopping = False
        self._signals = TrainingSignals(lambda _number: self.stop())
        self._failed: list[str] = []
        self._own: set[TrainingRun] = set()
        self._children: set[subprocess.Popen[str]] = set()

    def train(self, runs: Sequence["SweepRun"], until: int | None = None) -> bool:
        """Train runs to their end, or to a step; False if Ctrl+C ended it."""
        done = {summary.folder: summary for summary in self._summaries()}
        waiting = [run for run in runs if self._is_due(run, until, done)]
        if len(waiting) < len(runs):
            say_error(f"{len(runs) - len(waiting)} of {len(runs)} runs have come that far, or diverged.")
        with self._signals:
            if self._arguments.jobs == 1:
                for run in waiting:
                    self._guarded(run, until, self._train_here)
            else:
                with ThreadPoolExecutor(self._arguments.jobs) as pool:
                    list(pool.map(lambda run: self._guarded(run, until, self._train_apart), waiting))
        return not self._is_stopping

    def stop(self) -> None:
        """Let runs in training save, then end; may be called on any thread."""
        self._is_stopping = True
        say_error("attnscope: saving the runs in training, then stopping.")
        for own in tuple(self._own):
            own.request_stop()
        for child in tuple(self._children):
            _close_input(child)

    def best(self, runs: Sequence["SweepRun"]) -> tuple["SweepRun", ...]:
        """The runs worth continuing, reported."""
        from attnscope.records.runs import best_at, look_at

        after = self._arguments.after
        by_folder = {str(self._out / run.name): run for run in runs}
        kept: list[SweepRun] = []
        for summary in best_at(self._summaries(), after, self._arguments.keep_best):
            step, loss = look_at(summary, after)
            if math.isfinite(loss):
                kept.append(by_folder[summary.folder])
                unit = loss_unit([summary.objective])
                say_error(f"Continues: {summary.name}, validation {loss:.4f} {unit} at step {step:,}.")
        say_error(f"Stopped at step {after:,}: {len(runs) - len(kept)} of {len(runs)} runs.")
        return tuple(kept)

    def tell_end(self, is_whole: bool) -> int:
        """Print the table of all runs, or JSON; returns the exit code."""
        from attnscope.records.runs import seed_spreads

        summaries = self._summaries()
        spreads = seed_spreads(summaries)
        if self._arguments.json:
            values = [dataclasses.asdict(spread) for spread in spreads]
            say_json({"out": str(self._out), "runs": values_of_runs(summaries), "seeds": values})
        elif summaries:
            say(table_of_runs(summaries))
            for spread in spreads:
                names = ", ".join(f"{key}={value}" for key, value in spread.settings) or "all"
                say(f"{names}: {spread.mean:.4f} ± {spread.deviation:.4f} over {spread.n} seeds")
            if spreads:
                say("± is the standard deviation of the seeds' best losses (n − 1).")
        if not is_whole:
            say_error("attnscope: stopped; the same command continues from here.")
            return self._signals.exit_code
        for message in self._failed:
            say_error(f"attnscope: {message}")
        return 2 if self._failed else 0

    # -- one run --------------------------------------------------------------------------------

    def _is_due(self, run: "SweepRun", until: int | None, known: "Mapping[str, RunSummary]") -> bool:
        """Whether the run has steps left: not if it is complete, or has diverged before."""
        goal = until or self._recipes[run.name].training.n_steps
        done = known.get(str(self._out / run.name))
        return done is None or (done.step < goal and done.end != "diverged")

    def _guarded(
        self, run: "SweepRun", until: int | None, train: "Callable[[SweepRun, int | None], None]"
    ) -> None:
        if self._is_stopping:
            return
        try:
            train(run, until)
        except UserError as error:  # the others may still be trained
            self._failed.append(f"{run.name}: {error}")
            say_error(f"{self._name_of(run)}: {error}")

    def _name_of(self, run: "SweepRun") -> str:
        return f"[{self._places[run.name]}/{len(self._places)}] {run.name}"

    def _train_here(self, run: "SweepRun", until: int | None) -> None:
        from attnscope.training.loop import TrainingRun

        training = TrainingRun(self._recipes[run.name], self._out / run.name, self._arguments.device)
        if getattr(self._arguments, "may_choose_threads", False):
            training.choose_threads()
        self._own.add(training)
        note = ""
        for event in training.events():
            if self._is_stopping or (until is not None and event.step >= until):
                training.request_stop()
            values = dataclasses.asdict(event)
            self._tell(run, type(event).__name__, values)
            note = values.get("note", "")
        self._own.remove(training)
        if not training.is_saved:
            raise UserError(note)

    def _train_apart(self, run: "SweepRun", until: int | None) -> None:
        """Train in a separate process, with its share of the processor cores."""
        words = [
            *own_command(),
            "train",
            self._arguments.recipe,
            "--out",
            str(self._out / run.name),
            "--json",
            STOP_AT_EOF,
        ]
        words += ["--device", self._arguments.device]
        for key, value in {**self._overrides, **dict(run.overrides)}.items():
            words += ["--set", f"{key}={value}"]
        if until is not None:
            words += ["--until", str(until)]
        n_threads = str(max(1, boot.n_cores() // self._arguments.jobs))
        variables = {**boot.environment(), "OMP_NUM_THREADS": n_threads, "PYTHONIOENCODING": "utf-8"}
        pipe = subprocess.PIPE
        with subprocess.Popen(
            words,
            env=variables,
            encoding="utf-8",
            errors="replace",
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        ) as child:
            self._children.add(child)
            if self._is_stopping:
                _close_input(child)
            values: dict[str, object] = {}
            for line in child.stdout or ():
                values = json.loads(line)
                self._tell(run, str(values["event"]), values)
            told = (child.stderr.read() if child.stderr else "").strip().splitlines()
            self._children.discard(child)
        if values.get("event") != "Finished":
            raise UserError(told[-1].removeprefix("attnscope: ") if told else "Its process ended early.")
        if child.returncode == 2 and values["reason"] in _ENDS:  # it could not be saved
            raise UserError(str(values["note"]))

    def _tell(self, run: "SweepRun", event: str, values: Mapping[str, object]) -> None:
        from attnscope.records.runs import SweepStep

        place, recipe = self._places[run.name], self._recipes[run.name]
        if event == "Evaluated":
            step = SweepStep(
                place=place,
                n_runs=len(self._places),
                name=run.name,
                step=int(str(values["step"])),
                n_steps=recipe.training.n_steps,
                loss=float(str(values["loss"])),
                unit=loss_unit([recipe.objective.kind]),
            )
            self._say(str(step))
        if event == "Finished" and values["reason"] not in _ENDS:
            self._say(
                f"{self._name_of(run)}: {values['reason']} at step {values['step']:,}. {values['note']}"
            )

    def _say(self, text: str) -> None:
        try:
            say_error(text)
        except BrokenPipeError:
            self._signals.reader_gone()

    def _summaries(self) -> "tuple[RunSummary, ...]":
        from attnscope.training.summaries import read_runs

        folders = [str(self._out / name) for name in self._places]
        folders = [folder for folder in folders if (Path(folder) / "recipe.toml").is_file()]
        return read_runs(folders)[0] if folders else ()


def _close_input(child: "subprocess.Popen[str]") -> None:
    """Have a run in a separate process saved and ended."""
    if child.stdin is not None:
        child.stdin.close()


def _checked_recipes(
    arguments: argparse.Namespace, overrides: Mapping[str, str], runs: Sequence["SweepRun"]
) -> dict[str, "Recipe"]:
    """Every recipe, read before the first run begins; raises UserError naming its run."""
    from attnscope.cli.model_tables import recipe_of
    from attnscope.training import read_recipe

    _check_arguments(arguments)
    source, recipes = recipe_of(arguments.recipe), {}
    for run in runs:
        try:
            recipe = read_recipe(source, {**overrides, **dict(run.overrides)})
        except RecipeError as error:
            happened = f"{run.name}: {error.happened}"
            raise RecipeError(happened, expected=error.expected, action=error.action) from error
        every = recipe.training.evaluate_every
        if arguments.after is not None and every > arguments.after:
            raise RecipeError(
                f"At step {arguments.after:,} no held-out loss is known yet: "
                f"training.evaluate_every is {every:,}.",
                expected=f"at most {arguments.after:,}",
                action=f"Add --set training.evaluate_every={arguments.after}, or choose later.",
            )
        recipes[run.name] = recipe
    return recipes


def _check_arguments(arguments: argparse.Namespace) -> None:
    if not arguments.out:
        raise UserError("There is no folder for the runs.", expected="--out DIR", action="Name one.")
    if arguments.export or arguments.plan or arguments.until is not None:
        raise UserError(
            "--export, --plan and --until are for one run.",
            action="Leave them out, or train without --sweep.",
        )
    if (arguments.keep_best is None) != (arguments.after is None):
        raise UserError(
            "--keep-best and --after belong together.",
            expected="for instance --keep-best 2 --after 500",
            action="Give both or neither.",
        )

"""Several runs of one recipe, started from the window: `attnscope train --sweep` as a process.

The command line's engine does it all; here its folder is followed: `sweep.toml` is the recipe, `sweep.log`
what it tells, `sweep.json` its end. It is stopped by closing its standard input, which saves the run in
training; the end of this program closes that too, whatever ended it.
"""

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Literal

from psygnal import Signal

from attnscope import paths
from attnscope.counting import rough_text
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.files import replace_file
from attnscope.outside import read_outside, read_toml_text
from attnscope.records.plans import Plan
from attnscope.records.runs import MAX_RUNS, SEED, SweepRun, SweepStep, parse_axes, sweep_runs
from attnscope.viewmodels.training.recipe_text import (
    fresh_folder,
    read_recipe_text,
    recipe_value,
    with_recipe_value,
)
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.status import place_problem

RECIPE_FILE, _WISH_FILE = "sweep.toml", "sweep.wish"
_MAX_BYTES = 100_000
_MOST_DIGITS = 12
_DAMAGED = (ValueError, TypeError, KeyError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepWish:
    """The requested sweep: `values` like `model.d_model=64,128`, `seeds` a number or a list.

    With `keep_best` only so many runs go on after the step `after`.
    """

    values: tuple[str, ...] = ()
    seeds: str = ""
    keep_best: int | None = None
    after: int | None = None
    out: str = ""

    @property
    def seed_list(self) -> str:
        """The seeds by comma, or a number of seeds from 0. Raises RecipeError for 0 or too many."""
        text = self.seeds.strip()
        if not text.isdecimal():
            return text
        if len(text) > _MOST_DIGITS or not 1 <= int(text) <= MAX_RUNS:
            told = f"{int(text):,}" if len(text) <= _MOST_DIGITS else f"{text[:_MOST_DIGITS]}…"
            raise RecipeError(
                f"{told} seeds cannot be trained.",
                expected=f"1 to {MAX_RUNS}, or a list such as 0,1,2",
                action="Change it.",
            )
        return ",".join(map(str, range(int(text))))

    @property
    def runs(self) -> tuple[SweepRun, ...]:
        """The runs it makes; raises RecipeError for invalid lists of values, and for too many runs."""
        axes = parse_axes(self.values, self.seed_list)
        if not axes:
            raise RecipeError(
                "There is nothing to vary.",
                expected="seeds, or a key with its values",
                action="Give the seeds 0,1,2 for instance.",
            )
        return sweep_runs(axes)

    @property
    def place_problem(self) -> str:
        """Why no runs can be written into its folder; empty if they can."""
        return place_problem(self.out, "runs") if self.out.strip() else ""

    def words(self, recipe: Path, device: str) -> list[str]:
        """Its command line."""
        words = [*paths.own_command(), "train", str(recipe), "--out", self.out, "--json", "--device", device]
        words.append("--stop-at-eof")
        for value in self.values:
            words += ["--sweep", value]
        if self.seed_list:
            words += ["--seeds", self.seed_list]
        if self.keep_best is not None:
            words += ["--keep-best", str(self.keep_best), "--after", str(self.after)]
        return words


def keep_wish(wish: SweepWish) -> None:
    """Store the request in the folder of its runs; raises SaveError."""
    replace_file(Path(wish.out) / _WISH_FILE, json.dumps(asdict(wish)).encode("utf-8"))


def forget_wish(folder: str) -> None:
    """Delete the request: its runs have ended."""
    try:
        (Path(folder) / _WISH_FILE).unlink(missing_ok=True)
    except OSError:
        return  # a folder that cannot be written to any more offers to go on, which does no harm


def unfinished_wish(where: Path, name: str, recipe: str) -> SweepWish | None:
    """The newest unfinished request for runs of exactly this recipe, in folders of `where`."""
    try:
        files = [file for file in where.glob(f"*/{_WISH_FILE}") if file.parent.name.startswith(name)]
        files.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    except OSError:
        return None
    for file in files:
        try:
            if read_toml_text(file.parent / RECIPE_FILE) == recipe:
                return replace(_read_wish(file), out=str(file.parent))
        except (LoadError, *_DAMAGED):
            continue  # damaged: an older one may be whole
    return None


def newest_unfinished(folders: Iterable[Path]) -> tuple[str, float]:
    """The last unfinished folder of runs, among these and below them, and its time; empty and 0 for none."""
    newest = ("", 0.0)
    for folder in folders:
        for pattern in (_WISH_FILE, f"*/{_WISH_FILE}"):
            for file in folder.glob(pattern):
                try:
                    left_at = max(path.stat().st_mtime for path in file.parent.glob("sweep.*"))
                except (OSError, ValueError):
                    continue
                newest = max(newest, (str(file.parent), left_at), key=itemgetter(1))
    return newest


def read_unfinished(folder: Path) -> tuple[SweepWish, str]:
    """The request stored in a folder of runs, and the recipe; raises LoadError."""
    try:
        wish = replace(_read_wish(folder / _WISH_FILE), out=str(folder))
        return wish, read_recipe_text(folder / RECIPE_FILE)
    except (OSError, *_DAMAGED) as error:
        raise LoadError(
            f"The settings of the runs in {folder} cannot be read.",
            kind="run",
            expected="the files sweep.wish and sweep.toml",
            action="Set up the runs again in the same folder: complete runs are kept.",
        ) from error


def _read_wish(file: Path) -> SweepWish:
    """Read the file of `keep_wish`; raises one of _DAMAGED for anything else."""
    told = json.loads(read_outside(file, expected="wished runs", max_bytes=_MAX_BYTES))
    keep_best, after = (None if told[key] is None else int(told[key]) for key in ("keep_best", "after"))
    return SweepWish(
        values=tuple(map(str, told["values"])), seeds=str(told["seeds"]), keep_best=keep_best, after=after
    )


SweepPhase = Literal["idle", "checking", "running", "stopping", "done", "stopped", "failed"]
_LOG, _END = "sweep.log", "sweep.json"
_MAX_TOLD_BYTES = 64 * 2**20
_SEEDS = "3"
_NO_CONSOLE = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""On Windows a program with a window opens a console for each process that it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRun:
    """The run with the lowest held-out loss; `words` describe it in a line; both are empty for none."""

    folder: str = ""
    words: str = ""


NO_RUN = BestRun()


class SweepState:
    """`problem` says why it did not begin, or what went wrong."""

    changed = Signal()

    def __init__(
        self,
        training: TrainingState,
        spawn: Callable[[list[str], Path], subprocess.Popen[bytes]] | None = None,
    ) -> None:
        self.training = training
        self._spawn = spawn or _spawn
        self._child: subprocess.Popen[bytes] | None = None
        self._runs: tuple[SweepRun, ...] = ()
        self._wish = SweepWish()
        self._n_told = self._n_folders = 0
        self._steps: dict[str, int] = {}
        self._n_steps = 0
        self.phase: SweepPhase = "idle"
        self.what = self.problem = self.out = ""
        self.best = NO_RUN

    @property
    def is_active(self) -> bool:
        """Whether it is being checked, trained or stopped."""
        return self._child is not None

    @property
    def fraction(self) -> float | None:
        """Share of all steps done, as far as reported; None before the first."""
        if not self._n_steps:
            return None
        total = len(self._runs) * self._n_steps * share_made(self._wish, len(self._runs), self._n_steps)
        return min(1.0, sum(self._steps.values()) / total)

    @property
    def suggested(self) -> SweepWish:
        """Three seeds in a new folder, or a stopped request, even of an earlier window, to continue."""
        if self.phase == "stopped":
            return self._wish
        where, name = paths.runs_folder(), f"{self.training.recipe.name}-several"
        unfinished = None if self.is_active else unfinished_wish(where, name, self._recipe_text)
        return unfinished or SweepWish(seeds=_SEEDS, out=str(fresh_folder(where, name)))

    @property
    def _recipe_text(self) -> str:
        recipe = self.training.recipe
        return _anchored(recipe.text, Path(recipe.folder or "."))

    def summary(self, wish: SweepWish) -> str:
        """Number of runs, approximate time, and which continue; raises RecipeError if invalid."""
        words = summary_of(wish, self.training.planning.plan)
        if wish.place_problem:
            raise UserError(wish.place_problem)
        n_begun = _n_begun(wish.out, wish.runs)
        begun = "1 of them is in this folder already and will be continued"
        if n_begun > 1:
            begun = f"{n_begun} of them are in this folder already and will be continued"
        return f"{words} {begun}." if n_begun and wish.out else words

    def start(self, wish: SweepWish) -> None:
        """Check and train the runs, one after another; raises UserError if they cannot begin."""
        if self.is_active:
            raise UserError("Several runs are already being trained.", action="Stop them, or wait.")
        runs = wish.runs
        if not wish.out.strip():
            raise UserError("There is no folder for the runs.", action="Name one.")
        if wish.place_problem:
            raise UserError(wish.place_problem)
        out = Path(wish.out)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"The folder {out} cannot be made: {error.strerror or error}.", action="Choose another."
            ) from error
        replace_file(out / RECIPE_FILE, self._recipe_text.encode("utf-8"))
        keep_wish(wish)
        self._child = self._spawn(wish.words(out / RECIPE_FILE, self.training.place.device), out)
        self._wish, self._runs, self.out = wish, runs, wish.out
        self._n_told = self._n_folders = self._n_steps = 0
        self._steps, self.best, self.problem = {}, NO_RUN, ""
        self._show("checking", "The recipes are checked.")

    @property
    def left(self) -> tuple[str, float]:
        """The folder of runs active when the program was closed, and the time; empty and 0 for none."""
        if self.is_active:
            return "", 0.0
        return newest_unfinished([paths.runs_folder(), *map(Path, self.training.runs.remembered[0])])

    def take_up(self, folder: str) -> None:
        """Suggest an unfinished folder, with its recipe. Raises LoadError."""
        wish, recipe = read_unfinished(Path(folder))
        self.training.take_recipe(recipe, Path(folder).name)
        self._wish, self.out = wish, folder
        self._show("stopped", "")

    def stop(self) -> None:
        """Save runs in training and stop; the same request continues from there."""
        if self._child is not None and self.phase != "stopping":
            _close_input(self._child)
            is_training = self.phase == "running"
            self._show("stopping", f"saving {self.what}" if is_training else "nothing is being trained yet")

    def open_best(self) -> None:
        """Show the best run on the page."""
        self.training.reading.open(self.best.folder)

    def tick(self) -> None:
        """Check the progress of the runs; called about once a second while active."""
        child = self._child
        if child is None:
            return
        code = child.poll()
        self._list_runs(is_over=code is not None)
        self._read_log()
        if code is not None:
            self._child = None
            self._end(child, code)

    def _read_log(self) -> None:
        lines = _read(Path(self.out) / _LOG).splitlines()
        for line in lines[self._n_told :]:
            told = SweepStep.read(line)
            if told is not None and self.phase != "stopping":
                self._steps[told.name], self._n_steps = told.step, told.n_steps
                words = told.words.replace(", ", " · ")
                self.what = f"run {told.place} of {told.n_runs}: {told.name} · {words}"
        if len(lines) > self._n_told:
            self._n_told = len(lines)
            self.changed.emit()

    def _list_runs(self, *, is_over: bool) -> None:
        n = _n_begun(self.out, self._runs)
        if n and (n > self._n_folders or is_over):
            self._n_folders = n
            self.training.runs.add(self.out)
            if self.phase == "checking":
                self._show("running", f"run {n} of {len(self._runs)}")

    def _end(self, child: subprocess.Popen[bytes], code: int) -> None:
        _close_input(child)
        lines = _read(Path(self.out) / _LOG).splitlines()
        told = [line.removeprefix("attnscope: ") for line in lines if line.startswith("attnscope: ")]
        self.best = best_of(_read(Path(self.out) / _END))
        was_asked = self.phase == "stopping"
        if code and (was_asked or code == 130):
            self._show("stopped", "")
            return
        forget_wish(self.out)
        if code == 0:
            self._show("done", "")
        else:
            self.problem = "\n".join(told) or (lines[-1] if lines else "Its process ended early.")
            self._show("failed", "")

    def _show(self, phase: SweepPhase, what: str) -> None:
        self.phase, self.what = phase, what
        self.changed.emit()


def _n_begun(out: str, runs: Sequence[SweepRun]) -> int:
    return sum(os.path.isfile(os.path.join(out, run.name, "recipe.toml")) for run in runs)


def share_made(wish: SweepWish, n_runs: int, n_steps: int) -> float:
    """Share of steps made, of those that all runs would make: 0…1."""
    if wish.keep_best is None or wish.after is None:
        return 1.0
    after, kept = min(wish.after, n_steps), min(wish.keep_best, n_runs)
    return (n_runs * after + kept * (n_steps - after)) / (n_runs * n_steps)


def summary_of(wish: SweepWish, plan: Plan | None) -> str:
    """Number of runs and their approximate time; raises RecipeError for anything invalid."""
    n = len(wish.runs)
    words = "1 run" if n == 1 else f"{n:,} runs, one after another"
    if plan is None or plan.seconds is None:
        return f"{words}."
    steps = plan.seconds[1] - plan.beside_seconds
    seconds = n * (steps * share_made(wish, n, plan.n_steps) + plan.beside_seconds)
    values = "" if all(key == SEED for key, _ in wish.runs[0].overrides) else ", with the recipe's own values"
    return f"{words}: about {rough_text(seconds)}{values}."


def best_of(text: str) -> BestRun:
    """The best of the runs reported by `train --sweep --json` at its end."""
    try:
        told = json.loads(text)
    except ValueError:
        return NO_RUN
    losses = {run["folder"]: run for run in told["runs"] if _is_loss(run["best_loss"])}
    if not losses:
        return NO_RUN
    best = min(losses.values(), key=lambda run: (run["best_loss"], run["name"]))
    words = (
        f"Best of {len(told['runs'])}: {best['name'].rpartition('/')[2]}, held-out loss "
        f"{best['best_loss']:.4f} {best['loss_unit']} at step {best['best_step']:,}"
    )
    return BestRun(folder=best["folder"], words=words + _spread_words(told["seeds"], best["settings"]))


def _spread_words(spreads: list[dict[str, object]], settings: Mapping[str, str]) -> str:
    """The mean over seeds of runs otherwise like the best; empty if there are no others."""
    others = {key: value for key, value in settings.items() if key != SEED}
    for spread in spreads:
        if dict(spread["settings"]) == others:  # type: ignore[call-overload]
            mean, deviation, n = spread["mean"], spread["deviation"], spread["n"]
            return f" · {mean:.4f} ± {deviation:.4f} over {n} seeds"
    return ""


def _is_loss(value: object) -> bool:
    return isinstance(value, float | int) and math.isfinite(value)


def _anchored(text: str, folder: Path) -> str:
    """The recipe with paths independent of its file's location."""
    for section, key in (("data", "path"), ("start", "from")):
        value = recipe_value(text, section, key)
        if isinstance(value, str) and value and os.path.exists(folder / value):
            text = with_recipe_value(text, section, key, str((folder / value).resolve()))
    return text


def _read(path: Path) -> str:
    try:
        data = read_outside(path, expected="the output of a training", max_bytes=_MAX_TOLD_BYTES)
        return data.decode(errors="replace")
    except LoadError:
        return ""


def _close_input(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        child.stdin.close()


def _spawn(words: list[str], out: Path) -> subprocess.Popen[bytes]:
    """A process that saves when its input ends; its output goes to files, so that it cannot block."""
    try:
        with open(out / _END, "wb") as end, open(out / _LOG, "wb") as log:
            return subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=end, stderr=log, creationflags=_NO_CONSOLE
            )
    except OSError as error:
        raise UserError(
            f"The training could not be started: {error.strerror or error}.", action="Try another folder."
        ) from error

"""The run folder: what a run leaves on disk, and reading it back however the run ended.

recipe.toml                what is trained, every value written out
metrics.jsonl              one event a line, numbered by attempt (a resume begins a new one)
probes/<step>.safetensors  the traces of the watched sentences, of early steps without a checkpoint too
checkpoints/<step>/        a model folder each, the last two with the state that a resume needs

They are written in this order, so that a checkpoint, once it is there, has everything before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from attnscope.counting import plural
from attnscope.errors import LoadError, SaveError
from attnscope.records.training import TrainingEvent
from attnscope.strict_toml import read_toml_text
from attnscope.training.metrics import in_order, read_metric_lines
from attnscope.training.old_recipes import mended_recipe


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where things are in a run folder; nothing is read or written."""

    folder: Path

    @property
    def recipe(self) -> Path:
        """The recipe as it was trained."""
        return self.folder / "recipe.toml"

    @property
    def metrics(self) -> Path:
        """The events, one a line."""
        return self.folder / "metrics.jsonl"

    @property
    def old_state(self) -> Path:
        """Where the versions 0.1 to 0.7 kept what a resume needs."""
        return self.folder / "state.safetensors"

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return self.recipe.is_file()

    def leavings(self) -> str:
        """What of a run is there beside its recipe, in words; empty in a folder without any."""
        steps = [step for step, _ in self.checkpoints()]
        checkpoints = f"{plural(len(steps), 'checkpoint')} to step {steps[-1]:,}" if steps else ""
        probes = "probes" if any((self.folder / "probes").glob("*.safetensors")) else ""
        files = [path.name for path in (self.metrics, self.old_state) if path.exists()]
        return ", ".join(filter(None, (checkpoints, probes, *files)))

    def checkpoint(self, step: int) -> Path:
        """The model folder of `step`."""
        return self.folder / "checkpoints" / str(step)

    def probe(self, step: int) -> Path:
        """The traces of the watched sentences at `step`."""
        return self.folder / "probes" / f"{step}.safetensors"

    def checkpoints(self) -> tuple[tuple[int, Path], ...]:
        """Step and folder of every checkpoint, in order of their steps."""
        return _by_step(entry for entry in (self.folder / "checkpoints").glob("*") if entry.is_dir())

    def probes(self) -> tuple[tuple[int, Path], ...]:
        """Step and file of every kept look at the watched sentences, in order of their steps."""
        return _by_step((self.folder / "probes").glob("*.safetensors"))


def _by_step(entries: Iterable[Path]) -> tuple[tuple[int, Path], ...]:
    """What is named after a step, with that step."""
    named = ((entry.name.removesuffix(".safetensors"), entry) for entry in entries)
    return tuple(sorted((int(name), entry) for name, entry in named if name.isascii() and name.isdigit()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run folder's content; `n_bad_lines` lines of its metrics could not be read."""

    folder: Path
    recipe: str
    events: tuple[TrainingEvent, ...]
    checkpoints: tuple[tuple[int, Path], ...]
    probes: tuple[tuple[int, Path], ...] = ()
    n_bad_lines: int = 0


def read_run(folder: Path) -> RunRecord:
    """Read a run folder, also one that is being written by another process. Raises LoadError."""
    paths = RunFolder(folder)
    try:
        recipe, _ = mended_recipe(read_toml_text(paths.recipe))
    except LoadError as error:
        raise LoadError(
            f"{folder} holds no run that can be read: {error.happened}",
            kind="run",
            expected="a folder with recipe.toml, as training writes it",
            action="Choose the folder that was given to the training.",
        ) from error
    lines, n_bad = read_metric_lines(paths.metrics)
    return RunRecord(
        folder=folder,
        recipe=recipe,
        events=in_order(lines),
        checkpoints=paths.checkpoints(),
        probes=paths.probes(),
        n_bad_lines=n_bad,
    )


def require_writable(folder: Path) -> None:
    """Make the run folder and its inner folders; raises SaveError with the reason when that fails."""
    try:
        for inner in ("checkpoints", "probes"):
            (folder / inner).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(
            f"The run folder {folder} cannot be made: {error.strerror or error}.",
            action="Choose another folder, for instance in your own home.",
        ) from error

"""The run folder: what a run leaves on disk, and reading it back however the run ended.

recipe.toml                what is trained, every value written out
metrics.jsonl              one event a line, numbered by attempt (a resume begins a new one)
checkpoints/<step>/        a model folder each
probes/<step>.safetensors  the traces of the watched sentences
state.safetensors          what a resume needs beside the newest checkpoint
"""

from dataclasses import dataclass
from pathlib import Path

from attnscope.errors import LoadError, SaveError
from attnscope.records.training import TrainingEvent
from attnscope.training.metrics import in_order, read_lines
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
    def state(self) -> Path:
        """What a resume needs beside the checkpoint."""
        return self.folder / "state.safetensors"

    @property
    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return self.recipe.is_file()

    def checkpoint(self, step: int) -> Path:
        """The model folder of `step`."""
        return self.folder / "checkpoints" / str(step)

    def probe(self, step: int) -> Path:
        """The traces of the watched sentences at `step`."""
        return self.folder / "probes" / f"{step}.safetensors"

    def checkpoints(self) -> tuple[tuple[int, Path], ...]:
        """Step and folder of every checkpoint, in order of their steps."""
        found = []
        for entry in (self.folder / "checkpoints").glob("*"):
            if entry.name.isascii() and entry.name.isdigit() and entry.is_dir():
                found.append((int(entry.name), entry))
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run folder's content; `n_bad_lines` lines of its metrics could not be read."""

    folder: Path
    recipe: str
    events: tuple[TrainingEvent, ...]
    checkpoints: tuple[tuple[int, Path], ...]
    n_bad_lines: int = 0


def read_run(folder: Path) -> RunRecord:
    """Read a run folder, also one that is being written by another process. Raises LoadError."""
    paths = RunFolder(folder)
    try:
        recipe, _ = mended_recipe(paths.recipe.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(
            f"{folder} holds no run that can be read: {getattr(error, 'strerror', None) or error}.",
            kind="run",
            expected="a folder with recipe.toml, as training writes it",
            action="Choose the folder that was given to the training.",
        ) from error
    lines, n_bad = read_lines(paths.metrics)
    return RunRecord(
        folder=folder,
        recipe=recipe,
        events=in_order(lines),
        checkpoints=paths.checkpoints(),
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

"""Where a run goes on: its newest checkpoint that is whole, weights and state under one manifest.

checkpoints/<step>/state.safetensors   of the last two checkpoints; what older ones had is removed
state.safetensors                      of the run folder: the one state of runs of the versions 0.1 to 0.7

A killed save leaves no checkpoint rather than half of one, so whatever has a name and is not whole was
damaged afterwards. It is moved aside and never removed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from attnscope.errors import LoadError, SaveError
from attnscope.files import check_listed, drop_listed, manifest_entries
from attnscope.models.checkpoint import STATE, LoadedFolder, read_model_folder
from attnscope.training.run import RunFolder
from attnscope.training.state import TrainingState, load_state

N_KEPT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """A checkpoint to go on from, read; `damaged` are the newer states that could not be used."""

    state: TrainingState
    tensors: dict[str, Tensor]
    loaded: LoadedFolder
    damaged: tuple[Path, ...] = ()


def states_of(folder: RunFolder) -> tuple[tuple[int, Path], ...]:
    """Step and file of each state, oldest first; nothing of them is read but where an old run stood."""
    found = [(step, path / STATE) for step, path in folder.checkpoints() if _has_state(path)]
    if folder.old_state.exists():
        try:
            found.append((load_state(folder.old_state, has_values=False)[0].step, folder.old_state))
        except LoadError:
            found.append((-1, folder.old_state))
    return tuple(sorted(found))


def require_states(folder: RunFolder) -> tuple[tuple[int, Path], ...]:
    """The states of a run; raises LoadError where it has come further than its beginning and has none."""
    found = states_of(folder)
    if not found and any(step for step, _ in folder.checkpoints()):
        load_state(folder.checkpoints()[-1][1] / STATE)  # says that it is missing
    return found


def read_point(folder: RunFolder, step: int, *, is_whole: bool = True) -> ResumePoint:
    """The checkpoint and the state of one step; raises LoadError when anything of them is damaged.

    A process that is not `is_whole` gets its weights from another one, which has looked at the files.
    """
    checkpoint = folder.checkpoint(step)
    path = checkpoint / STATE if _has_state(checkpoint) else folder.old_state
    if path.parent == checkpoint and is_whole:
        check_listed(checkpoint, STATE)
    state, tensors = load_state(path, has_values=is_whole)
    loaded = read_model_folder(folder.checkpoint(state.step), has_weights=is_whole)
    if loaded.sha256 != state.weights_sha256:
        raise LoadError(
            f"The checkpoint of step {state.step} is not the one the run was stopped at.",
            kind="state",
            expected=f"weights with the SHA-256 {state.weights_sha256[:12]}…",
            action="Restore the run folder from a copy, or start a new run in another folder.",
        )
    return ResumePoint(state=state, tensors=tensors, loaded=loaded)


def read_newest_point(folder: RunFolder) -> ResumePoint:
    """The newest point that is whole; raises LoadError where there is none."""
    first: LoadError | None = None
    damaged: list[Path] = []
    for step, path in reversed(states_of(folder)):
        try:
            point = read_point(folder, step)
        except LoadError as error:
            first = first or error
            damaged.append(path)
            continue
        return replace(point, damaged=tuple(damaged))
    if first is None:
        raise ValueError(f"{folder.folder} has no state")
    raise LoadError(
        f"The run cannot be resumed: {first.happened}",
        kind="state",
        expected=first.expected,
        action="Restore the run folder from a copy, open one of its checkpoints, or start a new run in "
        "another folder.",
    ) from first


def set_aside(folder: RunFolder, damaged: Sequence[Path]) -> str:
    """Move damaged checkpoints, or the damaged state of an old run, out of the way; what was done."""
    return " ".join(_set_one_aside(folder, path) for path in damaged)


def drop_old_states(folder: RunFolder) -> None:
    """Keep the last states only; one that cannot be removed now is removed the next time."""
    for _, path in states_of(folder)[:-N_KEPT]:
        try:
            if path == folder.old_state:
                path.unlink(missing_ok=True)
            else:
                drop_listed(path.parent, path.name)
        except (OSError, SaveError):
            continue


def _has_state(checkpoint: Path) -> bool:
    return (checkpoint / STATE).exists() or STATE in _listed(checkpoint)


def _listed(checkpoint: Path) -> Iterator[str]:
    try:
        yield from manifest_entries(checkpoint)
    except LoadError:
        return


def _set_one_aside(folder: RunFolder, state: Path) -> str:
    place = state if state == folder.old_state else state.parent
    name = f"{place.name}.damaged"
    n = 1
    while (place.parent / name).exists():
        n += 1
        name = f"{place.name}.damaged-{n}"
    try:
        place.rename(place.parent / name)
    except OSError:
        return f"{place} is damaged and was passed over."
    return f"{place} is damaged: it is now called {name}, and the steps after this are made again."

"""Where a run goes on: its newest checkpoint that is whole, weights and state under one manifest.

checkpoints/<step>/state.safetensors   of the last two checkpoints; what older ones had is removed
state.safetensors                      of the run folder: the one state of runs of the versions 0.1 to 0.7

A killed save leaves no checkpoint rather than half of one, so whatever has a name and is not whole was
damaged afterwards. It is moved aside and never removed.

A state is one safetensors file (never a pickle): its tensors are the optimiser's memory, its header names the
step, the data and the weights they belong to. Random states need no saving: every draw of step n comes from
the pair (seed, n).

schedule           of a run that is made longer
constant, noam     goes on as it was: every step is that of a run that was so long from the start
linear, cosine     the same while the warm-up lasts; after it the rate is that of the new length from the
                   next step on: it jumps, and the note says so
trapezoid          the same until the rate falls, after that as linear
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import LoadError, SaveError, UserError
from attnscope.files import check_listed, drop_listed, manifest_entries
from attnscope.models.checkpoint import STATE, LoadedFolder, read_model_folder
from attnscope.strict_json import parse_object
from attnscope.trace.tensor_file import read_shapes, read_tensors, write_tensors
from attnscope.training.parts import Recipe
from attnscope.training.run import RunFolder
from attnscope.training.schedules import falls_to_the_end, follows_length, learning_rate_at

N_KEPT = 2
_KEY = "attnscope"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeState:
    """Where a run stands; `weights_sha256` is of the checkpoint's weights file."""

    step: int
    data_sha256: str
    weights_sha256: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """A checkpoint to go on from, read; `damaged` are the newer states that could not be used."""

    state: ResumeState
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
        return f"{place} is damaged and was skipped."
    return f"{place} is damaged: it has been renamed to {name}, and the steps after this are repeated."


def lengthened(overrides: Mapping[str, str], folder: Path, n_steps: int | None) -> dict[str, str]:
    """The overrides with the new length of the run in a folder, which None leaves as it is.

    Raises LoadError where there is no run to go on with, UserError for a length that is reached already.
    """
    run = RunFolder(folder)
    if not run.holds_run:
        raise LoadError(
            f"{folder} holds no run.",
            kind="run",
            expected="a folder with recipe.toml, as training writes it",
            action="Choose the folder that was given to the training.",
        )
    if n_steps is None:
        return dict(overrides)
    step = max((step for step, _ in require_states(run)), default=0)
    if n_steps <= step:
        raise UserError(
            f"The run in {folder} has already completed {plural(step, 'step')}.",
            expected=f"more than {step:,}",
            action="Give the length that the whole run is to have.",
        )
    return {**overrides, "training.n_steps": str(n_steps)}


def length_note(earlier: Recipe, recipe: Recipe, step: int) -> str:
    """What it means for a run at `step` that its length has changed; empty where it has not."""
    before, now = earlier.training.n_steps, recipe.training.n_steps
    if before == now:
        return ""
    told = [f"The run is now {now:,} steps long instead of {before:,}."]
    is_level = step <= recipe.schedule.warmup_steps or (
        recipe.schedule.kind == "trapezoid"
        and learning_rate_at(step, earlier)
        == learning_rate_at(step, recipe)
        == recipe.optimizer.learning_rate
    )
    if (is_level and not recipe.data.repeated_share) or not follows_length(recipe):
        told.append("Its learning rate continues as if it had been this long from the start.")
        return " ".join(told)
    if falls_to_the_end(recipe.schedule):
        jump = ""
        if 0 < step < now:
            rates = learning_rate_at(step, earlier), learning_rate_at(step + 1, recipe)
            jump = f": it goes from {rates[0]:.3g} at step {step:,} to {rates[1]:.3g} at the next"
        told.append(
            f"From here on, its learning rate is that of a {recipe.schedule.kind} schedule of {now:,} "
            f"steps{jump}."
        )
    if recipe.data.repeated_share:
        told.append("From here on, the pool of repeated words is that of the new length.")
    told.append("A run of this length from the start would have different weights.")
    return " ".join(told)


def save_state(path: Path, state: ResumeState, tensors: Mapping[str, Tensor]) -> None:
    """Write the state in one step; raises SaveError and leaves the old one when that fails."""
    write_tensors(path, tensors, {_KEY: json.dumps(asdict(state))})


def load_state(path: Path, *, has_values: bool = True) -> tuple[ResumeState, dict[str, Tensor]]:
    """Read what `save_state` wrote; raises LoadError when it is missing or damaged.

    Without values the tensors hold whatever the memory held, and cost none until they are written to: for a
    process that gets its parts of them from another one. Numbers without an axis are always read.
    """
    try:
        file = read_tensors(path) if has_values else read_shapes(path)
        values = parse_object(file.metadata[_KEY].encode(), what=str(path))
        state = ResumeState(
            step=int(str(values["step"])),
            data_sha256=str(values["data_sha256"]),
            weights_sha256=str(values["weights_sha256"]),
            version=str(values["version"]),
        )
    except (LoadError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LoadError(
            f"The run cannot be resumed: {path} is {'damaged' if path.exists() else 'missing'}.",
            kind="state",
            expected="the file that training saves with its checkpoints",
            action="Open one of the run's checkpoints instead, or start a new run in another folder.",
        ) from error
    return state, dict(file.tensors)

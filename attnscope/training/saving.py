"""Saving a run during training: checkpoints, traces of the watched sentences, state.

The order is metrics, traces, then weights and state in one folder, whose name makes all of them count:
whatever moment the machine stops at, the newest checkpoint has everything before it.

Where a run goes on: its newest checkpoint that is whole, weights and state under one manifest.

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
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnscope import __version__, paths
from attnscope.counting import plural
from attnscope.errors import LoadError, SaveError, UserError
from attnscope.files import check_listed, drop_listed, manifest_entries, replace_folder, sha256_of
from attnscope.models import (
    CLOSED_HEADS,
    STATE,
    WEIGHTS,
    LoadedFolder,
    Model,
    ModelCard,
    closed_names,
    fill_model_folder,
    read_model_folder,
)
from attnscope.outside import parse_object
from attnscope.records.runs import Saved, SaveFailed, Watched
from attnscope.records.sites import HeadRef
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.trace import read_shapes, read_tensors, save_records, write_tensors
from attnscope.training.distributed import Ranks, whole_of
from attnscope.training.optimizers import falls_to_the_end, follows_length, learning_rate_at, tensors_of
from attnscope.training.parts import WATCHED_STEPS, Recipe
from attnscope.training.run import RunFolder
from attnscope.training.starting import start_facts

if TYPE_CHECKING:
    from attnscope.training.beginning import Begun

N_KEPT = 2
_KEY = "attnscope"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeState:
    """The state of a run; `weights_sha256` is of the checkpoint's weights file."""

    step: int
    data_sha256: str
    weights_sha256: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """A checkpoint to resume from; `damaged` are newer states that were unusable."""

    state: ResumeState
    tensors: dict[str, Tensor]
    loaded: LoadedFolder
    damaged: tuple[Path, ...] = ()


def states_of(folder: RunFolder) -> tuple[tuple[int, Path], ...]:
    """Step and file of each state, oldest first, without reading them, except in an old run."""
    found = [(step, path / STATE) for step, path in folder.checkpoints() if _has_state(path)]
    if folder.old_state.exists():
        try:
            found.append((load_state(folder.old_state, has_values=False)[0].step, folder.old_state))
        except LoadError:
            found.append((-1, folder.old_state))
    return tuple(sorted(found))


def require_states(folder: RunFolder) -> tuple[tuple[int, Path], ...]:
    """The states of a run; raises LoadError if it is past its beginning but has none."""
    found = states_of(folder)
    if not found and any(step for step, _ in folder.checkpoints()):
        load_state(folder.checkpoints()[-1][1] / STATE)  # says that it is missing
    return found


def read_point(folder: RunFolder, step: int, *, is_whole: bool = True) -> ResumePoint:
    """The checkpoint and the state of one step; raises LoadError if either is damaged.

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
    """Read the newest intact point; raises LoadError if there is none."""
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
    """Move damaged checkpoints, or the damaged state of an old run, out of the way; returns what was done."""
    return " ".join(_set_one_aside(folder, path) for path in damaged)


def drop_old_states(folder: RunFolder) -> None:
    """Keep the last states only; one that cannot be removed now is removed next time."""
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
    """The overrides with the new length of the run in a folder; None leaves it unchanged.

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
    """Note on a run at `step` whose length has changed; empty if it has not."""
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
    """Write the state in one step; on failure raises SaveError and leaves the old one."""
    write_tensors(path, tensors, {_KEY: json.dumps(asdict(state))})


def load_state(path: Path, *, has_values: bool = True) -> tuple[ResumeState, dict[str, Tensor]]:
    """Read the file of `save_state`; raises LoadError if it is missing or damaged.

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


_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0
_SPARE_BYTES = 1_000_000
"""Size of a checkpoint besides its tensors."""


class Saver:
    """Saves the model in training to its run folder; after each failure waits longer."""

    def __init__(
        self,
        recipe: Recipe,
        begun: "Begun",
        ranks: Ranks,
        *,
        write_metrics: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self._recipe, self._ranks = begun.folder, recipe, ranks
        self._model, self._loss, self._optimizer = begun.model, begun.loss, begun.optimizer
        self._techniques, self._data_sha256 = begun.techniques, begun.data.sha256
        self._write_metrics = write_metrics
        self._clock = clock
        self._is_due: Callable[[int], bool] = self._is_planned
        self.pause_s = _FIRST_PAUSE_S
        self.last_saved = begun.step

    def is_due(self, step: int) -> bool:
        """Whether to save after this step: according to the recipe, or to retry a failed save.

        Only the process that writes knows; the others say no.
        """
        return self._ranks.is_writer and self._is_due(step)

    def _is_planned(self, step: int) -> bool:
        return step % self._recipe.training.save_every == 0 or step == self._recipe.training.n_steps

    def is_watch_due(self, step: int) -> bool:
        """Whether to record the watched sentences after this step; the same in every process."""
        return bool(self._recipe.watch) and step in WATCHED_STEPS

    @property
    def is_gone(self) -> bool:
        """Whether the run folder was removed: nothing is written then, to avoid leaving half a run."""
        return self._ranks.is_writer and not self.folder.holds_run

    def save(self, step: int, *, is_last: bool = False) -> Iterator[Saved | SaveFailed]:
        """Save everything about `step` and report the result; never raises for a full or missing disk.

        Every process calls it; one that does not write only hands over its parts of the weights.
        """
        self._loss.gather_into(self._model.own.module)
        if not self._ranks.is_writer:
            if self._loss.is_sharded:
                self._hand_over()
            self.last_saved = step
            return
        self._write_metrics()  # where that fails they wait: the weights matter more than a hole in a curve
        tensors = tensors_of(self._optimizer, self._loss.module) | self._techniques.tensors()
        try:
            self._write(step, tensors)
        except SaveError as error:
            retry_at = self._clock() + self.pause_s
            self._is_due = lambda _step: self._clock() >= retry_at
            next_try = f" Training continues; the next attempt is in {self.pause_s:.0f} s."
            is_over = is_last or self.is_gone or step == self._recipe.training.n_steps
            yield SaveFailed(step=step, reason=f"{error}{'' if is_over else next_try}")
            self.pause_s = min(2 * self.pause_s, _LONGEST_PAUSE_S)
            return
        self._is_due, self.pause_s, self.last_saved = self._is_planned, _FIRST_PAUSE_S, step
        yield Saved(step=step, folder=str(self.folder.checkpoint(step)))

    def watch(self, step: int) -> Iterator[Watched]:
        """Record the watched sentences at a step without a checkpoint; failures are ignored."""
        self._loss.gather_into(self._model.own.module)
        if not self._ranks.is_writer:
            return
        try:
            is_kept = not self.is_gone and self._write_traces(step)
        except SaveError:  # the run does not depend on it, and the next checkpoint tells of a full disk
            return
        if is_kept:
            yield Watched(step=step, file=str(self.folder.probe(step)))

    def _hand_over(self) -> None:
        """Pass on this process's parts of the optimiser's state, in the order of `tensors_of`."""
        for parameter in self._loss.module.parameters():
            for value in self._optimizer.state.get(parameter, {}).values():
                if value is not None:
                    whole_of(torch.as_tensor(value))

    def _write(self, step: int, tensors: Mapping[str, torch.Tensor]) -> None:
        own = self._model.own
        own.card = card_of(self._recipe, step, own.card.labels, self._techniques.closed_heads)
        if self.is_gone:
            raise SaveError(f"The run folder {self.folder.folder} is gone: it was deleted or moved.")
        _require_room(self.folder.folder, (*own.module.state_dict().values(), *tensors.values()))
        self._write_traces(step)

        def fill(temporary: Path) -> None:
            fill_model_folder(temporary, own.module, own.config, own.vocabulary, own.card)
            state = ResumeState(
                step=step,
                data_sha256=self._data_sha256,
                weights_sha256=sha256_of(temporary / WEIGHTS),
                version=__version__,
            )
            save_state(temporary / STATE, state, tensors)

        replace_folder(self.folder.checkpoint(step), fill)
        drop_old_states(self.folder)

    def _write_traces(self, step: int) -> bool:
        """Save attention and output on the watched sentences; False if there are none."""
        texts = []
        for sentence in self._recipe.watch:
            try:
                look = self._model.look(sentence.text, sentence.target or None, top=1)
            except SaveError:
                raise
            except UserError:  # a sentence without a single token, say; the run does not depend on it
                continue
            texts.append(replace(look.trace.kept, said=look.comparison.after))
        if texts:
            save_records(self.folder.probe(step), texts, has_logits=False)
        return bool(texts)


def save_elsewhere(model: Model, folder: Path, step: int) -> str:
    """Save a model elsewhere if its run folder fails, in the first place that works; empty if none does."""
    places = (paths.runs_folder(), *([folder.parent] if folder.parent.is_dir() else []))
    for place in (*places, Path(tempfile.gettempdir())):
        target, n = place / f"{folder.name} step {step}", 1
        while target.exists():
            n += 1
            target = place / f"{folder.name} step {step} ({n})"
        try:
            model.save(str(target))
        except SaveError:
            continue
        return str(target)
    return ""


def _require_room(folder: Path, tensors: Iterable[torch.Tensor]) -> None:
    """Raise SaveError if the disk has no room for some tensors; nothing is written then."""
    needed = sum(math.prod(t.shape) * t.element_size() for t in tensors) + _SPARE_BYTES
    try:
        free = shutil.disk_usage(folder).free
    except OSError:  # writing will tell
        return
    if free < needed:
        raise SaveError(
            f"A checkpoint needs {needed / 1e6:,.1f} MB and {folder} has {free / 1e6:,.1f} MB left.",
            action="Free some space there.",
        )


def card_of(
    recipe: Recipe, step: int, labels: tuple[str, ...] = (), closed: Sequence[HeadRef] = ()
) -> ModelCard:
    """A checkpoint's card, with its labels and the heads that are off."""
    name = recipe.training.name
    training: dict[str, object] = {
        "step": step,
        "n_steps": recipe.training.n_steps,
        "seed": recipe.training.seed,
    }
    training |= start_facts(recipe.start)
    if closed:
        training[CLOSED_HEADS] = closed_names(closed)
    if recipe.objective.guided_head:
        training["guided_head"] = recipe.objective.guided_head
    if recipe.data.kind == "task":
        training["task"] = recipe.data.task
        if recipe.task_options:
            training["task_options"] = dict(recipe.task_options)
    text = f"# {name}\n\nTrained with AttnScope for {step:,} of {plural(recipe.training.n_steps, 'step')}.\n"
    if labels:
        told = OBJECTIVES[recipe.objective.kind].labels
        of = "every token" if told == "token" else "a text"
        predicted = (
            f"one of {len(labels):,} labels for {of}" if told != "place" else "a place in the text for"
        )
        text += f"\nIt predicts {predicted}: {', '.join(labels)[:400]}.\n"
    return ModelCard(name=name, objective=recipe.objective.kind, training=training, text=text, labels=labels)

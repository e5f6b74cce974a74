"""Saving a run while it trains: checkpoints, traces of the watched sentences, state; and trying again.

The order is metrics, traces, then weights and state in one folder, whose name makes all of them count:
whatever moment the machine stops at, the newest checkpoint has everything before it.
"""

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from attnscope import __version__, paths
from attnscope.counting import plural
from attnscope.errors import SaveError, UserError
from attnscope.files import replace_folder, sha256_of
from attnscope.models.card import CLOSED_HEADS, ModelCard, closed_names
from attnscope.models.checkpoint import STATE, fill_model_folder
from attnscope.models.model import Model
from attnscope.models.weights import WEIGHTS
from attnscope.records.sites import HeadRef
from attnscope.records.training import Saved, SaveFailed, Watched
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.trace.store import save_records
from attnscope.training.distributed import Ranks, whole_of
from attnscope.training.optimizers import tensors_of
from attnscope.training.parts import WATCHED_STEPS
from attnscope.training.recipe import Recipe
from attnscope.training.resume_points import ResumeState, drop_old_states, save_state
from attnscope.training.starting import start_facts

if TYPE_CHECKING:
    from attnscope.training.begin import Begun

_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0
_SPARE_BYTES = 1_000_000
"""What a checkpoint may take beside its tensors."""


class Saver:
    """Writes the model in training to its run folder; after a failure waits longer each time."""

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
        """Whether to save after this step: by the recipe, or because a failed save may be tried again.

        Only the process that writes knows; the others say no.
        """
        return self._ranks.is_writer and self._is_due(step)

    def _is_planned(self, step: int) -> bool:
        return step % self._recipe.training.save_every == 0 or step == self._recipe.training.n_steps

    def is_watch_due(self, step: int) -> bool:
        """Whether to keep the watched sentences' attention after this step; every process says the same."""
        return bool(self._recipe.watch) and step in WATCHED_STEPS

    @property
    def is_gone(self) -> bool:
        """Whether the run folder was taken away: nothing is written then, lest half a run be left."""
        return self._ranks.is_writer and not self.folder.holds_run

    def save(self, step: int, *, is_last: bool = False) -> Iterator[Saved | SaveFailed]:
        """Write everything about `step` and say how it went; never raises for a full or missing disk.

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
        """Keep the watched sentences' attention of a step without a checkpoint; nothing where that fails."""
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
        """Hand this process's parts of the optimiser's memory over, in the order of `tensors_of`."""
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
        """Keep the watched sentences' attention, and what the model makes of them; False without any."""
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
    """Save a model that its run folder does not take in the first place that does; empty when none does."""
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
    """Raise SaveError when the disk has no room for some tensors; nothing is written then."""
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
    """What a checkpoint says about itself, with the labels it tells and the heads that are off."""
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

"""The training loop: a generator of events, one yield for each optimiser step.

Between two yields the caller may trace `TrainingRun.model`, pause by not asking for the next event, or
ask for a stop. Every random draw of step n comes from the pair (seed, n), so a resumed run makes the
same steps as an uninterrupted one, and looking at the model between steps changes nothing.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attnscope.collector import collect_all, collect_as_usual
from attnscope.models.model import Model
from attnscope.nn import choose_device, count_parameters, map_large_blocks, running_kept
from attnscope.records.runs import Evaluated, Finished, Started, Step, TrainingEvent
from attnscope.schemes.norms import NORMS
from attnscope.training.batches import batches_of_step
from attnscope.training.beginning import Begun, begin
from attnscope.training.descent import (
    Descent,
    Threads,
    Way,
    autocast_of,
    is_out_of_memory,
    keep_precision,
    settled_precision,
)
from attnscope.training.distributed import ALONE, Ranks, SharedLoss, whole_of
from attnscope.training.objectives import Batch, loss_sum
from attnscope.training.optimizers import learning_rate_at, set_learning_rate, texts_at, tokens_at
from attnscope.training.paper import has_ever_other_lengths
from attnscope.training.recipe import Recipe
from attnscope.training.run import Metrics, RunFolder, RunLock, TensorBoardMirror
from attnscope.training.saving import Saver, save_elsewhere

# Training with the loss compiled by torch.compile, where that pays.

_COMPILERS = ("c++", "g++", "clang++")
_LONG_RUN = 2000


def wants_compiling(recipe: Recipe, device: torch.device) -> bool:
    """Whether the recipe asks for it, or `auto` expects a gain."""
    if recipe.training.compile != "auto":
        return recipe.training.compile == "on"
    is_long = recipe.training.n_steps >= _LONG_RUN
    return device.type == "cuda" and is_long and recipe.data.kind == "text"


def compile_loss(
    loss_of: SharedLoss,
    batch: Batch,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[object]],
    *,
    n_processes: int = 1,
) -> str:
    """Compile the loss of `loss_of`, tried on a batch; returns a note on the result.

    Where it cannot be done the loss stays as it was. Weights and optimiser are not touched.
    """
    if n_processes > 1:
        return "Not compiled: several processes train together."
    if batch.guide is not None:
        return "Not compiled: a head is guided."
    if loss_of.module.config.n_experts:
        return "Not compiled: how many tokens an expert reads changes from batch to batch."
    if loss_of.module.config.is_reversible:
        return "Not compiled: reversible layers compute again what they read."
    if device.type == "cpu" and not any(shutil.which(name) for name in _COMPILERS):
        return f"Not compiled: there is no C++ compiler ({', '.join(_COMPILERS)}) on this computer."
    started_at = time.monotonic()
    compiled = torch.compile(loss_sum)
    module = loss_of.module.train()
    try:
        with autocast(), running_kept(module):
            loss = compiled(module, batch.to(device), 0.0)
        torch.autograd.backward(loss)
    except (RuntimeError, OSError, NotImplementedError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"Not compiled: {lines[0][:200]}"
    finally:
        module.zero_grad(set_to_none=True)
    loss_of.compute = compiled
    return f"Compiled in {time.monotonic() - started_at:.0f} s."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """One attempted step; `is_good` is False if the loss or the gradient is not a number."""

    loss: float
    gradient_norm: float
    n_tokens: int
    is_good: bool


class TrainingRun:
    """One run of a recipe in a run folder; resumes a run in the folder, and with `may_lengthen` continues
    beyond its former length.

    Reading data and building the model happen here; the steps happen in `events`. With a `wait` for some
    seconds the end waits for a disk that takes the model nowhere. Raises RecipeError,
    LoadError, SaveError or UserError, and leaves an earlier run in the folder as it was.
    """

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        device: str | torch.device = "auto",
        *,
        clock: Callable[[], float] = time.monotonic,
        ranks: Ranks = ALONE,
        may_lengthen: bool = False,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self.recipe = recipe
        self.device = choose_device(device) if isinstance(device, str) else device
        torch.set_flush_denormal(True)
        self._ranks, self._held = ranks, ExitStack()
        if self.device.type == "cpu" and has_ever_other_lengths(recipe):
            map_large_blocks()
        if ranks.is_writer:
            self._held.callback(RunLock(out).release)
        try:
            folder = RunFolder(out)
            self._begun: Begun = begin(recipe, folder, self.device, ranks, may_lengthen=may_lengthen)
        except BaseException:
            self._held.close()
            raise
        self.first_step = self.step = self._begun.step
        self._autocast = autocast_of(self._settled_precision(), self.device)
        self._descent = Descent(recipe, self._begun.loss, self.device, ranks, self._autocast)
        self._held.callback(self._descent.close)
        self._threads: Threads | None = None
        self._clock = clock
        self._wait = wait
        self._is_stop_wanted = False
        self._metrics = Metrics(self._begun.folder.metrics)
        self._books: list[Metrics | TensorBoardMirror] = [self._metrics]
        self._handed_over = ""
        """Where the model was saved that the run folder did not take."""
        self._saver = Saver(recipe, self._begun, ranks, write_metrics=self._flush_durably, clock=clock)

    @property
    def model(self) -> Model:
        """The model in training; it may be traced between two events."""
        return self._begun.model

    @property
    def characters_per_token(self) -> float:
        """Of held-out running text: a loss in nats per token over this is one per character."""
        return self._begun.data.characters_per_token

    @property
    def is_stop_wanted(self) -> bool:
        return self._is_stop_wanted

    @property
    def is_saved(self) -> bool:
        """Whether every completed step is in the run folder."""
        return self._saver.last_saved == self.step

    def _settled_precision(self) -> str:
        """The recipe's precision; for `auto` on a CPU the run's first one, else the fast one here."""
        precision, folder = self.recipe.training.precision, self._begun.folder.folder
        if precision != "auto" or self.device.type != "cpu":
            return precision
        alone = self._ranks.n == 1
        settled = settled_precision(folder, self.device, is_older=self.step > 0, is_alone=alone)
        if self._ranks.is_writer:
            keep_precision(folder, settled)
        return settled

    def choose_threads(self) -> Way:
        """Use the threads that make the steps of this run fastest, and return them.

        They are tried before the first step, for a few seconds, and again when steps have become slow. That
        leaves no trace but lines in the run folder, which a resumed run follows. After `events` torch has all
        its threads again.
        """
        most = torch.get_num_threads()
        if self.device.type != "cpu" or self._ranks.n > 1 or self.step >= self.recipe.training.n_steps:
            return Way(most)
        self._held.callback(torch.set_num_threads, most)
        self._threads = Threads(self._begun.folder.folder, self._descent, self._trial, most)
        return self._threads.choose(self.step)

    def request_stop(self) -> None:
        """Stop after the current step: save, then `Finished`."""
        self._is_stop_wanted = True

    def events(self) -> Iterator[TrainingEvent]:
        """Train; each event is in metrics.jsonl by the time the next one is asked for."""
        collect_as_usual()
        if not self._ranks.is_writer:
            yield from self._events()
            return
        self._metrics.open()
        if self.recipe.training.tensorboard:
            self._books.append(TensorBoardMirror(self._begun.folder.folder))
        flushed_at = self._clock()
        try:
            for event in self._events():
                for book in self._books:
                    book.add(event)
                if not isinstance(event, Step) or self._clock() - flushed_at >= 1.0:
                    self._flush()
                    self._is_stop_wanted |= self._saver.is_gone
                    flushed_at = self._clock()
                yield event
        finally:
            self._flush()
            self._held.close()

    def _flush(self) -> None:
        if not self._saver.is_gone:
            for book in self._books:
                book.flush()

    def _flush_durably(self) -> None:
        self._flush()
        self._metrics.sync()

    # -- inside ---------------------------------------------------------------------------------

    def _events(self) -> Iterator[TrainingEvent]:
        training = self.recipe.training
        yield self._started(self._compile())
        if self.step == 0:
            yield from self._saver.save(0)
        while self.step < training.n_steps and not self._agreed(self._is_stop_wanted):
            started_at = self._clock()
            rate = learning_rate_at(self.step + 1, self.recipe)
            try:
                outcome = self._attempt(rate)
            except (RuntimeError, MemoryError) as error:
                if self._ranks.n > 1 or not is_out_of_memory(error):
                    raise
                yield self._out_of_memory()
                return
            if not outcome.is_good:
                yield self._diverged(rate, outcome)
                return
            self.step += 1
            took_s = max(self._clock() - started_at, 1e-9)
            yield Step(
                step=self.step,
                loss=outcome.loss,
                learning_rate=rate,
                gradient_norm=outcome.gradient_norm,
                tokens_per_s=outcome.n_tokens / took_s,
                n_tokens=outcome.n_tokens,
                open_heads=self._begun.techniques.open_heads,
                **self._sizes(),
            )
            if self._threads is not None:
                self._threads.after(self.step, took_s / max(1, outcome.n_tokens))
            if self.step % training.evaluate_every == 0 or self.step == training.n_steps:
                yield from self._evaluate()
            if self._agreed(self._saver.is_due(self.step)):
                yield from self._saver.save(self.step)
            elif self._saver.is_watch_due(self.step):
                yield from self._saver.watch(self.step)
        if self._agreed(not self.is_saved):
            yield from self._saver.save(self.step, is_last=True)
        yield from self._save_somewhere()
        yield self._finished()

    def _sizes(self) -> dict[str, int]:
        """Number of texts in the last step and the maximum length of one, if a warm-up increases them."""
        schedule, found = self.recipe.schedule, {}
        if schedule.batch_warmup_steps:
            found["n_texts"] = texts_at(self.step, self.recipe) * self.recipe.training.accumulate
        if schedule.length_warmup_steps:
            found["text_tokens"] = tokens_at(self.step, self.recipe)
        return found

    def _save_somewhere(self) -> Iterator[TrainingEvent]:
        """Save elsewhere if the run folder failed; if everything fails, keep trying."""
        while not self.is_saved and not self._handed_over:
            self._handed_over = save_elsewhere(self.model, self._begun.folder.folder, self.step)
            if self._handed_over or self._wait is None or self._is_stop_wanted or self._ranks.n > 1:
                return
            self._wait(self._saver.pause_s)
            yield from self._saver.save(self.step, is_last=True)

    def _agreed(self, is_so: bool) -> bool:
        """Whether it is true for any of the processes training together."""
        return self._ranks.any(is_so, self.device)

    def _attempt(self, rate: float) -> _Outcome:
        """One optimiser step, skipped if the loss or the gradient is not a number."""
        recipe, optimizer = self.recipe, self._begun.optimizer
        rng = np.random.default_rng((recipe.training.seed, self.step + 1))
        if recipe.model.dropout or recipe.model.weight_dropout:
            torch.manual_seed((int(rng.integers(2**63)) + self._ranks.index) % 2**63)
        progress = self.step / recipe.training.n_steps
        drawn = batches_of_step(self._begun.data.batches, recipe, self.step + 1)
        batches = [drawn.draw(rng, progress) for _ in range(recipe.training.accumulate)]
        batches = self._begun.techniques.for_training(batches, rng)
        n_scored = max(1, sum(len(batch.labels) for batch in batches))
        self._begun.loss.module.train()
        optimizer.zero_grad()
        with self._begun.techniques.reading(self.step + 1):
            losses = [self._descent.add(batch, n_scored, is_last=batch is batches[-1]) for batch in batches]
        norm = nn.utils.clip_grad_norm_(self._descent.parameters, recipe.training.clip_norm or float("inf"))
        both = torch.stack([self._ranks.mean(torch.stack(losses).sum()), whole_of(norm)])
        loss_value, norm_value = both.tolist()  # the only wait for the device in a step
        is_good = bool(np.isfinite(loss_value) and np.isfinite(norm_value))
        if is_good:
            set_learning_rate(optimizer, rate)
            with self._begun.techniques.stepping(self.step + 1, rate, norm_value):
                optimizer.step()
        return _Outcome(
            loss=loss_value,
            gradient_norm=norm_value,
            n_tokens=sum(batch.n_tokens for batch in batches),
            is_good=is_good,
        )

    def _evaluate(self) -> Iterator[Evaluated]:
        batches = map(self._begun.techniques.for_evaluation, self._begun.data.batches.evaluation())
        with self._autocast():
            found = evaluate(self._begun.loss, batches, self.device, self.step)
        if found is not None:
            yield replace(found, spans=self._begun.techniques.spans)

    def _trial(self) -> Callable[[Way], None]:
        """A step's loss and gradients for one batch, without the step, by the requested method."""
        rng = np.random.default_rng((self.recipe.training.seed, self.step + 1))
        batches = self._begun.techniques.for_training([self._begun.data.batches.draw(rng, 0.0)], rng)
        self._begun.loss.module.train()

        def descend(way: Way) -> None:
            self._descent.way = way
            for batch in batches:
                self._descent.add(batch, max(1, len(batch.labels)), is_last=True)

        return descend

    def _compile(self) -> str:
        """Compile the loss if the recipe asks for it; returns a note on the result."""
        recipe, device, begun = self.recipe, self.device, self._begun
        if self.step >= recipe.training.n_steps or not wants_compiling(recipe, device):
            return ""
        rng = np.random.default_rng((recipe.training.seed, self.step + 1))
        (batch,) = begun.techniques.for_training([begun.data.batches.draw(rng, 0.0)], rng)
        return compile_loss(begun.loss, batch, device, self._autocast, n_processes=self._ranks.n)

    def _started(self, compiling: str) -> Started:
        return Started(
            folder=str(self._begun.folder.folder),
            step=self.step,
            n_steps=self.recipe.training.n_steps,
            n_parameters=count_parameters(self.model.own.config).total,
            device=str(self.device),
            objective=self.recipe.objective.kind,
            note=" ".join(filter(None, self._notes(compiling))),
        )

    def _notes(self, compiling: str) -> tuple[str, ...]:
        norm = NORMS[self.recipe.model.norm]
        begun = self._begun
        return begun.note, begun.techniques.note, norm.warning, self._precision_note(), compiling

    def _precision_note(self) -> str:
        if self._autocast is nullcontext or self.recipe.training.precision != "auto":
            return ""
        return f"Matrix products use bfloat16, which this {self.device.type} device computes in hardware."

    def _diverged(self, rate: float, outcome: _Outcome) -> Finished:
        return Finished(
            step=self.step,
            reason="diverged",
            note=f"Step {self.step + 1} was not taken: its loss is {outcome.loss:.4g} and its gradient norm "
            f"{outcome.gradient_norm:.4g} at the learning rate {rate:.3g}. The checkpoint of step "
            f"{self._saver.last_saved} is "
            "the last good one. Start again with a smaller learning rate, a longer warm-up or a smaller "
            "training.clip_norm.",
        )

    def _out_of_memory(self) -> Finished:
        free_memory(self._begun.optimizer, self.device)
        note = _out_of_memory_note(self.recipe, self.step, self._saver.last_saved, self.device)
        return Finished(step=self.step, reason="out-of-memory", note=note)

    def _finished(self) -> Finished:
        is_done = self.step >= self.recipe.training.n_steps
        note = ""
        if not self.is_saved:
            folder = self._begun.folder.folder
            note = (
                f"The run folder {folder} is gone: it was deleted or moved."
                if self._saver.is_gone
                else f"The last checkpoint could not be written to {folder}."
            )
            note += (
                f" The model is saved in {self._handed_over}, without what a resume needs."
                if self._handed_over
                else " The model is in memory only: save it elsewhere before closing."
            )
        return Finished(step=self.step, reason="done" if is_done else "stopped", note=note)


def free_memory(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Release the memory of a failed step: gradients, and the device's allocator cache."""
    optimizer.zero_grad(set_to_none=True)
    collect_all()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def _out_of_memory_note(recipe: Recipe, step: int, kept: int | None, device: torch.device) -> str:
    """What happened, and a change that would need about half the memory, in words."""
    training = recipe.training
    place = "The computer" if device.type == "cpu" else f"The {device.type} device"
    saved = "Nothing is saved yet." if kept is None else f"The checkpoint of step {kept} is kept."
    what = f"{place} ran out of memory at step {step + 1} with training.batch_size {training.batch_size}."
    if training.batch_size > 1:
        half = training.batch_size // 2
        advice = (
            f"Half as much is needed with training.batch_size {half} and training.accumulate "
            f"{2 * training.accumulate}, which makes steps of the same size"
        )
        if not training.checkpointing:
            advice += "; training.checkpointing = true saves memory too"
    elif not training.checkpointing:
        advice = "training.checkpointing = true needs less, and so does a smaller model.max_tokens"
    else:
        advice = "A smaller model.max_tokens or a smaller model needs less"
    return f"{what} {saved} {advice}. To continue from here, start a run in another folder with start.from."


def evaluate(
    loss_of: SharedLoss, batches: Iterable[Batch], device: torch.device, step: int
) -> Evaluated | None:
    """Losses over held-out batches; None if nothing is scored. The module then returns to training."""
    told, n_scored, n_pairs = [0.0] * 4, 0, 0
    loss_of.module.eval()
    with torch.inference_mode():
        for batch in batches:
            told = [a + b for a, b in zip(told, loss_of.told(batch, device), strict=True)]
            n_scored += len(batch.labels)
            n_pairs += 0 if batch.is_next is None else len(batch.is_next)
    loss_of.module.train()
    loss, n_hits, pair_loss, n_pair_hits = told
    if not n_scored:
        return None
    return Evaluated(
        step=step,
        loss=loss / n_scored,
        accuracy=n_hits / n_scored,
        next_sentence_loss=pair_loss / n_pairs if n_pairs else None,
        next_sentence_accuracy=n_pair_hits / n_pairs if n_pairs else None,
    )

"""The gradients of a batch's loss, by the number of threads that computes them fastest.

How a run on a CPU computes: with how many threads, tried on its own batches, and in which precision.

Small products are over before a second thread has been woken, and a core that is busy with something else
holds up every product that waits for it; threads that each take rows of a batch meet only once a step. What
is chosen changes the last digits of sums, so a run folder keeps it, and a resumed run computes in the same
way. Steps that become slow, as when another program takes a core, have the ways tried again; the folder keeps
from which step on a run computed in which.

Several threads that train one model together: each works out the gradients of its own rows of a batch.
Threads inside the products meet after each of them, some hundred times a step, and while they wait they
either spin, which a busy core beside them turns into hundreds of milliseconds, or sleep, which costs a small
model more than the second thread gains. These meet once a step. Rows are divided as over the processes of
`distributed.py`, and the gradients of the parts are added in their order: equal numbers of workers make equal
steps to the last bit, other numbers differ in the last digits of sums. Each takes its rows in turns where
all at once would keep more than `AT_ONCE_BYTES` for their gradients.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from attnscope.errors import LoadError, SaveError
from attnscope.files import replace_file
from attnscope.models import BatchShape, n_turns_of
from attnscope.nn import core_groups, keeping_to, own_dice, running_kept
from attnscope.outside import read_outside
from attnscope.schemes.norms import NORMS
from attnscope.training.distributed import Ranks, SharedLoss, rows_of
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe

THREADS_NAME = "threads.txt"
PRECISION_NAME = "precision.txt"
N_ROUNDS, MOST_S = 10, 2.0
N_ROUNDS_AGAIN, _MOST_CHANGES = 3, 100
_LEAST_GAIN = 0.9
"""More threads are worth their place when a step takes at most so much of the time with fewer."""
_BY_ROWS, _FROM_STEP = " by rows", " from step "
_SLOWER, _N_RECENT = 1.4, 8
_OF_SLOW_STEPS, _OF_STEPS = 0.1, 0.02
"""The share of the steps that a trial may take the time of: of slow ones, and of others."""
_BFLOAT16_GAIN = 0.8
"""The share of the time of float32 that bfloat16 may take to be called quick."""


class Way(NamedTuple):
    """A number of threads: in each product, or each with its own rows of the batch."""

    n: int = 1
    is_by_rows: bool = False

    @property
    def in_products(self) -> int:
        return 1 if self.is_by_rows else self.n


def ways_up_to(most: int, n_rows: int = 0) -> list[Way]:
    """One thread; then half of `most` and all of them, by rows if there are as many, and in products."""
    several = sorted({max(1, most // 2), most} - {1})
    by_rows = [Way(n, True) for n in several if n <= n_rows]
    return [Way(), *by_rows, *(Way(n) for n in several)]


def kept_ways(folder: Path) -> dict[int, Way]:
    """Methods used by the run in a folder, by the first step of each; empty if none is stored."""
    ways = {}
    try:
        text = read_outside(folder / THREADS_NAME, expected="numbers of threads", max_bytes=4096).decode()
        for line in text.strip().splitlines():
            words, _, first = line.partition(_FROM_STEP)
            n = int(words.removesuffix(_BY_ROWS))
            if n <= 0:
                return {}
            ways[int(first or 1)] = Way(min(n, 1024), words.endswith(_BY_ROWS))
    except (LoadError, ValueError):
        return {}
    return ways


def way_at(ways: Mapping[int, Way], step: int) -> Way | None:
    """The method of a step, counted from 1, past or future; None if none is stored."""
    return ways[max(begun)] if (begun := [first for first in ways if first <= step]) else None


def keep_ways(folder: Path, ways: Mapping[int, Way]) -> None:
    """Store them for a resume."""
    lines = [
        f"{way.n}{_BY_ROWS * way.is_by_rows}{f'{_FROM_STEP}{first}' * (first > 1)}\n"
        for first, way in sorted(ways.items())
    ]
    replace_file(folder / THREADS_NAME, "".join(lines).encode())


def settled_precision(folder: Path, device: torch.device, *, is_older: bool, is_alone: bool) -> str:
    """The choice of `auto` for the run in a folder, or what is fast here: "bfloat16" or "float32".

    Processes that train together must not measure for themselves, and a run that `is_older` was begun by a
    version that kept nothing.
    """
    try:
        text = read_outside(folder / PRECISION_NAME, expected="a precision", max_bytes=16).decode().strip()
    except (LoadError, ValueError):
        text = ""
    if text in ("bfloat16", "float32"):
        return text
    alike = is_older or not is_alone
    is_quick = has_bfloat16_instructions() if alike else has_quick_bfloat16(device)
    return "bfloat16" if is_quick else "float32"


def keep_precision(folder: Path, precision: str) -> None:
    """Store the choice of `auto` for a resume."""
    replace_file(folder / PRECISION_NAME, f"{precision}\n".encode())


def autocast_of(precision: str, device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """The context of a forward pass: bfloat16 products if requested, and with `auto` if fast."""
    wants = precision == "bfloat16" or (precision == "auto" and has_quick_bfloat16(device))
    return partial(torch.autocast, device.type, dtype=torch.bfloat16) if wants else nullcontext


def has_quick_bfloat16(device: torch.device) -> bool:
    """Whether the device has fast bfloat16 products in hardware. Weights and sums stay in float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return has_bfloat16_instructions() and is_product_quicker(
            _product_s(torch.bfloat16), _product_s(torch.float32)
        )
    return False


def has_bfloat16_instructions() -> bool:
    """Whether this CPU has bfloat16 instructions: the criterion of `auto` up to version 0.7."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def has_bfloat16_products() -> bool:
    """Whether torch has bfloat16 kernels for this CPU, fast or not (x86: AVX-512)."""
    return bool(torch._C._has_mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def is_product_quicker(bfloat16_s: float, float32_s: float) -> bool:
    """Whether bfloat16 is faster on a CPU: the instructions alone do not say so.

    A Xeon with avx512_bf16 and no AMX takes 1.9 times as long for a product in bfloat16 (torch 2.13),
    and 1.4 to 1.6 times as long for a step of training.
    """
    return bfloat16_s < _BFLOAT16_GAIN * float32_s


@lru_cache(maxsize=2)
def _product_s(kind: torch.dtype) -> float:
    """Seconds for a product of a small model's size, the best of some; takes about 10 ms, once."""
    x, weight = torch.full((768, 256), 0.5, dtype=kind), torch.full((512, 256), 0.5, dtype=kind)
    took = []
    with torch.inference_mode():
        for _ in range(8):
            begin_s = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            took.append(time.perf_counter() - begin_s)
    return min(took)


def quickest_way(
    work: Callable[[Way], object],
    ways: Sequence[Way],
    *,
    n_rounds: int = N_ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Way:
    """The fastest method, alternating for a few seconds; the first unless another is clearly faster.

    Ways are compared round by round, so that a bad moment of the machine slows them alike. The number that
    torch computes with is as before.
    """
    before = torch.get_num_threads()
    took: dict[Way, list[float]] = {way: [] for way in ways}
    begin_s = clock()
    try:
        for index in range(n_rounds + 1):
            for way in ways:
                torch.set_num_threads(way.in_products)
                start_s = clock()
                work(way)
                if index:  # the first round makes ready what later ones find
                    took[way].append(clock() - start_s)
            if index and clock() - begin_s > MOST_S * len(ways):
                break
    finally:
        torch.set_num_threads(before)
    best = ways[0]
    for way in ways[1:]:
        ratios = [own / other for own, other in zip(took[way], took[best], strict=True)]
        if sorted(ratios)[len(ratios) // 2] < _LEAST_GAIN:
            best = way
    return best


class Lookout:
    """Decides when to try the alternatives again: steps have become slow, or may have recovered.

    A trial takes as long as some steps, so many are made between two that it costs little of their time.
    """

    def __init__(self, ways: Sequence[Way]) -> None:
        self._ways, self._n_changes = ways, 0
        self._begin()

    def ways(self, now: Way) -> list[Way]:
        """The methods to try: the current one, which another must clearly beat, and the others."""
        return [now, *(way for way in self._ways if way != now)]

    def _begin(self) -> None:
        self._recent: deque[float] = deque(maxlen=_N_RECENT)
        self._quickest, self._n_steps = math.inf, 0

    def tried(self, *, has_changed: bool) -> None:
        """Note that the methods were tried; returns whether another one is taken now."""
        self._n_changes += has_changed
        self._begin()

    def is_due(self, token_s: float) -> bool:
        """Whether to try them after one more step, which took so many seconds for each of its tokens."""
        self._n_steps += 1
        self._recent.append(token_s)
        if len(self._recent) < _N_RECENT or self._n_changes >= _MOST_CHANGES:
            return False
        usual = median(self._recent)
        self._quickest = min(self._quickest, usual)
        is_slow = usual > _SLOWER * self._quickest
        share = _OF_SLOW_STEPS if is_slow else _OF_STEPS if self._n_changes else 0.0
        return (1 + N_ROUNDS_AGAIN) * len(self._ways) <= share * self._n_steps


_Part = tuple[Tensor, Sequence[Tensor | None]]


def can_divide(recipe: Recipe, device: torch.device, ranks: Ranks) -> bool:
    """Whether rows of a recipe's batches can be computed in parallel on a CPU, possibly faster.

    Cells that read token by token hardly leave Python, which one thread at a time may run; a drawn gate
    belongs to all rows, and so do a norm over a batch and the balance of experts; and what is computed again
    for its gradient draws from the dice of all threads.
    """
    is_plain = not (recipe.model.is_recurrent or recipe.gates.l0_penalty or recipe.training.checkpointing)
    is_plain = is_plain and not (NORMS[recipe.model.norm].is_of_batch or recipe.model.n_experts)
    return device.type == "cpu" and ranks.n == 1 and is_plain and recipe.training.compile != "on"


def shape_of_batch(batch: Batch, *, has_bfloat16: bool) -> BatchShape:
    """Cost of a batch on a CPU, on paper."""
    texts = [ids for ids in (batch.ids, batch.target_ids) if ids is not None]
    return BatchShape(
        n_sequences=len(batch.ids),
        n_tokens=max(ids.shape[1] for ids in texts),
        n_scored=len(batch.labels),
        has_bfloat16=has_bfloat16,
    )


class RowWorkers:
    """Threads that start on first use; `close` ends them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(
            thread_name_prefix="rows", initializer=torch.set_flush_denormal, initargs=(True,)
        )

    def descend(
        self,
        n: int,
        loss_of: Callable[[Batch], Tensor],
        batch: Batch,
        parameters: Sequence[Tensor],
        n_turns: int = 1,
    ) -> Tensor:
        """Add the gradients of a batch's loss, which is a sum over its rows; returns that loss.

        The batch has at least `n` rows. The caller's thread works out the first part.
        """
        groups = core_groups(n)
        first, *rest = (_cut(part, n_turns) for part in _cut(batch, n))
        own_seed, *seeds = torch.randint(2**62, (n,)).tolist()
        others = [
            self._pool.submit(_gradients, loss_of, turns, parameters, seed, cores)
            for turns, seed, cores in zip(rest, seeds, groups[1:], strict=True)
        ]
        total = torch.zeros(())
        try:
            with own_dice(own_seed), keeping_to(groups[0]):
                for rows in first:
                    loss = loss_of(rows)
                    torch.autograd.backward(loss)
                    total = total + loss.detach()
        finally:
            wait(others)  # nothing may change the weights while another reads them
        for other in others:
            loss, gradients = other.result()
            total = total + loss
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if gradient is not None and parameter.grad is not None:
                    parameter.grad.add_(gradient)
                elif gradient is not None:
                    parameter.grad = gradient.clone()
        return total

    def close(self) -> None:
        """End the threads, which are idle between two calls of `descend`."""
        self._pool.shutdown()


def _cut(batch: Batch, n: int) -> list[Batch]:
    """The batch in `n` parts, fewer where it has fewer rows."""
    n_rows = len(batch.ids)
    n = min(n, n_rows)
    return [rows_of(batch, n_rows * i // n, n_rows * (i + 1) // n) for i in range(n)] if n > 1 else [batch]


def _gradients(
    loss_of: Callable[[Batch], Tensor],
    turns: Sequence[Batch],
    parameters: Sequence[Tensor],
    seed: int,
    cores: set[int],
) -> _Part:
    total = torch.zeros(())
    sums: list[Tensor | None] = [None] * len(parameters)
    with own_dice(seed), keeping_to(cores):
        for rows in turns:
            loss = loss_of(rows)
            total = total + loss.detach()
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
            sums = [_added(own, more) for own, more in zip(sums, found, strict=True)]
    return total, sums


def _added(own: Tensor | None, more: Tensor | None) -> Tensor | None:
    return more if own is None else own if more is None else own + more


class Descent:
    """Accumulates gradients by a method, `way`, that may change between two batches."""

    def __init__(
        self,
        recipe: Recipe,
        loss: SharedLoss,
        device: torch.device,
        ranks: Ranks,
        autocast: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._training, self._smoothing = recipe.training, recipe.objective.label_smoothing
        self._loss, self._device, self._ranks, self._autocast = loss, device, ranks, autocast
        self._can_divide, self._workers = can_divide(recipe, device, ranks), RowWorkers()
        self.module = loss.module
        self.parameters = [p for p in loss.module.parameters() if p.requires_grad]
        self.way = Way()

    @property
    def n_rows(self) -> int:
        """Number of a batch's rows that threads of their own may compute; 0: none."""
        return self._training.batch_size if self._can_divide else 0

    def add(self, batch: Batch, n_scored: int, *, is_last: bool) -> Tensor:
        """Add the gradients of a batch's loss over `n_scored`; returns that loss."""

        def loss_of(rows: Batch) -> Tensor:
            with self._autocast():
                return self._loss(rows, self._smoothing, is_last=is_last) / n_scored

        n = self.way.n if self.way.is_by_rows and len(batch.ids) >= self.way.n else 1
        n_turns = 1
        if self._can_divide:
            shape = shape_of_batch(batch, has_bfloat16=self._autocast is not nullcontext)
            n_turns = n_turns_of(self._loss.module.config, shape)
        if n > 1 or n_turns > 1:
            return self._workers.descend(n, loss_of, batch, self.parameters, n_turns)
        # what is computed again for its gradient must draw the same again: from the dice of torch
        with nullcontext() if self._training.checkpointing else own_dice(int(torch.randint(2**62, ()))):
            loss = loss_of(self._ranks.share(batch).to(self._device))
            torch.autograd.backward(loss)
        return loss.detach()

    def close(self) -> None:
        self._workers.close()


_WORDS = ("can't allocate memory", "not enough memory", "MPS backend out of memory", "Invalid buffer size")
"""Of errors that have no kind of their own: the CPU's, and those of MPS."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or elsewhere."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


class Threads:
    """A run's choice of methods, step by step: they are tried, adopted, and stored in its folder.

    `trial` gives what works out the loss and gradients of one of the run's batches, in the way asked for.
    """

    def __init__(
        self,
        folder: Path,
        descent: Descent,
        trial: Callable[[], Callable[[Way], None]],
        most: int,
    ) -> None:
        self._folder, self._descent, self._trial, self._most = folder, descent, trial, most
        self._to_try = ways_up_to(most, descent.n_rows) if most > 1 else [Way()]
        self._kept = {first: way for first, way in kept_ways(folder).items() if self._can_take(way)}
        self._lookout = Lookout(self._to_try)

    def _can_take(self, way: Way) -> bool:
        return way.in_products <= self._most and not (way.is_by_rows and way.n > self._descent.n_rows)

    def choose(self, step: int) -> Way:
        """Choose and take the method after so many steps: the stored one, else the fastest."""
        way = way_at(self._kept, step + 1)
        if way is None:
            way = self._to_try[0] if len(self._to_try) == 1 else self._quickest(self._to_try, N_ROUNDS)
            if way is None:
                self._descent.way = Way()
                return Way(self._most)  # the first step meets it again, and tells what to do
            self._keep(way, step)
        self._take(way)
        return way

    def after(self, step: int, token_s: float) -> None:
        """After a step that took so many seconds for each token: change the method if that was slow."""
        if step < max(self._kept, default=0):  # resumed before a change: as it went the first time
            self._take(self._kept.get(step + 1, self._descent.way))
        elif len(self._to_try) > 1 and self._lookout.is_due(token_s):
            now = self._descent.way
            way = self._quickest(self._lookout.ways(now), N_ROUNDS_AGAIN) or now
            try:
                if way != now:
                    self._keep(way, step)
            except SaveError:  # unkept, a resumed run would go another way; the disk may take it later
                way = now
            self._take(way)
            self._lookout.tried(has_changed=way != now)

    def _quickest(self, ways: Sequence[Way], n_rounds: int) -> Way | None:
        """The fastest method for steps as they are now; None if memory is too short to try them."""
        try:
            with torch.random.fork_rng(devices=()), running_kept(self._descent.module):
                return quickest_way(self._trial(), ways, n_rounds=n_rounds)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None
        finally:
            for parameter in self._descent.parameters:
                parameter.grad = None

    def _keep(self, way: Way, step: int) -> None:
        """Store that the steps after this one use this method."""
        kept = {first: earlier for first, earlier in self._kept.items() if first <= step}
        kept[step + 1 if kept else 1] = way
        keep_ways(self._folder, kept)
        self._kept = kept

    def _take(self, way: Way) -> None:
        torch.set_num_threads(way.in_products)
        self._descent.way = way

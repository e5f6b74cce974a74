"""Estimates how long a run will take on this machine: its steps and everything else.

The last run of the same recipe is the best witness: its tokens per second (the middle of its last steps)
times the operations of one of its tokens. Runs of other recipes tell little: the operations a second of two
that come with the program differ up to ninefold. Without such a run products of the recipe's own width are
timed, and work on single numbers, which is most of a step where models are narrow: in each of the ways that
a run on a CPU tries (`descent.py`), of which it will keep the quickest. By rows both are timed in as many
threads at once as there would be.

Beside the steps a user waits for the start, for the data, which are made here on a small scale (files by
their bytes), for the trial of the threads, for evaluations and for what is written.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median

import torch

from attnscope.counting import percent
from attnscope.errors import LoadError, UserError
from attnscope.models.cost import WEIGHT_BYTES
from attnscope.nn import ModelConfig, count_parameters, wait_for
from attnscope.outside import parse_object, read_toml_text
from attnscope.records.plans import Pace
from attnscope.schemes.scores import SCORES
from attnscope.training.data import prepare
from attnscope.training.descent import MOST_S, N_ROUNDS, Way, can_divide, ways_up_to
from attnscope.training.distributed import ALONE
from attnscope.training.paper import (
    file_bytes,
    held_out_batches,
    learned_parameters,
    mean_tokens,
    moment_bytes,
    n_checkpoints,
    n_early_looks,
    step_flops,
    tokens_a_step,
    uses_bfloat16,
)
from attnscope.training.recipe import Recipe, parse_recipe
from attnscope.training.run import open_metrics

START_S = 4.0
"""Importing torch and its compiler, which its optimisers want, and building the model."""
EVALUATED_STEPS = 0.4
"""A batch that is evaluated, against a step with one."""
SAVE_S, WRITTEN_BYTES_PER_S, LOOK_S = 0.03, 200e6, 0.02
"""A checkpoint with its state, and a look at one watched sentence."""
_READ_S_A_BYTE = {"text": 3e-6, "pairs": 3e-6}
_FEW_MADE, _MORE_MADE = 8, (72, 328)
NUMBERS_A_FLOP = 2.4
"""Single numbers worked on for each operation, times the model's width: how much of a step is no product.

Measured as the time of a step beyond its products, in units of a GELU, for ten decoders 64 to 768 wide in
float32 and bfloat16 on one CPU thread; with it the time came to within 25 % for all ten.
"""
STEP_OVERHEAD_S = 0.0007
"""Of each block of a step, however small: calls, and drawing the batch."""
TOKEN_OVERHEAD_S, FED_TOKEN_OVERHEAD_S = 0.0003, 0.0009
"""Of each token of a text that recurrent cells read one after another; and where a context is fed to the
next state, so that attention too is computed token by token.
"""
NUMBERS_A_CELL = 55.0
"""Single numbers worked on for each number of an additive score's tanh, forward and backward.

These three are from reverse-bahdanau, 64 and 128 wide, batches of 16 and 64, and english-french-luong, on one
CPU thread; with them the time came to within 25 % for all of them.
"""
_DOUBT_OF_PRODUCTS, _DOUBT_OF_RUNS = 2.0, 1.25
_DOUBT_BESIDE_WORK = 3.0
"""Beside other work: short products get a core to themselves more often than a run does. Of copy, reverse,
pictures and set-anomaly, next to some ten busy processes on two cores, the last two took 1.7 and 2.3 times
what was expected, and 0.7 and 1.3 times in processor time.
"""
_MOST_RUNS, _DEEPEST = 200, 2
_HEAD_BYTES, _TAIL_BYTES = 4096, 65_536
_LEAST_STEPS = 5
_LEAST_ROWS, _MOST_ROWS, _MOST_WIDE = 64, 1024, 2048
_PRODUCT_NUMBERS = 2**28
_AT_A_TIME = 4
_LEAST_S, _LEAST_PROBES, _MOST_PROBES, _KEPT_PROBES = 0.02, 5, 50, 250
_OF_SPEED = {
    "data": ("kind", "task", "similar_lengths"),
    "objective": ("kind", "mask_share", "next_sentence", "corrupted_share", "mean_span"),
    "optimizer": ("kind",),
    "schedule": ("batch_warmup_steps", "batch_start", "length_warmup_steps", "length_start", "length_rise"),
    "training": ("batch_size", "accumulate", "precision", "checkpointing", "compile"),
    "start": ("lora_rank", "prompt_tokens"),
}
"""Keys of a recipe, besides its model and task options, that determine the time of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The speed of an earlier run, and the parts of its recipe that determine it."""

    name: str
    device: str
    cause: str
    flops_per_s: float


def pace_of(recipe: Recipe, device: torch.device, folders: Iterable[Path]) -> Pace:
    """The best estimate for a recipe on a device.

    `folders` are runs, folders of runs, and folders of these; the newest run that fits counts.
    """
    pace = _pace_of_steps(recipe, device, folders)
    return replace(pace, beside=_beside(recipe, device, pace))


def _pace_of_steps(recipe: Recipe, device: torch.device, folders: Iterable[Path]) -> Pace:
    cause = _cause(recipe)
    for run in _earlier_runs(folders):
        if run.device.partition(":")[0] == device.type and run.cause == cause:
            words = f"from the speed of the last run of this recipe, {run.name}"
            return Pace(flops_per_s=run.flops_per_s, doubt=_DOUBT_OF_RUNS, words=words)
    return measured_pace(recipe, device)


def _cause(recipe: Recipe) -> str:
    """Everything that determines the time of a step, as one text."""
    told = {name: [getattr(getattr(recipe, name), key) for key in keys] for name, keys in _OF_SPEED.items()}
    return json.dumps([recipe.model.to_dict(), recipe.task_options, told], sort_keys=True)


def _beside(recipe: Recipe, device: torch.device, pace: Pace) -> tuple[tuple[str, float], ...]:
    training = recipe.training
    step_s = step_flops(recipe, mean_tokens(recipe)) / pace.flops_per_s
    n_evaluations = -(-training.n_steps // training.evaluate_every)
    n_rows = training.batch_size if can_divide(recipe, device, ALONE) else 0
    n_ways = len(ways_up_to(torch.get_num_threads(), n_rows)) if device.type == "cpu" else 1
    trial_s = min((1 + N_ROUNDS) * step_s, MOST_S + step_s) * n_ways if n_ways > 1 else 0.0
    batch_s = EVALUATED_STEPS * step_s / training.accumulate
    return (
        ("start", START_S + trial_s),
        ("data", _data_s(recipe)),
        ("evaluations", n_evaluations * held_out_batches(recipe) * batch_s),
        ("checkpoints and watched sentences", _writing_s(recipe)),
    )


def _writing_s(recipe: Recipe) -> float:
    n_saves = n_checkpoints(recipe)
    n_looks = (n_saves + n_early_looks(recipe)) * len(recipe.watch)
    n_bytes = WEIGHT_BYTES * count_parameters(recipe.model).total
    n_bytes += moment_bytes(recipe) * learned_parameters(recipe)
    return n_saves * (SAVE_S + n_bytes / WRITTEN_BYTES_PER_S) + n_looks * LOOK_S


def _data_s(recipe: Recipe) -> float:
    """Time for making a task's examples, from a few of them; or for reading a file, by its size."""
    if recipe.data.kind != "task":
        return file_bytes(recipe) * _READ_S_A_BYTE.get(recipe.data.kind, _READ_S_A_BYTE["text"])
    n_held_out = recipe.training.evaluation_batches * recipe.training.batch_size
    return _example_s(_Making(recipe)) * (recipe.data.n_examples + n_held_out)


class _Making:
    """Parameters of making a recipe's data; equal if an example takes equally long."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._key = json.dumps([recipe.model.max_tokens, recipe.data.task, recipe.task_options])

    def seconds(self, n: int) -> float:
        """Processor time for `n` examples, in seconds."""
        data = replace(self.recipe.data, n_examples=n)
        training = replace(self.recipe.training, batch_size=_FEW_MADE, evaluation_batches=1)
        start = time.thread_time()
        prepare(replace(self.recipe, data=data, training=training))
        return time.thread_time() - start

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Making) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=64)
def _example_s(making: _Making) -> float:
    """Seconds for one example, from the difference between many and a few; 0 if none can be made."""
    try:
        making.seconds(_FEW_MADE)  # the first imports what it needs
        few_s = making.seconds(_FEW_MADE)
        for n in _MORE_MADE:
            more_s = making.seconds(n) - few_s
            if more_s > few_s:  # else that is lost in what any number of them takes
                break
        return max(0.0, more_s) / (n - _FEW_MADE)
    except UserError:
        return 0.0


def measured_pace(recipe: Recipe, device: torch.device) -> Pace:
    """The fastest method for a run, each estimated from measured times of its parts."""
    if device.type != "cpu":
        return _pace_by(Way(), recipe, device)
    before = torch.get_num_threads()
    n_rows = recipe.training.batch_size if can_divide(recipe, device, ALONE) else 0
    try:
        paces = []
        for way in ways_up_to(before, n_rows):
            torch.set_num_threads(way.in_products)
            paces.append(_pace_by(way, recipe, device))
    finally:
        torch.set_num_threads(before)
    return max(paces, key=lambda pace: pace.flops_per_s)


def _pace_by(way: Way, recipe: Recipe, device: torch.device) -> Pace:
    """Estimate from the rate of products of the model's width, and of elementwise work between them.

    seconds = F / rate + F · NUMBERS_A_FLOP / width · seconds a number + n_blocks · overhead
            + what tokens read one by one and an additive score's tanh add
    """
    model = recipe.model
    width, inner = min(model.d_model, _MOST_WIDE), min(model.d_ff, _MOST_WIDE)
    rate = product_rate(str(device), uses_bfloat16(recipe, device), width, inner, way)
    flops = step_flops(recipe, mean_tokens(recipe))
    between = flops * NUMBERS_A_FLOP / model.d_model * number_s(str(device), way)
    is_beside_work = device.type == "cpu" and _has_other_work()
    doubt = _DOUBT_BESIDE_WORK if is_beside_work else _DOUBT_OF_PRODUCTS
    n_blocks = len(model.site_keys()) + model.encoder_layers + model.decoder_layers
    overhead = n_blocks * STEP_OVERHEAD_S + _cells_s(recipe, device)
    seconds = flops / rate + between + overhead * recipe.training.accumulate
    return Pace(
        flops_per_s=flops / seconds,
        doubt=doubt,
        words=f"from products {width:,} wide, measured just now{_words_of(way)} at {rate / 1e9:,.3g} · 10⁹ "
        f"operations a second; training is assumed to reach {percent(flops / seconds / rate)} of that, "
        f"to within a factor of {doubt:g}{', as other programs are computing just now' * is_beside_work}",
    )


def _has_other_work() -> bool:
    """Whether more processes want to compute than there are processors; False if unknown."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1)


def _cells_s(recipe: Recipe, device: torch.device) -> float:
    """Seconds outside the products of one batch: tokens read one by one, and an additive score's tanh."""
    model, n_tokens = recipe.model, mean_tokens(recipe)
    way = Way(torch.get_num_threads())
    n_numbers = tanh_numbers(model, recipe.training.batch_size, n_tokens)
    cells_s = NUMBERS_A_CELL * n_numbers * number_s(str(device), way) if n_numbers else 0.0
    if not model.is_recurrent:
        return cells_s
    if not (model.feeds_context and model.has_attention):
        return n_tokens * TOKEN_OVERHEAD_S
    return n_tokens * FED_TOKEN_OVERHEAD_S + cells_s


def tanh_numbers(model: ModelConfig, n_texts: int, n_tokens: float) -> float:
    """Number of tanh in one pass of an additive score: query × key × width at each site; else 0.

    Every cell counts, hidden ones too, and both sides of a pair are `n_tokens` long.
    """
    if SCORES[model.score].comparison != "additive":
        return 0.0
    return len(model.site_keys()) * n_texts * n_tokens**2 * model.d_model


def _words_of(way: Way) -> str:
    if way.n == 1:
        return ""
    return f" in {way.n} threads{' side by side, each with rows of its own,' * way.is_by_rows}"


def number_s(device: str, way: Way) -> float:
    """Seconds for GELU of one number; takes a few milliseconds."""
    x = torch.full((_MOST_ROWS, 256), 0.5, device=device)
    return usual_s(lambda: torch.nn.functional.gelu(x), device, way, _probes(device, way)) / x.numel()


def product_rate(device: str, is_bfloat16: bool, width: int, inner: int, way: Way) -> float:
    """Operations a second of products [rows, width] · [width, inner]; takes about 20 ms."""
    dtype = torch.bfloat16 if is_bfloat16 else torch.float32
    n_rows = max(_LEAST_ROWS, min(_MOST_ROWS, _PRODUCT_NUMBERS // (width * inner)))
    a = torch.full((n_rows, width), 0.5, device=device, dtype=dtype)
    b = torch.full((width, inner), 0.5, device=device, dtype=dtype)
    probes = _probes(device, is_bfloat16, width, inner, way)
    return 2.0 * n_rows * width * inner / usual_s(lambda: a @ b, device, way, probes)


@lru_cache(maxsize=64)
def _probes(*_of: object) -> deque[float]:
    """The measured times of one kind of work, newest last: one bad measurement is outvoted by the others."""
    return deque(maxlen=_KEPT_PROBES)


def usual_s(work: Callable[[], object], device: str, way: Way, probes: deque[float]) -> float:
    """The median time of a piece of work, over measurements now and earlier; by rows, of all threads over
    their number.
    """
    spent, n, n_others = 0.0, 0, way.n - 1 if way.is_by_rows else 0
    with torch.inference_mode(), ThreadPoolExecutor(max(1, n_others)) as others:
        work()  # the first may still look for its way
        while n < _LEAST_PROBES or (spent < _LEAST_S and n < _MOST_PROBES):
            start = time.perf_counter()
            at_once = [others.submit(_many, work) for _ in range(n_others)]
            _many(work)
            wait(at_once)
            wait_for(torch.device(device))
            took = (time.perf_counter() - start) / (_AT_A_TIME * (1 + n_others))
            probes.append(took)
            spent, n = spent + took * _AT_A_TIME, n + 1
    return max(median(probes), 1e-9)


def _many(work: Callable[[], object]) -> None:
    """Enough of it that waking threads takes less time than the work."""
    with torch.inference_mode():
        for _ in range(_AT_A_TIME):
            work()


def _earlier_runs(folders: Iterable[Path]) -> Iterator[EarlierRun]:
    """The runs in these folders with enough steps, newest first."""
    found: dict[Path, float] = {}
    waiting = [(folder, 0) for folder in folders]
    for folder, depth in waiting:  # it grows on the way
        try:
            found[folder] = (folder / "metrics.jsonl").stat().st_mtime
        except OSError:
            waiting += [(child, depth + 1) for child in _children(folder) if depth < _DEEPEST]
    newest = sorted(found, key=lambda run: -found[run])[:_MOST_RUNS]
    for run in newest:
        earlier = _read_speed(run, found[run])
        if earlier is not None:
            yield earlier


def _children(folder: Path) -> list[Path]:
    try:
        return [child for child in folder.iterdir() if child.is_dir()]
    except OSError:
        return []


@lru_cache(maxsize=256)
def _read_speed(folder: Path, _changed_at: float) -> EarlierRun | None:
    """The speed of one run from both ends of its metrics; None for anything else, or too short a run."""
    try:
        recipe = parse_recipe(read_toml_text(folder / "recipe.toml"))
        with open_metrics(folder / "metrics.jsonl") as stream:
            head = stream.read(_HEAD_BYTES)
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            tail = stream.read()
    except (OSError, UserError):
        return None
    speeds = [v for e in _events(tail) if isinstance(v := e.get("tokens_per_s"), float | int)]
    device = next((str(e.get("device", "")) for e in _events(head) if e.get("event") == "started"), "")
    if len(speeds) < _LEAST_STEPS or not device:
        return None
    flops = step_flops(recipe, mean_tokens(recipe))
    return EarlierRun(
        name=folder.name,
        device=device,
        cause=_cause(recipe),
        flops_per_s=median(speeds) * flops / tokens_a_step(recipe),
    )


def _events(block: bytes) -> Iterator[dict[str, object]]:
    for line in block.splitlines():
        try:
            yield parse_object(line, what="a line of metrics")
        except LoadError:
            continue

"""How many operations a second this machine makes in training: from earlier runs, or from a measured product.

An earlier run is the better witness: its tokens per second (the middle of its last steps) times the
operations of one of its tokens. Without one, products of the recipe's own width are timed, and work on single
numbers, which is most of a step where models are narrow.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from attnscope.errors import UserError
from attnscope.models.device import wait_for
from attnscope.records.plans import Pace
from attnscope.training.paper import mean_tokens, step_flops, tokens_a_step, uses_bfloat16
from attnscope.training.recipe import Recipe, parse_recipe

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
_DOUBT_OF_PRODUCTS = 2.0
_NEAR, _FAR, _TOO_FAR = 1.25, 1.6, 8.0
_MOST_RUNS = 40
_HEAD_BYTES, _TAIL_BYTES = 4096, 65_536
_LEAST_STEPS = 5
_LEAST_ROWS, _MOST_ROWS, _MOST_WIDE = 64, 1024, 2048
_PRODUCT_NUMBERS = 2**28
_LEAST_S, _MOST_REPEATS = 0.02, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The speed of a run that was: operations of one step, and operations a second."""

    name: str
    device: str
    is_bfloat16: bool
    is_recurrent: bool
    step_flops: float
    flops_per_s: float


def pace_of(recipe: Recipe, device: torch.device, folders: Iterable[Path]) -> Pace:
    """The best guess there is for a recipe on a device."""
    wanted = math.log(step_flops(recipe, mean_tokens(recipe)))
    is_narrow = uses_bfloat16(recipe, device)
    alike = [
        run
        for run in _earlier_runs(folders)
        if run.device.partition(":")[0] == device.type
        and (run.is_bfloat16, run.is_recurrent) == (is_narrow, recipe.model.is_recurrent)
    ]
    if not alike:
        return measured_pace(recipe, device)
    nearest = min(alike, key=lambda run: abs(math.log(run.step_flops) - wanted))
    apart = math.exp(abs(math.log(nearest.step_flops) - wanted))
    if apart >= _TOO_FAR:  # a rate of such other steps says less than products of the right width
        return measured_pace(recipe, device)
    doubt = _NEAR if apart < 1.5 else _FAR
    size = "of this size" if apart < 1.5 else f"whose steps are {apart:,.1f} times as large or small"
    words = f"from the speed of the run {nearest.name}, {size}; give or take a factor of {doubt:g}"
    return Pace(flops_per_s=nearest.flops_per_s, doubt=doubt, words=words)


def measured_pace(recipe: Recipe, device: torch.device) -> Pace:
    """From the rate of products as wide as the model's, and of work on single numbers between them.

    seconds = F / rate + F · NUMBERS_A_FLOP / width · seconds a number + n_blocks · overhead
            + what cells add that read token by token
    """
    model = recipe.model
    width, inner = min(model.d_model, _MOST_WIDE), min(model.d_ff, _MOST_WIDE)
    rate = product_rate(str(device), uses_bfloat16(recipe, device), width, inner)
    flops = step_flops(recipe, mean_tokens(recipe))
    between = flops * NUMBERS_A_FLOP / model.d_model * number_s(str(device))
    n_blocks = len(model.site_keys()) + model.encoder_layers + model.decoder_layers
    overhead = n_blocks * STEP_OVERHEAD_S + _cells_s(recipe, device)
    seconds = flops / rate + between + overhead * recipe.training.accumulate
    return Pace(
        flops_per_s=flops / seconds,
        doubt=_DOUBT_OF_PRODUCTS,
        words=f"from products {width:,} wide, measured just now at {rate / 1e9:,.3g} · 10⁹ operations a "
        f"second; training is taken to reach {flops / seconds / rate:.0%} of that, give or take a factor of "
        f"{_DOUBT_OF_PRODUCTS:g}",
    )


def _cells_s(recipe: Recipe, device: torch.device) -> float:
    """Seconds that reading one batch token by token takes beside its products; 0 for a Transformer."""
    model, n_tokens = recipe.model, mean_tokens(recipe)
    if not model.is_recurrent:
        return 0.0
    if not (model.feeds_context and model.has_attention):
        return n_tokens * TOKEN_OVERHEAD_S
    n_numbers = recipe.training.batch_size * n_tokens**2 * model.d_model if model.score == "additive" else 0
    return n_tokens * FED_TOKEN_OVERHEAD_S + NUMBERS_A_CELL * n_numbers * number_s(str(device))


@lru_cache(maxsize=8)
def number_s(device: str) -> float:
    """Seconds for one number of GELU, the best of some; takes a few milliseconds."""
    x = torch.full((_MOST_ROWS, 256), 0.5, device=device)
    return _best_s(lambda: torch.nn.functional.gelu(x), device) / x.numel()


@lru_cache(maxsize=64)
def product_rate(device: str, is_bfloat16: bool, width: int, inner: int) -> float:
    """Operations a second of products [rows, width] · [width, inner], the best of some; takes about 20 ms."""
    dtype = torch.bfloat16 if is_bfloat16 else torch.float32
    n_rows = max(_LEAST_ROWS, min(_MOST_ROWS, _PRODUCT_NUMBERS // (width * inner)))
    a = torch.full((n_rows, width), 0.5, device=device, dtype=dtype)
    b = torch.full((width, inner), 0.5, device=device, dtype=dtype)
    return 2.0 * n_rows * width * inner / _best_s(lambda: a @ b, device)


def _best_s(work: Callable[[], object], device: str) -> float:
    """The shortest time that a piece of work took, of at least three."""
    best, spent, n = math.inf, 0.0, 0
    with torch.inference_mode():
        while n < 3 or (spent < _LEAST_S and n < _MOST_REPEATS):
            start = time.perf_counter()
            work()
            wait_for(torch.device(device))
            took = time.perf_counter() - start
            best, spent, n = min(best, took), spent + took, n + 1
    return max(best, 1e-9)


def _earlier_runs(folders: Iterable[Path]) -> Iterator[EarlierRun]:
    """The newest runs in these folders that made enough steps."""
    found: dict[Path, float] = {}
    for folder in folders:
        for run in (folder, *_children(folder)):
            try:
                found[run] = (run / "metrics.jsonl").stat().st_mtime
            except OSError:
                continue
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
    """The speed of one run from both ends of its metrics; None for what is no run or too short a one."""
    try:
        recipe = parse_recipe((folder / "recipe.toml").read_text(encoding="utf-8"))
        with (folder / "metrics.jsonl").open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TAIL_BYTES))
            tail = stream.read()
    except (OSError, UnicodeDecodeError, UserError):
        return None
    speeds = [v for e in _events(tail) if isinstance(v := e.get("tokens_per_s"), float | int)]
    device = next((str(e.get("device", "")) for e in _events(head) if e.get("event") == "started"), "")
    if len(speeds) < _LEAST_STEPS or not device:
        return None
    mean = mean_tokens(recipe)
    flops = step_flops(recipe, mean)
    return EarlierRun(
        name=folder.name,
        device=device,
        is_bfloat16=uses_bfloat16(recipe, torch.device(device)),
        is_recurrent=recipe.model.is_recurrent,
        step_flops=flops,
        flops_per_s=float(np.median(speeds)) * flops / tokens_a_step(recipe, mean),
    )


def _events(block: bytes) -> Iterator[dict[str, object]]:
    for line in block.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event

"""Training with the loss compiled by torch.compile, where that pays.

Compiling took 30 to 40 s of a processor for 4 layers of 128, whatever the length of the run (torch 2.13,
g++); steps then took 0.93 of the time in float32 and 0.77 in bfloat16. So `auto` leaves it out on a
processor. On a GPU it compiles long runs of texts that are all as long as each other: not measured yet.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from attnscope.training.distributed import SharedLoss
from attnscope.training.objectives import Batch, loss_sum
from attnscope.training.recipe import Recipe

_COMPILERS = ("c++", "g++", "clang++")
_LONG_RUN = 2000


def wants_compiling(recipe: Recipe, device: torch.device) -> bool:
    """Whether the recipe asks for it, or `auto` finds that it should pay."""
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
    """Let `loss_of` compute with a compiled loss from now on, tried on a batch; a note how that went.

    Where it cannot be done the loss stays as it was. Weights and optimiser are not touched.
    """
    if n_processes > 1:
        return "Not compiled: several processes train together."
    if batch.guide is not None:
        return "Not compiled: a head is guided."
    if device.type == "cpu" and not any(shutil.which(name) for name in _COMPILERS):
        return f"Not compiled: there is no C++ compiler ({', '.join(_COMPILERS)}) on this computer."
    started_at = time.monotonic()
    compiled = torch.compile(loss_sum)
    module = loss_of.module.train()
    try:
        with autocast():
            loss = compiled(module, batch.to(device), 0.0)
        torch.autograd.backward(loss)
    except (RuntimeError, OSError, NotImplementedError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"Not compiled: {lines[0][:200]}"
    finally:
        module.zero_grad(set_to_none=True)
    loss_of.compute = compiled
    return f"Compiled in {time.monotonic() - started_at:.0f} s."

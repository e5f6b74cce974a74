"""A look at held-out data: the loss and the share of right guesses, while a run trains or after it."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial

import torch

from attnscope.records.runs import Evaluated
from attnscope.training.distributed import SharedLoss
from attnscope.training.objectives import Batch

_LEAST_GAIN = 0.8
"""The share of the time of float32 that bfloat16 may take to be called quick."""


def evaluate(
    loss_of: SharedLoss, batches: Iterable[Batch], device: torch.device, step: int
) -> Evaluated | None:
    """Losses over held-out batches; None where nothing in them is scored. The module then trains again."""
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


def autocast_of(precision: str, device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """The context of a forward pass: bfloat16 products where asked for, and by `auto` where quick."""
    wants = precision == "bfloat16" or (precision == "auto" and has_quick_bfloat16(device))
    return partial(torch.autocast, device.type, dtype=torch.bfloat16) if wants else nullcontext


def has_quick_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 numbers in hardware, and so gains. Weights and sums stay in
    float32.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return has_bfloat16_instructions() and is_product_quicker(
            _product_s(torch.bfloat16), _product_s(torch.float32)
        )
    return False


def has_bfloat16_instructions() -> bool:
    """Whether this CPU multiplies bfloat16 numbers by itself: what `auto` asked for up to version 0.7."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def is_product_quicker(bfloat16_s: float, float32_s: float) -> bool:
    """Whether bfloat16 pays on a CPU: the instructions alone do not say so.

    A Xeon with avx512_bf16 and no AMX takes 1.9 times as long for a product in bfloat16 (torch 2.13),
    and 1.4 to 1.6 times as long for a step of training.
    """
    return bfloat16_s < _LEAST_GAIN * float32_s


@lru_cache(maxsize=2)
def _product_s(kind: torch.dtype) -> float:
    """Seconds of a product as a small model has them, the best of some; takes about 10 ms, once."""
    x, weight = torch.full((768, 256), 0.5, dtype=kind), torch.full((512, 256), 0.5, dtype=kind)
    took = []
    with torch.inference_mode():
        for _ in range(8):
            begin_s = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            took.append(time.perf_counter() - begin_s)
    return min(took)

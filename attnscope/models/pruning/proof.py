"""Is the smaller model the gated one? And is it faster? Both are asked of the models themselves.

    symbol   meaning                        shape
    case     one text as a model reads it   whatever the two functions take
    logits   what a model says of a case    [n_tokens, n_answers], float32

The proof compares every logit of the given text and of random ids, which no text would ever hold; of a
model of pictures random pixels stand for these.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from attnscope.errors import SaveError
from attnscope.models.huggingface.proof import example_of
from attnscope.nn.stopping import stop_if_unwanted
from attnscope.records.pruning import MAX_RELATIVE_DIFFERENCE, PruningProof, SpeedChange

N_RANDOM_TEXTS = 3
N_RANDOM_TOKENS = 32
_SEED = 20_170_612
N_TURNS = 15
MAX_SPEED_S = 6.0
"""Turns end early when they have taken so long."""

CaseT = TypeVar("CaseT")
RunCase = Callable[[CaseT], Tensor]


def random_ids(n_pieces: int, *, n_tokens: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Pairs of a source and a target of random ids, the same every time: at most `n_tokens` and shorter."""
    generator = torch.Generator().manual_seed(_SEED)
    n_most = max(1, min(n_tokens, N_RANDOM_TOKENS))

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(n_pieces, (n,), generator=generator).tolist())

    lengths = [max(1, n_most // (1 + i)) for i in range(N_RANDOM_TEXTS)]
    return tuple((ids(n), ids(lengths[-1 - i])) for i, n in enumerate(lengths))


def random_pictures(model: Any) -> list[Tensor]:
    """Pixels of noise, −1…1, as a model of the library transformers reads them; the same every time."""
    shape = example_of(model)["pixel_values"][:1].shape  # [1, channels, height, width]
    generator = torch.Generator().manual_seed(_SEED)
    return [2.0 * torch.rand(shape, generator=generator) - 1.0 for _ in range(N_RANDOM_TEXTS)]


@torch.no_grad()
def prove_equal(gated: RunCase[CaseT], smaller: RunCase[CaseT], cases: Sequence[CaseT]) -> PruningProof:
    """The largest difference over all logits of all cases; what is not a number counts as infinite."""
    difference = largest = 0.0
    n_logits = 0
    for case in cases:
        stop_if_unwanted()
        expected, found = gated(case), smaller(case)
        if expected.shape != found.shape:
            raise ValueError(f"logits {list(found.shape)}, expected {list(expected.shape)}")
        difference = max(difference, _worst((found - expected).abs()))
        largest = max(largest, _worst(expected.abs()))
        n_logits += expected.numel()
    return PruningProof(
        max_difference=difference, largest_logit=largest, n_texts=len(cases), n_logits=n_logits
    )


def require_proof(proof: PruningProof) -> None:
    """Raise SaveError unless the proof is good."""
    if not proof.is_good:
        raise SaveError(
            f"Nothing was saved: the pruned model does not say what the gated one says ({proof.sentence}).",
            expected=f"a difference of at most {MAX_RELATIVE_DIFFERENCE:g} of the largest logit",
            action="Where weights have 16 bits, set gates between 0 and 1 to 0 or 1 and try again.",
        )


@torch.no_grad()
def compare_speed(
    before: RunCase[CaseT],
    after: RunCase[CaseT],
    case: CaseT,
    *,
    n_tokens: int,
    n_turns: int = N_TURNS,
    max_s: float = MAX_SPEED_S,
) -> SpeedChange:
    """Both models on one case, taking turns in changing order, after one pass each to warm up."""
    for run in (before, after):
        _time_ms(run, case)
    pairs: list[tuple[float, float]] = []
    start = time.perf_counter()
    while len(pairs) < n_turns and (len(pairs) < 3 or time.perf_counter() - start < max_s):
        if len(pairs) % 2:
            late = _time_ms(after, case)
            pairs.append((_time_ms(before, case), late))
        else:
            pairs.append((_time_ms(before, case), _time_ms(after, case)))
    low, middle, high = statistics.quantiles([b / a for b, a in pairs], n=4, method="inclusive")
    return SpeedChange(
        before_ms=statistics.median(b for b, _ in pairs),
        after_ms=statistics.median(a for _, a in pairs),
        ratio=middle,
        ratio_low=low,
        ratio_high=high,
        n_turns=len(pairs),
        n_tokens=n_tokens,
    )


def _time_ms(run: RunCase[CaseT], case: CaseT) -> float:
    stop_if_unwanted()
    start = time.perf_counter()
    # Reading one number waits for an accelerator to finish.
    float(run(case).flatten()[-1:].sum())
    return max((time.perf_counter() - start) * 1000.0, 1e-6)


def _worst(values: Tensor) -> float:
    worst = float(values.max()) if values.numel() else 0.0
    return worst if worst == worst else float("inf")

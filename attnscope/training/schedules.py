"""Learning rates, texts of a batch and tokens of a text as functions of the step.

| symbol | meaning                                   |
|--------|-------------------------------------------|
| t      | step about to be made, counted from 1     |
| w      | warm-up steps                             |
| n      | steps of the whole run                    |

What has the size a at the first step and b from step w + 1 on has ⌊a + (b − a) · (t − 1) / w⌋ at step t.
"""

import math
from collections.abc import Callable

from attnscope.training.parts import Recipe, SchedulePart

_N_POINTS = 96
"""Points of a curve that is drawn."""


def learning_rate_at(step: int, recipe: Recipe) -> float:
    """The rate of step `step` (the first is 1) under the recipe's schedule."""
    schedule = recipe.schedule
    if schedule.kind == "noam":
        return schedule.factor * noam(step, d_model=recipe.model.d_model, warmup_steps=schedule.warmup_steps)
    return recipe.optimizer.learning_rate * share_at(step, schedule, n_steps=recipe.training.n_steps)


def texts_at(step: int, recipe: Recipe) -> int:
    """How many texts each batch of step `step` has, under the batch-size warm-up (Brown et al. 2020)."""
    schedule = recipe.schedule
    return _grown(step, schedule.batch_warmup_steps, schedule.batch_start, recipe.training.batch_size)


def tokens_at(step: int, recipe: Recipe) -> int:
    """The most tokens of a text at step `step`, under the length warm-up (Li et al. 2022)."""
    schedule, most = recipe.schedule, recipe.model.max_tokens
    n_warmup = schedule.length_warmup_steps
    step = 1 if schedule.length_rise == "jump" and step <= n_warmup else step
    return _grown(step, n_warmup, schedule.length_start, most)


def _grown(step: int, n_warmup: int, first: int, last: int) -> int:
    return last if step > n_warmup else first + (last - first) * (step - 1) // n_warmup


def texts_until(step: int, recipe: Recipe) -> int:
    """How many texts the first `step` steps read, all batches of each together."""
    n_growing = min(step, recipe.schedule.batch_warmup_steps)
    n_texts = sum(texts_at(k, recipe) for k in range(1, n_growing + 1))
    return (n_texts + (step - n_growing) * recipe.training.batch_size) * recipe.training.accumulate


def growing_steps(recipe: Recipe) -> int:
    """How many steps of the run have smaller batches or shorter texts than the later ones."""
    schedule = recipe.schedule
    return min(recipe.training.n_steps, max(schedule.batch_warmup_steps, schedule.length_warmup_steps))


def drawn_texts(recipe: Recipe) -> tuple[tuple[int, int], ...]:
    """Steps of a run with the texts of their batches; none without a batch-size warm-up."""
    return _drawn(recipe, recipe.schedule.batch_warmup_steps, texts_at)


def drawn_tokens(recipe: Recipe) -> tuple[tuple[int, int], ...]:
    """Steps of a run with the most tokens of their texts; none without a length warm-up."""
    return _drawn(recipe, recipe.schedule.length_warmup_steps, tokens_at)


def _drawn(
    recipe: Recipe, n_warmup: int, value_at: Callable[[int, Recipe], int]
) -> tuple[tuple[int, int], ...]:
    """Steps in equal distances over what grows, and the last, each with its value."""
    if not n_warmup:
        return ()
    n_steps = recipe.training.n_steps
    rising = (1 + k * n_warmup // _N_POINTS for k in range(_N_POINTS))
    steps = sorted({step for step in (1, *rising, n_warmup, n_warmup + 1, n_steps) if step <= n_steps})
    return tuple((step, value_at(step, recipe)) for step in steps)


def drawn_rates(recipe: Recipe) -> tuple[tuple[int, float], ...]:
    """Steps of a run with their learning rates: `_N_POINTS` in equal steps, more where it bends and falls."""
    n_steps, schedule = recipe.training.n_steps, recipe.schedule
    bends = (
        schedule.warmup_steps,
        schedule.warmup_steps + 1,
        n_steps - round(schedule.decay_share * n_steps),
    )
    first = max(1, schedule.warmup_steps)
    steep = (round(first * (n_steps / first) ** (k / 47)) for k in range(48)) if first < n_steps else ()
    even = (1 + round(k * (n_steps - 1) / (_N_POINTS - 1)) for k in range(_N_POINTS))
    steps = sorted({step for step in (*even, *steep, *bends) if 1 <= step <= n_steps})
    return tuple((step, learning_rate_at(step, recipe)) for step in steps)


def follows_length(recipe: Recipe) -> bool:
    """Whether what a step does depends on how long the whole run is."""
    return falls_to_the_end(recipe.schedule) or bool(recipe.data.repeated_share)


def falls_to_the_end(schedule: SchedulePart) -> bool:
    """Whether the rate at a step depends on how long the whole run is."""
    return schedule.kind not in ("noam", "constant")


def noam(step: int, *, d_model: int, warmup_steps: int) -> float:
    """d_model^−0.5 · min(t^−0.5, t·w^−1.5): Vaswani et al. 2017, equation 3.

    Without warm-up only the falling branch is left.
    """
    falling = step**-0.5
    rising = step * warmup_steps**-1.5 if warmup_steps > 0 else math.inf
    return float(d_model**-0.5 * min(falling, rising))


def share_at(step: int, schedule: SchedulePart, *, n_steps: int) -> float:
    """The share of the full rate at `step`: a straight rise to 1 over the warm-up, then the fall."""
    if step <= schedule.warmup_steps:
        return step / schedule.warmup_steps
    done = (step - schedule.warmup_steps) / max(1, n_steps - schedule.warmup_steps)
    done = min(1.0, done)
    match schedule.kind:
        case "constant":
            return 1.0
        case "linear":
            left = 1.0 - done
        case "trapezoid":
            left = min(1.0, max(0, n_steps - step) / (schedule.decay_share * n_steps))
        case "cosine":
            left = 0.5 * (1.0 + math.cos(math.pi * done))
        case kind:
            raise ValueError(f"no schedule {kind!r}")
    return schedule.final_share + (1.0 - schedule.final_share) * left

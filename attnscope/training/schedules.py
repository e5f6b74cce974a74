"""Learning rates as functions of the step.

| symbol | meaning                                   |
|--------|-------------------------------------------|
| t      | step about to be made, counted from 1     |
| w      | warm-up steps                             |
| n      | steps of the whole run                    |
"""

import math

from attnscope.training.parts import Recipe, SchedulePart


def learning_rate_at(step: int, recipe: Recipe) -> float:
    """The rate of step `step` (the first is 1) under the recipe's schedule."""
    schedule = recipe.schedule
    if schedule.kind == "noam":
        return schedule.factor * noam(step, d_model=recipe.model.d_model, warmup_steps=schedule.warmup_steps)
    return recipe.optimizer.learning_rate * share_at(step, schedule, n_steps=recipe.training.n_steps)


def drawn_rates(recipe: Recipe, n_points: int = 96) -> tuple[tuple[int, float], ...]:
    """Steps of a run with their learning rates: `n_points` in equal steps, more where it bends and falls."""
    n_steps, schedule = recipe.training.n_steps, recipe.schedule
    bends = (
        schedule.warmup_steps,
        schedule.warmup_steps + 1,
        n_steps - round(schedule.decay_share * n_steps),
    )
    first = max(1, schedule.warmup_steps)
    steep = (round(first * (n_steps / first) ** (k / 47)) for k in range(48)) if first < n_steps else ()
    even = (1 + round(k * (n_steps - 1) / (n_points - 1)) for k in range(n_points))
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

"""Going on with a run beyond the length it had: its recipe, and what becomes of its learning rate.

schedule           of a run that is made longer
constant, noam     goes on as it was: every step is that of a run that was so long from the start
linear, cosine     the same while the warm-up lasts; after it the rate is that of the new length from the
                   next step on: it jumps, and the note says so
trapezoid          the same until the rate falls, after that as linear
"""

from collections.abc import Mapping
from pathlib import Path

from attnscope.counting import counted
from attnscope.errors import LoadError, UserError
from attnscope.training.parts import Recipe
from attnscope.training.resume_points import require_states
from attnscope.training.run import RunFolder
from attnscope.training.schedules import follows_length, learning_rate_at


def lengthened(overrides: Mapping[str, str], folder: Path, n_steps: int | None) -> dict[str, str]:
    """The overrides with the new length of the run in a folder, which None leaves as it is.

    Raises LoadError where there is no run to go on with, UserError for a length that is reached already.
    """
    run = RunFolder(folder)
    if not run.holds_run:
        raise LoadError(
            f"{folder} holds no run.",
            kind="run",
            expected="a folder with recipe.toml, as training writes it",
            action="Choose the folder that was given to the training.",
        )
    if n_steps is None:
        return dict(overrides)
    step = max((step for step, _ in require_states(run)), default=0)
    if n_steps <= step:
        raise UserError(
            f"The run in {folder} has made {counted(step, 'step')} already.",
            expected=f"more than {step:,}",
            action="Give the length that the whole run is to have.",
        )
    return {**overrides, "training.n_steps": str(n_steps)}


def length_note(earlier: Recipe, recipe: Recipe, step: int) -> str:
    """What it means for a run at `step` that its length has changed; empty where it has not."""
    before, now = earlier.training.n_steps, recipe.training.n_steps
    if before == now:
        return ""
    told = [f"The run is now {now:,} steps long, before {before:,}."]
    is_level = step <= recipe.schedule.warmup_steps or (
        recipe.schedule.kind == "trapezoid"
        and learning_rate_at(step, earlier)
        == learning_rate_at(step, recipe)
        == recipe.optimizer.learning_rate
    )
    if (is_level and not recipe.data.repeated_share) or not follows_length(recipe):
        told.append("Its learning rate goes on as if it had been so from the start.")
        return " ".join(told)
    if recipe.schedule.kind in ("linear", "cosine", "trapezoid"):
        jump = ""
        if 0 < step < now:
            rates = learning_rate_at(step, earlier), learning_rate_at(step + 1, recipe)
            jump = f": it goes from {rates[0]:.3g} at step {step:,} to {rates[1]:.3g} at the next"
        told.append(
            f"Its learning rate is from here on that of the {recipe.schedule.kind} of {now:,} steps{jump}."
        )
    if recipe.data.repeated_share:
        told.append("The pool of repeated words is from here on that of the new length.")
    told.append("A run that was so long from the start would have other weights.")
    return " ".join(told)

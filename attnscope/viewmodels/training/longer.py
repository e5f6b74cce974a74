"""What it means to give a complete run more steps, in words. Must not import Qt.

`training/resume_points.py` does it, and tells the learning rates in numbers once it goes on.
"""

from attnscope.counting import counted
from attnscope.viewmodels.training.recipe_text import recipe_value

DEFAULT_SCHEDULE, DEFAULT_WARMUP = "cosine", 100
"""What a recipe that names none has (`training.parts.SchedulePart`)."""
_STEADY = ("constant", "noam")


def longer_words(recipe: str, step: int, n_more: int) -> str:
    """How long the run of a recipe will be, and what becomes of its learning rate."""
    n_steps = step + n_more
    told = [f"The run will be {counted(n_steps, 'step')} long and go on in its own folder."]
    kind = recipe_value(recipe, "schedule", "kind") or DEFAULT_SCHEDULE
    has_pool = bool(recipe_value(recipe, "data", "repeated_share"))
    warmup = recipe_value(recipe, "schedule", "warmup_steps")
    is_warming = step <= (warmup if isinstance(warmup, int) else DEFAULT_WARMUP)
    if (kind in _STEADY or is_warming) and not has_pool:
        why = f"Its schedule is {kind}" if kind in _STEADY else "Its warm-up is not over"
        told.append(f"{why}: it goes on as if it had been so long from the start.")
        return " ".join(told)
    if kind not in _STEADY:
        told.append(
            f"Its learning rate jumps at step {step + 1:,}: from there on it is that of a {kind} of"
            f" {n_steps:,} steps."
        )
    if has_pool:
        told.append("Repeated words are drawn as in a run of that length.")
    told.append("A run that was so long from the start would end with other weights.")
    return " ".join(told)

"""How a run stands, in words. Must not import Qt."""

from dataclasses import dataclass
from typing import Literal

Phase = Literal[
    "idle", "starting", "running", "pausing", "paused", "stopping", "finished", "diverged", "failed", "opened"
]
ACTIVE: frozenset[Phase] = frozenset({"starting", "running", "pausing", "paused", "stopping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStatus:
    """How the run stands, in words: a short title, and what it means or what to do."""

    phase: Phase
    title: str
    detail: str


IDLE = TrainingStatus(
    phase="idle",
    title="No run yet",
    detail="Choose a recipe and press Start. The curves, and the attention of your sentence, are drawn here "
    "while the model learns.",
)

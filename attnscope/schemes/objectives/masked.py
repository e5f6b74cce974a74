"""Filling in hidden tokens, and optionally predicting whether a second stretch follows (Devlin et al.
2018).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.objectives.objective import Fault, NeededKeys, ObjectiveScheme, RunningText

if TYPE_CHECKING:
    from attnscope.text.examples import Task
    from attnscope.training.batches import BatchMaker
    from attnscope.training.parts import ObjectivePart, Recipe

_OF_PAIRS = {"n_segments": 2, "has_pooler": True, "has_next_sentence": True}


class Masked(ObjectiveScheme):
    name, title, order = "masked", "hidden tokens", 1
    words = "`mask_share` of the tokens are hidden and have to be filled in, with a view of both sides"
    source = "Devlin et al. 2018"
    choices = ("mask_share", "whole_words", "next_sentence")
    forms = ("encoder",)
    over = "masked token"
    presets = "Encoders: fill in hidden tokens"
    hides_tokens = True

    def reads_task(self, task: "Task") -> bool:
        return bool(getattr(task, "tells_next", False))

    def asked_of_model(self, part: "ObjectivePart") -> NeededKeys | None:
        if not part.next_sentence:
            return None
        return NeededKeys(
            keys=_OF_PAIRS,
            cause="objective.next_sentence is true",
            reason="as two segments of text ask for",
            instead="set objective.next_sentence to false",
        )

    def faults(self, recipe: "Recipe") -> Iterator[Fault]:
        data, n_tokens = recipe.data.kind, recipe.model.max_tokens
        if recipe.objective.next_sentence and data not in (*self.data, "task"):
            yield (
                "objective.next_sentence",
                True,
                f'false, since data.kind is "{data}", not "text" or "task"',
            )
        if recipe.objective.next_sentence and n_tokens < 8:
            yield "model.max_tokens", n_tokens, "at least 8, so that two segments fit"

    def task_faults(self, recipe: "Recipe") -> Iterator[Fault]:
        if not recipe.objective.next_sentence:
            told = f'true, since data.task is "{recipe.data.task}": it has pairs of sentences'
            yield "objective.next_sentence", False, told

    def scored_share(self, part: "ObjectivePart", n_tokens: int) -> float:
        return part.mask_share

    def batches(self, part: "ObjectivePart", text: RunningText) -> "BatchMaker":
        return text.stretches() if part.next_sentence else text.windows(part.mask_share)

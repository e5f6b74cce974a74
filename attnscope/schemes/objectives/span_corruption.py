"""Generating the text hidden behind sentinels (Raffel et al. 2020)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.objectives.objective import Fault, ObjectiveScheme, RunningText

if TYPE_CHECKING:
    from attnscope.text.examples import Task
    from attnscope.training.batches import BatchMaker
    from attnscope.training.parts import ObjectivePart, Recipe


class SpanCorruption(ObjectiveScheme):
    name, title, order = "span-corruption", "hidden spans", 3
    words = "spans of a text are hidden behind sentinels, and the decoder writes them"
    source = "Raffel et al. 2020"
    choices = ("corrupted_share", "mean_span")
    forms = ("encoder-decoder",)
    over = "target token"
    presets = "Encoder and decoder: write hidden spans"
    hides_spans = True

    def reads_task(self, task: "Task") -> bool:
        return False

    def faults(self, recipe: "Recipe") -> Iterator[Fault]:
        data, n_tokens = recipe.data.kind, recipe.model.max_tokens
        if data != "text":
            yield (
                "objective.kind",
                self.name,
                f'another objective, since data.kind is "{data}" and not "text"',
            )
        if n_tokens < 8:
            yield "model.max_tokens", n_tokens, "at least 8, so that there is something to hide spans in"

    def batches(self, part: "ObjectivePart", text: RunningText) -> "BatchMaker":
        return text.spans()

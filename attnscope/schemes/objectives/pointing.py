"""Pointing to a token of the text (Vinyals et al. 2015), or to a start and an end (Devlin et al. 2018)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.objectives.objective import Fault, NeededKeys, ObjectiveScheme

if TYPE_CHECKING:
    from attnscope.training.parts import ObjectivePart, Recipe


class Pointing(ObjectiveScheme):
    name, title, order = "pointing", "pointing to tokens", 6
    words = "which token of the text is meant, or where the answer starts and ends: a softmax over its tokens"
    source = "Vinyals et al. 2015; Devlin et al. 2018, section 4.2"
    forms = ("encoder",)
    data = ("spans", "vectors")
    labels = "place"
    over = "place"

    def asked_of_model(self, part: "ObjectivePart") -> NeededKeys:
        return NeededKeys(
            keys={"pooling": "pointer"},
            cause='objective.kind is "pointing"',
            reason="as places in the text ask for",
            instead="choose another objective",
        )

    def faults(self, recipe: "Recipe") -> Iterator[Fault]:
        if recipe.model.n_segments > 1:
            yield "model.n_segments", recipe.model.n_segments, "0 or 1: places are of one text"
        if recipe.objective.label_smoothing:
            told = "0: tokens that cannot be meant have no share"
            yield "objective.label_smoothing", recipe.objective.label_smoothing, told

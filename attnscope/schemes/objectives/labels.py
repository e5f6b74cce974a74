"""Predicting a label of every token, as in tagging parts of speech (Devlin et al. 2018, section 5.3)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.objectives.objective import Fault, NeededKeys, ObjectiveScheme

if TYPE_CHECKING:
    from attnscope.training.parts import ObjectivePart, Recipe


class Labels(ObjectiveScheme):
    name, title, order = "labels", "a label of every token", 5
    words, source = "a label of every token, with a view of both sides", "Devlin et al. 2018"
    forms = ("encoder",)
    data = ("tagged",)
    labels = "token"
    over = "labelled token"

    def asked_of_model(self, part: "ObjectivePart") -> NeededKeys:
        return NeededKeys(
            keys={"pooling": "none"},
            cause='objective.kind is "labels"',
            reason="as labels of single tokens ask for",
            instead='choose the objective "classification"',
        )

    def faults(self, recipe: "Recipe") -> Iterator[Fault]:
        if recipe.model.n_segments > 1:
            yield "model.n_segments", recipe.model.n_segments, "0 or 1: labels are of the tokens of one text"

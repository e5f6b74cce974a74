"""Predicting a label of a text, of two, or of a picture (Yang 2016; Devlin 2018; Dosovitskiy 2021)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.objectives.objective import Fault, ObjectiveScheme

if TYPE_CHECKING:
    from attnscope.training.parts import ObjectivePart, Recipe


class Classification(ObjectiveScheme):
    name, title, order = "classification", "a label of a text", 4
    words = "a label of a whole text, of two texts together, or of a picture"
    source = "Yang et al. 2016; of pictures Dosovitskiy et al. 2021"
    forms = ("encoder", "decoder")
    data = ("labelled", "pictures")
    labels = "text"
    over = "text"

    def faults(self, recipe: "Recipe") -> Iterator[Fault]:
        if recipe.model.pooling == "none":
            yield (
                "model.pooling",
                "none",
                "a way to make one row of all tokens",
            )

    def scored_share(self, part: "ObjectivePart", n_tokens: int) -> float:
        return 1.0 / n_tokens

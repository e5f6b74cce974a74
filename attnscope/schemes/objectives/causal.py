"""Predicting the next token (Radford et al. 2018)."""

from typing import TYPE_CHECKING

from attnscope.schemes.objectives.objective import ObjectiveScheme, RunningText

if TYPE_CHECKING:
    from attnscope.training.batches import BatchMaker
    from attnscope.training.parts import ObjectivePart


class Causal(ObjectiveScheme):
    name, title, order = "causal", "next token", 0
    words, source = "every token predicts the next one", "Radford et al. 2018"
    presets = "Decoders: predict the next token"

    def batches(self, part: "ObjectivePart", text: RunningText) -> "BatchMaker":
        return text.windows(None)

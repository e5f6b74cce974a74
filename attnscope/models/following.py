"""Models that were also asked whether one text follows another (Devlin et al. 2018, section 3.1).

read       <s> first </s> second </s>
segments    0    0    0     1     1
"""

import torch

from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.models.passes import evaluating, ids_tensor
from attnscope.nn.transformer import Transformer


def probability_of_following(model: Model, first: str, second: str) -> float:
    """How probable the model holds it that `second` follows `first`, 0…1.

    Raises UserError for a model that never learned it, and for an empty second text.
    """
    module = model.own.module
    if not isinstance(module, Transformer) or not module.config.has_next_sentence:
        raise UserError(
            f"{model.info.name} never learned whether a text follows another.",
            expected="a masked model trained with objective.next_sentence",
            action="Open such a model for this.",
        )
    inputs = model.encode(first, second)
    if not inputs.segments:
        raise UserError("There is no second text.", expected="two texts", action="Give a second text.")
    with evaluating(module):
        segments = torch.tensor([inputs.segments], device=model.device)
        hidden = module.encode(ids_tensor(module, inputs.source.ids), segments=segments)
        return float(module.next_sentence_logits(hidden).softmax(dim=-1)[0, 1])

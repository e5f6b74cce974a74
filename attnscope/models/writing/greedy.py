"""Writing the likeliest tokens of many texts at once, to count how many of them are right.

| symbol  | meaning                                                   | shape                    |
|---------|-----------------------------------------------------------|--------------------------|
| sources | token ids of texts of one length, without padding         | [n_texts, n_source]      |
| written | what is written, greedily, whether or not it has ended    | [n_texts, n_tokens]      |
| right   | what was to be written; the last is the end token         | [n_texts, n_tokens]      |

Nothing is searched and nothing stops a text: `translating.py` is for people, this is for measuring.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.models.outputs import best_ids
from attnscope.models.passes import evaluating_tokens
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.cancellation import stop_if_unwanted
from attnscope.nn.own_module import OwnModule


@dataclass(frozen=True, slots=True, kw_only=True)
class RightTexts:
    """Of `n_texts`, how many came out as they should to the very end, and the share of their tokens that did.

    The end token counts as one of them; a token is right where it stands at its place.
    """

    n_texts: int
    n_exact: int
    token_share: float


def write_rows(module: OwnModule, sources: Tensor, begin_id: int, n_tokens: int) -> Tensor:
    """The likeliest token after those written so far, `n_tokens` times; the module's texts must have room."""
    with evaluating_tokens(module, sources.numel()):
        memory, cache = module.encode(sources), KeyValueCache()
        written = [sources.new_full((len(sources), 1), begin_id)]
        for _ in range(n_tokens):
            stop_if_unwanted()
            hidden = module.decode(written[-1], memory=memory, cache=cache)
            written.append(best_ids(module.logits(hidden)))
    return torch.cat(written[1:], dim=1)


def count_right(written: Tensor, right: Tensor) -> RightTexts:
    """How much of what was written is right; both are [n_texts, n_tokens]."""
    is_right = written == right
    return RightTexts(
        n_texts=len(right),
        n_exact=int(is_right.all(dim=1).sum()),
        token_share=is_right.cpu().double().mean().item(),
    )

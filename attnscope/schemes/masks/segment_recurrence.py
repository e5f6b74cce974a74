"""Segments with a memory of the one before, Transformer-XL's recurrence (Dai et al. 2019, section 3.2).

Each layer reads what the layer below made of the segment before, without a gradient (`nn/self_masks.py`).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.masks.mask import Mask

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class SegmentRecurrence(Mask):
    name, title, order = "segment-recurrence", "segment recurrence", 70
    words = (
        "its own segment of `segment_tokens` tokens, and the `segment_memory` tokens before it, into which "
        "no gradient goes, as in Transformer-XL"
    )
    source = "Dai et al. 2019"
    choices = ("segment_tokens", "segment_memory")
    recalls = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.segment_tokens >= config.max_tokens:
            yield "segment_tokens", f"less than max_tokens, which is {config.max_tokens}: several make a text"

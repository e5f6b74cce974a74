"""A prefix read in both directions, and the tokens before each token (Liu et al. 2018)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.masks.mask import Mask

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Prefix(Mask):
    name, title, order = "prefix", "prefix", 5
    words, source = "the first `prefix_tokens` tokens, and those up to itself", "Liu et al. 2018"
    seen = "i sees j ≤ i or j < prefix"
    choices = ("prefix_tokens",)
    has_prefix = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.form != "decoder":
            yield "mask", f"another mask, since the form {config.form} reads no prefix"
        if config.prefix_tokens >= config.max_tokens:
            yield "prefix_tokens", f"less than max_tokens, which is {config.max_tokens}"

"""A window and every key at a stride, which any two tokens share within two steps (Child et al. 2019)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.masks.mask import Mask

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Strided(Mask):
    """Both parts of strided attention in one head, called a merged head in the paper."""

    name, title, order = "strided", "strided", 60
    words = "the keys at most `window` tokens away, and every `window`-th key at any distance"
    seen = "|i − j| ≤ window, or a multiple of window"
    source = "Child et al. 2019"
    choices = ("window",)
    is_sparse = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        if config.window < 1:
            yield "window", "at least 1 beside the mask strided"

    def stride(self, config: "ModelConfig") -> int:
        return config.window

"""A window with gaps, which reaches further at the same cost (Beltagy et al. 2020, section 3.1)."""

from typing import TYPE_CHECKING

from attnscope.schemes.masks.mask import Mask

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Dilated(Mask):
    name, title, order = "dilated", "dilated window", 2
    words = "every `dilation`-th of the keys at most `window` · `dilation` tokens away"
    seen = "|i − j| ≤ window·dilation, a multiple of dilation"
    source = "Beltagy et al. 2020"
    choices = ("window", "dilation")
    is_band = True
    is_sparse = True

    def step(self, config: "ModelConfig") -> int:
        return config.dilation

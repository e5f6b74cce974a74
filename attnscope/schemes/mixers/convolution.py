"""Lightweight convolution: fixed weights by distance, shared by the columns of a head (Wu et al. 2019).

From layer to layer its places stand further apart, so that the reach grows as a power (van den Oord et
al. 2016).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.mixers.mixer import Mixer

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Convolution(Mixer):
    name, title, order = "convolution", "dilated convolution", 3
    words = "a mean over fixed places back with the same weights for every text, further apart in each layer"
    source = "Wu et al. 2019; van den Oord et al. 2016"
    formula = "softmax(u)_n for i − j = n · dilation^layer"
    choices = ("kernel_width", "dilation")

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        yield from super().faults(config)
        if config.kernel_width < 2:
            yield "kernel_width", "at least 2: with one place no token would read another"

    def matrices(self, config: "ModelConfig") -> tuple[tuple[int, int], ...]:
        d, n = config.d_model, config.n_heads * config.head_width
        return ((d, 2 * n), (n, d))

    def n_more(self, config: "ModelConfig") -> int:
        return config.n_heads * config.kernel_width

    def n_products(self, config: "ModelConfig") -> int:
        return config.n_heads * config.head_width * config.kernel_width

    def n_kept(self, config: "ModelConfig", n_tokens: int) -> int:
        n = config.n_heads * config.head_width
        return 4 * n + config.kernel_width * n

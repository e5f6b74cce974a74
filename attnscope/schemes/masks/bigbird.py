"""A window, global tokens and random blocks (Zaheer et al. 2020, section 2)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.masks.window_and_global import WindowAndGlobal

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig

_MOST_LINKS = 100_000


class BigBirdMask(WindowAndGlobal):
    name, title, order = "bigbird", "BigBird", 4
    words, source = "a window, global tokens, and random blocks", "Zaheer et al. 2020"
    choices = ("window", "global_tokens", "random_blocks", "mask_block", "mask_seed", "random_links")
    draws_links = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        n_links = -(-config.max_tokens // config.mask_block) * config.random_blocks
        if n_links > _MOST_LINKS:
            yield "mask_block", f"larger blocks: {n_links:,} random links, at most {_MOST_LINKS:,}"

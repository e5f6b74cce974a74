"""A window and global tokens (Beltagy et al. 2020, section 3.1), and random blocks (Zaheer et al. 2020)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes.masks.mask import Mask

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class WindowAndGlobal(Mask):
    name, title, order = "global", "window + global", 3
    words = "a window, and the first `global_tokens` tokens, which see everything"
    seen = "|i − j| ≤ window, or i or j < global"
    source = "Beltagy et al. 2020"
    choices: ClassVar[tuple[str, ...]] = ("window", "global_tokens")
    is_sparse = True

    def n_global(self, config: "ModelConfig") -> int:
        return config.global_tokens


_MOST_LINKS = 100_000


class BigBirdMask(WindowAndGlobal):
    name, title, order = "bigbird", "BigBird", 4
    words, source = "a window, global tokens, and random blocks", "Zaheer et al. 2020"
    seen = "window, global, random blocks"
    choices = ("window", "global_tokens", "random_blocks", "mask_block", "mask_seed", "random_links")
    draws_links = True

    def faults(self, config: "ModelConfig") -> Iterator[tuple[str, str]]:
        n_links = -(-config.max_tokens // config.mask_block) * config.random_blocks
        if n_links > _MOST_LINKS:
            yield "mask_block", f"larger blocks: {n_links:,} random links, at most {_MOST_LINKS:,}"

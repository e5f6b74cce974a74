"""A window, and first tokens that see everything and are seen by all (Beltagy et al. 2020, section 3.1)."""

from typing import TYPE_CHECKING, ClassVar

from attnscope.schemes.masks.mask import Mask

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig


class WindowAndGlobal(Mask):
    name, title, order = "global", "window + global", 3
    words = "a window, and the first `global_tokens` tokens, which see everything"
    source = "Beltagy et al. 2020"
    choices: ClassVar[tuple[str, ...]] = ("window", "global_tokens")
    is_sparse = True

    def n_global(self, config: "ModelConfig") -> int:
        return config.global_tokens

"""Retention: products of queries and keys that decay with distance (Sun et al. 2023, equation 5)."""

from typing import TYPE_CHECKING

from attnscope.schemes.mixers.mixer import Mixer
from attnscope.schemes.positions import POSITIONS

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig

CHUNK = 64
"""Tokens of a recurrence that are laid out pair by pair; before them stands their state."""


class RecurrenceMixer(Mixer):
    """A state S_i = e^(a_i) S_(i−1) + b_i k_i v_iᵀ, read by the query: q_i S_i (`nn/mixing.py`)."""

    reads_turns = True

    def matrices(self, config: "ModelConfig") -> tuple[tuple[int, int], ...]:
        d, n = config.d_model, config.n_heads * config.head_width
        return ((d, 3 * n), (d, n), (n, d))

    def n_products(self, config: "ModelConfig") -> int:
        """The state is written and read once a token: like attention over d_head keys."""
        return 2 * config.n_heads * config.head_width**2

    def n_kept(self, config: "ModelConfig", n_tokens: int) -> int:
        n, width = config.n_heads * config.head_width, config.head_width
        chunk = min(CHUNK, n_tokens)
        turned = 2 * n if POSITIONS[config.position].is_turn else 0
        return 11 * n + turned + config.n_heads * 3 * chunk + 2 * n * width // chunk


class Retention(RecurrenceMixer):
    name, title, order = "retention", "retention", 1
    words = "a state that fades at each token by a fixed γ of the head, read by the query; no softmax"
    source = "Sun et al. 2023"
    choices = ("norm_epsilon",)
    formula = "γ^(i − j) · q_i·k_j / √d_head"

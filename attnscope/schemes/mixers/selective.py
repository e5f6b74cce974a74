"""A selective state space: each token determines what decays and what is written (Gu and Dao 2023, Mamba)."""

from typing import TYPE_CHECKING

from attnscope.schemes.mixers.retention import RecurrenceMixer

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Selective(RecurrenceMixer):
    name, title, order = "selective", "selective state space", 2
    words = "a state of which each token sets by Δ how much fades and how much it writes, as in Mamba"
    source = "Gu and Dao 2023; Dao and Gu 2024"
    formula = "Δ_j · exp(−A (Δ_(j+1) + … + Δ_i)) · q_i·k_j,   and D more where i = j"
    choices = ("kernel_width", "norm_epsilon")

    def matrices(self, config: "ModelConfig") -> tuple[tuple[int, int], ...]:
        return (*super().matrices(config), (config.d_model, config.n_heads))

    def n_more(self, config: "ModelConfig") -> int:
        """A and D of each head, and a short convolution with its biases; Δ has a bias in every model."""
        n = config.n_heads * config.head_width
        return 2 * config.n_heads + 3 * n * (config.kernel_width + 1) + (0 if config.bias else config.n_heads)

    def n_products(self, config: "ModelConfig") -> int:
        return super().n_products(config) + 3 * config.n_heads * config.head_width * config.kernel_width

    def n_kept(self, config: "ModelConfig", n_tokens: int) -> int:
        return super().n_kept(config, n_tokens) + 21 * config.n_heads * config.head_width

"""The cosine of query and key, divided by a temperature."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscope.schemes.scores.score import Score

if TYPE_CHECKING:
    from torch import Tensor

    from attnscope.nn import ModelConfig


class Cosine(Score):
    name, title, order = "cosine", "cosine", 3
    formula, source = "q·k / (‖q‖ ‖k‖ temperature)", "Graves et al. 2014"
    choices = ("temperature",)
    is_bilinear = False
    samples_formula = "s = q·k / (‖q‖ ‖k‖ σ²)"
    on_a_line = (
        "In one dimension a cosine only knows the sign: the query averages its own side of 0. "
        "Choose sines and cosines as features."
    )

    def ranges(self, config: "ModelConfig") -> Iterator[tuple[str, bool, str]]:
        yield "temperature", 1e-3 <= config.temperature <= 1e3, "a number from 0.001 to 1,000"

    def scale(self, config: "ModelConfig") -> float:
        return 1.0 / config.temperature

    def queries(self, q: "Tensor") -> "Tensor":
        from torch.nn.functional import normalize

        return normalize(q, dim=-1)

    def keys(self, k: "Tensor") -> "Tensor":
        return self.queries(k)

    def n_kept(self, n: int, k: int, n_heads: int) -> int:
        return n + k

    def on_samples(self, queries: NDArray[np.float64], keys: NDArray[np.float64]) -> NDArray[np.float64]:
        lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(keys, axis=1)[None, :]
        return np.asarray(super().on_samples(queries, keys) / np.maximum(lengths, 1e-12))

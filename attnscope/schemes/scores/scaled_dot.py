"""The scaled product (Vaswani et al. 2017, equation 1): the plain score of all else."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscope.schemes.scores.dot import Dot

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig


class ScaledDot(Dot):
    name, title, order = "scaled-dot", "scaled dot", 0
    formula, source = "q·k / √d_head", "Vaswani et al. 2017"
    is_plain = True
    samples_formula = "s = q·k / (σ² √d)"

    def scale(self, config: "ModelConfig") -> float:
        return float(config.head_width**-0.5)

    def on_samples(self, queries: NDArray[np.float64], keys: NDArray[np.float64]) -> NDArray[np.float64]:
        return super().on_samples(queries, keys) / math.sqrt(queries.shape[1])

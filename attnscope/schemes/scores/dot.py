"""The plain product (Luong et al. 2015, section 3.1), and the scaled one (Vaswani et al. 2017, equation
1).
"""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnscope.schemes.scores.score import Score

if TYPE_CHECKING:
    from attnscope.nn import ModelConfig


class Dot(Score):
    name, title, order = "dot", "dot", 1
    formula, source = "q·k", "Luong et al. 2015"
    samples_formula = "s = q·k / σ²"
    on_a_line = (
        "The dot product is the Gaussian score without −‖k‖²/2σ²: the longest keys win, not the nearest. "
        "Choose sines and cosines as features, which are all equally long."
    )


class ScaledDot(Dot):
    name, title, order = "scaled-dot", "scaled dot", 0
    formula, source = "q·k / √d_head", "Vaswani et al. 2017"
    is_plain = True
    samples_formula = "s = q·k / (σ² √d)"

    def scale(self, config: "ModelConfig") -> float:
        return float(config.head_width**-0.5)

    def on_samples(self, queries: NDArray[np.float64], keys: NDArray[np.float64]) -> NDArray[np.float64]:
        return super().on_samples(queries, keys) / math.sqrt(queries.shape[1])

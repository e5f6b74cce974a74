"""The hard concrete distribution, of which gates are drawn that are learned: of heads, of offsets.

| symbol      | meaning                                               | shape               |
|-------------|-------------------------------------------------------|---------------------|
| log_alpha   | what is learned, one number for each gate             | [n_gates]           |
| u           | uniform noise, its own for each draw                  | [n_draws, n_gates]  |
| z           | gates, exactly 0 or 1 with a positive chance          | [n_draws, n_gates]  |

s = sigmoid((ln u − ln(1 − u) + log_alpha) / β), z = min(1, max(0, s · (ζ − γ) + γ)), and
P(z ≠ 0) = sigmoid(log_alpha − β · ln(−γ/ζ)) (Louizos, Welling and Kingma 2018, equations 10 to 12, with
their β = 2/3, γ = −0.1, ζ = 1.1).
"""

import math

from torch import Tensor

TEMPERATURE = 2.0 / 3.0
STRETCH = (-0.1, 1.1)
START_LOG_ALPHA = 2.0
"""The gates begin nearly open: P(z ≠ 0) is 0.97."""


def sample_gates(log_alpha: Tensor, u: Tensor) -> Tensor:
    """Gates from noise `u` in 0…1, of its shape [..., n_gates]; equations 10 and 11."""
    s = ((u.logit() + log_alpha) / TEMPERATURE).sigmoid()
    return _stretched(s)


def settled_gates(log_alpha: Tensor) -> Tensor:
    """The gates without noise (equation 13), [n_gates]."""
    return _stretched(log_alpha.sigmoid())


def open_probability(log_alpha: Tensor) -> Tensor:
    """P(z ≠ 0) of each gate, [n_gates]; equation 12."""
    return (log_alpha - TEMPERATURE * math.log(-STRETCH[0] / STRETCH[1])).sigmoid()


def _stretched(s: Tensor) -> Tensor:
    low, high = STRETCH
    return (s * (high - low) + low).clamp(0.0, 1.0)

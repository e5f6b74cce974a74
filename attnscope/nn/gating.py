"""Gates of heads that gradients pass through, and the hard concrete distribution they are drawn from.

| symbol      | meaning                                               | shape               |
|-------------|-------------------------------------------------------|---------------------|
| log_alpha   | what is learned, one number for each head             | [n_heads]           |
| u           | uniform noise, its own for each text                  | [n_texts, n_heads]  |
| z           | gates, exactly 0 or 1 with a positive chance          | [n_texts, n_heads]  |

s = sigmoid((ln u − ln(1 − u) + log_alpha) / β), z = min(1, max(0, s · (ζ − γ) + γ)), and
P(z ≠ 0) = sigmoid(log_alpha − β · ln(−γ/ζ)) (Louizos, Welling and Kingma 2018, equations 10 to 12, with
their β = 2/3, γ = −0.1, ζ = 1.1).
"""

import math
from collections.abc import Mapping

from torch import Tensor

from attnscope.nn.edits import Call, Edits
from attnscope.records.sites import SiteKey

TEMPERATURE = 2.0 / 3.0
STRETCH = (-0.1, 1.1)
START_LOG_ALPHA = 2.0
"""The gates begin nearly open: P(z ≠ 0) is 0.97."""


def sample_gates(log_alpha: Tensor, u: Tensor) -> Tensor:
    """Gates from noise `u` in 0…1, of its shape [..., n_heads]; equations 10 and 11."""
    s = ((u.logit() + log_alpha) / TEMPERATURE).sigmoid()
    return _stretched(s)


def settled_gates(log_alpha: Tensor) -> Tensor:
    """The gates without noise (equation 13), [n_heads]."""
    return _stretched(log_alpha.sigmoid())


def open_probability(log_alpha: Tensor) -> Tensor:
    """P(z ≠ 0) of each head, [n_heads]; equation 12."""
    return (log_alpha - TEMPERATURE * math.log(-STRETCH[0] / STRETCH[1])).sigmoid()


def _stretched(s: Tensor) -> Tensor:
    low, high = STRETCH
    return (s * (high - low) + low).clamp(0.0, 1.0)


class QuietProbe:
    """A probe that does nothing; others start from it."""

    def gate(self, site: SiteKey) -> Tensor | None:
        """No gate."""
        return None

    def edits(self, site: SiteKey) -> Edits | None:
        """No edit."""
        return None

    def wants(self, site: SiteKey) -> bool:
        """No record."""
        return False

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Nothing is kept."""


class TensorGates(QuietProbe):
    """Gates as tensors, [n_heads] or [batch, n_heads], through which gradients pass; and edits of heads."""

    def __init__(self, gates: Mapping[SiteKey, Tensor], edits: Mapping[SiteKey, Edits] | None = None) -> None:
        self._gates = gates
        self._edits = edits or {}

    def gate(self, site: SiteKey) -> Tensor | None:
        return self._gates.get(site)

    def edits(self, site: SiteKey) -> Edits | None:
        """What is changed at the site, or None."""
        return self._edits.get(site)

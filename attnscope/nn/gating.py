"""Gates of heads through which gradients pass."""

from collections.abc import Mapping

from torch import Tensor

from attnscope.nn.edits import Call, Edits
from attnscope.records.sites import SiteKey


class QuietProbe:
    """A probe that does nothing; others start from it."""

    def gate(self, site: SiteKey) -> Tensor | None:
        """No gate."""
        return None

    def edits(self, site: SiteKey) -> Edits | None:
        return None

    def wants(self, site: SiteKey) -> bool:
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

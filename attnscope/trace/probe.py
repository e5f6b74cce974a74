"""Probes: recording what attention did, and multiplying head outputs by gates.

| symbol | meaning                                   | shape                       |
|--------|-------------------------------------------|-----------------------------|
| q      | queries                                   | [n_heads, n_queries, d_head]|
| k, v   | keys and values                           | [n_kv_heads, n_keys, d_head]|
| lse    | log-sum-exp of each row's allowed scores  | [n_heads, n_queries]        |
| out    | weights · v, before the gate              | [n_heads, n_queries, d_head]|
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.nn.masks import MaskRule
from attnscope.records.sites import Gates, Site, SiteKey, check_heads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteRecord:
    """What one site did on one text; the tensors have no batch axis and are never written to."""

    q: Tensor
    k: Tensor
    v: Tensor
    lse: Tensor
    out: Tensor
    rule: MaskRule
    scale: float
    is_training: bool

    @property
    def n_queries(self) -> int:
        """Rows of the map."""
        return self.q.shape[1]

    @property
    def n_keys(self) -> int:
        """Columns of the map."""
        return self.k.shape[1]


class GateProbe:
    """Multiplies head outputs by gates and records nothing.

    With `is_paired` the batch holds two copies of a text: the first is left alone, the second gated,
    so that before and after come from one pass.
    """

    def __init__(self, sites: tuple[Site, ...], gates: Gates, *, is_paired: bool = False) -> None:
        check_heads((head for head, _ in gates.values), sites)
        self._gates: dict[SiteKey, Tensor] = {}
        for site in sites if gates else ():
            gate = _gate_of(site, gates, is_paired)
            if gate is not None:
                self._gates[site.key] = gate

    def gate(self, site: SiteKey) -> Tensor | None:
        """Multipliers [n_heads] or [2, n_heads], or None when every gate of the site is 1."""
        return self._gates.get(site)

    def wants(self, site: SiteKey) -> bool:
        """No site is recorded."""
        return False

    def record(
        self,
        site: SiteKey,
        *,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rule: MaskRule,
        scale: float,
        lse: Tensor,
        out: Tensor,
        is_training: bool,
    ) -> None:
        """Nothing is kept."""


class TraceProbe(GateProbe):
    """Gates head outputs and records every site, or the `wanted` ones; of a batch, its last text."""

    def __init__(
        self,
        sites: tuple[Site, ...],
        gates: Gates,
        *,
        wanted: frozenset[SiteKey] | None = None,
        is_paired: bool = False,
    ) -> None:
        super().__init__(sites, gates, is_paired=is_paired)
        self._wanted = frozenset(site.key for site in sites) if wanted is None else wanted
        self._calls: dict[SiteKey, tuple[Tensor, Tensor, Tensor, Tensor, Tensor, MaskRule, float, bool]] = {}

    @property
    def records(self) -> dict[SiteKey, SiteRecord]:
        """What was recorded; put in order here, since the model waits while `record` runs."""
        return {site: _record_of(*call) for site, call in self._calls.items()}

    def wants(self, site: SiteKey) -> bool:
        """Whether the site is recorded."""
        return site in self._wanted

    def record(
        self,
        site: SiteKey,
        *,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rule: MaskRule,
        scale: float,
        lse: Tensor,
        out: Tensor,
        is_training: bool,
    ) -> None:
        """Keep the call; it concerns the last text of the batch."""
        self._calls[site] = (q, k, v, lse, out, rule, scale, is_training)


def _record_of(
    q: Tensor, k: Tensor, v: Tensor, lse: Tensor, out: Tensor, rule: MaskRule, scale: float, is_training: bool
) -> SiteRecord:
    valid = rule.key_valid
    if valid is not None:
        rule = MaskRule(is_causal=rule.is_causal, key_valid=valid[-1:].clone())
    return SiteRecord(
        q=_last_text(q),
        k=_last_text(k),
        v=_last_text(v),
        lse=_last_text(lse),
        out=_last_text(out),
        rule=rule,
        scale=scale,
        is_training=is_training,
    )


def _last_text(tensor: Tensor) -> Tensor:
    # A view: nothing writes into activations, and queries, keys and values, cut from one product, are
    # all kept anyway. Copying them here would cost more than everything else that tracing does.
    return (tensor.detach() if tensor.requires_grad else tensor)[-1]


def _gate_of(site: Site, gates: Gates, is_paired: bool) -> Tensor | None:
    values = [gates.value(head) for head in site.heads]
    if all(value == 1.0 for value in values):
        return None
    gated = torch.tensor(values, dtype=torch.float32)
    return torch.stack((torch.ones_like(gated), gated)) if is_paired else gated

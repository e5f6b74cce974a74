"""Attention calls of one pass, kept with their weights and values.

| symbol | meaning                                     | shape                  |
|--------|---------------------------------------------|------------------------|
| a      | weights, 0 where the mask forbids           | [n_heads, n_q, n_k]    |
| v      | values, those of grouped heads once a head  | [n_heads, n_k, d_head] |
| out    | a · v, before any gate                      | [1, n_heads, n_q, d]   |
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.analysis.model_adapter import TensorGates
from attnscope.nn.edits import Call, Edits
from attnscope.nn.precision import exact
from attnscope.nn.scores import scores
from attnscope.records.sites import SiteKey


@dataclass(frozen=True, slots=True, eq=False)
class WatchedCall:
    """One attention call, for a batch of one; `out` is part of the graph."""

    call: Call
    lse: Tensor
    out: Tensor

    def weights(self) -> Tensor:
        """The weights, float64."""
        call = self.call
        with torch.no_grad():
            s = scores(call.q.detach(), call.k.detach(), rule=call.rule, score=call.score)
            return exact((s - self.lse[..., None]).exp()[0].nan_to_num(nan=0.0))

    def values(self) -> Tensor:
        """The values as each head reads them, float64."""
        v = self.call.v.detach()[0]
        return exact(v.repeat_interleave(self.out.shape[1] // len(v), dim=0))


class WatchedCalls(TensorGates):
    """Keeps every attention call, graph and all."""

    def __init__(self, gates: Mapping[SiteKey, Tensor], edits: Mapping[SiteKey, Edits] | None = None) -> None:
        super().__init__(gates, edits)
        self.seen: dict[SiteKey, WatchedCall] = {}

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """See `Probe`."""
        # Where the model's weights are frozen, the graph begins here.
        self.seen[site] = WatchedCall(call, lse, out if out.requires_grad else out.requires_grad_())

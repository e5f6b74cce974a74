"""What one site did on one text, and how it is made of the calls that a probe saw.

| symbol | meaning                                          | shape                        |
|--------|--------------------------------------------------|------------------------------|
| q      | queries                                          | [n_heads, n_queries, d_head] |
| k      | keys                                             | [n_kv_heads, n_keys, d_head] |
| v      | values, kept on request                          | [n_kv_heads, n_keys, d_value]|
| lse    | log-sum-exp of each row's allowed scores         | [n_heads, n_queries]         |
| out    | weights · v before the gate, kept on request     | [n_heads, n_queries, d_value]|
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.nn.edits import Call
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import ScoreRule
from attnscope.records.interventions import Interventions
from attnscope.records.models import Recorded
from attnscope.records.outputs import Output
from attnscope.records.sites import Gates, Site, SiteKey
from attnscope.records.tokens import Tokens
from attnscope.trace.check import SiteProof, SiteTensors, prove


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteRecord(SiteTensors):
    """What one site did on one text; the tensors have no batch axis and are never written to.

    `k` may have one row for each head where the heads of a group were changed apart. `proof` is what
    was checked against the model's own output while its values were at hand.
    """

    proof: SiteProof

    @property
    def n_queries(self) -> int:
        """Rows of the map."""
        return self.q.shape[1]

    @property
    def n_keys(self) -> int:
        """Columns of the map."""
        return self.k.shape[1]

    @property
    def n_bytes(self) -> int:
        """Memory that the record keeps; tables that layers share are counted for each."""
        tensors = [self.q, self.k, self.lse, self.v, self.out, self.rule.key_valid]
        tensors += [self.score.sinks, self.score.vector]
        tensors += [] if self.score.bias is None else list(self.score.bias.tensors().values())
        tensors += [] if self.rule.pattern is None else list(self.rule.pattern.tensors().values())
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextRecord:
    """What all sites did on one text: a trace, as it stands in a file.

    `recorded` says where attention without a model comes from, and is None for a model's. `said` is what the
    model made of the text, where a file kept it: the last of its predictions.
    """

    sites: tuple[Site, ...]
    gates: Gates
    source: Tokens
    target: Tokens | None
    records: Mapping[SiteKey, SiteRecord]
    logits: Tensor | None = None
    interventions: Interventions = ()
    recorded: Recorded | None = None
    said: Output | None = None

    def __post_init__(self) -> None:
        missing = [site.key for site in self.sites if site.key not in self.records]
        if missing:
            raise ValueError(f"no record of the sites {missing}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seen:
    """One call as a probe saw it, cut to the last text of its batch."""

    site: SiteKey
    q: Tensor
    k: Tensor
    v: Tensor
    lse: Tensor
    out: Tensor
    rule: MaskRule
    score: ScoreRule
    is_training: bool

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for calls that can be proved together."""
        score = self.score
        biases = () if score.bias is None else tuple(score.bias.tensors().values())
        tensors = map(id, (score.sinks, score.vector, *biases))
        numbers = (score.scale, score.softcap, score.is_kernel, *tensors)
        shapes = (self.q.shape, self.k.shape, self.v.shape, self.q.dtype, self.lse.dtype)
        return (*shapes, *numbers, self.rule.kind, self.site[0] == "decoder", self.is_training)


class Pending:
    """Calls that wait to become records; those that are alike are copied and proved in one go."""

    def __init__(self, *, keep_values: bool) -> None:
        self._keep_values = keep_values
        self._seen: list[_Seen] = []

    def add(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Take one call; its last text counts."""
        q, k, v, lse, out = (_last_text(tensor) for tensor in (call.q, call.k, call.v, lse, out))
        self._seen.append(
            _Seen(
                site=site,
                q=q,
                k=k,
                v=v,
                lse=lse,
                out=out,
                rule=call.rule.last_text(),
                score=call.score.last_text(),
                is_training=is_training,
            )
        )

    def finish(self) -> dict[SiteKey, SiteRecord]:
        """Every call taken as a record, in their order; nothing waits afterwards."""
        seen, self._seen = self._seen, []
        groups: dict[tuple[object, ...], list[_Seen]] = {}
        for call in seen:
            groups.setdefault(call.kind, []).append(call)
        found: dict[SiteKey, SiteRecord] = {}
        for group in groups.values():
            found |= _records_of(group, keep_values=self._keep_values)
        return {call.site: found[call.site] for call in seen}


def _records_of(group: list[_Seen], *, keep_values: bool) -> dict[SiteKey, SiteRecord]:
    """Records that hold no more memory than their own: queries and keys are often cut from one product."""
    first = group[0]
    q, k, lse = (torch.stack([getattr(call, name) for call in group]) for name in ("q", "k", "lse"))
    v, out = (tuple(getattr(call, name) for call in group) for name in ("v", "out"))  # only looked at
    sites = SiteTensors(q=q, k=k, lse=lse, rule=first.rule, score=first.score)
    is_causal_site = first.site[0] == "decoder"
    proofs = prove(sites, is_causal_site=is_causal_site, is_training=first.is_training, seen=(v, out))
    return {
        call.site: SiteRecord(
            q=q[index],
            k=k[index],
            lse=lse[index],
            rule=call.rule,
            score=call.score,
            proof=proofs[index],
            v=v[index].clone() if keep_values else None,
            out=out[index].clone() if keep_values else None,
        )
        for index, call in enumerate(group)
    }


def _last_text(tensor: Tensor) -> Tensor:
    return (tensor.detach() if tensor.requires_grad else tensor)[-1]

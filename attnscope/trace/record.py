"""What one site did on one text, and how it is made of the calls that a probe saw.

| symbol | meaning                                          | shape                        |
|--------|--------------------------------------------------|------------------------------|
| q      | queries                                          | [n_heads, n_queries, d_head] |
| k      | keys                                             | [n_kv_heads, n_keys, d_head] |
| v      | values, kept on request                          | [n_kv_heads, n_keys, d_value]|
| lse    | log-sum-exp of each row's allowed scores         | [n_heads, n_queries]         |
| out    | weights · v before the gate, kept on request     | [n_heads, n_queries, d_value]|

Probes: recording what attention did, changing single heads, multiplying head outputs by gates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter, itemgetter

import torch
from torch import Tensor

from attnscope.nn.edits import Call, Edits
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import ScoreRule
from attnscope.records.interventions import Interventions
from attnscope.records.models import Recorded
from attnscope.records.outputs import Output
from attnscope.records.sites import Gates, Site, SiteKey, check_heads
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
        return self.q.shape[1]

    @property
    def n_keys(self) -> int:
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


PENDING_CELLS = 1_000_000
"""Sites with maps up to this size are put in order together after the pass: their cost is that of calls."""


class GateProbe:
    """Multiplies head outputs by gates, applies edits, and records nothing.

    With `is_paired` the batch holds two copies of a text: the first is left alone, the second gated
    and edited, so that before and after come from one pass.
    """

    def __init__(
        self,
        sites: tuple[Site, ...],
        gates: Gates,
        *,
        is_paired: bool = False,
        edits: Mapping[SiteKey, Edits] | None = None,
    ) -> None:
        check_heads(map(itemgetter(0), gates.values), sites)
        self._edits = dict(edits or {})
        self._gates: dict[SiteKey, Tensor] = {}
        for site in sites if gates else ():
            gate = _gate_of(site, gates, is_paired)
            if gate is not None:
                self._gates[site.key] = gate

    def gate(self, site: SiteKey) -> Tensor | None:
        """Multipliers [n_heads] or [2, n_heads], or None when every gate of the site is 1."""
        return self._gates.get(site)

    def edits(self, site: SiteKey) -> Edits | None:
        """What is changed at the site, or None."""
        return self._edits.get(site)

    def wants(self, site: SiteKey) -> bool:
        return False

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Nothing is kept."""


class TraceProbe(GateProbe):
    """Gates head outputs and records every site, or the `wanted` ones; of a batch, its last text.

    Values and outputs are let go once they have proved the weights, unless `keep_values`. Of long texts
    `hear` gets what is recorded, after each site.
    """

    def __init__(
        self,
        sites: tuple[Site, ...],
        gates: Gates,
        *,
        wanted: frozenset[SiteKey] | None = None,
        is_paired: bool = False,
        edits: Mapping[SiteKey, Edits] | None = None,
        keep_values: bool = False,
        hear: Callable[[Mapping[SiteKey, SiteRecord]], object] = lambda _records: None,
    ) -> None:
        super().__init__(sites, gates, is_paired=is_paired, edits=edits)
        self._hear = hear
        self._wanted = frozenset(map(attrgetter("key"), sites)) if wanted is None else wanted
        self._pending = Pending(keep_values=keep_values)
        self._records: dict[SiteKey, SiteRecord] = {}

    @property
    def records(self) -> dict[SiteKey, SiteRecord]:
        """What was recorded so far, in the order of the calls."""
        self._records |= self._pending.finish()
        return self._records

    def keep(self, records: Mapping[SiteKey, SiteRecord]) -> None:
        """Take records that were made before, of the wanted sites."""
        self._records |= {site: record for site, record in records.items() if self.wants(site)}

    def wants(self, site: SiteKey) -> bool:
        return site in self._wanted

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep one call of a wanted site; a site that is called again is recorded anew."""
        self._pending.add(site, call, lse=lse, out=out, is_training=is_training)
        if call.q.shape[1] * call.q.shape[2] * call.k.shape[2] > PENDING_CELLS:
            self._records |= self._pending.finish()
            if not torch.is_grad_enabled():
                stop_if_unwanted()
            self._hear(self._records)


def _gate_of(site: Site, gates: Gates, is_paired: bool) -> Tensor | None:
    values = [gates.value(head) for head in site.heads]
    if all(value == 1.0 for value in values):
        return None
    gated = torch.tensor(values, dtype=torch.float32)
    return torch.stack((torch.ones_like(gated), gated)) if is_paired else gated

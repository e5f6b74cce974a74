"""Calls that wrote one text piece by piece with kept keys and values, joined to the call of a whole pass.

A decoder reads its prompt in one call (9 × 9) and each further token in a call of its own (1 × 10, 1 × 11,
…). Below each other these are the rows of one map: a query of an earlier call did not see keys that came
after it. Cross attention meanwhile looks at the same keys with the new queries.

They are joined only where it is certain: in one module, with the same heads and scale, each call's keys begin
with those of the call before, and it brings as many new keys as queries. Modules must go in step; whatever
does not leaves every call as it is.

| symbol  | meaning                                  | shape                        |
|---------|------------------------------------------|------------------------------|
| q, lse  | of all calls, one below the other        | [n_heads, n_queries, …]      |
| k       | the keys of the last call                | [n_kv_heads, n_keys, d_head] |
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.huggingface.rule_finding import DENSE_CELLS, find_rule
from attnscope.models.recording.placing import RecordedCall
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import Bias, DenseBias, RelativeBias
from attnscope.trace.check import MAX_CELLS
from attnscope.trace.record import SiteRecord
from attnscope.trace.weights import site_weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Chain:
    """Calls of one module, each of which goes on where the one before ended."""

    calls: tuple[RecordedCall, ...]

    @property
    def is_growing(self) -> bool:
        """Whether its keys become more: self-attention with kept keys."""
        return len(self.calls) > 1 and self.calls[-1].record.n_keys > self.calls[0].record.n_keys

    def takes(self, call: RecordedCall) -> bool:
        """Whether a call goes on where the last one ended."""
        last, first = self.calls[-1].record, self.calls[0].record
        record = call.record
        if not _is_alike(last, record) or call.extra:
            return False
        n_new = record.n_keys - last.n_keys
        if n_new == 0:
            return not self.is_growing and _begins_with(record.k, last.k)
        was_growing = self.is_growing or len(self.calls) == 1
        is_whole = first.n_queries == first.n_keys  # otherwise earlier queries were not recorded
        return was_growing and is_whole and n_new == record.n_queries and _begins_with(record.k, last.k)

    def goes_with(self, other: "_Chain") -> bool:
        """Whether both made the same steps in turns."""
        steps, others = ([call.record.n_queries for call in chain.calls] for chain in (self, other))
        if steps != others:
            return False
        turns = [(a.number, b.number) for a, b in zip(self.calls, other.calls, strict=True)]
        in_order = [number for turn in turns for number in turn]
        in_other = [number for turn in turns for number in turn[::-1]]
        return in_order == sorted(in_order) or in_other == sorted(in_other)


def join_calls(calls: Sequence[RecordedCall]) -> tuple[RecordedCall, ...]:
    """The calls, those of a text written piece by piece joined; as they are where that is not certain.

    Raises UserError for masks or numbers added to scores that are too many to be kept cell by cell.
    """
    chains = _chains_of(calls)
    if chains is None:
        return tuple(calls)
    lead = next((chain for chain in chains if chain.is_growing), None)
    long = [chain for chain in chains if len(chain.calls) > 1]
    if lead is None or not all(chain is lead or chain.goes_with(lead) for chain in long):
        return tuple(calls)
    if any(_is_still(chain) for chain in long):
        return tuple(calls)
    modules = {chain.calls[0].module for chain in long}
    if any(len(chain.calls) == 1 and chain.calls[0].module in modules for chain in chains):
        return tuple(calls)
    return tuple(_joined(chain) for chain in chains)


def _chains_of(calls: Sequence[RecordedCall]) -> list[_Chain] | None:
    """The chains in the order of their first calls; None where a call could go on with several."""
    chains: list[_Chain] = []
    of_module: defaultdict[str, list[int]] = defaultdict(list)
    for call in calls:
        places = of_module[call.module] if call.module else []
        fitting = [place for place in places if chains[place].takes(call)]
        if len(fitting) > 1:
            return None
        if fitting:
            chains[fitting[0]] = _Chain(calls=(*chains[fitting[0]].calls, call))
        else:
            of_module[call.module].append(len(chains))
            chains.append(_Chain(calls=(call,)))
    return chains


def _is_still(chain: _Chain) -> bool:
    """Whether the same queries looked at the same keys again: no new tokens."""
    first = chain.calls[0].record
    return not chain.is_growing and all(torch.equal(call.record.q, first.q) for call in chain.calls)


def _is_alike(one: SiteRecord, other: SiteRecord) -> bool:
    shapes = [(r.q.shape[0], r.k.shape[0], r.k.shape[2], r.k.dtype, r.k.device) for r in (one, other)]
    return shapes[0] == shapes[1] and one.score.scale == other.score.scale


def _begins_with(keys: Tensor, former: Tensor) -> bool:
    """Whether keys begin with former ones, bit for bit or up to the rounding of another product."""
    own = keys[:, : former.shape[1]]
    if not bool(former.any()):
        return False  # keys of nothing tell nothing, nor do those of a softmax, which have no width
    if own.data_ptr() == former.data_ptr() and own.stride() == former.stride():
        return True
    if torch.equal(own, former):
        return True
    n_roundings = 4.0 if former.dtype.itemsize < 4 else 16.0
    bound = n_roundings * torch.finfo(former.dtype).eps * float(former.abs().max())
    return float((own - former).abs().max()) <= bound


def _joined(chain: _Chain) -> RecordedCall:
    first, last = chain.calls[0], chain.calls[-1]
    if first is last:
        return first
    records = [call.record for call in chain.calls]
    record = replace(
        last.record,
        q=torch.cat([record.q for record in records], dim=1),
        lse=torch.cat([record.lse for record in records], dim=1),
        rule=_joined_rule(records, is_growing=chain.is_growing),
        score=replace(last.record.score, bias=_joined_bias(chain)),
    )
    return replace(first, record=_proved(record, records), is_self=chain.is_growing, n_steps=len(chain.calls))


def _proved(record: SiteRecord, parts: Sequence[SiteRecord]) -> SiteRecord:
    """The record with the worst of its parts' proofs, and its own rows summed once more."""
    step = max(1, -(-record.q.shape[0] * record.n_queries * record.n_keys // MAX_CELLS))
    rows = slice((record.n_queries - 1) % step, None, step)
    sums = site_weights(record, rows=rows).nan_to_num(nan=0.0).sum(dim=-1)
    error = torch.where(record.lse[:, rows].isneginf(), 0.0, (sums - 1.0).abs()).max()
    proofs = [part.proof for part in parts]
    proof = replace(
        proofs[0],
        row_sum_error=max(float(error), *(proof.row_sum_error for proof in proofs)),
        forbidden_weight=max(proof.forbidden_weight for proof in proofs),
        output_error=max(proof.output_error for proof in proofs),
        n_rows=sum(proof.n_rows for proof in proofs),
        n_queries=sum(proof.n_queries for proof in proofs),
        is_training=any(proof.is_training for proof in proofs),
    )
    return replace(record, proof=proof)


def _joined_rule(parts: Sequence[SiteRecord], *, is_growing: bool) -> MaskRule:
    """What every call allowed, as rows of one map; keys that came after a call are not allowed to it."""
    n_keys = parts[-1].n_keys
    n_queries = sum(part.n_queries for part in parts)
    if is_growing and all(_is_causal(part) for part in parts):
        return MaskRule(is_causal=True)
    if not is_growing and all(part.rule.is_empty for part in parts):
        return MaskRule()

    def cells(rows: slice) -> Tensor:
        found, start = [], 0
        for part in parts:
            own = slice(max(0, rows.start - start), min(part.n_queries, rows.stop - start))
            if own.start < own.stop:
                allowed = part.rule.allowed(part.n_queries, part.n_keys, own, device=part.q.device)
                found.append(F.pad(allowed, (0, n_keys - part.n_keys)))
            start += part.n_queries
        return _below(found)

    return find_rule(cells, n_queries, n_keys, has_padding=True)


def _is_causal(part: SiteRecord) -> bool:
    """Whether each query of a call sees just the keys up to its own."""
    if part.rule.key_valid is not None or not part.rule.is_simple:
        return False
    return part.rule.is_causal or part.n_queries == 1


def _joined_bias(chain: _Chain) -> Bias | None:
    """What was added to the scores of every call; 0 for keys that came after it."""
    parts = [call.record for call in chain.calls]
    biases = [part.score.bias for part in parts]
    if all(bias is None for bias in biases):
        return None
    n_queries, n_keys = sum(part.n_queries for part in parts), parts[-1].n_keys
    by_distance = _by_distance(parts) if chain.is_growing else None
    if by_distance is not None:
        return by_distance
    n_heads = parts[0].q.shape[0]
    if n_heads * n_queries * n_keys > DENSE_CELLS:
        raise UserError(
            f"{chain.calls[0].name} adds a number of its own to each of {n_queries} × {n_keys} scores, "
            f"written in {len(parts)} calls.",
            expected=f"at most {DENSE_CELLS:,} numbers for one text",
            action="Record the writing of a shorter text, or one pass over the whole text.",
        )
    everything = slice(None)
    found = []
    for part, bias in zip(parts, biases, strict=True):
        if bias is None:
            cells = part.lse.new_zeros(1, 1, part.n_queries, part.n_keys)
        else:
            cells = bias.part(part.n_queries, part.n_keys, everything, everything)
            cells = cells.expand(-1, -1, part.n_queries, part.n_keys)
        found.append(F.pad(cells, (0, n_keys - part.n_keys)))
    return DenseBias(cells=_below(found))


def _by_distance(parts: Sequence[SiteRecord]) -> RelativeBias | None:
    """One number for each head and distance, where the calls agree on it."""
    n = parts[-1].n_keys
    values: Tensor | None = None
    is_known = torch.zeros(2 * n - 1, dtype=torch.bool)
    for part in parts:
        bias = part.score.bias
        if not isinstance(bias, RelativeBias):
            return None
        if values is None:
            values = bias.values.new_zeros(bias.values.shape[0], 2 * n - 1)
        if values.shape[0] != bias.values.shape[0]:
            return None
        place = slice(n - part.n_keys, n + part.n_queries - 1)
        both = is_known[place].to(values.device)
        if not torch.equal(values[:, place][:, both], bias.values[:, both]):
            return None
        values[:, place], is_known[place] = bias.values, True
    return None if values is None else RelativeBias(values=values)


def _below(parts: Sequence[Tensor]) -> Tensor:
    """Cells [1, n_heads or 1, rows, n_keys] one below the other."""
    n_heads = max(part.shape[1] for part in parts)
    return torch.cat([part.expand(-1, n_heads, -1, -1) for part in parts], dim=2)

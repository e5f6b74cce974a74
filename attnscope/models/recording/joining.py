"""Joins calls that generated one text piece by piece with cached keys and values into the call of a whole
pass.

A decoder reads its prompt in one call (9 × 9) and each further token in a call of its own (1 × 10, 1 × 11,
…). Cross attention meanwhile looks at the same keys with the new queries. A static cache has room for keys to
come, which no query sees (9 × 30, 1 × 30, …). Such calls are a chain; below each other they are the rows of
one map: a query of an earlier call did not see keys that came after it.

Calls are a chain only where it is certain: in one module, with the same heads and scale, each call's older
keys are all those of the call before, number by number, and it brings as many new keys as queries. The keys
of a softmax are not known; there the counts must fit, from a whole causal first call on. Modules must go in
step; whatever does not leaves every call as it is.

Until they are joined, keys of calls that go on with those of a call before are kept once (`SharedKeys`).

| symbol  | meaning                                  | shape                        |
|---------|------------------------------------------|------------------------------|
| q, lse  | of all calls, one below the other        | [n_heads, n_queries, …]      |
| k       | the keys of all calls, each once; of one | [n_kv_heads, n_keys, d_head] |
|         | call those from `end` on are unseen      |                              |
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.huggingface.interface import read_bias
from attnscope.models.huggingface.rule_finding import DENSE_CELLS, find_rule, row_blocks
from attnscope.models.recording.arrays import record_of_weights
from attnscope.models.recording.placing import RecordedCall
from attnscope.nn import Bias, DenseBias, MaskRule, RelativeBias
from attnscope.trace.check import MAX_CELLS
from attnscope.trace.record import SiteRecord, site_weights

_MAX_KEPT = 16
"""Texts of one module at a time: rows of a batch that it writes side by side are texts of their own."""


class SharedKeys:
    """Keys of calls that begin with those of an earlier call, stored once.

    Rows are only ever added behind those that a call has been given.
    """

    def __init__(self) -> None:
        self._kept: defaultdict[str, list[tuple[Tensor, int]]] = defaultdict(list)

    def keep(self, module: str, keys: Tensor) -> Tensor:
        """The same keys [n_kv_heads, n_keys, d_head], in memory shared with former calls of the module."""
        kept = self._kept[module]
        for place, (buffer, n) in enumerate(kept):
            is_alike = (buffer.shape[0], buffer.shape[2]) == (keys.shape[0], keys.shape[2])
            if not is_alike or (buffer.dtype, buffer.device) != (keys.dtype, keys.device):
                continue
            if n <= keys.shape[1] and torch.equal(buffer[:, :n], keys[:, :n]):
                buffer = _with_room(buffer, n, keys.shape[1])
                buffer[:, n : keys.shape[1]] = keys[:, n:]
                kept[place] = buffer, keys.shape[1]
                return buffer[:, : keys.shape[1]]
        kept.append((keys, keys.shape[1]))
        del kept[:-_MAX_KEPT]
        return keys


def _with_room(buffer: Tensor, n: int, end: int) -> Tensor:
    """A buffer with room up to `end`, its first `n` keys unchanged."""
    if end <= buffer.shape[1]:
        return buffer
    with torch.inference_mode(mode=False):  # it may be written to after such a block
        longer = buffer.new_empty(buffer.shape[0], 2 * end, buffer.shape[2])
    longer[:, :n] = buffer[:, :n]
    return longer


def _seen_end(record: SiteRecord) -> int:
    """The position after the last key that any query sees; of given weights, one with a weight above 0."""
    if record.proof.is_given:
        return _end_of((site_weights(record) > 0).any(dim=1).any(dim=0))
    if record.rule.is_empty:
        return record.n_keys
    ends = (
        _end_of(_allowed(record, rows, record.n_keys).flatten(0, 2).any(dim=0))
        for rows in row_blocks(record.n_queries, record.n_keys)
    )
    return max(ends, default=0)


def without_unwritten(record: SiteRecord) -> SiteRecord:
    """The record without the keys after the last one seen, if these are all zero.

    Keys of a text that are padding are no zeros, and stay.
    """
    if record.n_keys <= record.n_queries or record.proof.is_given or bool(record.k[:, -1].any()):
        return record
    end = _seen_end(record)
    if not record.n_queries <= end < record.n_keys or bool(record.k[:, end:].any()):
        return record
    rule = find_rule(lambda rows: _allowed(record, rows, end), record.n_queries, end, has_padding=True)
    bias = record.score.bias
    if bias is not None:
        everything = slice(None)
        cells = bias.part(record.n_queries, record.n_keys, everything, slice(0, end))
        bias = read_bias(cells.contiguous(), record.n_queries, end)
    return replace(record, k=record.k[:, :end].clone(), rule=rule, score=replace(record.score, bias=bias))


def _allowed(record: SiteRecord, rows: slice, end: int) -> Tensor:
    cells = record.rule.allowed(record.n_queries, record.n_keys, rows, device=record.q.device)
    return cells[..., :end]


def _end_of(seen: Tensor) -> int:
    found = seen.nonzero()
    return int(found[-1]) + 1 if len(found) else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Step:
    """One call of a chain; `end` of its keys are of the text, and no query sees those after them."""

    call: RecordedCall
    end: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Chain:
    """Calls of one module, each of which continues where the one before ended."""

    steps: tuple[_Step, ...]

    @property
    def is_growing(self) -> bool:
        """Whether its keys grow: self-attention with cached keys."""
        return len(self.steps) > 1 and self.end > self.steps[0].end

    @property
    def first(self) -> RecordedCall:
        return self.steps[0].call

    @property
    def end(self) -> int:
        """Number of keys of the text."""
        return self.steps[-1].end

    @property
    def n_queries(self) -> int:
        return sum(step.call.record.n_queries for step in self.steps)

    def with_next(self, call: RecordedCall) -> "_Chain | None":
        """The chain with one more call; None if the call does not continue where the last one ended."""
        if not self._may_take(call):
            return None
        if not self.is_growing and _is_same_text(self.steps[-1].call, call):
            calls = (*(step.call for step in self.steps), call)  # every key is of the text
            return _Chain(steps=tuple(_Step(call=each, end=call.record.n_keys) for each in calls))
        step = self._grown(call) if self.is_growing or len(self.steps) == 1 else None
        return None if step is None else _Chain(steps=(*self.steps, step))

    def goes_with(self, other: "_Chain") -> bool:
        """Whether both made the same steps alternately."""
        steps, others = ([step.call.record.n_queries for step in chain.steps] for chain in (self, other))
        if steps != others:
            return False
        turns = [(a.call.number, b.call.number) for a, b in zip(self.steps, other.steps, strict=True)]
        in_order = [number for turn in turns for number in turn]
        in_other = [number for turn in turns for number in turn[::-1]]
        return in_order == sorted(in_order) or in_other == sorted(in_other)

    def is_still(self) -> bool:
        """Whether the same queries attended to the same keys again: no new tokens."""
        if self.is_growing or _is_given(self.first):
            return False
        return all(torch.equal(step.call.record.q, self.first.record.q) for step in self.steps)

    def _may_take(self, call: RecordedCall) -> bool:
        if _is_given(call) and call.n_rows > 1:
            return False  # rows of beams change places, and no keys tell which
        is_alike = call.function == self.first.function and _is_alike(self.first.record, call.record)
        return is_alike and not call.extra

    def _grown(self, call: RecordedCall) -> _Step | None:
        """The call as the next one of a growing text."""
        first, last, record = self.steps[0], self.steps[-1], call.record
        is_whole = self.first.record.n_queries == first.end  # else earlier queries are missing
        if not is_whole or _seen_end(record) - record.n_queries != last.end:
            return None
        if _is_given(call):  # the counts fit; a first call that looks ahead wrote nothing
            weights = site_weights(first.call.record)[:, :, : first.end]
            is_next = not bool((weights.triu(diagonal=1) > 0).any())
        else:
            is_next = _are_same(record.k[:, : last.end], last.call.record.k[:, : last.end])
        return _Step(call=call, end=last.end + record.n_queries) if is_next else None


def join_calls(calls: Sequence[RecordedCall], n_tokens: int | None = None) -> tuple[RecordedCall, ...]:
    """The calls, joined if they generated a text piece by piece; unchanged if that is uncertain.

    Calls of one query each on the same keys are joined, too, where they are as many as the tokens that a user
    gave, `n_tokens`. Raises UserError for masks or numbers added to scores that are too many to be kept cell
    by cell.
    """
    chains = _chains_of(calls)
    if chains is None:
        return tuple(calls)
    long = [chain for chain in chains if len(chain.steps) > 1]
    modules = {chain.first.module for chain in long}
    if any(len(chain.steps) == 1 and chain.first.module in modules for chain in chains):
        return tuple(calls)
    if any(chain.is_still() for chain in long):
        return tuple(calls)
    lead = next((chain for chain in chains if chain.is_growing), None)
    if lead is None:
        is_row_by_row = all(chain.n_queries == len(chain.steps) == n_tokens for chain in long)
        return tuple(map(_joined, chains)) if is_row_by_row else tuple(calls)
    if not all(chain is lead or chain.goes_with(lead) for chain in long):
        return tuple(calls)
    return tuple(map(_joined, chains))


def _joined(chain: _Chain) -> RecordedCall:
    if len(chain.steps) == 1:
        return chain.first
    join = _joined_weights if _is_given(chain.first) else _joined_record
    return replace(chain.first, record=join(chain), is_self=chain.is_growing, n_steps=len(chain.steps))


def _joined_record(chain: _Chain) -> SiteRecord:
    records = [step.call.record for step in chain.steps]
    last = records[-1]
    record = replace(
        last,
        q=torch.cat([record.q for record in records], dim=1),
        k=last.k[:, : chain.end],
        lse=torch.cat([record.lse for record in records], dim=1),
        rule=_joined_rule(chain),
        score=replace(last.score, bias=_joined_bias(chain)),
    )
    return _proved(record, records)


def _proved(record: SiteRecord, parts: Sequence[SiteRecord]) -> SiteRecord:
    """The record with the worst of its parts' checks, and its own row sums recomputed."""
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


def _joined_weights(chain: _Chain) -> SiteRecord:
    """Stack rows of given weights; keys that a call did not have are forbidden.

    In a text that grows, keys after a query's own that got no weight are not allowed either.
    """
    rows = []
    for step in chain.steps:
        record = step.call.record
        weights = site_weights(record)[:, :, : step.end]
        if chain.is_growing:
            own = torch.arange(step.end - record.n_queries, step.end, device=weights.device)
            later = torch.arange(step.end, device=weights.device) > own[:, None]
            if not bool((weights[:, later] > 0).any()):
                weights = weights.masked_fill(later, math.nan)
        rows.append(F.pad(weights, (0, chain.end - step.end), value=math.nan))
    joined = record_of_weights(torch.cat(rows, dim=1), chain.first.name)
    error = max(step.call.record.proof.row_sum_error for step in chain.steps)
    return replace(joined, proof=replace(joined.proof, row_sum_error=error))


def _joined_rule(chain: _Chain) -> MaskRule:
    """The rules of all calls, as rows of one map; keys that a call did not have are forbidden to it."""
    parts = [step.call.record for step in chain.steps]
    if chain.is_growing and all(map(_is_causal, chain.steps)):
        return MaskRule(is_causal=True)
    if not chain.is_growing and all(part.rule.is_empty for part in parts):
        return MaskRule()

    def cells(rows: slice) -> Tensor:
        found, start = [], 0
        for step, part in zip(chain.steps, parts, strict=True):
            own = slice(max(0, rows.start - start), min(part.n_queries, rows.stop - start))
            if own.start < own.stop:
                allowed = part.rule.allowed(part.n_queries, part.n_keys, own, device=part.q.device)
                found.append(_placed(allowed, step, chain))
            start += part.n_queries
        return _below(found)

    return find_rule(cells, chain.n_queries, chain.end, has_padding=True)


def _is_causal(step: _Step) -> bool:
    """Whether each query of a call sees exactly the keys up to its own."""
    part = step.call.record
    if step.end < part.n_keys:
        return False
    if part.rule.key_valid is not None or not part.rule.is_simple:
        return False
    return part.rule.is_causal or part.n_queries == 1


def _joined_bias(chain: _Chain) -> Bias | None:
    """The biases added to the scores of all calls; 0 for keys that a call did not have."""
    parts = [step.call.record for step in chain.steps]
    biases = [part.score.bias for part in parts]
    if all(bias is None for bias in biases):
        return None
    n_queries, n_keys = chain.n_queries, chain.end
    by_distance = _by_distance(chain) if chain.is_growing else None
    if by_distance is not None:
        return by_distance
    if parts[0].q.shape[0] * n_queries * n_keys > DENSE_CELLS:
        raise UserError(
            f"{chain.first.name} adds a number of its own to each of {n_queries} × {n_keys} scores, "
            f"written in {len(parts)} calls.",
            expected=f"at most {DENSE_CELLS:,} numbers for one text",
            action="Record the writing of a shorter text, or one pass over the whole text.",
        )
    everything = slice(None)
    found = []
    for step, part, bias in zip(chain.steps, parts, biases, strict=True):
        if bias is None:
            cells = part.lse.new_zeros(1, 1, part.n_queries, part.n_keys)
        else:
            cells = bias.part(part.n_queries, part.n_keys, everything, everything)
            cells = cells.expand(-1, -1, part.n_queries, part.n_keys)
        found.append(_placed(cells, step, chain))
    return DenseBias(cells=_below(found))


def _by_distance(chain: _Chain) -> RelativeBias | None:
    """One number for each head and distance, if the calls agree on it."""
    n = chain.end
    values: Tensor | None = None
    is_known = torch.zeros(2 * n - 1, dtype=torch.bool)
    for step in chain.steps:
        part = step.call.record
        bias = part.score.bias
        if not isinstance(bias, RelativeBias) or step.end < part.n_keys:
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


def _placed(cells: Tensor, step: _Step, chain: _Chain) -> Tensor:
    """Cells of a call [.., .., rows, keys] among all keys; 0 or "not allowed" where it had none."""
    return F.pad(cells[..., : step.end], (0, chain.end - step.end))


def _below(parts: Sequence[Tensor]) -> Tensor:
    """Cells [1, n_heads or 1, rows, n_keys] stacked."""
    n_heads = max(part.shape[1] for part in parts)
    return torch.cat([part.expand(-1, n_heads, -1, -1) for part in parts], dim=2)


def _chains_of(calls: Sequence[RecordedCall]) -> list[_Chain] | None:
    """The chains in the order of their first calls; None if a call could continue several."""
    chains: list[_Chain] = []
    of_module: defaultdict[str, list[int]] = defaultdict(list)
    for call in calls:
        places = of_module[call.module] if call.module else []
        longer = {place: chain for place in places if (chain := chains[place].with_next(call)) is not None}
        if len(longer) > 1:
            return None
        for place, chain in longer.items():
            chains[place] = chain
        if not longer:
            of_module[call.module].append(len(chains))
            chains.append(_Chain(steps=(_Step(call=call, end=_own_end(call)),)))
    return chains


def _is_given(call: RecordedCall) -> bool:
    """Whether a call's weights are known and its keys are not."""
    return call.record.proof.is_given


def _own_end(call: RecordedCall) -> int:
    """Number of keys of a first call that belong to the text: if more than queries, as many as are seen."""
    record = call.record
    if record.n_queries >= record.n_keys:
        return record.n_keys
    end = _seen_end(record)
    return end if end == record.n_queries else record.n_keys


def _is_alike(one: SiteRecord, other: SiteRecord) -> bool:
    shapes = [(r.q.shape[0], r.k.shape[0], r.k.shape[2], r.k.dtype, r.k.device) for r in (one, other)]
    return shapes[0] == shapes[1] and one.score.scale == other.score.scale


def _is_same_text(one: RecordedCall, other: RecordedCall) -> bool:
    """Whether two calls attended to the same keys, as far as known."""
    if one.record.n_keys != other.record.n_keys:
        return False
    if _is_given(one):
        return _seen_end(one.record) == _seen_end(other.record)
    return _are_same(other.record.k, one.record.k)


def _are_same(own: Tensor, former: Tensor) -> bool:
    """Whether keys are the former ones, bit for bit or up to the rounding of another product."""
    if not bool(former.any()):
        return False  # keys of nothing tell nothing
    if own.data_ptr() == former.data_ptr() and own.stride() == former.stride():
        return True
    if torch.equal(own, former):
        return True
    n_roundings = 4.0 if former.dtype.itemsize < 4 else 16.0
    bound = n_roundings * torch.finfo(former.dtype).eps * float(former.abs().max())
    return float((own - former).abs().max()) <= bound

"""Calls that wrote one text piece by piece, joined to the call of a whole pass.

Below each other the calls of a chain (`chains.py`) are the rows of one map: a query of an earlier call did
not see keys that came after it, nor those that a sliding cache had let go. Modules must go in step; whatever
does not leaves every call as it is.

| symbol  | meaning                                  | shape                        |
|---------|------------------------------------------|------------------------------|
| q, lse  | of all calls, one below the other        | [n_heads, n_queries, …]      |
| k       | the keys of all calls, each once         | [n_kv_heads, n_keys, d_head] |
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.huggingface.rule_finding import DENSE_CELLS, find_rule
from attnscope.models.recording.chains import Chain, Step, chains_of, is_given
from attnscope.models.recording.given_weights import record_of_weights
from attnscope.models.recording.placing import RecordedCall
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import Bias, DenseBias, RelativeBias
from attnscope.trace.check import MAX_CELLS
from attnscope.trace.record import SiteRecord
from attnscope.trace.weights import site_weights


def join_calls(calls: Sequence[RecordedCall], n_tokens: int | None = None) -> tuple[RecordedCall, ...]:
    """The calls, those of a text written piece by piece joined; as they are where that is not certain.

    Calls of one query each on the same keys are joined, too, where they are as many as the tokens that a
    person gave, `n_tokens`. Raises UserError for masks or numbers added to scores that are too many to be
    kept cell by cell.
    """
    chains = chains_of(calls)
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


def _joined(chain: Chain) -> RecordedCall:
    if len(chain.steps) == 1:
        return chain.first
    join = _joined_weights if is_given(chain.first) else _joined_record
    return replace(chain.first, record=join(chain), is_self=chain.is_growing, n_steps=len(chain.steps))


def _joined_record(chain: Chain) -> SiteRecord:
    records = [step.call.record for step in chain.steps]
    last = records[-1]
    record = replace(
        last,
        q=torch.cat([record.q for record in records], dim=1),
        k=_joined_keys(chain),
        lse=torch.cat([record.lse for record in records], dim=1),
        rule=_joined_rule(chain),
        score=replace(last.score, bias=_joined_bias(chain)),
    )
    return _proved(record, records)


def _joined_keys(chain: Chain) -> Tensor:
    """Every key once; of a cache that lets none go, the memory of the last call."""
    last = chain.steps[-1]
    if last.start == 0:
        return last.call.record.k[:, : last.n_keys]
    first = chain.steps[0]
    found = [first.call.record.k[:, : first.n_keys]]
    for step in chain.steps[1:]:
        found.append(step.call.record.k[:, step.n_keys - step.call.record.n_queries : step.n_keys])
    return torch.cat(found, dim=1)


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


def _joined_weights(chain: Chain) -> SiteRecord:
    """Rows of given weights below each other; keys that a call did not have are not allowed.

    In a text that grows, keys after a query's own that got no weight are not allowed either.
    """
    rows = []
    for step in chain.steps:
        record = step.call.record
        weights = site_weights(record)[:, :, : step.n_keys]
        if chain.is_growing:
            own = torch.arange(step.n_keys - record.n_queries, step.n_keys, device=weights.device)
            later = torch.arange(step.n_keys, device=weights.device) > own[:, None]
            if not bool((weights[:, later] > 0).any()):
                weights = weights.masked_fill(later, math.nan)
        around = (step.start, chain.steps[-1].end - step.end)
        rows.append(F.pad(weights, around, value=math.nan))
    joined = record_of_weights(torch.cat(rows, dim=1), chain.first.name)
    error = max(step.call.record.proof.row_sum_error for step in chain.steps)
    return replace(joined, proof=replace(joined.proof, row_sum_error=error))


def _joined_rule(chain: Chain) -> MaskRule:
    """What every call allowed, as rows of one map; keys that a call did not have are not allowed to it."""
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

    return find_rule(cells, chain.n_queries, chain.steps[-1].end, has_padding=True)


def _is_causal(step: Step) -> bool:
    """Whether each query of a call sees just the keys up to its own, all of them."""
    part = step.call.record
    if step.start > 0 or step.n_keys < part.n_keys:
        return False
    if part.rule.key_valid is not None or not part.rule.is_simple:
        return False
    return part.rule.is_causal or part.n_queries == 1


def _joined_bias(chain: Chain) -> Bias | None:
    """What was added to the scores of every call; 0 for keys that it did not have."""
    parts = [step.call.record for step in chain.steps]
    biases = [part.score.bias for part in parts]
    if all(bias is None for bias in biases):
        return None
    n_queries, n_keys = chain.n_queries, chain.steps[-1].end
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


def _by_distance(chain: Chain) -> RelativeBias | None:
    """One number for each head and distance, where the calls agree on it."""
    n = chain.steps[-1].end
    values: Tensor | None = None
    is_known = torch.zeros(2 * n - 1, dtype=torch.bool)
    for step in chain.steps:
        part = step.call.record
        bias = part.score.bias
        if not isinstance(bias, RelativeBias) or step.n_keys < part.n_keys:
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


def _placed(cells: Tensor, step: Step, chain: Chain) -> Tensor:
    """Cells of a call [.., .., rows, keys] among all keys; 0 or "not allowed" where it had none."""
    return F.pad(cells[..., : step.n_keys], (step.start, chain.steps[-1].end - step.end))


def _below(parts: Sequence[Tensor]) -> Tensor:
    """Cells [1, n_heads or 1, rows, n_keys] one below the other."""
    n_heads = max(part.shape[1] for part in parts)
    return torch.cat([part.expand(-1, n_heads, -1, -1) for part in parts], dim=2)

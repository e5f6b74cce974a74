"""Keys that a call was given and no query of it saw: the room that a static cache has for tokens to come.

| symbol | meaning                                     | shape                        |
|--------|---------------------------------------------|------------------------------|
| k      | keys of a call; those from `end` on, unseen | [n_kv_heads, n_keys, d_head] |
"""

from dataclasses import replace

from torch import Tensor

from attnscope.models.huggingface.masks_given import read_bias
from attnscope.models.huggingface.rule_finding import find_rule, row_blocks
from attnscope.trace.record import SiteRecord
from attnscope.trace.weights import site_weights


def seen_end(record: SiteRecord) -> int:
    """The place after the last key that any query sees; of given weights, one that has a weight above 0."""
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
    """The record without the keys behind the last one seen where these are all zero; the very same elsewhere.

    Keys of a text that are padding are no zeros, and stay.
    """
    if record.n_keys <= record.n_queries or record.proof.is_given or bool(record.k[:, -1].any()):
        return record
    end = seen_end(record)
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

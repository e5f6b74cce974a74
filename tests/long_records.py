"""Records of one attention site with every kind of rule, for the tests of long texts."""

import math

import torch

from attnscope.nn import (
    Intervals,
    MaskRule,
    RelativeBias,
    RemovedCells,
    ScoreRule,
    SlopeBias,
    add_sinks,
    scores_of,
)
from attnscope.trace import SiteProof, SiteRecord

PROOF = SiteProof(
    row_sum_error=0.0, forbidden_weight=0.0, output_error=0.0, n_rows=0, n_queries=0, is_training=False
)
KINDS = (
    "open", "causal", "window", "window both ways", "padding", "intervals",
    "removed", "softcap", "relative bias", "slope bias", "sinks", "shared keys",
)  # fmt: skip


def ramp(*shape: int, start: float = 0.0) -> torch.Tensor:
    step = torch.arange(math.prod(shape), dtype=torch.float64) + start
    return (torch.sin(step * step * 0.7310) * 2.0).reshape(shape).float()


def long_record(kind: str, n_queries: int, n_keys: int, *, n_heads: int = 2, d_head: int = 4) -> SiteRecord:
    n_kv = 1 if kind == "shared keys" else n_heads
    q, k = ramp(n_heads, n_queries, d_head), ramp(n_kv, n_keys, d_head, start=0.31)
    score = ScoreRule(
        scale=0.9,
        softcap=2.5 if kind == "softcap" else None,
        bias={
            "relative bias": RelativeBias(values=ramp(n_heads, n_queries + n_keys - 1, start=7.7)),
            "slope bias": SlopeBias(slopes=torch.tensor([0.25, 0.0625][:n_heads])),
        }.get(kind),
        sinks=torch.full((n_heads,), 0.4) if kind == "sinks" else None,
    )
    rule = _rule(kind, n_queries, n_keys, n_heads)
    s = scores_of(q[None], k[None], rule=rule, score=score)
    lse = add_sinks(s.logsumexp(dim=-1), score.sinks)[0]
    return SiteRecord(q=q, k=k, lse=lse, rule=rule, score=score, proof=PROOF)


def _rule(kind: str, n_queries: int, n_keys: int, n_heads: int) -> MaskRule:
    place = torch.arange(n_queries)[None] + (n_keys - n_queries)
    valid = torch.ones(1, n_keys, dtype=torch.bool)
    valid[:, : n_keys // 3] = False
    cells = torch.tensor([[h, (7 * h) % n_queries, (5 * h) % n_keys] for h in range(n_heads)])
    rules = {
        "causal": MaskRule(is_causal=True),
        "window": MaskRule(is_causal=True, window=(max(1, n_keys // 4), None)),
        "window both ways": MaskRule(window=(3, 2)),
        "padding": MaskRule(is_causal=True, key_valid=valid),
        "intervals": MaskRule(pattern=Intervals(first=place // 2, last=place // 2 + 5)),
        "removed": MaskRule(removed=RemovedCells(cells=cells, n_heads=n_heads)),
        "slope bias": MaskRule(is_causal=True),
        "softcap": MaskRule(is_causal=True),
    }
    return rules.get(kind, MaskRule())

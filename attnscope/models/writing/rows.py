"""The rows of a growing text, recorded as they are computed and put together afterwards.

| symbol | meaning                               | shape                                  |
|--------|---------------------------------------|----------------------------------------|
| q, out | queries and outputs of the new tokens | [n_texts, n_heads, n_new, d_head]      |
| k, v   | keys and values of the new tokens     | [n_texts, n_kv_heads, n_new, d_head]   |
| lse    | normaliser of each new row            | [n_texts, n_heads, n_new]              |

A row of causal attention never changes when the text goes on, so the rows of all calls, one below the
other, are the record of the whole text. Nothing is believed: the finished record is checked against the
outputs the model used, and `build_records` gives None where it does not hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.nn.edits import Call
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import RelativeBias, ScoreRule, SlopeBias
from attnscope.records.sites import Gates, Site, SiteKey
from attnscope.trace.check import merge_proofs
from attnscope.trace.probe import GateProbe
from attnscope.trace.record import Pending, SiteRecord


@dataclass(frozen=True, slots=True)
class _Part:
    """What one call adds; `k` and `v` are None where it reads the keys of the first call again."""

    q: Tensor
    lse: Tensor
    out: Tensor
    k: Tensor | None
    v: Tensor | None
    rule: MaskRule
    score: ScoreRule


class RowProbe(GateProbe):
    """Gates head outputs, and records of every call the rows that are new; see `Writer`."""

    def __init__(self, sites: tuple[Site, ...], gates: Gates) -> None:
        super().__init__(sites, gates)
        self._sites = sites
        self._wanted = frozenset(site.key for site in sites)
        self._parts: dict[SiteKey, list[_Part]] = {}

    def wants(self, site: SiteKey) -> bool:
        """Every site is recorded."""
        return site in self._wanted

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep the new rows; keys and values are copied, because the cache they lie in goes on growing."""
        parts = self._parts.setdefault(site, [])
        k: Tensor | None = call.k
        v: Tensor | None = call.v
        if parts:
            n_new = call.q.shape[2]
            is_growing = site[0] == "decoder"
            k = call.k[:, :, -n_new:].clone() if is_growing else None
            v = call.v[:, :, -n_new:].clone() if is_growing else None
        parts.append(_Part(call.q, lse, out, k, v, call.rule, call.score))

    def build_records(self, rows: Sequence[int]) -> dict[SiteKey, SiteRecord] | None:
        """The record of the text that was row `rows[c]` of call c; later calls are left out.

        None when the calls do not fit together, for instance because the model kept to a rule that
        cannot be continued; the text can then only be traced in one pass.
        """
        pending = Pending(keep_values=False)
        for site in self._sites:
            parts = self._parts.get(site.key, [])
            call = _joined(site, parts, rows)
            if call is None:
                return None
            # The encoder runs once, whatever is written afterwards.
            chosen = rows if site.stack != "encoder" else rows[:1]
            pending.add(
                site.key,
                call,
                lse=_column(parts, chosen, "lse", dim=1)[None],
                out=_column(parts, chosen, "out", dim=1)[None],
                is_training=False,
            )
        records = pending.finish()
        return records if merge_proofs(record.proof for record in records.values()).is_good else None


def _joined(site: Site, parts: Sequence[_Part], rows: Sequence[int]) -> Call | None:
    """The one call that would have given all rows; None when there is none such."""
    if site.stack == "encoder":
        rows = rows[:1]
    if not parts or len(parts) < len(rows):
        return None
    used = parts[: len(rows)]
    rule, score = _joined_rule(site, used), _joined_score(used)
    if rule is None or score is None:
        return None
    is_growing = site.stack == "decoder"
    return Call(
        q=_column(parts, rows, "q", dim=1)[None],
        k=_column(parts, rows if is_growing else rows[:1], "k", dim=1)[None],
        v=_column(parts, rows if is_growing else rows[:1], "v", dim=1)[None],
        rule=rule,
        score=score,
    )


def _column(parts: Sequence[_Part], rows: Sequence[int], name: str, *, dim: int) -> Tensor:
    return torch.cat([getattr(part, name)[row] for part, row in zip(parts, rows, strict=False)], dim=dim)


def _joined_rule(site: Site, parts: Sequence[_Part]) -> MaskRule | None:
    first = parts[0].rule
    if len(parts) == 1:
        return first
    if any(part.rule.pattern is not None or part.rule.removed is not None for part in parts):
        return None
    if site.stack != "decoder":
        return first
    # Whatever each call's rule was: no row has seen a key that was written after it.
    return replace(first, is_causal=True, key_valid=None)


def _joined_score(parts: Sequence[_Part]) -> ScoreRule | None:
    first, last = parts[0].score, parts[-1].score
    if len(parts) == 1 or first.bias is None or isinstance(first.bias, SlopeBias):
        return first
    if not isinstance(last.bias, RelativeBias) or parts[-1].q.shape[2] != 1:
        return None
    # The last row knows the bias of every distance back; those ahead are never looked at.
    back = last.bias.values  # [n_heads, n_keys]
    ahead = back.new_zeros(len(back), back.shape[1] - 1)
    return replace(first, bias=RelativeBias(values=torch.cat((back, ahead), dim=1)))

"""Probes: recording what attention did, changing single heads, multiplying head outputs by gates."""

from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter

import torch
from torch import Tensor

from attnscope.nn.edits import Call, Edits
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.records.sites import Gates, Site, SiteKey, check_heads
from attnscope.trace.record import Pending, SiteRecord

PENDING_CELLS = 500_000
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
        hear: Callable[[Mapping[SiteKey, SiteRecord]], None] | None = None,
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
        """Whether the site is recorded."""
        return site in self._wanted

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep one call of a wanted site; a site that is called again is recorded anew."""
        self._pending.add(site, call, lse=lse, out=out, is_training=is_training)
        if call.q.shape[1] * call.q.shape[2] * call.k.shape[2] > PENDING_CELLS:
            self._records |= self._pending.finish()
            if not torch.is_grad_enabled():
                stop_if_unwanted()
            if self._hear is not None:
                self._hear(self._records)


def _gate_of(site: Site, gates: Gates, is_paired: bool) -> Tensor | None:
    values = [gates.value(head) for head in site.heads]
    if all(value == 1.0 for value in values):
        return None
    gated = torch.tensor(values, dtype=torch.float32)
    return torch.stack((torch.ones_like(gated), gated)) if is_paired else gated

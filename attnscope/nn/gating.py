"""Probes for training: gates of heads through which gradients pass, and a head that is guided.

A head of the cross-attention that is told which words translate each other (Garg et al. 2019, sec. 3.3).

| symbol | meaning                                                        | shape         |
|--------|----------------------------------------------------------------|---------------|
| links  | text, target row and source token that translate each other    | [n_links, 3]  |
| loss   | −share · sum over links of the log of the head's weight there  | one number    |
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.nn.edits import Call, Edits
from attnscope.nn.scores import scores
from attnscope.records.sites import SiteKey


class QuietProbe:
    """A probe that does nothing; others start from it."""

    def gate(self, site: SiteKey) -> Tensor | None:
        """No gate."""
        return None

    def edits(self, site: SiteKey) -> Edits | None:
        return None

    def wants(self, site: SiteKey) -> bool:
        return False

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Nothing is kept."""


class TensorGates(QuietProbe):
    """Gates as tensors, [n_heads] or [batch, n_heads], through which gradients pass; and edits of heads."""

    def __init__(self, gates: Mapping[SiteKey, Tensor], edits: Mapping[SiteKey, Edits] | None = None) -> None:
        self._gates = gates
        self._edits = edits or {}

    def gate(self, site: SiteKey) -> Tensor | None:
        return self._gates.get(site)

    def edits(self, site: SiteKey) -> Edits | None:
        """What is changed at the site, or None."""
        return self._edits.get(site)


_NAME = re.compile(r"L(\d{1,4})H(\d{1,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """Which head is guided, and how much the mean over its links counts against the mean over tokens."""

    layer: int
    head: int
    share: float

    @classmethod
    def named(cls, name: str, share: float) -> "Guide | None":
        """The guide of a head that is named like L1H0; None for a name that is none."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(layer=int(found[1]), head=int(found[2]), share=share)


class GuidedProbe(QuietProbe):
    """Hears what the guided head's weights were in one pass, with gradients."""

    def __init__(self, guide: Guide, links: Tensor) -> None:
        self._guide, self._links = guide, links
        self._missed = torch.zeros((), device=links.device)

    def wants(self, site: SiteKey) -> bool:
        """The cross-attention of the guided layer."""
        return site == ("cross", self._guide.layer) and len(self._links) > 0

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep the sum of −log weight at the links."""
        head = slice(self._guide.head, self._guide.head + 1)
        told = scores(call.q, call.k, rule=call.rule, score=call.score, heads=head)[:, 0].log_softmax(dim=-1)
        text, row, token = self._links.unbind(dim=1)
        self._missed = -told[text, row, token].sum()

    def loss(self) -> Tensor:
        """What the links of a pass add, in nats."""
        return self._guide.share * self._missed

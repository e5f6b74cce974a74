"""Two sentences read side by side: each word of one looks for its like in the other, both ways.

    symbol    meaning                                          shape
    a, b      hidden states of the first and second text       [batch, n_source or n_target, d_model]
    e         a_i · b_j                                        [batch, n_source, n_target]
    ã, b̃      what each word finds in the other text           as a, b

ã_i = Σ_j softmax_j(e_ij) b_j and b̃_j = Σ_i softmax_i(e_ij) a_i; m = relu(F [a; ã; a − ã; a ⊙ ã]) (Chen et
al. 2017, "Enhanced LSTM for Natural Language Inference", equations 11 to 15). Their second LSTM is left out.
The scores are not divided by √d: with the division the alignment stayed blurred (weight 0.34 on the opposite
of an adjective in the task `entailment`, without it 0.65).

Both texts pass through the same encoder. What it does with the second is told to the probe under names of
its own: encoder → second, pool → second-pool.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.nn.attention import Probe, attend
from attnscope.nn.config import ModelConfig
from attnscope.nn.edits import Call, Edits
from attnscope.nn.masks import build_rule
from attnscope.records.sites import SiteKey, Stack

_OF_SECOND: dict[Stack, Stack] = {"encoder": "second", "pool": "second-pool"}


class OfSecond:
    """A probe as the reading of the second text knows it: the same modules under other names."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def gate(self, site: SiteKey) -> Tensor | None:
        """See `Probe`, as all these."""
        return self._probe.gate(_renamed(site))

    def edits(self, site: SiteKey) -> Edits | None:
        """Changes of single heads."""
        return self._probe.edits(_renamed(site))

    def wants(self, site: SiteKey) -> bool:
        return self._probe.wants(_renamed(site))

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        self._probe.record(_renamed(site), call, lse=lse, out=out, is_training=is_training)


class Matching(nn.Module):
    """The alignment of two texts and what is made of it; see the module's legend."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d = config.d_model
        self.compose = nn.Linear(4 * d, d, bias=config.bias)
        self.join = nn.Linear(2 * d, d, bias=config.bias)

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        *,
        valid: Tensor | None = None,
        second_valid: Tensor | None = None,
        probe: Probe | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Each text with what its words find in the other: [B, n_source, d_model], [B, n_target, d_model]."""
        of_first = self._look(first, second, second_valid, "back", probe)
        of_second = self._look(second, first, valid, "cross", probe)
        return self._composed(first, of_first), self._composed(second, of_second)

    def joined(self, first: Tensor, second: Tensor) -> Tensor:
        """One row of two summaries, [B, d_model]."""
        row: Tensor = self.join(torch.cat((first, second), dim=-1))
        return row.tanh()

    def _look(
        self, own: Tensor, other: Tensor, other_valid: Tensor | None, stack: Stack, probe: Probe | None
    ) -> Tensor:
        q, kv = own[:, None], other[:, None]  # [B, 1, T, d_model]
        rule = build_rule(is_causal=False, key_valid=other_valid)
        site: SiteKey = (stack, 0)
        out = attend(q, kv, kv, rule=rule, score=1.0, site=site, probe=probe, is_training=self.training)
        return out[:, 0]

    def _composed(self, own: Tensor, found: Tensor) -> Tensor:
        return F.relu(self.compose(torch.cat((own, found, own - found, own * found), dim=-1)))


def _renamed(site: SiteKey) -> SiteKey:
    return _OF_SECOND.get(site[0], site[0]), site[1]

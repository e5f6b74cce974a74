"""What a model is asked to learn: which positions are scored, and the loss.

| symbol | meaning                                        | shape         |
|--------|------------------------------------------------|---------------|
| ids    | what the model reads (the source, in pairs)    | [B, T]        |
| scored | where a token has to be told, flat over [B, T] | [n_scored]    |
| labels | the token to be told there                     | [n_scored]    |

Only scored positions pass through the vocabulary projection, which saves most of it in masked models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.gating import TensorGates
from attnscope.nn.own_module import OwnModule
from attnscope.nn.transformer import Transformer
from attnscope.records.sites import SiteKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch, ready for the device; `valid` marks what is no padding, None when there is none.

    `target_ids` are the decoder's inputs of a translation. Padding after the last target token needs no
    mask: causal attention never looks at it and it is not scored. For labels `target_ids` are a second
    text, with `target_valid`, and the first token of each text is scored. `segments` [B, T] and `is_next`
    [B] (1 when the second segment follows the first) are those of next-sentence prediction, whose loss counts
    as `pair_weight` scored tokens a sequence. `gates` of a site multiply head outputs, [n_heads] or
    [B, n_heads].
    """

    ids: Tensor
    scored: Tensor
    labels: Tensor
    valid: Tensor | None = None
    target_ids: Tensor | None = None
    target_valid: Tensor | None = None
    segments: Tensor | None = None
    is_next: Tensor | None = None
    pair_weight: float = 0.0
    gates: Mapping[SiteKey, Tensor] | None = None

    @property
    def n_tokens(self) -> int:
        """Tokens that are read, padding included (for speed)."""
        return self.ids.numel() + (self.target_ids.numel() if self.target_ids is not None else 0)

    def to(self, device: torch.device) -> "Batch":
        """The batch on `device`."""
        if device.type == "cpu":
            return self
        return replace(
            self,
            ids=self.ids.to(device, non_blocking=True),
            scored=self.scored.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            valid=self.valid.to(device) if self.valid is not None else None,
            target_ids=self.target_ids.to(device) if self.target_ids is not None else None,
            target_valid=self.target_valid.to(device) if self.target_valid is not None else None,
            segments=self.segments.to(device) if self.segments is not None else None,
            is_next=self.is_next.to(device) if self.is_next is not None else None,
        )


def hidden_of(module: OwnModule, batch: Batch) -> Tensor:
    """The last stream of the stack that predicts, [B, T, d_model]; for labels their row, [B, d_model]."""
    probe = None if batch.gates is None else TensorGates(batch.gates)
    if module.config.n_labels:
        return module.summarise(
            batch.ids,
            valid=batch.valid,
            second=batch.target_ids,
            second_valid=batch.target_valid,
            segments=batch.segments,
            probe=probe,
        )
    if batch.target_ids is not None:
        memory = module.encode(batch.ids, valid=batch.valid, probe=probe)
        return module.decode(batch.target_ids, memory=memory, memory_valid=batch.valid, probe=probe)
    if module.config.form == "encoder":
        return module.encode(batch.ids, valid=batch.valid, segments=batch.segments, probe=probe)
    return module.decode(batch.ids, valid=batch.valid, probe=probe)


def scored_logits(module: OwnModule, batch: Batch, hidden: Tensor | None = None) -> Tensor:
    """Logits at the scored positions, [n_scored, vocab]; `hidden` is `hidden_of` where it is known."""
    hidden = hidden_of(module, batch) if hidden is None else hidden
    if module.config.n_labels:
        return module.logits(hidden)
    hidden = hidden.flatten(0, 1)  # [B·T, d_model]
    if len(batch.scored) < len(hidden):
        hidden = hidden.index_select(0, batch.scored)  # [n_scored, d_model]
    return module.logits(hidden)


def loss_sum(module: OwnModule, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """The summed cross-entropy of the batch in nats.

    With smoothing ε a label counts 1 − ε and all pieces share ε (Szegedy et al. 2016, section 7). The loss
    of next-sentence prediction is in the gradient only: the number stays that of the tokens.
    """
    hidden = hidden_of(module, batch)
    logits = scored_logits(module, batch, hidden).float()
    loss = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=label_smoothing)
    if batch.is_next is None:
        return loss
    pairs = batch.pair_weight * _pair_loss(_pair_logits(module, hidden), batch.is_next)
    return loss + (pairs - pairs.detach())


class Told(NamedTuple):
    """Sums over a batch: loss in nats and right guesses, of the scored tokens and of the pairs."""

    loss: float
    n_hits: float
    pair_loss: float
    n_pair_hits: float


def loss_and_hits(module: OwnModule, batch: Batch) -> Told:
    """Summed cross-entropy in nats and how often the most probable answer is right."""
    hidden = hidden_of(module, batch)
    logits = scored_logits(module, batch, hidden).float()
    loss = F.cross_entropy(logits, batch.labels, reduction="sum")
    sums = [loss, (logits.argmax(dim=-1) == batch.labels).sum()]
    if batch.is_next is not None:
        pairs = _pair_logits(module, hidden)
        sums += [_pair_loss(pairs, batch.is_next), (pairs.argmax(dim=-1) == batch.is_next).sum()]
    values = torch.stack([value.double() for value in sums]).tolist()
    return Told(*values, *[0.0] * (4 - len(values)))


def _pair_logits(module: OwnModule, hidden: Tensor) -> Tensor:
    if not isinstance(module, Transformer):
        raise ValueError("only a Transformer tells whether a sentence follows")
    return module.next_sentence_logits(hidden).float()


def _pair_loss(logits: Tensor, is_next: Tensor) -> Tensor:
    return F.cross_entropy(logits, is_next, reduction="sum")

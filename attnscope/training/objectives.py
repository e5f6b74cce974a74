"""What a model is asked to learn: which positions are scored, and the loss.

| symbol | meaning                                        | shape         |
|--------|------------------------------------------------|---------------|
| ids    | what the model reads (the source, in pairs)    | [B, T]        |
| scored | where a token has to be told, flat over [B, T] | [n_scored]    |
| labels | the token to be told there                     | [n_scored]    |

Only scored positions pass through the vocabulary projection, which saves most of it in masked models.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch, ready for the device; `valid` marks what is no padding, None when there is none.

    `target_ids` are the decoder's inputs of a translation. Padding after the last target token needs no
    mask: causal attention never looks at it and it is not scored.
    """

    ids: Tensor
    scored: Tensor
    labels: Tensor
    valid: Tensor | None = None
    target_ids: Tensor | None = None

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
        )


def scored_logits(module: Transformer, batch: Batch) -> Tensor:
    """Logits at the scored positions, [n_scored, vocab]."""
    if batch.target_ids is not None:
        memory = module.encode(batch.ids, valid=batch.valid)
        hidden = module.decode(batch.target_ids, memory=memory, memory_valid=batch.valid)
    elif module.config.form == "encoder":
        hidden = module.encode(batch.ids, valid=batch.valid)
    else:
        hidden = module.decode(batch.ids, valid=batch.valid)
    hidden = hidden.flatten(0, 1)  # [B·T, d_model]
    if len(batch.scored) < len(hidden):
        hidden = hidden.index_select(0, batch.scored)  # [n_scored, d_model]
    return module.logits(hidden)


def loss_sum(module: Transformer, batch: Batch) -> Tensor:
    """The summed cross-entropy of the batch in nats."""
    return F.cross_entropy(scored_logits(module, batch).float(), batch.labels, reduction="sum")


def loss_and_hits(module: Transformer, batch: Batch) -> tuple[float, int]:
    """Summed cross-entropy in nats and how often the most probable token is right."""
    logits = scored_logits(module, batch).float()
    loss = F.cross_entropy(logits, batch.labels, reduction="sum")
    hits = (logits.argmax(dim=-1) == batch.labels).sum()
    both = torch.stack([loss.double(), hits.double()]).tolist()
    return float(both[0]), int(both[1])

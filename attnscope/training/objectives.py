"""Objectives: which positions are scored, and the loss.

| symbol | meaning                                        | shape         |
|--------|------------------------------------------------|---------------|
| ids    | what the model reads (the source, in pairs)    | [B, T]        |
|        | of pictures the numbers of their patches       | [B, T, n]     |
| scored | where a token has to be told, flat over [B, T] | [n_scored]    |
| labels | the token to be told there                     | [n_scored]    |

Only scored positions pass through the vocabulary projection, which saves most of it in masked models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.nn import Guide, GuidedProbe, Probe, TensorGates, Transformer, balances, sites_with_spans
from attnscope.nn.own_module import OwnModule, cross_entropy_sum, row_pieces
from attnscope.records.sites import SiteKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch, ready for the device; `valid` marks real tokens, None if there is no padding.

    `target_ids` are the decoder's inputs of a translation. Padding after the last target token needs no
    mask: causal attention never looks at it and it is not scored. For labels `target_ids` are a second
    text, with `target_valid`, and the first token of each text is scored. `segments` [B, T] and `is_next`
    [B] (1 when the second segment follows the first) are those of next-sentence prediction, whose loss counts
    as `pair_weight` scored tokens a sequence. `gates` of a site multiply head outputs, [n_heads] or
    [B, n_heads]. `links` [n_links, 3] are text, target row and source token that translate each other, for
    the head that `guide` names; each counts as `link_weight` scored tokens. `valid_on_cpu` is `valid` as it
    was before the batch went to another device. Where a model points to `n_places` of each text, `scored` is
    where it may point and `labels` [B · n_places] are the columns of `ids` that it should. `words`
    of each text are read as unknown but can be copied: their ids follow the vocabulary (`nn/copying.py`).
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
    links: Tensor | None = None
    link_weight: float = 0.0
    guide: Guide | None = None
    valid_on_cpu: Tensor | None = None
    n_places: int = 0
    words: tuple[tuple[str, ...], ...] = ()

    @property
    def n_tokens(self) -> int:
        """Tokens read, including padding (for speed)."""
        return self.ids.shape[0] * self.ids.shape[1] + (
            self.target_ids.numel() if self.target_ids is not None else 0
        )

    def to(self, device: torch.device) -> "Batch":
        """The batch on `device`, in one copy; `valid_on_cpu` stays if cells need it.

        To a CUDA device it goes from page-locked memory while the program goes on. Elsewhere the copy is
        waited for: on MPS it may read memory that was given back meanwhile, and numbers are silently wrong
        (pytorch/pytorch issues 139550 and 189690; drop when they are closed).
        """
        if device.type == "cpu":
            return self
        flat = pack(self, is_pinned=device.type == "cuda").to(device, non_blocking=device.type == "cuda")
        return unpack(self, flat)


_TENSORS = ("ids", "scored", "labels", "valid", "target_ids", "target_valid", "segments", "is_next", "links")


def pack(batch: Batch, *, is_pinned: bool = False) -> Tensor:
    """All numbers of a batch on the CPU concatenated, int64 [n]; booleans are 0 and 1."""
    parts = [part.flatten().to(torch.int64) for _, part in _parts(batch)]
    n = sum(len(part) for part in parts)
    return torch.cat(parts, out=torch.empty(n, dtype=torch.int64, pin_memory=is_pinned))


def unpack(batch: Batch, flat: Tensor) -> Batch:
    """The inverse of `pack`: views of `flat`, except for booleans."""
    parts = _parts(batch)
    pieces = torch.split(flat, [part.numel() for _, part in parts])
    found: dict[str, Any] = {
        name: piece.view(part.shape).to(part.dtype) for (name, part), piece in zip(parts, pieces, strict=True)
    }
    return replace(batch, **found, valid_on_cpu=batch.valid)


def _parts(batch: Batch) -> list[tuple[str, Tensor]]:
    named = ((name, getattr(batch, name)) for name in _TENSORS)
    return [(name, part) for name, part in named if part is not None]


def hidden_of(module: OwnModule, batch: Batch, probe: Probe | None = None) -> Tensor:
    """The last stream of the predicting stack, [B, T, d_model]; for labels of texts [B, d_model].

    Without a probe the batch's gates act, if it has any.
    """
    if probe is None and batch.gates is not None:
        probe = TensorGates(batch.gates)
    if module.config.is_recurrent and batch.target_ids is not None and batch.valid_on_cpu is not None:
        memory = module.encode(batch.ids, valid=batch.valid_on_cpu, probe=probe)
        return module.decode(batch.target_ids, memory=memory, memory_valid=batch.valid, probe=probe)
    return module.told_from(
        batch.ids,
        second=batch.target_ids,
        valid=batch.valid,
        second_valid=batch.target_valid,
        segments=batch.segments,
        probe=probe,
    )


def scored_logits(module: OwnModule, batch: Batch) -> Tensor:
    """Logits at the scored positions, [n_scored, vocab]."""
    return module.logits(_scored_rows(module, batch, hidden_of(module, batch)))


def _scored_rows(module: OwnModule, batch: Batch, hidden: Tensor) -> Tensor:
    """The stream at the predicted tokens, [n_scored, d_model]."""
    if module.config.labels_texts:
        return hidden
    hidden = hidden.flatten(0, 1)  # [B·T, d_model]
    return hidden.index_select(0, batch.scored) if len(batch.scored) < len(hidden) else hidden


def loss_sum(module: OwnModule, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """The summed cross-entropy of the batch in nats.

    With smoothing ε a label counts 1 − ε and all pieces share ε (Szegedy et al. 2016, section 7). The losses
    of next-sentence prediction, of a guided head, of the balance of experts, a mean over their layers, and of
    learned spans are in the gradient only: the number stays that of the tokens.
    """
    guided = None
    if batch.guide is not None and batch.links is not None:
        guided = GuidedProbe(batch.guide, batch.links)
    with balances() as found:
        hidden = hidden_of(module, batch, guided)
    rows = _scored_rows(module, batch, hidden)
    if batch.n_places:
        loss = F.cross_entropy(_place_logits(module, batch, rows), batch.labels, reduction="sum")
        return loss + _span_cost(module, len(batch.labels))
    loss = cross_entropy_sum(module, rows, batch.labels, label_smoothing=label_smoothing)
    if found:
        uneven = module.config.balance_weight * len(batch.labels) * torch.stack(found).mean()
        loss = loss + (uneven - uneven.detach())
    loss = loss + _span_cost(module, len(batch.labels))
    if guided is not None:
        missed = batch.link_weight * guided.loss()
        loss = loss + (missed - missed.detach())
    if batch.is_next is None:
        return loss
    pairs = batch.pair_weight * _pair_loss(_pair_logits(module, hidden), batch.is_next)
    return loss + (pairs - pairs.detach())


def _span_cost(module: OwnModule, n_scored: int) -> Tensor | float:
    """λ times the mean of z, in the gradient only (Sukhbaatar et al. 2019, equation 5)."""
    if not module.config.span_penalty:
        return 0.0
    spans = torch.cat([site.spans() for site in sites_with_spans(module).values()])
    cost = module.config.span_penalty * n_scored * spans.mean()
    return cost - cost.detach()


class Told(NamedTuple):
    """Sums over a batch: loss in nats and right predictions, of the scored tokens and of the pairs."""

    loss: float
    n_hits: float
    pair_loss: float
    n_pair_hits: float


def loss_and_hits(module: OwnModule, batch: Batch) -> Told:
    """Summed cross-entropy in nats and number of right predictions."""
    hidden = hidden_of(module, batch)
    rows = _scored_rows(module, batch, hidden)
    if batch.n_places:
        logits = _place_logits(module, batch, rows).detach()
        loss = F.cross_entropy(logits, batch.labels, reduction="sum")
        return Told(float(loss), float((logits.argmax(dim=-1) == batch.labels).sum()), 0.0, 0.0)
    parts = []
    for piece in row_pieces(module, rows):
        logits, labels = module.logits(rows[piece]).float(), batch.labels[piece]
        hits = (logits.argmax(dim=-1) == labels).sum()
        parts.append(torch.stack([F.cross_entropy(logits, labels, reduction="sum"), hits.float()]))
    sums = list(torch.stack(parts).sum(dim=0))
    if batch.is_next is not None:
        pairs = _pair_logits(module, hidden)
        sums += [_pair_loss(pairs, batch.is_next), (pairs.argmax(dim=-1) == batch.is_next).sum()]
    values = torch.stack([value.float() for value in sums]).tolist()  # whole numbers to 2²⁴ are exact
    return Told(*values, *[0.0] * (4 - len(values)))


def _place_logits(module: OwnModule, batch: Batch, rows: Tensor) -> Tensor:
    """Logits of each token of each text for each place, [B · n_places, T]; −∞ where impossible."""
    n_rows, n_tokens = batch.ids.shape
    told = module.logits(rows).float()  # [n_scored, n_places]
    whole = told.new_full((n_rows * n_tokens, batch.n_places), -torch.inf)
    whole = whole.index_copy(0, batch.scored, told)
    return whole.view(n_rows, n_tokens, -1).transpose(1, 2).flatten(0, 1)


def _pair_logits(module: OwnModule, hidden: Tensor) -> Tensor:
    if not isinstance(module, Transformer):
        raise ValueError("only a Transformer predicts whether a sentence follows")
    return module.next_sentence_logits(hidden).float()


def _pair_loss(logits: Tensor, is_next: Tensor) -> Tensor:
    return F.cross_entropy(logits, is_next, reduction="sum")

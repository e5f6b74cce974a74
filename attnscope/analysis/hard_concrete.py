"""Learning which heads to keep: hard concrete gates under an L0 penalty, the model's weights fixed.

The gates z of each head and text and their distribution are those of `nn/hard_concrete.py`, with one number
log_alpha learned for each head. What is minimised is E[L] + λ · Σ_h P(z_h ≠ 0) (Voita et al. 2019,
section 6.1). There the weights are trained on along with the gates; here they stay as they are, so that
the gates speak about the model that was opened.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnscope.analysis.batches import text_losses
from attnscope.analysis.importance import heads_of
from attnscope.analysis.model_adapter import Subject, TensorGates, TokenBatch
from attnscope.nn.hard_concrete import START_LOG_ALPHA, open_probability, sample_gates, settled_gates
from attnscope.records.importance import HeadScore, Importance, LearnedGates, PartsDone
from attnscope.records.sites import Gates, HeadRef, SiteKey


def learn_gates(
    subject: Subject,
    batches: Sequence[TokenBatch],
    *,
    penalty: float = 0.02,
    n_steps: int = 200,
    learning_rate: float = 0.1,
    seed: int = 0,
) -> Iterator[PartsDone | LearnedGates]:
    """Progress after each step, then the gates; batches are gone through again and again.

    `penalty` is λ, in nats per head. A larger one closes more heads. The model is left as it was.
    """
    heads = heads_of(subject)
    log_alpha = torch.full((len(heads),), START_LOG_ALPHA, device=subject.device, requires_grad=True)
    optimizer = torch.optim.Adam([log_alpha], lr=learning_rate)
    noise = torch.Generator(device="cpu").manual_seed(seed)
    for step in range(n_steps):
        batch = batches[step % len(batches)]
        u = torch.rand(batch.n_texts, len(heads), generator=noise).clamp_(1e-6, 1 - 1e-6)
        with subject.studying(), torch.enable_grad():
            gates = split_by_site(subject, sample_gates(log_alpha, u.to(subject.device)))
            loss = text_losses(subject, batch, TensorGates(gates)).mean()
            n_open = open_probability(log_alpha).sum()
            (gradient,) = torch.autograd.grad(loss + penalty * n_open, [log_alpha])
        log_alpha.grad = gradient
        optimizer.step()
        told, count = torch.stack([loss.detach(), n_open.detach()]).tolist()
        about = f"loss {told:.3f}, {count:.1f} heads open"
        yield PartsDone(n_done=step + 1, n_total=n_steps, about=about)
    yield _learned(heads, log_alpha.detach().cpu(), penalty=penalty, n_steps=n_steps)


def importance_of_gates(learned: LearnedGates, n_texts: int) -> Importance:
    """The order in which learned gates give heads up: by the chance of being open."""
    scores = tuple(HeadScore(head=head, value=value) for head, value in learned.open_probability)
    return Importance(ranking="learned", scores=scores, n_texts=n_texts)


def split_by_site(subject: Subject, gates: Tensor) -> dict[SiteKey, Tensor]:
    """Gates [..., n_heads of all sites] cut into those of each site."""
    parts = torch.split(gates, [site.n_heads for site in subject.sites], dim=-1)
    return {site.key: part for site, part in zip(subject.sites, parts, strict=True)}


def _learned(heads: Sequence[HeadRef], log_alpha: Tensor, *, penalty: float, n_steps: int) -> LearnedGates:
    values, chances = settled_gates(log_alpha).tolist(), open_probability(log_alpha).tolist()
    return LearnedGates(
        gates=Gates.of(zip(heads, values, strict=True)),
        open_probability=tuple(zip(heads, chances, strict=True)),
        penalty=penalty,
        n_steps=n_steps,
    )

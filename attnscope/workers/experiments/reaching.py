"""Loss past the trained length: trained tiny decoders that differ only in their positions.

    symbol   meaning                                                           shape
    L        trained length; texts that are read are FURTHER times as long      one number
    loss     nats a token at each place, mean over N_READ new texts             [FURTHER · L]

The task says the token again that stood `look_back` positions before: it needs the offset between two tokens,
and nothing else. Press et al. 2022 measure the same on English, with large models.
"""

import math
from collections.abc import Iterator

import torch
from torch import Generator

from attnscope.nn import Transformer
from attnscope.records.experiments import SCHEMES, ExperimentNews, ReachCurve, ReachFinding, ReachQuestion
from attnscope.workers.experiments import (
    BATCH,
    CHANCE,
    D_MODEL,
    descend,
    draw_texts,
    experiment,
    loss_by_place,
    mean_loss,
    tiny_decoder,
)

FURTHER, N_READ = 4, 64
N_LAYERS, N_HEADS = 2, 4
_RATE, _N_WARMUP, _LAST_SHARE = 3e-3, 20, 0.1
_NEWS_EVERY = 20


@experiment(ReachQuestion)
def read_past(question: ReachQuestion) -> Iterator[ExperimentNews]:
    """Train one scheme after the other; news include the curves so far."""
    curves: list[ReachCurve] = []
    n_total = len(SCHEMES) * question.n_steps
    n_parameters = 0
    for k, scheme in enumerate(SCHEMES):
        model = untrained_decoder(scheme, question)
        n_parameters = max(n_parameters, sum(p.numel() for p in model.parameters()))
        for step in train_scheme(model, question):
            if step == question.n_steps:
                curves.append(losses_by_place(model, scheme, question))
            yield ExperimentNews(
                n_done=k * question.n_steps + step,
                n_total=n_total,
                finding=ReachFinding(
                    question=question,
                    curves=tuple(curves),
                    chance=CHANCE,
                    n_read=FURTHER * question.n_trained,
                    n_parameters=n_parameters,
                ),
                is_done=len(curves) == len(SCHEMES),
            )


def untrained_decoder(scheme: str, question: ReachQuestion) -> Transformer:
    return tiny_decoder(
        scheme,
        n_layers=N_LAYERS,
        n_heads=N_HEADS,
        n_tokens=question.n_trained,
        place="pre",
        d_ff=2 * D_MODEL,
        seed=question.seed,
    )


def train_scheme(model: Transformer, question: ReachQuestion) -> Iterator[int]:
    """Train with Adam; yields the number of steps done, every few steps and at the end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE, betas=(0.9, 0.98), fused=True)
    generator = Generator().manual_seed(question.seed)
    for step in range(1, question.n_steps + 1):
        falling = 1.0 - (1.0 - _LAST_SHARE) * step / question.n_steps
        loss = mean_loss(model, *draw_texts(BATCH, question.n_trained, question.look_back, generator))
        descend(optimizer, loss, _RATE * min(1.0, step / _N_WARMUP) * falling)
        if step % _NEWS_EVERY == 0 or step == question.n_steps:
            yield step


def losses_by_place(model: Transformer, scheme: str, question: ReachQuestion) -> ReachCurve:
    """The loss at each position of longer texts, as far as the model has positions."""
    n_read = FURTHER * question.n_trained
    generator = Generator().manual_seed(question.seed + 1)
    ids, targets = draw_texts(N_READ, n_read, question.look_back, generator)
    n_known = n_read if model.can_read_past else question.n_trained
    if model.can_read_past:
        model.reach_past(n_read)
    losses = loss_by_place(model.eval(), ids[:, :n_known], targets[:, :n_known]).tolist()
    return ReachCurve(scheme=scheme, losses=(*losses, *[math.nan] * (n_read - n_known)))

"""Two hundred steps of every variant on a text whose second half repeats the first."""

import math

import pytest
import torch
import torch.nn.functional as F

from attnscope.nn import ModelConfig, build_transformer

N_PIECES, HALF = 12, 6
SMALL = {
    "form": "decoder",
    "vocab_size": N_PIECES,
    "d_model": 16,
    "n_layers": 1,
    "n_heads": 2,
    "d_ff": 32,
    "max_tokens": 2 * HALF,
    "window": 7,
    "mask_block": 3,
    "prefix_tokens": HALF,
    "n_buckets": 16,
    "max_distance": 12,
}
VARIANTS = [
    *({"mask": mask} for mask in ("full", "window", "global", "bigbird", "prefix")),
    {"mask": "dilated", "window": 1, "dilation": HALF - 1},  # just the token that tells
    *({"score": score} for score in ("dot", "general", "cosine", "gaussian", "additive", "kernel")),
    *({"position": p} for p in ("none", "binary", "rotary", "t5", "alibi", "shaw")),
    {"position": "sinusoidal", "scale_embeddings": True, "tie_embeddings": False},
    *({"activation": a} for a in ("relu", "swish", "glu", "reglu", "geglu", "swiglu")),
    {"norm": "rms"},
    {"norm": "none"},
    {"norm_place": "post", "embedding_norm": True},
    {"norm_place": "sandwich"},
    {"has_feed_forward": False},
    {"has_residual": False},
]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_that_a_repetition_is_learned(variant):
    """Without looking back nothing beats ln 12 nats a token.

    Whoever knows places can tell every token; a set of tokens, or slopes, narrow them down only.
    """
    model = build_transformer(ModelConfig.from_dict({**SMALL, **variant}), seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(200):
        half = torch.rand(8, N_PIECES, generator=generator).argsort(dim=1)[:, :HALF]
        text = torch.cat((half, half), dim=1)
        logits = model.logits(model.decode(text[:, :-1])[:, HALF - 1 :])
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, HALF:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    last = sum(losses[-20:]) / 20
    assert losses[0] > 0.95 * math.log(N_PIECES)
    assert last < (0.96 if variant.get("position") in ("none", "alibi") else 0.5) * math.log(N_PIECES)

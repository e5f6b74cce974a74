"""Gradients of a new Transformer at its first step, norms before or after (Xiong et al. 2020, section 3).

    symbol   meaning                                                   shape
    ids      random tokens; each is to tell another random one         [batch, n_tokens]
    W₂       the second matrix of a layer's feed-forward               [d_model, d_ff]

Their theorem 1: at initialisation the gradient of the last layer's W₂ is about d·√(ln d) with norms after, of
any depth, and smaller by √n_layers with norms before. Tokens see each other, as there.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attnscope.nn.block import Block
from attnscope.nn.config import ModelConfig
from attnscope.nn.layers import SelfAttention
from attnscope.nn.transformer import Transformer, build_transformer
from attnscope.records.experiments import (
    PLACES,
    Drawing,
    ExperimentNews,
    GradientCurve,
    GradientFinding,
    GradientQuestion,
    Place,
)

DEPTHS: tuple[int, ...] = (1, 2, 4, 6, 8, 12, 16, 24)
_VOCABULARY, _BATCH, _N_TOKENS, _N_HEADS = 64, 8, 16, 4
_SMALL_STD = 0.02


def depths_of(question: GradientQuestion) -> tuple[int, ...]:
    """The depths that are tried: those of DEPTHS below the one asked for, and that one, the deepest first."""
    return (question.n_layers, *(n for n in reversed(DEPTHS) if n < question.n_layers))


def first_gradients(question: GradientQuestion, number: int = 0) -> Iterator[ExperimentNews]:
    """One piece of news for each model that was drawn; the last one is complete."""
    curves: list[GradientCurve] = []
    wanted = [(n, place) for n in depths_of(question) for place in PLACES]
    n_total, n_done = question.n_draws * len(wanted), 0
    for n_layers, place in wanted:
        sums = torch.zeros(n_layers, dtype=torch.float64)
        for draw in range(question.n_draws):
            model = new_model(place, n_layers, question.d_model, question.drawing, question.seed + draw)
            sums += gradient_norms(model, *random_texts(question.seed + draw))
            n_done += 1
            if draw == question.n_draws - 1:
                norms = tuple((sums / question.n_draws).tolist())
                curves.append(GradientCurve(place=place, n_layers=n_layers, norms=norms))
            yield ExperimentNews(
                number=number,
                n_done=n_done,
                n_total=n_total,
                finding=GradientFinding(question=question, curves=tuple(curves)),
                is_done=n_done == n_total,
            )


def new_model(place: Place, n_layers: int, d_model: int, drawing: Drawing, seed: int) -> Transformer:
    """An untrained encoder with its norms at one place."""
    config = ModelConfig(
        form="encoder",
        vocab_size=_VOCABULARY,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=_N_HEADS,
        d_ff=4 * d_model,
        max_tokens=_N_TOKENS,
        position="sinusoidal",
        norm_place=place,
        activation="relu",
        tie_embeddings=False,
    )
    model = build_transformer(config, seed)
    generator = Generator().manual_seed(seed)
    with torch.no_grad():
        model.tokens.weight.normal_(generator=generator)  # tokens from N(0, 1), as the theorem has them
        for block in model.encoder:
            if isinstance(block, Block):
                for matrix in matrices_of(block):
                    draw_matrix(matrix, drawing, generator)
        if model.head.weight is not None:
            model.head.weight.normal_(std=d_model**-0.5, generator=generator)
    return model


def matrices_of(block: Block) -> tuple[Tensor, ...]:
    """Queries, keys, values, output, and both of the feed-forward, each as a matrix of its own."""
    attention, feed_forward = block.attention, block.feed_forward
    if not isinstance(attention, SelfAttention) or feed_forward is None:
        raise TypeError("a layer without attention or feed-forward has no such gradients")
    return (
        *attention.qkv.weight.chunk(3),
        attention.output.weight,
        feed_forward.up.weight,
        feed_forward.down.weight,
    )


def draw_matrix(weight: Tensor, drawing: Drawing, generator: Generator) -> None:
    """Fill [n_out, n_in] in place."""
    match drawing:
        case "xavier":
            nn.init.xavier_normal_(weight, generator=generator)
        case "he":
            nn.init.kaiming_normal_(weight, generator=generator)
        case _:
            weight.normal_(std=_SMALL_STD, generator=generator)


def random_texts(seed: int) -> tuple[Tensor, Tensor]:
    """Random tokens and what they are to tell, both [batch, n_tokens]."""
    generator = Generator().manual_seed(seed)
    ids, targets = torch.randint(_VOCABULARY, (2, _BATCH, _N_TOKENS), generator=generator)
    return ids, targets


def gradient_norms(model: Transformer, ids: Tensor, targets: Tensor) -> Tensor:
    """‖∂loss/∂W₂‖ (Frobenius) of each layer, [n_layers]; the loss is the mean over tokens."""
    loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
    blocks = [block for block in model.encoder if isinstance(block, Block)]
    weights = [block.feed_forward.down.weight for block in blocks if block.feed_forward is not None]
    gradients = torch.autograd.grad(loss, weights)
    return torch.stack([gradient.norm() for gradient in gradients]).double()

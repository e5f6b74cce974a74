"""Gradients of a new Transformer at its first step, norms before or after (Xiong et al. 2020, section 3).

    symbol   meaning                                                   shape
    ids      random tokens; each is to tell another random one         [batch, n_tokens]
    source   random tokens that the encoder of an encoder–decoder reads [batch, n_tokens]
    W₂       the second matrix of a layer's feed-forward               [d_model, d_ff]

Their theorem 1: at initialisation the gradient of the last layer's W₂ is about d·√(ln d) with norms after, of
any depth, and smaller by √n_layers with norms before. Measured is the decoder of an encoder–decoder of equal
depths, as in their figure 3, or an encoder alone.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attnscope.nn import (
    CrossAttention,
    FeedForward,
    ModelConfig,
    SelfAttention,
    Transformer,
    build_transformer,
)
from attnscope.nn.block import Block
from attnscope.records.experiments import (
    PLACES,
    Drawing,
    ExperimentNews,
    GradientCurve,
    GradientFinding,
    GradientQuestion,
    Place,
)
from attnscope.workers.experiments import experiment

DEPTHS: tuple[int, ...] = (1, 2, 4, 6, 8, 12, 16, 24)
_VOCABULARY, _BATCH, _N_TOKENS, _N_HEADS = 64, 8, 16, 4
_SMALL_STD = 0.02


@experiment(GradientQuestion)
def first_gradients(question: GradientQuestion) -> Iterator[ExperimentNews]:
    """Yield news after each model drawn; the last one is complete."""
    curves: list[GradientCurve] = []
    depths = (question.n_layers, *(n for n in reversed(DEPTHS) if n < question.n_layers))
    wanted = [(n, place) for n in depths for place in PLACES]
    n_total, n_done = question.n_draws * len(wanted), 0
    for n_layers, place in wanted:
        sums = torch.zeros(n_layers, dtype=torch.float64)
        for draw in range(question.n_draws):
            model = model_of_depth(replace(question, n_layers=n_layers, seed=question.seed + draw), place)
            sums += gradient_norms(model, *random_texts(question.seed + draw))
            n_done += 1
            if draw == question.n_draws - 1:
                norms = tuple((sums / question.n_draws).tolist())
                curves.append(GradientCurve(place=place, n_layers=n_layers, norms=norms))
            yield ExperimentNews(
                n_done=n_done,
                n_total=n_total,
                finding=GradientFinding(question=question, curves=tuple(curves)),
                is_done=n_done == n_total,
            )


def model_of_depth(question: GradientQuestion, place: Place) -> Transformer:
    """An untrained model of a question's depth with its norms at one place."""
    config = ModelConfig(
        form="encoder" if question.stack == "encoder" else "encoder-decoder",
        vocab_size=_VOCABULARY,
        d_model=question.d_model,
        n_layers=question.n_layers,
        n_heads=_N_HEADS,
        d_ff=4 * question.d_model,
        max_tokens=_N_TOKENS,
        position="sinusoidal",
        norm_place=place,
        activation="relu",
        tie_embeddings=False,
    )
    model = build_transformer(config, question.seed)
    generator = Generator().manual_seed(question.seed)
    with torch.no_grad():
        model.tokens.weight.normal_(generator=generator)  # tokens from N(0, 1), as the theorem has them
        for block in (*model.encoder, *model.decoder):
            if isinstance(block, Block):
                for matrix in matrices_of(block):
                    draw_matrix(matrix, question.drawing, generator)
        if model.head.weight is not None:
            model.head.weight.normal_(std=question.d_model**-0.5, generator=generator)
    return model


def matrices_of(block: Block) -> tuple[Tensor, ...]:
    """Queries, keys, values, output, and both of the feed-forward, each as a separate matrix."""
    attention, cross, feed_forward = block.attention, block.cross, block.feed_forward
    if not isinstance(attention, SelfAttention) or not isinstance(feed_forward, FeedForward):
        raise TypeError("a layer without attention or feed-forward has no such gradients")
    of_cross = (
        (cross.query.weight, *cross.kv.weight.chunk(2), cross.output.weight)
        if isinstance(cross, CrossAttention)
        else ()
    )
    return (
        *attention.qkv.weight.chunk(3),
        attention.output.weight,
        *of_cross,
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


def random_texts(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random tokens, their targets, and a source, all [batch, n_tokens]."""
    generator = Generator().manual_seed(seed)
    ids, targets, source = torch.randint(_VOCABULARY, (3, _BATCH, _N_TOKENS), generator=generator)
    return ids, targets, source


def first_loss(model: Transformer, ids: Tensor, targets: Tensor, source: Tensor) -> Tensor:
    """The mean over tokens, in nats; the source is read if there is a decoder."""
    is_encoder = model.config.form == "encoder"
    logits = model(ids) if is_encoder else model.logits(model.decode(ids, memory=model.encode(source)))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gradient_norms(model: Transformer, ids: Tensor, targets: Tensor, source: Tensor) -> Tensor:
    """‖∂loss/∂W₂‖ (Frobenius) of each layer of the decoder, else of the encoder, [n_layers]."""
    loss = first_loss(model, ids, targets, source)
    stack = model.encoder if model.config.form == "encoder" else model.decoder
    blocks = [block for block in stack if isinstance(block, Block)]
    weights = [
        block.feed_forward.down.weight for block in blocks if isinstance(block.feed_forward, FeedForward)
    ]
    gradients = torch.autograd.grad(loss, weights)
    return torch.stack([gradient.norm() for gradient in gradients]).double()

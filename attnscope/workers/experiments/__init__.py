"""The experiments of the labs, a file for each, which names its question; and the tiny decoders that several
train, with their task: repeat the token from some positions before. No Qt.

    symbol    meaning                                              shape
    ids       random tokens                                        [batch, n_tokens]
    targets   ids, moved on by `look_back`; IGNORED at the start   [batch, n_tokens]

A text is drawn anew for each step, so nothing can be learned by heart; guessing costs ln VOCABULARY nats.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from attnscope.models import Model
from attnscope.nn import ModelConfig, Transformer, build_transformer
from attnscope.nn.config import NormPlace, Position
from attnscope.records.experiments import ExperimentNews, Question
from attnscope.schemes import module_names

Asked = TypeVar("Asked", bound=Question)
GetModel = Callable[[], Model]
OfModel = Callable[[Asked, GetModel], Iterator[ExperimentNews]]
Alone = Callable[[Asked], Iterator[ExperimentNews]]

_DONE: dict[type[object], OfModel[Any]] = {}


def experiment(kind: type[Asked]) -> Callable[[Alone[Asked]], Alone[Asked]]:
    """Register a generator of news as the answer to a kind of question."""

    def note(work: Alone[Asked]) -> Alone[Asked]:
        _DONE[kind] = lambda question, _get_model: work(question)
        return work

    return note


def experiment_of_model(kind: type[Asked]) -> Callable[[OfModel[Asked]], OfModel[Asked]]:
    """The same for one that also reads the open model."""

    def note(work: OfModel[Asked]) -> OfModel[Asked]:
        _DONE[kind] = work
        return work

    return note


def work_on(question: Question, number: int, get_model: GetModel) -> Iterator[ExperimentNews]:
    """Work on the answer to a question, piece by piece, with the number of the request."""
    for news in _DONE[type(question)](question, get_model):
        yield replace(news, number=number)


VOCABULARY, D_MODEL, BATCH = 16, 32, 16
CHANCE = math.log(VOCABULARY)
IGNORED = -100


def tiny_decoder(
    position: Position, *, n_layers: int, n_heads: int, n_tokens: int, place: NormPlace, d_ff: int, seed: int
) -> Transformer:
    """A decoder of width D_MODEL; a sinusoidal table is added to embeddings scaled as in Vaswani et al."""
    config = ModelConfig(
        form="decoder",
        vocab_size=VOCABULARY,
        d_model=D_MODEL,
        n_layers=n_layers,
        n_heads=n_heads,
        d_ff=d_ff,
        max_tokens=n_tokens,
        position=position,
        norm_place=place,
        n_buckets=16,
        max_distance=32,
        scale_embeddings=position == "sinusoidal",
    )
    return build_transformer(config, seed)


def draw_texts(n_texts: int, n_tokens: int, look_back: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Random ids and their targets."""
    ids = torch.randint(VOCABULARY, (n_texts, n_tokens), generator=generator)
    targets = ids.roll(look_back, dims=1)
    targets[:, :look_back] = IGNORED
    return ids, targets


def descend(
    optimizer: torch.optim.Optimizer, loss: Tensor, rate: float, *, most_norm: float | None = None
) -> None:
    """Take one step down the loss at a rate, with the gradient clipped to a norm."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    for group in optimizer.param_groups:
        group["lr"] = rate
        if most_norm is not None:
            torch.nn.utils.clip_grad_norm_(group["params"], most_norm)
    optimizer.step()


def mean_loss(model: Transformer, ids: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of the tokens that have a target, in nats."""
    return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def loss_by_place(model: Transformer, ids: Tensor, targets: Tensor) -> Tensor:
    """The mean over texts at each position, [n_tokens], float64; NaN where there is no target."""
    with torch.no_grad():
        logits = model(ids).double()
    each = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
    return torch.where(targets[0] == IGNORED, torch.nan, each.mean(dim=0))


for _name in module_names(__name__):
    import_module(f"{__name__}.{_name}")

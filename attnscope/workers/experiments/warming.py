"""Why warm-up: Adam's first updates with it, without it, and RAdam's (Liu et al. 2020; Xiong et al. 2020).

    symbol   meaning                                                      shape
    Δθ       what one step changed, of every parameter                    [n_parameters]
    η        learning rate; with warm-up η·t/w for the first w steps       one number

Adam divides the mean gradient by its root mean square. At step 1 both come from one gradient, so each
parameter moves by η, whatever its gradient: the step of largest variance (Liu et al. 2020, section 3).
"""

import itertools
from collections.abc import Generator as Steps
from collections.abc import Iterator

import torch
from torch import Generator, Tensor
from torch.nn.utils import parameters_to_vector

from attnscope.nn import Transformer
from attnscope.records.experiments import (
    WARMINGS,
    ExperimentNews,
    Warming,
    WarmupFinding,
    WarmupQuestion,
    WarmupRun,
)
from attnscope.workers.experiments import (
    BATCH,
    D_MODEL,
    descend,
    draw_texts,
    experiment,
    mean_loss,
    tiny_decoder,
)

FIRST, LAST, N_BINS = -8.0, -1.0, 56
"""The histograms' range in log10 |Δθ|, and their number of bins."""
N_TOKENS, LOOK_BACK = 16, 3
_BETAS = (0.9, 0.98)
_NEWS_EVERY = 10


@experiment(WarmupQuestion)
def try_warmups(question: WarmupQuestion) -> Iterator[ExperimentNews]:
    """Yield news every few steps, the methods in turn. All have the same weights and texts."""
    models = [new_model(question) for _ in WARMINGS]
    every = [train_way(model, warming, question) for model, warming in zip(models, WARMINGS, strict=True)]
    edges = tuple(torch.linspace(FIRST, LAST, N_BINS + 1, dtype=torch.float64).tolist())
    found: dict[Warming, WarmupRun] = {}
    n_parameters = sum(p.numel() for p in models[0].parameters())
    n_total = len(WARMINGS) * question.n_steps
    for run in itertools.chain.from_iterable(zip(*every, strict=True)):
        found[run.warming] = run
        n_done = sum(len(one.losses) for one in found.values())
        runs = tuple(found.values())
        yield ExperimentNews(
            n_done=n_done,
            n_total=n_total,
            finding=WarmupFinding(question=question, edges=edges, runs=runs, n_parameters=n_parameters),
            is_done=n_done == n_total,
        )


def new_model(question: WarmupQuestion) -> Transformer:
    """The untrained model with which every method begins."""
    return tiny_decoder(
        "learned",
        n_layers=question.n_layers,
        n_heads=2,
        n_tokens=N_TOKENS,
        place=question.place,
        d_ff=4 * D_MODEL,
        seed=question.seed,
    )


def train_way(model: Transformer, warming: Warming, question: WarmupQuestion) -> Steps[WarmupRun, None, None]:
    """Run one method, with news every few steps and at the end."""
    parameters = list(model.parameters())
    optimizer: torch.optim.Optimizer
    if warming == "radam":
        optimizer = torch.optim.RAdam(parameters, lr=question.learning_rate, betas=_BETAS)
    else:
        optimizer = torch.optim.Adam(parameters, lr=question.learning_rate, betas=_BETAS, fused=True)
    generator = Generator().manual_seed(question.seed)
    losses: list[float] = []
    histograms: list[tuple[int, ...]] = []
    typical: list[float] = []
    before = parameters_to_vector(parameters).detach().clone()
    for step in range(1, question.n_steps + 1):
        loss = mean_loss(model, *draw_texts(BATCH, N_TOKENS, LOOK_BACK, generator))
        descend(optimizer, loss, rate_at(step, warming, question))
        after = parameters_to_vector(parameters).detach()
        sizes = (after - before).abs()
        before = after.clone()
        losses.append(loss.item())
        histograms.append(histogram(sizes))
        typical.append(sizes.median().item())
        if step % _NEWS_EVERY == 0 or step == question.n_steps:
            yield WarmupRun(
                warming=warming, losses=tuple(losses), histograms=tuple(histograms), typical=tuple(typical)
            )


def rate_at(step: int, warming: Warming, question: WarmupQuestion) -> float:
    """The learning rate of a step, the first is 1."""
    if warming != "warmup" or question.n_warmup < 1:
        return question.learning_rate
    return question.learning_rate * min(1.0, step / question.n_warmup)


def histogram(sizes: Tensor) -> tuple[int, ...]:
    """Histogram of the parameters' changes, [N_BINS], without unchanged ones."""
    logs = sizes[sizes > 0].log10().clamp(FIRST, LAST)
    return tuple(int(n) for n in torch.histc(logs, N_BINS, FIRST, LAST).tolist())

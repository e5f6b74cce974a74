"""A bundled model, fine-tuned on a few sentences repeatedly (Dodge et al. 2020).

    symbol      meaning                                                            shape
    init        a seed of the weights that the model did not have before            one number
    order       a seed of the batches that are drawn                                one number
    ‖θ_t − θ_0‖ how far each layer has come from where the run began                [n_layers]

Every pair of the two seeds is a run; all runs share the sentences and everything else. In a second way the
layers next to the output begin anew, as Zhang et al. 2021 do, who find that they otherwise hardly move.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from attnscope.models.checkpoint import LoadedFolder
from attnscope.nn.own_module import OwnModule
from attnscope.records.experiments import ExperimentNews, TuneFinding, TuneQuestion, TuneRun
from attnscope.training.data import Prepared, prepare
from attnscope.training.objectives import loss_sum, scored_logits
from attnscope.training.parts import Recipe
from attnscope.training.recipe import parse_recipe
from attnscope.training.starting import first_module, read_start
from attnscope.training.techniques import layer_of
from attnscope.workers.experiments import descend, experiment

BATCH, N_HELD_OUT = 16, 256
_RATE, _WARMUP_SHARE = 1e-3, 0.1


def tune_recipe(question: TuneQuestion) -> Recipe:
    """Recipe of the question's runs, except for seed and method."""
    return parse_recipe(f"""
[model]
pooling = "mean"

[data]
kind = "task"
task = "sentiment"
n_examples = {question.n_examples}

[objective]
kind = "classification"

[training]
n_steps = {question.n_steps}
batch_size = {BATCH}
evaluation_batches = {N_HELD_OUT // BATCH}
seed = {question.seed}

[start]
from = "stories-masked"
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStart:
    """Shared by all runs of a question: recipe, data, and the initial model."""

    recipe: Recipe
    data: Prepared
    start: LoadedFolder


def shared_start(question: TuneQuestion) -> SharedStart:
    """Read the model and prepare the sentences; raises LoadError if the model is missing."""
    recipe = tune_recipe(question)
    start = read_start(recipe)
    return SharedStart(recipe=recipe, data=prepare(recipe, start.tokenizer), start=start)


@experiment(TuneQuestion)
def fine_tune(question: TuneQuestion) -> Iterator[ExperimentNews]:
    """Yield news after each step; a run is reported when done."""
    begun = shared_start(question)
    wanted = list(product(range(question.n_orders), range(question.n_inits), (False, True)))
    n_total, n_parameters = question.n_steps * len(wanted), 0
    runs: list[TuneRun] = []
    layers: tuple[str, ...] = ()
    for k, (order, init, is_anew) in enumerate(wanted):
        module = first_of(begun, question, init, is_anew=is_anew)
        first = {name: p.detach().clone() for name, p in module.named_parameters()}
        n_parameters = sum(p.numel() for p in first.values())
        for step in tuning_steps(module, begun, question, order):
            if step == question.n_steps:
                moved = moved_by_layer(module, first)
                layers = tuple(moved)
                runs.append(
                    TuneRun(
                        is_reinitialised=is_anew,
                        init=init,
                        order=order,
                        accuracy=accuracy_of(module, begun.data),
                        moved=tuple(moved.values()),
                    )
                )
            yield ExperimentNews(
                n_done=k * question.n_steps + step,
                n_total=n_total,
                finding=TuneFinding(
                    question=question,
                    layers=layers,
                    n_held_out=N_HELD_OUT,
                    n_parameters=n_parameters,
                    runs=tuple(runs),
                ),
                is_done=len(runs) == len(wanted),
            )


def first_of(begun: SharedStart, question: TuneQuestion, init: int, *, is_anew: bool) -> OwnModule:
    """The model at the start of a run; new parts are drawn by `init`."""
    recipe = begun.recipe
    n_anew = question.reinit_layers if is_anew else 0
    drawn = replace(
        recipe,
        training=replace(recipe.training, seed=question.seed + init),
        start=replace(recipe.start, reinit_layers=n_anew),
    )
    return first_module(drawn, begun.data.fitted(recipe.model), begun.start)


def tuning_steps(module: OwnModule, begun: SharedStart, question: TuneQuestion, order: int) -> Iterator[int]:
    """Train with Adam, a warm-up and a linear decay to 0; yields the number of steps done after each."""
    optimizer = torch.optim.Adam(module.parameters(), lr=_RATE)
    n_warmup = max(1, round(_WARMUP_SHARE * question.n_steps))
    for step in range(1, question.n_steps + 1):
        share = min(1.0, step / n_warmup) * (question.n_steps + 1 - step) / question.n_steps
        rng = np.random.default_rng((question.seed + order, step))
        batch = begun.data.batches.draw(rng, 0.0)
        module.train()
        torch.manual_seed((question.seed + order) * 100_003 + step)  # for dropout
        loss = loss_sum(module, batch) / len(batch.labels)
        descend(optimizer, loss, _RATE * share)
        yield step


@torch.no_grad()
def accuracy_of(module: OwnModule, data: Prepared) -> float:
    """The share of the held-out sentences whose label has the largest output."""
    module.eval()
    n_right = n = 0
    for batch in data.batches.evaluation():
        n_right += int((scored_logits(module, batch).argmax(dim=1) == batch.labels).sum())
        n += len(batch.labels)
    return n_right / n


@torch.no_grad()
def moved_by_layer(module: OwnModule, first: dict[str, torch.Tensor]) -> dict[str, float]:
    """‖θ_t − θ_0‖ of every layer, in the order of the layers."""
    squares: dict[str, float] = {}
    for name, parameter in module.named_parameters():
        layer = layer_of(name)
        change = (parameter - first[name]).double().square().sum().item()
        squares[layer] = squares.get(layer, 0.0) + change
    return {layer: math.sqrt(total) for layer, total in squares.items()}

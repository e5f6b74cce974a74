"""LAMB against algorithm 2 of You et al. 2020, in float64 and in loops; and a model that learns with it."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from attnscope.training import (
    OptimizerPart,
    TrainingRun,
    build_optimizer,
    parse_recipe,
    restore_tensors,
    set_learning_rate,
    tensors_of,
)

RECIPES = Path(__file__).parents[2] / "resources" / "recipes"


def _reference(
    weights: list[float],
    gradients: list[list[float]],
    rates: list[float],
    beta1: float,
    beta2: float,
    decay: float,
) -> list[float]:
    """The weights after steps with these gradients, number by number."""
    n = len(weights)
    means, squares = [0.0] * n, [0.0] * n
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        update = []
        for i, g in enumerate(gradient):
            means[i] = beta1 * means[i] + (1 - beta1) * g
            squares[i] = beta2 * squares[i] + (1 - beta2) * g * g
            ratio = (means[i] / (1 - beta1**t)) / (math.sqrt(squares[i] / (1 - beta2**t)) + 1e-6)
            update.append(ratio + decay * weights[i])
        length = math.sqrt(sum(w * w for w in weights))
        of_update = math.sqrt(sum(u * u for u in update))
        trust = length / of_update if length and of_update else 1.0
        weights = [w - rate * trust * u for w, u in zip(weights, update, strict=True)]
    return weights


class _Parts(nn.Module):
    """A matrix, a vector, a vector of zeros and one number alone, in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.linspace(-1.0, 2.0, 6, dtype=torch.float64).reshape(2, 3))
        self.vector = nn.Parameter(torch.linspace(0.5, -0.25, 4, dtype=torch.float64))
        self.zeros = nn.Parameter(torch.zeros(3, dtype=torch.float64))
        self.alone = nn.Parameter(torch.tensor([[0.75]], dtype=torch.float64))


def _gradient(like: Tensor, step: int) -> Tensor:
    n = like.numel()
    return torch.tensor([math.sin(1.7 * i + 0.9 * step) for i in range(n)], dtype=like.dtype).reshape(
        like.shape
    )


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("betas", [(0.9, 0.98), (0.0, 0.5), (0.5, 0.0)])
def test_that_lamb_follows_algorithm_2_of_its_paper(decay: float, betas: tuple[float, float]) -> None:
    module = _Parts()
    part = OptimizerPart(kind="lamb", learning_rate=0.1, weight_decay=decay, beta1=betas[0], beta2=betas[1])
    optimizer = build_optimizer(module, part)
    before = {name: p.detach().flatten().tolist() for name, p in module.named_parameters()}
    rates = [0.1, 0.05, 0.2, 0.01]
    for step, rate in enumerate(rates):
        for p in module.parameters():
            p.grad = _gradient(p, step)
        set_learning_rate(optimizer, rate)
        optimizer.step()
    for name, p in module.named_parameters():
        gradients = [_gradient(p, step).flatten().tolist() for step in range(len(rates))]
        decays = decay if p.ndim >= 2 else 0.0  # vectors never decay
        expected = _reference(before[name], gradients, rates, *betas, decays)
        found = p.detach().flatten().tolist()
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-14), name


def test_that_every_matrix_moves_by_the_same_share_of_itself() -> None:
    module = nn.ModuleList([nn.Linear(3, 2, bias=False), nn.Linear(3, 2, bias=False)])
    with torch.no_grad():
        module[1].weight.copy_(module[0].weight * 100)
    optimizer = build_optimizer(module, OptimizerPart(kind="lamb", learning_rate=0.01, weight_decay=0.0))
    before = [one.weight.detach().clone() for one in module]
    for scale, one in zip((1e-3, 1e3), module, strict=True):
        one.weight.grad = scale * torch.linspace(-1.0, 2.0, 6).reshape(2, 3)
    optimizer.step()
    for one, was in zip(module, before, strict=True):
        assert float((one.weight.detach() - was).norm() / was.norm()) == pytest.approx(0.01, rel=1e-4)


def test_that_a_step_without_a_gradient_moves_nothing() -> None:
    module = _Parts()
    optimizer = build_optimizer(module, OptimizerPart(kind="lamb", weight_decay=0.0))
    for p in module.parameters():
        p.grad = torch.zeros_like(p)
    before = module.matrix.detach().clone()
    optimizer.step()
    assert torch.equal(module.matrix, before)


def test_that_lamb_goes_on_bit_for_bit_where_it_was() -> None:
    part = OptimizerPart(kind="lamb", learning_rate=0.05)
    module, again = _Parts(), _Parts()
    optimizer = build_optimizer(module, part)

    def steps(one: nn.Module, taker: torch.optim.Optimizer, first: int) -> None:
        for step in range(first, first + 3):
            for p in one.parameters():
                p.grad = _gradient(p, step)
            taker.step()

    steps(module, optimizer, 0)
    again.load_state_dict(module.state_dict())
    other = build_optimizer(again, part)
    restore_tensors(other, again, tensors_of(optimizer, module))
    steps(module, optimizer, 3)
    steps(again, other, 3)
    for p, q in zip(module.parameters(), again.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.slow
def test_that_a_tiny_model_learns_to_copy_with_it(tmp_path: Path) -> None:
    text = (RECIPES / "copy.toml").read_text(encoding="utf-8")
    changes = {
        "optimizer.kind": "lamb",
        "optimizer.learning_rate": "0.02",
        "training.n_steps": "60",
        "training.evaluate_every": "60",
        "training.compile": "off",
    }
    run = TrainingRun(parse_recipe(text, overrides=changes), tmp_path / "run", "cpu")
    losses = [event.loss for event in run.events() if type(event).__name__ == "Step"]
    assert losses[-1] < 0.7 * losses[0]

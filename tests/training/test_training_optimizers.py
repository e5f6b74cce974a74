"""Optimisers against the formulas of their papers, and their state on its way to disk."""

import pytest
import torch
from torch import nn

from attnscope.errors import LoadError
from attnscope.training.optimizers import build_optimizer, restore_tensors, set_learning_rate, tensors_of
from attnscope.training.parts import OptimizerPart


def _module() -> nn.Linear:
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(torch.arange(6.0).view(2, 3) / 6)
        module.bias.copy_(torch.tensor([1.0, -1.0]))
    return module


def _take_steps(module: nn.Linear, optimizer: torch.optim.Optimizer, n: int) -> None:
    for i in range(n):
        optimizer.zero_grad()
        module(torch.tensor([[1.0, 2.0, 3.0 + i]])).square().sum().backward()
        optimizer.step()


def test_that_adamw_follows_algorithm_2_of_its_paper() -> None:
    module = _module()
    part = OptimizerPart(learning_rate=0.1, weight_decay=0.5, beta1=0.8, beta2=0.9)
    optimizer = build_optimizer(module, part)
    weight, bias = module.weight.detach().double(), module.bias.detach().double()
    module(torch.tensor([[1.0, 2.0, 3.0]])).square().sum().backward()
    assert module.weight.grad is not None
    assert module.bias.grad is not None
    g, h = module.weight.grad.double().clone(), module.bias.grad.double().clone()
    optimizer.step()
    # after one step both bias-corrected moments are the gradient itself
    expected = weight - 0.1 * 0.5 * weight - 0.1 * g / (g.abs() + 1e-8)
    torch.testing.assert_close(module.weight.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(module.bias.double(), bias - 0.1 * h.sign(), rtol=1e-6, atol=1e-6)


def test_that_radam_starts_with_momentum_alone_while_the_variance_is_unknown() -> None:
    module = _module()
    optimizer = build_optimizer(module, OptimizerPart(kind="radam", learning_rate=0.1, weight_decay=0.0))
    before = module.weight.detach().clone()
    module(torch.tensor([[1.0, 2.0, 3.0]])).square().sum().backward()
    assert module.weight.grad is not None
    gradient = module.weight.grad.clone()
    optimizer.step()
    torch.testing.assert_close(module.weight.detach(), before - 0.1 * gradient, rtol=1e-6, atol=1e-6)


def test_that_adam_adds_its_decay_to_the_gradient() -> None:
    module = _module()
    optimizer = build_optimizer(module, OptimizerPart(kind="adam", learning_rate=0.1, weight_decay=0.5))
    weight = module.weight.detach().double()
    module(torch.tensor([[1.0, 2.0, 3.0]])).square().sum().backward()
    assert module.weight.grad is not None
    gradient = module.weight.grad.double() + 0.5 * weight
    optimizer.step()
    expected = weight - 0.1 * gradient / (gradient.abs() + 1e-8)  # Kingma and Ba 2015, algorithm 1, t = 1
    torch.testing.assert_close(module.weight.double(), expected, rtol=1e-6, atol=1e-6)


def test_that_sgd_moves_by_its_momentum() -> None:
    module = _module()
    part = OptimizerPart(kind="sgd", learning_rate=0.01, weight_decay=0.0, beta1=0.5)
    optimizer = build_optimizer(module, part)
    weight, momentum = module.bias.detach().double(), torch.zeros(2, dtype=torch.float64)
    for i in range(3):
        optimizer.zero_grad()
        module(torch.tensor([[1.0, 2.0, 3.0 + i]])).square().sum().backward()
        assert module.bias.grad is not None
        momentum = 0.5 * momentum + module.bias.grad.double()
        weight = weight - 0.01 * momentum
        optimizer.step()
    torch.testing.assert_close(module.bias.double(), weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["adamw", "adam", "radam", "sgd"])
def test_that_a_restored_optimiser_takes_the_same_steps_bit_for_bit(kind: str) -> None:
    part = OptimizerPart(kind=kind, learning_rate=0.05)
    straight = _module()
    optimizer = build_optimizer(straight, part)
    _take_steps(straight, optimizer, 8)
    first = _module()
    optimizer = build_optimizer(first, part)
    _take_steps(first, optimizer, 8)
    resumed = _module()
    resumed.load_state_dict(first.state_dict())
    again = build_optimizer(resumed, part)
    restore_tensors(again, resumed, tensors_of(optimizer, first))
    for module, its_optimizer in ((first, optimizer), (resumed, again)):
        _take_steps(module, its_optimizer, 8)
    assert torch.equal(first.weight, resumed.weight)
    assert torch.equal(first.bias, resumed.bias)


def test_that_a_learning_rate_holds_for_every_group() -> None:
    optimizer = build_optimizer(_module(), OptimizerPart())
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


@pytest.mark.parametrize(
    "tensors", [{"other/exp_avg": torch.zeros(1)}, {"weight/exp_avg": torch.zeros(3, 3)}]
)
def test_that_the_state_of_another_model_is_refused(tensors: dict[str, torch.Tensor]) -> None:
    module = _module()
    with pytest.raises(LoadError) as caught:
        restore_tensors(build_optimizer(module, OptimizerPart()), module, tensors)
    assert caught.value.kind == "state"
    assert "does not fit the model" in str(caught.value)

"""Optimisers against the formulas of their papers, and their state on its way to disk."""

import pytest
import torch
from torch import nn

from attnscope.errors import LoadError
from attnscope.nn import ModelConfig, build_own
from attnscope.schemes.optimizers import OPTIMIZERS
from attnscope.training import OptimizerPart, build_optimizer, restore_tensors, set_learning_rate, tensors_of


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


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_that_every_optimiser_learns_keeps_no_more_than_it_says_and_goes_on_where_it_was(kind: str) -> None:
    module, again = (nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(2))
    with torch.no_grad():
        for k, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.sin(torch.arange(parameter.numel()) + k).view_as(parameter) / 2)
    part = OptimizerPart(kind=kind, learning_rate=0.01)
    optimizer, x = build_optimizer(module, part), torch.cos(torch.arange(60.0)).view(10, 6)

    def step(one: nn.Module, by: torch.optim.Optimizer) -> float:
        by.zero_grad()
        loss = (one(x) - x[:, :4].flip(0)).square().mean()
        loss.backward()
        by.step()
        return loss.item()

    losses = [step(module, optimizer) for _ in range(40)]
    assert losses[-1] < 0.9 * losses[0]
    kept = tensors_of(optimizer, module)
    n = sum(parameter.numel() for parameter in module.parameters())
    n_kept = sum(tensor.numel() for tensor in kept.values() if tensor.dim())
    assert n_kept <= OPTIMIZERS[kind].n_kept(part) * n
    again.load_state_dict(module.state_dict())
    other = build_optimizer(again, part)
    restore_tensors(other, again, kept)
    assert step(module, optimizer) == step(again, other)
    for one, two in zip(module.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


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


def test_that_muon_steps_in_all_directions_of_a_matrix_alike_and_adamw_moves_the_rest() -> None:
    module = nn.Sequential(nn.Embedding(5, 6), nn.Linear(6, 4))
    part = OptimizerPart(kind="muon", learning_rate=0.01, weight_decay=0.5, beta1=0.8, beta2=0.9)
    optimizer = build_optimizer(module, part)
    before = {name: p.detach().double().clone() for name, p in module.named_parameters()}
    module(torch.arange(5)).square().sum().backward()
    gradients = {name: p.grad.double().clone() for name, p in module.named_parameters() if p.grad is not None}
    optimizer.step()
    after = {name: p.detach().double() for name, p in module.named_parameters()}
    left, _, right = torch.linalg.svd(gradients["1.weight"], full_matrices=False)
    moved = before["1.weight"] * (1 - 0.01 * 0.5) - after["1.weight"]
    moved = moved / (0.01 * 0.2 * 6**0.5)  # Liu et al. 2025: as large as a step of AdamW
    sizes = torch.linalg.svdvals(moved)  # all 1 if it were quite orthogonal; five steps come near that
    assert float(sizes.min()) > 0.6
    assert float(sizes.max()) < 1.3
    assert float((moved * (left @ right)).sum() / (moved.norm() * 4**0.5)) > 0.97
    for name, decay in (("0.weight", 0.5), ("1.bias", 0.0)):
        g = gradients[name]
        expected = before[name] * (1 - 0.01 * decay) - 0.01 * g / (g.abs() + 1e-8)
        torch.testing.assert_close(
            dict(module.named_parameters())[name].double(), expected, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("tied", [True, False])
def test_that_muon_leaves_embeddings_and_the_output_layer_to_adamw(tied: bool) -> None:
    config = ModelConfig(form="decoder", vocab_size=11, d_model=8, n_heads=2, d_ff=16, tie_embeddings=tied)
    module = build_own(config, 0)
    optimizer = build_optimizer(module, OptimizerPart(kind="muon"))
    for parameter in module.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    by_muon = {n for n, p in module.named_parameters() if "momentum_buffer" in optimizer.state[p]}
    assert by_muon == {
        f"decoder.{layer}.{name}.weight"
        for layer in range(2)
        for name in ("attention.qkv", "attention.output", "feed_forward.up", "feed_forward.down")
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adamw", "adam", "radam", "sgd", "muon"])
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

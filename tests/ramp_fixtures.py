"""Weights from a ramp, and a comparison that says how far two tensors are apart."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

Compare = Callable[..., None]


@pytest.fixture
def assert_close() -> Compare:
    def compare(found: Tensor, expected: Tensor, *, atol: float, rtol: float = 0.0) -> None:
        assert found.shape == expected.shape, f"found {found.shape}, expected {expected.shape}"
        wide, reference = found.detach().double(), expected.detach().double()
        infinite = torch.isinf(reference)
        assert torch.equal(torch.where(infinite, wide, 0), torch.where(infinite, reference, 0))
        difference = torch.where(infinite, 0, wide - reference).abs()
        allowed = atol + rtol * torch.where(infinite, 0, reference).abs()
        assert bool((difference <= allowed).all()), (
            f"max difference {difference.max():.3g}, mean {difference.mean():.3g}; "
            f"allowed {atol} + {rtol}·|x|"
        )

    return compare


def ramp_of(*shape: int, start: float = 0.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of any shape that need no seed: squares in the sine keep rows unlike each other."""
    n = int(torch.tensor(shape).prod())
    step = torch.arange(n, dtype=torch.float64) + start
    return torch.sin(step * step * 0.7310).reshape(shape).to(dtype)


@pytest.fixture
def ramp() -> Callable[..., Tensor]:
    return ramp_of


@pytest.fixture
def fill_with_ramp(ramp: Callable[..., Tensor]) -> Callable[[nn.Module], None]:
    """Give every parameter of a module values from a ramp: matrices ± 1.5 / sqrt(columns), norms around 1."""

    def fill(module: nn.Module) -> None:
        for i, (name, parameter) in enumerate(module.named_parameters()):
            values = ramp(*parameter.shape, start=1000.37 * i)
            is_norm = parameter.ndim == 1 and name.endswith("weight")
            scale = 1.5 / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.2
            parameter.data.copy_(values * scale + (1.0 if is_norm else 0.0))

    return fill

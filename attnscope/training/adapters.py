"""Low-rank adapters: of a trained model only small changes of the attention's matrices are learned.

| symbol | meaning                                             | shape           |
|--------|-----------------------------------------------------|-----------------|
| W      | a matrix of the model, fixed                        | [n_out, n_in]   |
| A      | begins as normal numbers of variance 1 / r          | [r, n_in]       |
| B      | begins as zeros, so that the model begins unchanged | [n_out, r]      |

W' = W + (α / r) · B A (Hu et al. 2021, section 4.1), for the matrices of queries, keys, values and outputs;
queries, keys and values of a self-attention are one matrix here and get one A. Whoever reads `weight` or
`state_dict()` of the module sees W'; only `named_parameters()` knows the three.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import parametrize

from attnscope.errors import LoadError
from attnscope.nn.layers import CrossAttention, SelfAttention
from attnscope.training.parts import StartPart

_PREFIX = "adapters/"
_ADAPTED = ("qkv", "query", "kv", "output")
_PRETRAINED = ("tokens", "head", "encoder", "decoder")
"""Modules that stay as they were, but for what an objective adds to them; all other modules learn along."""
_ADDED = ("head.labels.", "encoder_embedding.segments.")


class LowRank(nn.Module):
    """What makes W' of W."""

    def __init__(self, weight: Tensor, rank: int, alpha: float, generator: Generator) -> None:
        super().__init__()
        n_out, n_in = weight.shape
        a = torch.randn(rank, n_in, generator=generator) * rank**-0.5
        self.a = nn.Parameter(a.to(weight.device))
        self.b = nn.Parameter(weight.new_zeros(n_out, rank))
        self.scale = alpha / rank

    def forward(self, weight: Tensor) -> Tensor:
        """W + (α / r) · B A."""
        return weight + self.scale * (self.b @ self.a)


def adapt(module: nn.Module, part: StartPart, seed: int) -> None:
    """Give every attention of the module adapters and let nothing else of the trained model learn."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.startswith(_PRETRAINED) or name.startswith(_ADDED))
    generator = torch.Generator(device="cpu").manual_seed(seed)
    for linear in _adapted(module):
        change = LowRank(linear.weight, part.lora_rank, part.lora_alpha, generator)
        parametrize.register_parametrization(linear, "weight", change)
    module.register_state_dict_post_hook(_merge)  # type: ignore[no-untyped-call]


def adapter_tensors(module: nn.Module) -> dict[str, Tensor]:
    """W, A and B of every adapted matrix on the CPU, for a resume: a merged W' cannot be taken apart."""
    return {
        _PREFIX + name: parameter.detach().cpu().clone()
        for name, parameter in module.named_parameters()
        if ".parametrizations." in name
    }


@torch.no_grad()
def restore_adapters(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `adapter_tensors` gave; raises LoadError when it is of another model."""
    for name, parameter in module.named_parameters():
        if ".parametrizations." not in name:
            continue
        found = tensors.get(_PREFIX + name)
        if found is None or found.shape != parameter.shape:
            raise LoadError(
                f"The saved state has no adapter {name} of the size {list(parameter.shape)}.",
                kind="state",
                expected="the adapters that the run's recipe asks for",
                action="Start a new run in another folder.",
            )
        parameter.copy_(found)


def is_of_adapters(name: str) -> bool:
    """Whether a tensor of a saved state is one of `adapter_tensors`."""
    return name.startswith(_PREFIX)


def _adapted(module: nn.Module) -> Iterator[nn.Linear]:
    for inner in module.modules():
        if isinstance(inner, SelfAttention | CrossAttention):
            for name in _ADAPTED:
                linear = getattr(inner, name, None)
                if isinstance(linear, nn.Linear):
                    yield linear


def _merge(module: nn.Module, state: dict[str, Any], prefix: str, _local: object) -> None:
    """Make a state dictionary that of a model without adapters."""
    names = [name for name in state if name.startswith(prefix) and ".parametrizations." in name]
    for name in names:
        del state[name]
    for name, inner in module.named_modules():
        if isinstance(inner, nn.Linear) and parametrize.is_parametrized(inner):
            state[f"{prefix}{name}.weight"] = inner.weight.detach()

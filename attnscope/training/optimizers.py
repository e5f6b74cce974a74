"""The optimisers, and their state as named tensors (never pickles).

Where a trained model is gone on from, the top layer of a stack and all that stands above it learn at the full
rate, each layer below `decay` times as fast as the one above it, embeddings once more (Howard and Ruder 2018,
section 3.2; Zhang et al. 2020).
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import LoadError
from attnscope.nn.config import ModelConfig
from attnscope.nn.own_module import OwnModule
from attnscope.schemes.optimizers import OPTIMIZERS
from attnscope.training.distributed import part_like, whole_of
from attnscope.training.parts import OptimizerPart

FUSED_DEVICES = ("cpu", "cuda", "mps")
"""Where torch has Adam and AdamW as one kernel."""
_BELOW = ("tokens", "encoder_embedding", "decoder_embedding", "encoder_relative", "decoder_relative")


def build_optimizer(
    module: nn.Module, part: OptimizerPart, *, layer_decay: float = 1.0
) -> torch.optim.Optimizer:
    """The optimiser of a recipe (`schemes/optimizers`).

    Only matrices decay: biases, gains of norms and embedding tables of one axis stay. With a `layer_decay`
    below 1 lower layers learn more slowly.
    """
    parameters = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": part.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if layer_decay != 1.0 and isinstance(module, OwnModule):
        groups = _split_by_rate(module, groups, module.config, layer_decay)
    is_fused = all(p.device.type in FUSED_DEVICES for p in parameters)
    made = OPTIMIZERS[part.kind].made(module, groups, part, is_fused=is_fused)
    return made[0] if len(made) == 1 else _Joined(made, groups, is_fused=is_fused)


class _Joined(torch.optim.Optimizer):
    """Several optimisers that take their steps together, with one state and all their groups."""

    def __init__(
        self, parts: list[torch.optim.Optimizer], groups: list[dict[str, Any]], *, is_fused: bool
    ) -> None:
        super().__init__(groups, {"fused": is_fused})
        self._parts = parts
        self.param_groups = [group for part in parts for group in part.param_groups]
        for part in parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of all; a closure is not called."""
        for part in self._parts:
            part.step()


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate` from the next step on, or the share of it that a group learns with."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate_share", 1.0)


def tensors_of(optimizer: torch.optim.Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """The optimiser's memory on the CPU, named `parameter name/what`, for instance `norm.bias/exp_avg`."""
    return {
        f"{name}/{what}": whole_of(torch.as_tensor(value)).to("cpu").clone().contiguous()
        for name, parameter in module.named_parameters()
        for what, value in optimizer.state.get(parameter, {}).items()
        if value is not None
    }


def restore_tensors(
    optimizer: torch.optim.Optimizer, module: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `tensors_of` gave; raises LoadError when it belongs to another model."""
    parameters = dict(module.named_parameters())
    _check_names(parameters, (name.rpartition("/")[0] for name in tensors))
    for name, tensor in tensors.items():
        parameter_name, _, what = name.rpartition("/")
        parameter = parameters[parameter_name]
        if tensor.ndim and tensor.shape != parameter.shape:
            raise _foreign(f"{name} has the shape {tuple(tensor.shape)}", f"{tuple(parameter.shape)}")
        # step counters stay where the optimiser keeps them: beside the parameter when fused, else on the CPU
        is_counter = what == "step"
        is_beside = not is_counter or bool(optimizer.defaults.get("fused"))
        tensor = tensor.to(parameter.device if is_beside else "cpu").clone()
        optimizer.state[parameter][what] = part_like(parameter, tensor) if tensor.ndim else tensor


def _check_names(parameters: Mapping[str, Tensor], names: Iterable[str]) -> None:
    for name in names:
        if name not in parameters:
            raise _foreign(f"it knows a parameter {name}", "the parameters of this model")


def _foreign(found: str, expected: str) -> LoadError:
    return LoadError(
        f"The saved state of the optimiser does not fit the model: {found}.",
        kind="state",
        expected=expected,
        action="Start a new run in another folder.",
    )


def rate_share(name: str, config: ModelConfig, decay: float) -> float:
    """The share of the rate that a parameter of this name learns with.

    A token embedding that two stacks share lies below the deeper one.
    """
    first, _, rest = name.partition(".")
    depth = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    if first in _BELOW:
        stack = first.partition("_")[0]
        return decay ** depth.get(stack, max(depth.values()))
    layer = rest.partition(".")[0]
    if first in depth and layer.isdigit():
        return decay ** (depth[first] - 1 - int(layer))
    return 1.0


def _split_by_rate(
    module: nn.Module, groups: Iterable[dict[str, Any]], config: ModelConfig, decay: float
) -> list[dict[str, Any]]:
    """The optimiser's groups, cut into ones whose parameters learn at the same `rate_share`."""
    shares = {p: rate_share(name, config, decay) for name, p in module.named_parameters()}
    cut = []
    for group in groups:
        ordered = sorted(group["params"], key=lambda p: shares[p])
        for share, members in groupby(ordered, key=lambda p: shares[p]):
            cut.append({**group, "params": list(members), "rate_share": share})
    return cut

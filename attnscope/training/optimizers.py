"""The optimisers, and their state as named tensors (never pickles)."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from attnscope.errors import LoadError
from attnscope.nn.own_module import OwnModule
from attnscope.training.distributed import part_like, whole_of
from attnscope.training.layer_rates import split_by_rate
from attnscope.training.parts import OptimizerPart

FUSED_DEVICES = ("cpu", "cuda", "mps")
"""Where torch has Adam and AdamW as one kernel."""


def build_optimizer(
    module: nn.Module, part: OptimizerPart, *, layer_decay: float = 1.0
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019), RAdam (Liu et al. 2020), both with decoupled weight decay, Adam
    (Kingma and Ba 2015) or SGD with momentum, whose weight decay is part of the gradient.

    Only matrices decay: biases, gains of norms and embedding tables of one axis stay. Adam and AdamW run as
    one fused kernel where the device has it. With a `layer_decay` below 1 lower layers learn more slowly.
    """
    parameters = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": part.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if layer_decay != 1.0 and isinstance(module, OwnModule):
        groups = split_by_rate(module, groups, module.config, layer_decay)
    rate, betas = part.learning_rate, (part.beta1, part.beta2)
    is_fused = all(p.device.type in FUSED_DEVICES for p in parameters)
    match part.kind:
        case "radam":
            return torch.optim.RAdam(groups, lr=rate, betas=betas, decoupled_weight_decay=True)
        case "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=part.beta1)
        case "adam":
            return torch.optim.Adam(groups, lr=rate, betas=betas, fused=is_fused)
        case _:
            return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=is_fused)


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

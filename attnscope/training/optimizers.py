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
from attnscope.training.distributed import part_like, whole_of
from attnscope.training.parts import OptimizerPart

FUSED_DEVICES = ("cpu", "cuda", "mps")
"""Where torch has Adam and AdamW as one kernel."""
_BELOW = ("tokens", "encoder_embedding", "decoder_embedding", "encoder_relative", "decoder_relative")


def build_optimizer(
    module: nn.Module, part: OptimizerPart, *, layer_decay: float = 1.0
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019), RAdam (Liu et al. 2020), both with decoupled weight decay, Adam
    (Kingma and Ba 2015) or SGD with momentum, whose weight decay is part of the gradient; or `Muon`.

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
        groups = _split_by_rate(module, groups, module.config, layer_decay)
    rate, betas = part.learning_rate, (part.beta1, part.beta2)
    is_fused = all(p.device.type in FUSED_DEVICES for p in parameters)
    match part.kind:
        case "radam":
            return torch.optim.RAdam(groups, lr=rate, betas=betas, decoupled_weight_decay=True)
        case "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=part.beta1)
        case "adam":
            return torch.optim.Adam(groups, lr=rate, betas=betas, fused=is_fused)
        case "muon":
            return Muon(module, groups, lr=rate, betas=betas, fused=is_fused)
        case _:
            return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=is_fused)


class Muon(torch.optim.Optimizer):
    """Muon (Jordan et al. 2024) for the matrices of linear layers, AdamW for everything else.

    The momentum of a matrix, 0.95, is made nearly orthogonal before it is subtracted, so that no direction
    is learned much faster than another. Steps are scaled to be as large as those of AdamW (Liu et al. 2025,
    section 2.2): one learning rate serves both. Embeddings and the output layer stay with AdamW.
    """

    def __init__(
        self,
        module: nn.Module,
        groups: list[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float],
        fused: bool,
    ) -> None:
        matrices = _matrices_of_layers(module)
        by_muon = [{**group, "params": [p for p in group["params"] if p in matrices]} for group in groups]
        by_adamw = [
            {**group, "params": [p for p in group["params"] if p not in matrices]} for group in groups
        ]
        self._parts: list[torch.optim.Optimizer] = []
        if by_muon := [group for group in by_muon if group["params"]]:
            self._parts.append(_MatrixMuon(by_muon, lr=lr, adjust_lr_fn="match_rms_adamw"))
        if by_adamw := [group for group in by_adamw if group["params"]]:
            self._parts.append(torch.optim.AdamW(by_adamw, lr=lr, betas=betas, fused=fused))
        super().__init__(groups, {"fused": fused})
        self.param_groups = [group for part in self._parts for group in part.param_groups]
        for part in self._parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of both; a closure is not called."""
        for part in self._parts:
            part.step()


class _MatrixMuon(torch.optim.Muon):
    """torch's Muon, which makes matrices orthogonal in float32 on a CPU.

    torch does it in bfloat16, the faster way on a GPU; a CPU without instructions for bfloat16 then spends
    five sixths of a small model's step there.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step; a closure is not called."""
        if any(p.device.type != "cpu" for group in self.param_groups for p in group["params"]):
            super().step()  # type: ignore[no-untyped-call]
            return
        for group in self.param_groups:
            decayed = 1 - group["lr"] * group["weight_decay"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                momentum = state["momentum_buffer"].lerp_(parameter.grad, 1 - group["momentum"])
                ahead = parameter.grad.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum
                # as large as a step of AdamW: Liu et al. 2025, section 2.2
                rate = group["lr"] * 0.2 * max(parameter.shape) ** 0.5
                update = _nearly_orthogonal(ahead, group["ns_coefficients"], group["ns_steps"])
                parameter.mul_(decayed).add_(update, alpha=-rate)


def _nearly_orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], n_steps: int) -> Tensor:
    """The matrix with singular values near 1, by Newton and Schulz's iteration of degree five (Jordan et al.
    2024): X becomes aX + (bA + cA²)X with A = XXᵀ.
    """
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(n_steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


def _matrices_of_layers(module: nn.Module) -> set[Tensor]:
    """The weights of linear layers but those that make logits, which an embedding may share."""
    head = {p for name, p in module.named_parameters(remove_duplicate=False) if name.startswith("head.")}
    embeddings = {p for m in module.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    linear: set[Tensor] = {m.weight for m in module.modules() if isinstance(m, nn.Linear)}
    return linear - head - embeddings


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

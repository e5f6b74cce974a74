"""The optimisers, and their state as named tensors (never pickles).

Where a trained model is gone on from, the top layer of a stack and all that stands above it learn at the full
rate, each layer below `decay` times as fast as the one above it, embeddings once more (Howard and Ruder 2018,
section 3.2; Zhang et al. 2020).

Learning rates, texts of a batch and tokens of a text as functions of the step.

| symbol | meaning                                   |
|--------|-------------------------------------------|
| t      | step about to be made, counted from 1     |
| w      | warm-up steps                             |
| n      | steps of the whole run                    |

What has the size a at the first step and b from step w + 1 on has ⌊a + (b − a) · (t − 1) / w⌋ at step t.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import LoadError
from attnscope.nn import ModelConfig
from attnscope.nn.own_module import OwnModule
from attnscope.schemes.optimizers import OPTIMIZERS
from attnscope.training.distributed import part_like, whole_of
from attnscope.training.parts import OptimizerPart, Recipe, SchedulePart

_N_POINTS = 96
"""Points of a curve that is drawn."""


def learning_rate_at(step: int, recipe: Recipe) -> float:
    """The rate of step `step` (the first is 1) under the recipe's schedule."""
    schedule = recipe.schedule
    if schedule.kind == "noam":
        return schedule.factor * noam(step, d_model=recipe.model.d_model, warmup_steps=schedule.warmup_steps)
    return recipe.optimizer.learning_rate * share_at(step, schedule, n_steps=recipe.training.n_steps)


def texts_at(step: int, recipe: Recipe) -> int:
    """Texts in each batch of step `step`, under the batch-size warm-up (Brown et al. 2020)."""
    schedule = recipe.schedule
    return _grown(step, schedule.batch_warmup_steps, schedule.batch_start, recipe.training.batch_size)


def tokens_at(step: int, recipe: Recipe) -> int:
    """The maximum length of a text at step `step`, under the length warm-up (Li et al. 2022)."""
    schedule, most = recipe.schedule, recipe.model.max_tokens
    n_warmup = schedule.length_warmup_steps
    step = 1 if schedule.length_rise == "jump" and step <= n_warmup else step
    return _grown(step, n_warmup, schedule.length_start, most)


def _grown(step: int, n_warmup: int, first: int, last: int) -> int:
    return last if step > n_warmup else first + (last - first) * (step - 1) // n_warmup


def texts_until(step: int, recipe: Recipe) -> int:
    """Texts read in the first `step` steps, all batches of each together."""
    n_growing = min(step, recipe.schedule.batch_warmup_steps)
    n_texts = sum(texts_at(k, recipe) for k in range(1, n_growing + 1))
    return (n_texts + (step - n_growing) * recipe.training.batch_size) * recipe.training.accumulate


def growing_steps(recipe: Recipe) -> int:
    """Number of steps with smaller batches or shorter texts than later ones."""
    schedule = recipe.schedule
    return min(recipe.training.n_steps, max(schedule.batch_warmup_steps, schedule.length_warmup_steps))


def drawn_texts(recipe: Recipe) -> tuple[tuple[int, int], ...]:
    """Steps of a run with the number of texts in their batches; none without a batch-size warm-up."""
    return _drawn(recipe, recipe.schedule.batch_warmup_steps, texts_at)


def drawn_tokens(recipe: Recipe) -> tuple[tuple[int, int], ...]:
    """Steps of a run with the maximum length of their texts; none without a length warm-up."""
    return _drawn(recipe, recipe.schedule.length_warmup_steps, tokens_at)


def _drawn(
    recipe: Recipe, n_warmup: int, value_at: Callable[[int, Recipe], int]
) -> tuple[tuple[int, int], ...]:
    """Evenly spaced steps while the value grows, the first with the last value, and the last."""
    if not n_warmup:
        return ()
    n_steps = recipe.training.n_steps
    rising = (1 + k * n_warmup // _N_POINTS for k in range(_N_POINTS))
    every, last = range(1, n_steps + 1), value_at(n_steps, recipe)
    grown = 1 + bisect_left(every, last, key=lambda step: value_at(step, recipe))
    steps = sorted({step for step in (1, *rising, n_warmup, grown, n_steps) if step <= n_steps})
    return tuple((step, value_at(step, recipe)) for step in steps)


def drawn_rates(recipe: Recipe) -> tuple[tuple[int, float], ...]:
    """Steps of a run with their learning rates: `_N_POINTS` evenly spaced, more where it bends and falls."""
    n_steps, schedule = recipe.training.n_steps, recipe.schedule
    bends = (
        schedule.warmup_steps,
        schedule.warmup_steps + 1,
        n_steps - round(schedule.decay_share * n_steps),
    )
    first = max(1, schedule.warmup_steps)
    steep = (round(first * (n_steps / first) ** (k / 47)) for k in range(48)) if first < n_steps else ()
    even = (1 + round(k * (n_steps - 1) / (_N_POINTS - 1)) for k in range(_N_POINTS))
    steps = sorted({step for step in (*even, *steep, *bends) if 1 <= step <= n_steps})
    return tuple((step, learning_rate_at(step, recipe)) for step in steps)


def follows_length(recipe: Recipe) -> bool:
    """Whether a step depends on the length of the whole run."""
    return falls_to_the_end(recipe.schedule) or bool(recipe.data.repeated_share)


def falls_to_the_end(schedule: SchedulePart) -> bool:
    """Whether the rate at a step depends on the length of the whole run."""
    return schedule.kind not in ("noam", "constant")


def noam(step: int, *, d_model: int, warmup_steps: int) -> float:
    """d_model^−0.5 · min(t^−0.5, t·w^−1.5): Vaswani et al. 2017, equation 3.

    Without warm-up only the falling branch is left.
    """
    falling = step**-0.5
    rising = step * warmup_steps**-1.5 if warmup_steps > 0 else math.inf
    return float(d_model**-0.5 * min(falling, rising))


def share_at(step: int, schedule: SchedulePart, *, n_steps: int) -> float:
    """The share of the full rate at `step`: a linear rise to 1 over the warm-up, then the decay."""
    if step <= schedule.warmup_steps:
        return step / schedule.warmup_steps
    done = (step - schedule.warmup_steps) / max(1, n_steps - schedule.warmup_steps)
    done = min(1.0, done)
    match schedule.kind:
        case "constant":
            return 1.0
        case "linear":
            left = 1.0 - done
        case "trapezoid":
            left = min(1.0, max(0, n_steps - step) / (schedule.decay_share * n_steps))
        case "cosine":
            left = 0.5 * (1.0 + math.cos(math.pi * done))
        case kind:
            raise ValueError(f"no schedule {kind!r}")
    return schedule.final_share + (1.0 - schedule.final_share) * left


FUSED_DEVICES = ("cpu", "cuda", "mps")
"""Devices with fused kernels for Adam and AdamW in torch."""
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
    """Several optimisers that step together, with one state and all their groups."""

    def __init__(
        self, parts: list[torch.optim.Optimizer], groups: list[dict[str, Any]], *, is_fused: bool
    ) -> None:
        super().__init__(groups, {"fused": is_fused})
        self._parts = parts
        self.param_groups = [group for part in parts for group in part.param_groups]
        for part in parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Step all of them; a closure is not called."""
        for part in self._parts:
            part.step()


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate` from the next step on, or a group's share of it."""
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
    """Restore the output of `tensors_of`; raises LoadError if it belongs to another model."""
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
    """The share of the rate for a parameter of this name.

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
    """The optimiser's groups, split so that all parameters of one have the same `rate_share`."""
    shares = {p: rate_share(name, config, decay) for name, p in module.named_parameters()}
    cut = []
    for group in groups:
        ordered = sorted(group["params"], key=lambda p: shares[p])
        for share, members in groupby(ordered, key=lambda p: shares[p]):
            cut.append({**group, "params": list(members), "rate_share": share})
    return cut

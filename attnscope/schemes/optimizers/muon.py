"""Muon for the matrices of linear layers, AdamW for everything else (Jordan et al. 2024).

The momentum of a matrix, 0.95, is made nearly orthogonal before it is subtracted, so that no direction is
learned much faster than another. Steps are scaled to be as large as those of AdamW (Liu et al. 2025, section
2.2): one learning rate serves both. Embeddings and the output layer stay with AdamW.
"""

from typing import TYPE_CHECKING, Any

from attnscope.schemes.optimizers.optimizer import Group, OptimizerScheme, by_rule

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from attnscope.training.parts import OptimizerPart

_MOMENTUM = 0.95
_COEFFICIENTS = (3.4445, -4.775, 2.0315)
_N_STEPS = 5


class Muon(OptimizerScheme):
    name, title, order = "muon", "Muon", 4
    words = (
        "steps of equal size in all directions of each weight matrix, which needs fewer of them; embeddings, "
        "norms and the output layer learn by AdamW"
    )
    source = "Jordan et al. 2024; Liu et al. 2025"
    choices = ("weight_decay", "beta1", "beta2")
    needs_whole = True

    def made(
        self, module: "nn.Module", groups: list[Group], part: "OptimizerPart", *, is_fused: bool
    ) -> "list[Optimizer]":
        import torch

        matrices, rate = _matrices_of_layers(module), part.learning_rate
        by_muon = [{**group, "params": [p for p in group["params"] if p in matrices]} for group in groups]
        others = [{**group, "params": [p for p in group["params"] if p not in matrices]} for group in groups]
        found: list[Optimizer] = []
        if by_muon := [group for group in by_muon if group["params"]]:
            # torch makes matrices orthogonal in bfloat16, the faster way on a GPU; a CPU without instructions
            # for bfloat16 then spends five sixths of a small model's step there.
            is_on_cpu = all(p.device.type == "cpu" for group in by_muon for p in group["params"])
            found.append(
                by_rule(by_muon, self.update, part)
                if is_on_cpu
                else torch.optim.Muon(by_muon, lr=rate, adjust_lr_fn="match_rms_adamw")
            )
        if others := [group for group in others if group["params"]]:
            betas = (part.beta1, part.beta2)
            found.append(torch.optim.AdamW(others, lr=rate, betas=betas, fused=is_fused))
        return found

    def update(self, parameter: "Tensor", gradient: "Tensor", kept: dict[str, Any], group: Group) -> None:
        import torch

        if "momentum_buffer" not in kept:
            kept["momentum_buffer"] = torch.zeros_like(parameter)
        momentum = kept["momentum_buffer"].lerp_(gradient, 1 - _MOMENTUM)
        ahead = gradient.lerp(momentum, _MOMENTUM)  # Nesterov's
        rate = group["lr"] * 0.2 * max(parameter.shape) ** 0.5  # Liu et al. 2025, section 2.2
        decayed = 1 - group["lr"] * group["weight_decay"]
        parameter.mul_(decayed).add_(_nearly_orthogonal(ahead), alpha=-rate)


def _nearly_orthogonal(matrix: "Tensor") -> "Tensor":
    """The matrix with singular values near 1, by the Newton–Schulz iteration of degree five (Jordan et al.
    2024): X becomes aX + (bA + cA²)X with A = XXᵀ.
    """
    import torch

    a, b, c = _COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(_N_STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


def _matrices_of_layers(module: "nn.Module") -> "set[Tensor]":
    """The weights of linear layers except those that compute logits, which an embedding may share."""
    from torch import nn

    head = {p for name, p in module.named_parameters(remove_duplicate=False) if name.startswith("head.")}
    embeddings = {p for m in module.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    linear: set[Tensor] = {m.weight for m in module.modules() if isinstance(m, nn.Linear)}
    return linear - head - embeddings

"""LAMB: the steps of Adam, scaled for each layer to the norm of its weights (You et al. 2020, algorithm 2).

Large batches allow large rates, which some layers can follow and others cannot: the ratio of a gradient to
its weights differs widely between them. Here each matrix and each vector moves by the same share of itself.
"""

from typing import TYPE_CHECKING, Any

from attnscope.schemes.optimizers.optimizer import Group, OptimizerScheme

if TYPE_CHECKING:
    from torch import Tensor

_EPSILON = 1e-6


class Lamb(OptimizerScheme):
    name, title, order = "lamb", "LAMB", 5
    words = (
        "AdamW's step, scaled for each matrix and vector to the length of its weights: the rate is the "
        "share by which each changes"
    )
    source = "You et al. 2020"
    choices = ("weight_decay", "beta1", "beta2")
    needs_whole = True

    def update(self, parameter: "Tensor", gradient: "Tensor", kept: dict[str, Any], group: Group) -> None:
        import torch

        if not kept:
            kept["step"] = torch.zeros(())
            kept["mean"], kept["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        beta1, beta2 = group["beta1"], group["beta2"]
        kept["step"] += 1
        t = int(kept["step"])
        mean = kept["mean"].lerp_(gradient, 1 - beta1)
        square = kept["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        update = (mean / (1 - beta1**t)) / ((square / (1 - beta2**t)).sqrt() + _EPSILON)
        update = update.add_(parameter, alpha=group["weight_decay"])
        length, of_update = parameter.norm(), update.norm()
        # φ(z) = z; what is 0 as yet, as biases are, could never leave it: it moves as AdamW does
        trust = torch.where((length > 0) & (of_update > 0), length / of_update, 1.0)
        parameter.sub_(update * trust, alpha=group["lr"])

"""RAdam: Adam that waits until the variance of its gradients is known (Liu et al. 2020)."""

from typing import TYPE_CHECKING

from attnscope.schemes.optimizers.optimizer import Group, OptimizerScheme

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from attnscope.training.parts import OptimizerPart


class RAdam(OptimizerScheme):
    name, title, order = "radam", "RAdam", 2
    words = "AdamW whose first steps follow the momentum alone, so that it needs no warm-up"
    source = "Liu et al. 2020"
    choices = ("weight_decay", "beta1", "beta2")

    def made(
        self, module: "nn.Module", groups: list[Group], part: "OptimizerPart", *, is_fused: bool
    ) -> "list[Optimizer]":
        import torch

        betas, rate = (part.beta1, part.beta2), part.learning_rate
        return [torch.optim.RAdam(groups, lr=rate, betas=betas, decoupled_weight_decay=True)]

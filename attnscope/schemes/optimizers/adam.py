"""Adam, whose weight decay is part of the gradient (Kingma and Ba 2015)."""

from typing import TYPE_CHECKING

from attnscope.schemes.optimizers.optimizer import Group, OptimizerScheme

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from attnscope.training.parts import OptimizerPart


class Adam(OptimizerScheme):
    name, title, order = "adam", "Adam", 1
    words = "the mean gradient over its root mean square; weight decay is part of the gradient"
    source = "Kingma and Ba 2015"
    choices = ("weight_decay", "beta1", "beta2")

    def made(
        self, module: "nn.Module", groups: list[Group], part: "OptimizerPart", *, is_fused: bool
    ) -> "list[Optimizer]":
        import torch

        betas = (part.beta1, part.beta2)
        return [torch.optim.Adam(groups, lr=part.learning_rate, betas=betas, fused=is_fused)]

"""AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

from typing import TYPE_CHECKING

from attnscope.schemes.optimizers.optimizer import Group, OptimizerScheme

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from attnscope.training.parts import OptimizerPart


class AdamW(OptimizerScheme):
    name, title, order = "adamw", "AdamW", 0
    words = "the mean gradient over its root mean square; weights shrink apart from it"
    source = "Loshchilov and Hutter 2019"
    choices = ("weight_decay", "beta1", "beta2")

    def made(
        self, module: "nn.Module", groups: list[Group], part: "OptimizerPart", *, is_fused: bool
    ) -> "list[Optimizer]":
        import torch

        betas = (part.beta1, part.beta2)
        return [torch.optim.AdamW(groups, lr=part.learning_rate, betas=betas, fused=is_fused)]

"""Stochastic gradient descent with momentum; its weight decay is part of the gradient."""

from typing import TYPE_CHECKING

from attnscope.schemes.optimizers.optimizer import Group, OptimizerScheme

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from attnscope.training.parts import OptimizerPart


class StochasticGradientDescent(OptimizerScheme):
    name, title, order = "sgd", "SGD", 3
    words = "the gradient with the momentum `beta1`; weight decay is part of the gradient"
    source = "Robbins and Monro 1951; Polyak 1964"
    choices = ("weight_decay", "beta1")

    def n_kept(self, part: "OptimizerPart") -> int:
        return 1 if part.beta1 else 0

    def made(
        self, module: "nn.Module", groups: list[Group], part: "OptimizerPart", *, is_fused: bool
    ) -> "list[Optimizer]":
        import torch

        return [torch.optim.SGD(groups, lr=part.learning_rate, momentum=part.beta1)]

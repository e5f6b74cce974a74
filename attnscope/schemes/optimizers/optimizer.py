"""Shared by all optimisers: how a gradient becomes a step, and the state kept between steps."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from attnscope.schemes import Scheme

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from attnscope.training.parts import OptimizerPart

Group = dict[str, Any]
"""Parameters that learn alike: `params`, `weight_decay`, and later `lr`."""


class OptimizerScheme(Scheme):
    """An optimiser; one of our own defines in `update` the step of one parameter.

    One that torch has gives that in `made` instead.
    """

    words: ClassVar[str] = ""
    """Description of its steps for the user."""
    source: ClassVar[str] = ""
    """Its source: authors and year."""
    choices: ClassVar[tuple[str, ...]] = ()
    """The keys of [optimizer] that it reads, besides the learning rate."""
    needs_whole: ClassVar[bool] = False
    """Whether a step needs whole matrices, which are not there while weights are spread over processes."""

    def n_kept(self, part: "OptimizerPart") -> int:
        """Numbers stored for each parameter."""
        return 2

    def made(
        self, module: "nn.Module", groups: list[Group], part: "OptimizerPart", *, is_fused: bool
    ) -> "list[Optimizer]":
        """The torch optimisers that take the steps together, each with groups of its own.

        `is_fused` says that all devices have the fused kernels of torch.
        """
        return [by_rule(groups, self.update, part)]

    def update(self, parameter: "Tensor", gradient: "Tensor", kept: dict[str, Any], group: Group) -> None:
        """Take one step, in place; `kept` is the parameter's state from earlier steps, initially empty.

        Of the group `lr`, `weight_decay`, `beta1` and `beta2` are there. What is kept is tensors: of the
        parameter's shape, or of none.
        """
        raise NotImplementedError


Rule = Callable[["Tensor", "Tensor", dict[str, Any], Group], None]


def by_rule(groups: Iterable[Group], rule: Rule, part: "OptimizerPart") -> "Optimizer":
    """A torch optimiser whose steps follow a rule for one parameter."""
    import torch

    class ByRule(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
            """Take one step; a closure is not called."""
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        rule(parameter, parameter.grad, self.state[parameter], group)

    defaults: Mapping[str, float] = {"lr": part.learning_rate, "beta1": part.beta1, "beta2": part.beta2}
    return ByRule(groups, dict(defaults))

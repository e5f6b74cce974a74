"""A model of Hugging Face's library that tells classes, of a whole input or of each token, on one input.

| symbol | meaning                                                   | shape         |
|--------|-----------------------------------------------------------|---------------|
| y      | one logit                                                 | one number    |
| x_i    | what the last layer gives at token i                      | [d_model]     |
| p_i    | ‖∂y/∂x_i‖ over its sum: how much of y is read at token i  | [n_tokens]    |

A class of the whole input is read off one token (1 there, 0 elsewhere) or off a mean over tokens.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.analysis.model_adapter import TokenBatch, predicting_stack, refuse_gateless
from attnscope.analysis.reading import batch_of, first_tensor
from attnscope.errors import UserError
from attnscope.models.huggingface.anatomy import anatomy_of
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.nn.attention import Probe
from attnscope.nn.gating import QuietProbe
from attnscope.nn.precision import exact


class ClassSubject:
    """See `subject.Subject`; `hidden` reads the one input, whatever the batch, and gives its logits."""

    def __init__(self, network: HuggingFaceNetwork, inputs: Inputs) -> None:
        refuse_gateless(network)
        self.form, self.sites = network.form, network.sites
        self._network, self._inputs = network, inputs

    @property
    def device(self) -> torch.device:
        return self._network.device

    @property
    def is_of_whole(self) -> bool:
        """Whether there is one class for the whole input."""
        return self._network.task.is_pooled

    @property
    def batch(self) -> TokenBatch:
        return batch_of(self._inputs, self.device)

    def studying(self) -> AbstractContextManager[None]:
        """No gradients; such a model is always in evaluation mode."""
        return torch.no_grad()

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """The logits, [1, n_positions, n_classes]; one position where a class is told of the whole."""
        network = self._network
        with network.attached.probing(probe or QuietProbe()):
            logits: Tensor = network.module(**network.arguments(self._inputs)).logits
        return logits[:, None] if network.task.is_pooled else logits

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def reading_shares(self, answer: int, place: int, probe: Probe | None = None) -> Tensor:
        """P of the logit of `answer` at one position of `hidden`, float64 [n_tokens]; sums to 1."""
        stack = predicting_stack(self.form)
        last = anatomy_of(self._network).layers(stack)[-1]
        kept: list[Tensor] = []

        def leave(_: nn.Module, __: Any, output: Any) -> Any:
            leaf = first_tensor(output).detach().requires_grad_()
            kept[:] = [leaf]
            return (leaf, *output[1:]) if isinstance(output, tuple | list) else leaf

        handle = last.module.register_forward_hook(leave)  # where it serves all layers, the last call counts
        try:
            with torch.enable_grad():
                row = self.hidden(self.batch, probe)[0, place]
                gradient = torch.autograd.grad(row[answer], kept[0])[0][0]
        finally:
            handle.remove()
        sizes = torch.linalg.vector_norm(exact(gradient), dim=-1)  # [n_tokens]
        shares: Tensor = sizes / sizes.sum()
        return shares


def told_position(model: Model, inputs: Inputs, position: int | None) -> int:
    """Where a class of the whole input stands; raises UserError for another position than that.

    `position` None is any. For a model that tells a class of each token: the position as it is, or the first.
    """
    network = model.network
    told = network.shown_positions(inputs)
    if not (isinstance(network, HuggingFaceNetwork) and network.task.is_pooled):
        return told[0] if position is None else position
    n_tokens = len(inputs.source if inputs.target is None else inputs.target)
    if position is not None and position % n_tokens != told[0]:
        raise UserError(
            f"{model.info.name} predicts one class for the whole {model.info.reads}, not for token "
            f"{position}.",
            expected=f"token {told[0]}, where that class stands",
            action="Leave the position out.",
        )
    return told[0]


def reads_classes(model: Model) -> bool:
    """Whether this is a model of the library that tells classes."""
    return isinstance(model.network, HuggingFaceNetwork) and model.network.output_kind == "class"

"""How many bytes autograd keeps between the passes over one batch, counted storage by storage."""

import torch
from torch import nn

from attnscope.training import Batch, loss_sum


def kept_bytes(module: nn.Module, batch: Batch) -> int:
    """The bytes kept for the backward pass of the loss of `batch`, without those of the parameters."""
    own, kept = {p.untyped_storage().data_ptr() for p in module.parameters()}, {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        assert loss_sum(module, batch).isfinite()
    return sum(t.untyped_storage().nbytes() for address, t in kept.items() if address not in own)

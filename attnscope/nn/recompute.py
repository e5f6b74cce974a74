"""Gradient checkpointing: what a block computed is thrown away and computed again for its gradients.

Memory for activations falls from all blocks' to one block's and the stream between them, for about a
third more computing (Chen et al. 2016, section 4). The gradients are the same to the bit.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def through(block: nn.Module, x: Tensor, *, is_recomputed: bool, **choices: Any) -> Tensor:
    """The stream after one block; with `is_recomputed`, and while gradients are wanted, nothing is kept."""
    if not (is_recomputed and block.training and torch.is_grad_enabled()):
        stream: Tensor = block(x, **choices)
        return stream
    stream = checkpoint(block, x, use_reentrant=False, **choices)
    return stream

"""Perceiver's latents: a few learned rows read the tokens, and one another (Jaegle et al. 2021, section 3.1).

    symbol   meaning                                              shape
    L        learned latents, the same for every text             [n_slots, d_model]
    x        the embedded tokens, normed once                     [batch, n_tokens, d_model]
    z        the stream of the encoder's layers, L at first       [batch, n_slots, d_model]

A layer is z + attention of z to x (site read-in, M × T), then z + attention of z to z (site latents, M × M),
then feed-forward: T tokens cost T · M cells a layer in the place of T². A label is told from the last z. Each
layer reads the tokens anew, with weights of its own unless layers are shared.
"""

import torch
from torch import Tensor, nn

from attnscope.nn.layers import BlockShape


class Latents(nn.Module):
    """Where a stack of latents begins."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.rows = nn.Embedding(
            shape.n_projected, shape.d_model, _weight=torch.empty(shape.n_projected, shape.d_model)
        )
        self.norm = shape.make_norm()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The latents, [B, n_slots, d_model], and the tokens as they are read, [B, n_tokens, d_model]."""
        return self.rows.weight.to(x.dtype).expand(len(x), -1, -1), self.norm(x)

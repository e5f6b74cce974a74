"""Inducing points: tokens read a few slots, which have read the tokens (Lee et al. 2019, section 3.1).

    symbol   meaning                                                shape
    I        learned points of a layer, the same for every text     [n_slots, d_model]
    h        norm(I + attention of I to the tokens)                 [batch, n_slots, d_model]
    x        what the layer reads                                   [batch, n_tokens, d_model]

The Set Transformer's ISAB(X) = MAB(X, MAB(I, X)): attention in two steps through a bottleneck, so that T
tokens cost T · n_slots cells each way in the place of T². The outer MAB's residual, norm and feed-forward
are those of the block; the inner one is without its feed-forward. Perceiver's latents (Jaegle et al. 2021)
read a text in the same way, but are carried on from layer to layer.
"""

import torch
from torch import Generator, Tensor, nn

from attnscope.nn.attention import Probe
from attnscope.nn.layers import BlockShape, CrossAttention
from attnscope.nn.masks import MaskRule


class InducedAttention(nn.Module):
    """One layer: points read the tokens (site read-in), and tokens read the points (site encoder)."""

    def __init__(self, shape: BlockShape, layer: int) -> None:
        super().__init__()
        layout = shape.full_layout()
        self.points = nn.Parameter(torch.zeros(shape.n_projected, shape.d_model))
        self.read_in = CrossAttention(shape, ("read-in", layer), layout)
        self.norm = shape.make_norm()
        self.read_out = CrossAttention(shape, ("encoder", layer), layout)

    @property
    def output(self) -> nn.Linear:
        """What projects the heads back into the stream."""
        return self.read_out.output

    def forward(self, x: Tensor, *, rule: MaskRule, probe: Probe | None = None, **_: object) -> Tensor:
        """Attend through the points and project: [batch, n_tokens, d_model]; padding is not read."""
        points = self.points.to(x.dtype).expand(len(x), -1, -1)
        found = self.read_in(points, x, rule=MaskRule(key_valid=rule.key_valid), probe=probe)
        slots = self.norm(points + found)
        out: Tensor = self.read_out(x, slots, rule=MaskRule(), probe=probe)
        return out

    def fill(self, generator: Generator) -> None:
        """First values of the points: normal, as large as tokens are behind a norm."""
        self.points.normal_(generator=generator)


# Perceiver's latents: a few learned rows read the tokens, and one another (Jaegle et al. 2021, section 3.1).
#
#     symbol   meaning                                              shape
#     L        learned latents, the same for every text             [n_slots, d_model]
#     x        the embedded tokens, normed once                     [batch, n_tokens, d_model]
#     z        the stream of the encoder's layers, L at first       [batch, n_slots, d_model]
#
# A layer is z + attention of z to x (site read-in, M × T), then z + attention of z to z (site latents,
# M × M), then feed-forward: T tokens cost T · M cells a layer in the place of T². A label is told from the
# last z. Each layer reads the tokens anew, with weights of its own unless layers are shared.


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

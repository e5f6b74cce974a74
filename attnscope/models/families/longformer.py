"""Longformer and LED: attention in a window, and of some tokens on all (Beltagy et al. 2020, section 3.1).

    symbol   meaning                                                                     shape
    w        tokens that the window reaches to either side
    p        weights in the window, before it those on global tokens                     [B, H, T, G + 2w + 1]
    g        weights of the global tokens' own rows, where there are any                 [B, H, T, G]
    P        the same weights, token by token: P[t, t − w + c] = p[t, G + c]             [B, H, T, T]

Rows of global tokens are 0 in p; in the order of the text they are the columns of g.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnscope.models.families.family import Family, Seen


class Longformer(Family):
    name, title = "longformer", "Longformer"
    windowed: ClassVar[tuple[str, str]] = ("attentions", "global_attentions")
    """What the model calls p and g."""

    def laid_out(
        self, output: Mapping[str, Any], n_tokens: int, *, config: Any, seen: Seen
    ) -> Mapping[str, Any]:
        local, whole = (output.get(field) or () for field in self.windowed)
        n_rows = n_tokens or max((len(p[0, 0]) for p in local), default=0)
        g_of = [g[..., :n_rows, :].transpose(2, 3) for g in whole] or [None] * len(local)
        maps = tuple(lay_windows(p[..., :n_rows, :], g) for p, g in zip(local, g_of, strict=True))
        return {**output, self.windowed[0]: maps}


class LED(Longformer):
    name, title = "led", "LED"
    windowed = ("encoder_attentions", "encoder_global_attentions")


def lay_windows(p: Tensor, g: Tensor | None) -> Tensor:
    """P of p [B, H, T, G + 2w + 1] and g [B, H, G, T]; without global tokens g is None."""
    n_batch, n_heads, n, n_columns = p.shape
    n_global = 0 if g is None else g.shape[2]
    reach = (n_columns - n_global - 1) // 2
    wide = p.new_zeros(n_batch, n_heads, n, n + 2 * reach + 1)
    wide[..., : 2 * reach + 1] = p[..., n_global:]
    # One column more than a row has: read on in rows without it, each row begins one column further right.
    skewed = wide.flatten(2)[..., : n * (n + 2 * reach)].view(n_batch, n_heads, n, n + 2 * reach)
    whole = skewed[..., reach : reach + n].clone()
    if g is None:
        return whole
    for text in range(n_batch):
        places = (p[text].abs().sum(dim=(0, 2)) == 0).nonzero().flatten()[:n_global]
        k = len(places)
        whole[text][:, :, places] += p[text][..., :k]
        whole[text][:, places] = g[text][:, :k]
    return whole

"""Longformer and LED: attention in a window, and from some tokens to all (Beltagy et al. 2020, section 3.1).

    symbol   meaning                                                                     shape
    w        tokens that the window reaches to either side
    p        weights in the window, before it those on global tokens                     [B, H, T, G + 2w + 1]
    g        weights of the global tokens' own rows, where there are any                 [B, H, T, G]
    P        the same weights, token by token: P[t, t − w + c] = p[t, G + c]             [B, H, T, T]

Rows of global tokens are 0 in p; in the order of the text they are the columns of g.

Which tokens are global is said with each text. A Longformer that tells one label for a text has its first
token global by itself; LED has none, unless its config.json says how many of the first tokens are, which is
what it was trained with:

    "attnscope": {"global_tokens": 1}
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnscope.models.families.family import Family, Seen, own_setting


class Longformer(Family):
    name, title = "longformer", "Longformer"
    windowed: ClassVar[tuple[str, str]] = ("attentions", "global_attentions")
    """The model's names for p and g."""

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

    def prepare(self, model: Any) -> str:
        n = own_setting(model, "global_tokens")
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            return ""

        def make_global(_: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            ids = args[0] if args else kwargs.get("input_ids")
            if ids is None or kwargs.get("global_attention_mask") is not None:
                return args, kwargs
            return args, {
                **kwargs,
                "global_attention_mask": torch.zeros_like(ids).index_fill_(
                    1, torch.arange(min(n, ids.shape[1]), device=ids.device), 1
                ),
            }

        model.get_encoder().register_forward_pre_hook(make_global, with_kwargs=True)
        return f"Global tokens of its encoder: the first {n}." if n > 1 else "Its first token is global."


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

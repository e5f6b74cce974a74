"""The first self-attention of a model, cell by cell in float64, with a score that the test writes out."""

from collections.abc import Callable

import torch
from torch import Tensor

from attnscope.nn import ModelConfig, Transformer

SlowScore = Callable[[Tensor, Tensor, int, int, int], Tensor]
"""The score of a query [d_head] and a key [d_head] for a head and the places i and j, all in float64."""


def filled(config: ModelConfig) -> Transformer:
    """A model whose every parameter is drawn, those that begin with 0 or 1 as well."""
    model = Transformer(config).eval()
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        width = parameter.shape[-1] if parameter.ndim > 1 else 4
        parameter.data.normal_(std=1.5 * width**-0.5, generator=generator)
    return model


@torch.no_grad()
def seen_and_slow(
    model: Transformer, ids: Tensor, score: SlowScore, allowed: Callable[[int, int], bool] | None = None
) -> tuple[Tensor, Tensor]:
    """What the first layer's attention gives for the first text, [T, d_model], and the slow version of it."""
    config, block = model.config, (model.decoder or model.encoder)[0]
    given: list[tuple[Tensor, Tensor]] = []
    handle = block.attention.register_forward_hook(lambda _, inputs, out: given.append((inputs[0], out)))
    (model.decode if model.decoder else model.encode)(ids)
    handle.remove()
    x, out = given[0][0][0].double(), given[0][1][0]
    site, n_heads, n_kv = block.attention, config.n_heads, config.kv_heads
    rows = (x @ site.qkv.weight.double().T + site.qkv.bias.double()).unflatten(-1, (-1, config.head_width))
    outs = []
    for head in range(n_heads):
        kv = head // (n_heads // n_kv)
        for i in range(len(x)):
            keys = [
                j for j in range(len(x)) if (j <= i or not model.decoder) and (not allowed or allowed(i, j))
            ]
            scores = [score(rows[i, head], rows[j, n_heads + kv], head, i, j) for j in keys]
            weights = torch.softmax(torch.stack(scores), dim=0)
            outs.append(weights @ torch.stack([rows[j, n_heads + n_kv + kv] for j in keys]))
    joined = torch.stack(outs).reshape(n_heads, len(x), -1).transpose(0, 1).flatten(1)
    return out, joined @ site.output.weight.double().T + site.output.bias.double()

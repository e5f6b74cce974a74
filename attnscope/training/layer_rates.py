"""How fast each layer learns when a trained model is gone on from.

The top layer of a stack and all that stands above it learn at the full rate, each layer below `decay` times
as fast as the one above it, embeddings once more (Howard and Ruder 2018, section 3.2; Zhang et al. 2020).
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from torch import nn

from attnscope.nn.config import ModelConfig

_BELOW = ("tokens", "encoder_embedding", "decoder_embedding", "encoder_relative", "decoder_relative")


def rate_share(name: str, config: ModelConfig, decay: float) -> float:
    """The share of the rate that a parameter of this name learns with.

    A token embedding that two stacks share lies below the deeper one.
    """
    first, _, rest = name.partition(".")
    depth = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    if first in _BELOW:
        stack = first.partition("_")[0]
        return decay ** depth.get(stack, max(depth.values()))
    layer = rest.partition(".")[0]
    if first in depth and layer.isdigit():
        return decay ** (depth[first] - 1 - int(layer))
    return 1.0


def split_by_rate(
    module: nn.Module, groups: Iterable[dict[str, Any]], config: ModelConfig, decay: float
) -> list[dict[str, Any]]:
    """The optimiser's groups, cut into ones whose parameters learn at the same `rate_share`."""
    shares = {p: rate_share(name, config, decay) for name, p in module.named_parameters()}
    cut = []
    for group in groups:
        ordered = sorted(group["params"], key=lambda p: shares[p])
        for share, members in groupby(ordered, key=lambda p: shares[p]):
            cut.append({**group, "params": list(members), "rate_share": share})
    return cut

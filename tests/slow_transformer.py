"""A decoder of ours computed with loops in float64, step by step, from nothing but its weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attnscope.models import Model

Numbers = NDArray[np.float64]


@dataclass
class SlowPass:
    """What each layer read, what its parts gave, and the logits, for one text.

    `x[l]` [n_tokens, d_model] enters layer l, the last one leaves the stack; `added` has a list of layers for
    each part; `q`, `k` and `v` are by layer and head, `units` by layer.
    """

    x: list[Numbers] = field(default_factory=list)
    added: dict[str, list[Numbers]] = field(default_factory=lambda: {"attention": [], "feed-forward": []})
    q: dict[tuple[int, int], Numbers] = field(default_factory=dict)
    k: dict[tuple[int, int], Numbers] = field(default_factory=dict)
    v: dict[tuple[int, int], Numbers] = field(default_factory=dict)
    units: list[Numbers] = field(default_factory=list)
    logits: Numbers = field(default_factory=lambda: np.zeros((0, 0)))


class SlowDecoder:
    """A decoder with learned positions, LayerNorm and GELU or ReLU; norms before, after, or both."""

    def __init__(self, model: Model) -> None:
        self.config = model.own.config
        self.weights = {name: one.double().numpy() for name, one in model.own.module.state_dict().items()}

    def run(self, ids: Sequence[int]) -> SlowPass:
        found, place = SlowPass(), self.config.norm_place
        x = np.stack(
            [
                self.weights["tokens.weight"][id] + self.weights["decoder_embedding.positions.weight"][i]
                for i, id in enumerate(ids)
            ]
        )
        for layer in range(self.config.n_layers):
            found.x.append(x)
            for part in ("attention", "feed-forward"):
                name = f"decoder.{layer}.{part.replace('-', '_')}"
                read = x if place == "post" else self.norm(x, f"{name}_norm")
                given = (self.attention if part == "attention" else self.feed_forward)(read, layer, found)
                given = self.norm(given, f"{name}_end") if place == "sandwich" else given
                found.added[part].append(given)
                x = x + given
                x = self.norm(x, f"{name}_norm") if place == "post" else x
        found.x.append(x)
        last = x if place == "post" else self.norm(x, "decoder_norm")
        found.logits = last @ self.weights["tokens.weight"].T
        return found

    def norm(self, x: Numbers, name: str) -> Numbers:
        rows = []
        for row in x:
            mean = sum(row) / len(row)
            spread = sum((one - mean) ** 2 for one in row) / len(row)
            scaled = (row - mean) / math.sqrt(spread + self.config.norm_epsilon)
            rows.append(scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])
        return np.stack(rows)

    def attention(self, read: Numbers, layer: int, found: SlowPass) -> Numbers:
        config, name = self.config, f"decoder.{layer}.attention"
        width, n_heads, n_kv = config.head_width, config.n_heads, config.kv_heads
        joined = np.zeros((len(read), n_heads * width))
        for head in range(n_heads):
            group = head * n_kv // n_heads
            places = (head, n_heads + group, n_heads + n_kv + group)
            q, k, v = (self.product(read, f"{name}.qkv", slice(p * width, (p + 1) * width)) for p in places)
            found.q[layer, head], found.k[layer, head], found.v[layer, head] = q, k, v
            for i in range(len(read)):
                scores = [sum(q[i] * k[j]) / math.sqrt(width) for j in range(i + 1)]
                weights = [math.exp(one - max(scores)) for one in scores]
                row = sum(w * v[j] for j, w in enumerate(weights)) / sum(weights)
                joined[i, head * width : (head + 1) * width] = row
        return self.product(joined, f"{name}.output")

    def feed_forward(self, read: Numbers, layer: int, found: SlowPass) -> Numbers:
        name = f"decoder.{layer}.feed_forward"
        wide = self.product(read, f"{name}.up")
        is_relu = self.config.activation == "relu"
        units = np.vectorize(lambda u: max(u, 0.0) if is_relu else u * (1 + math.erf(u / math.sqrt(2))) / 2)(
            wide
        )
        found.units.append(units)
        return self.product(units, f"{name}.down")

    def product(self, x: Numbers, name: str, rows: slice = slice(None)) -> Numbers:
        return x @ self.weights[f"{name}.weight"][rows].T + self.weights[f"{name}.bias"][rows]

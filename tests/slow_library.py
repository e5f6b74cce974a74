"""Layers of the library's models and of ours, computed with loops in float64 from their weights alone.

Each layer is written down as a list of parts: where its norm stands, and the names of its matrices. What
comes out are the vectors on the way, in the order in which they happen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Named = tuple[str, Numbers]


@dataclass(frozen=True, kw_only=True)
class SlowPart:
    """A part of a layer by the names of its tensors; `q` empty: a feed-forward part of `up` and `down`.

    `rows` are those of the tensors of `q`, `k` and `v` that a head reads, [n_heads] of each.
    """

    name: str
    norm: str
    q: str = ""
    k: str = ""
    v: str = ""
    rows: tuple[Sequence[slice], Sequence[slice], Sequence[slice]] = ((), (), ())
    output: str = ""
    up: str = ""
    down: str = ""
    reads_memory: bool = False


class SlowLayers:
    """Layers in which each part adds to the stream, with norms before or behind."""

    def __init__(
        self,
        module: Any,
        *,
        is_post: bool,
        is_causal: bool,
        epsilon: float,
        activation: str = "gelu",
        has_scale: bool = True,
        bias: Numbers | None = None,
    ) -> None:
        self.weights = {name: one.double().cpu().numpy() for name, one in module.state_dict().items()}
        self.is_post, self.is_causal, self.epsilon = is_post, is_causal, epsilon
        self.activation, self.has_scale, self.bias = activation, has_scale, bias

    def through(
        self, x: Numbers, layers: Sequence[Sequence[SlowPart]], memory: Numbers | None = None
    ) -> tuple[list[list[Named]], Numbers]:
        """The vectors of each layer by name, and the stream after the last."""
        every = []
        for parts in layers:
            steps = [("stream in", x)]
            for part in parts:
                read = x if self.is_post else self.norm(x, part.norm)
                if not self.is_post:
                    steps.append((f"norm for {part.name}", read))
                inside = self.inside(part, read, memory)
                given = self.product(inside, part.output or part.down)
                x = x + given
                steps += [(f"inside {part.name}", inside), (f"{part.name} gives", given), ("sum", x)]
                if self.is_post:
                    x = self.norm(x, part.norm)
                    steps.append(("norm of the sum", x))
            every.append([*steps, ("stream out", x)])
        return every, x

    def inside(self, part: SlowPart, read: Numbers, memory: Numbers | None) -> Numbers:
        """The heads side by side, or the units."""
        if not part.q:
            wide = self.product(read, part.up)
            return np.vectorize(
                lambda u: max(u, 0.0) if self.activation == "relu" else u * (1 + math.erf(u / 2**0.5)) / 2
            )(wide)
        seen = memory if part.reads_memory and memory is not None else read
        heads = []
        for head, (of_q, of_k, of_v) in enumerate(zip(*part.rows, strict=True)):
            q, k, v = (
                self.product(stream, name, rows)
                for stream, name, rows in ((read, part.q, of_q), (seen, part.k, of_k), (seen, part.v, of_v))
            )
            heads.append(self.attended(q, k, v, head, is_own=not part.reads_memory))
        return np.concatenate(heads, axis=1)

    def attended(self, q: Numbers, k: Numbers, v: Numbers, head: int, *, is_own: bool) -> Numbers:
        """One head's output, row by row."""
        rows = []
        for i in range(len(q)):
            n_seen = i + 1 if self.is_causal and is_own else len(k)
            scores = [
                sum(q[i] * k[j]) / (math.sqrt(len(q[i])) if self.has_scale else 1) for j in range(n_seen)
            ]
            if self.bias is not None and is_own:
                scores = [one + self.bias[head, i, j] for j, one in enumerate(scores)]
            weights = [math.exp(one - max(scores)) for one in scores]
            rows.append(sum(w * v[j] for j, w in enumerate(weights)) / sum(weights))
        return np.stack(rows)

    def product(self, x: Numbers, name: str, rows: slice = slice(None)) -> Numbers:
        """x W + b, of some rows of W."""
        given = x @ self.weights[f"{name}.weight"][rows].T
        bias = self.weights.get(f"{name}.bias")
        return given if bias is None else given + bias[rows]

    def norm(self, x: Numbers, name: str) -> Numbers:
        """LayerNorm; RMSNorm where there is no bias."""
        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        rows = []
        for row in x:
            away = row if bias is None else row - sum(row) / len(row)
            scaled = away / math.sqrt(sum(away**2) / len(row) + self.epsilon) * weight
            rows.append(scaled if bias is None else scaled + bias)
        return np.stack(rows)


def head_rows(n_heads: int, width: int, first: int = 0, group: int = 1) -> list[slice]:
    """The rows of each head's matrix, `first` heads further down; `group` heads share one."""
    places = [first + head // group for head in range(n_heads)]
    return [slice(place * width, (place + 1) * width) for place in places]


def plain_rows(n_heads: int, width: int) -> tuple[list[slice], list[slice], list[slice]]:
    """Heads one below the other in three matrices."""
    rows = head_rows(n_heads, width)
    return rows, rows, rows


def bert_layers(root: str, n_layers: int, rows: Any) -> list[list[SlowPart]]:
    """BERT's names (Devlin et al. 2018)."""
    found = []
    for i in range(n_layers):
        at = f"{root}.encoder.layer.{i}"
        own = f"{at}.attention.self"
        found.append(
            [
                SlowPart(
                    name="attention", norm=f"{at}.attention.output.LayerNorm", rows=rows,
                    q=f"{own}.query", k=f"{own}.key", v=f"{own}.value", output=f"{at}.attention.output.dense",
                ),
                SlowPart(
                    name="feed-forward", norm=f"{at}.output.LayerNorm",
                    up=f"{at}.intermediate.dense", down=f"{at}.output.dense",
                ),
            ]
        )  # fmt: skip
    return found


def distilbert_layers(n_layers: int, rows: Any) -> list[list[SlowPart]]:
    """DistilBERT's names (Sanh et al. 2019)."""
    found = []
    for i in range(n_layers):
        at = f"distilbert.transformer.layer.{i}"
        own = f"{at}.attention"
        found.append(
            [
                SlowPart(
                    name="attention", norm=f"{at}.sa_layer_norm", rows=rows,
                    q=f"{own}.q_lin", k=f"{own}.k_lin", v=f"{own}.v_lin", output=f"{own}.out_lin",
                ),
                SlowPart(
                    name="feed-forward", norm=f"{at}.output_layer_norm",
                    up=f"{at}.ffn.lin1", down=f"{at}.ffn.lin2",
                ),
            ]
        )  # fmt: skip
    return found


def bart_layers(stack: str, n_layers: int, rows: Any, *, has_cross: bool) -> list[list[SlowPart]]:
    """The names of BART (Lewis et al. 2019), Marian and OPT."""
    found = []
    for i in range(n_layers):
        at = f"model.{stack}.layers.{i}"
        attentions = [
            ("attention", "self_attn"),
            *([("cross-attention", "encoder_attn")] if has_cross else []),
        ]
        parts = [
            SlowPart(
                name=name, norm=f"{at}.{own}_layer_norm", rows=rows, reads_memory=own == "encoder_attn",
                q=f"{at}.{own}.q_proj", k=f"{at}.{own}.k_proj", v=f"{at}.{own}.v_proj",
                output=f"{at}.{own}.out_proj",
            )
            for name, own in attentions
        ]  # fmt: skip
        ff = SlowPart(name="feed-forward", norm=f"{at}.final_layer_norm", up=f"{at}.fc1", down=f"{at}.fc2")
        found.append([*parts, ff])
    return found


def t5_layers(stack: str, n_layers: int, rows: Any) -> list[list[SlowPart]]:
    """T5's names (Raffel et al. 2019)."""
    found = []
    names = ["SelfAttention", *(["EncDecAttention"] if stack == "decoder" else [])]
    for i in range(n_layers):
        at = f"{stack}.block.{i}.layer"
        parts = [
            SlowPart(
                name="cross-attention" if k else "attention", norm=f"{at}.{k}.layer_norm", rows=rows,
                q=f"{at}.{k}.{own}.q", k=f"{at}.{k}.{own}.k", v=f"{at}.{k}.{own}.v",
                output=f"{at}.{k}.{own}.o", reads_memory=k == 1,
            )
            for k, own in enumerate(names)
        ]  # fmt: skip
        ff = f"{at}.{len(names)}"
        parts.append(
            SlowPart(
                name="feed-forward", norm=f"{ff}.layer_norm",
                up=f"{ff}.DenseReluDense.wi", down=f"{ff}.DenseReluDense.wo",
            )
        )  # fmt: skip
        found.append(parts)
    return found


def t5_bias(table: Numbers, n: int, *, is_causal: bool, most: int) -> Numbers:
    """The bias of each head by distance [n_heads, n, n], of a table [n_buckets, n_heads] (Raffel 2019).

    Half of the buckets (of each direction, where there are two) are single offsets, the rest grow with the
    logarithm of the distance up to `most`.
    """
    n_buckets = len(table) if is_causal else len(table) // 2
    found = np.zeros((table.shape[1], n, n))
    for i in range(n):
        for j in range(n):
            base, distance = (0, max(i - j, 0)) if is_causal else (n_buckets * (j > i), abs(i - j))
            single = n_buckets // 2
            if distance >= single:
                share = math.log(distance / single) / math.log(most / single)
                distance = min(single + int(share * (n_buckets - single)), n_buckets - 1)
            found[:, i, j] = table[base + distance]
    return found


def own_layers(stack: str, config: Any) -> list[list[SlowPart]]:
    """Layers of this program: q, k and v below each other in one matrix; of cross-attention k and v."""
    n, kv, width = config.n_heads, config.kv_heads, config.head_width
    group = n // kv
    of_own = tuple(head_rows(n, width, first, g) for first, g in ((0, 1), (n, group), (n + kv, group)))
    of_cross = tuple(head_rows(n, width, first, g) for first, g in ((0, 1), (0, group), (kv, group)))
    found = []
    for i in range(config.n_layers):
        at = f"{stack}.{i}"
        parts = [
            SlowPart(
                name="attention", norm=f"{at}.attention_norm", rows=of_own, q=f"{at}.attention.qkv",
                k=f"{at}.attention.qkv", v=f"{at}.attention.qkv", output=f"{at}.attention.output",
            )
        ]  # fmt: skip
        if stack == "decoder":
            parts.append(
                SlowPart(
                    name="cross-attention", norm=f"{at}.cross_norm", rows=of_cross, q=f"{at}.cross.query",
                    k=f"{at}.cross.kv", v=f"{at}.cross.kv", output=f"{at}.cross.output", reads_memory=True,
                )
            )  # fmt: skip
        parts.append(
            SlowPart(
                name="feed-forward", norm=f"{at}.feed_forward_norm",
                up=f"{at}.feed_forward.up", down=f"{at}.feed_forward.down",
            )
        )  # fmt: skip
        found.append(parts)
    return found

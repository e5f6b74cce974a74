"""Reformer: attention within hashed buckets and local chunks (Kitaev et al. 2020, sections 2 and 4).

    symbol   meaning                                                                     shape
    C, K     tokens of a chunk, and keys that one looks at: C·(1 + chunks around it)
    R        rounds of hashing; 1 for local attention, where chunks are as in the text
    p        weights within chunks, as the library gives them out                        [B, H, R·T/C, C, K]
    i, j     which token each row and column of p is                                     [B, H, R·T/C, C or K]
    z_r(i)   logarithm of the sum of exp(scores) of query i in round r                   [B, H, R, T]
    P        the same weights, token by token                                            [B, H, T, T]

P[i, j] is the sum over rounds of exp(z_r(i) − log Σ_r exp z_r(i)) · p_r[i, j]: the rounds as the layer adds
them up (section 2, equation 4). z is not given out; with the score s of the key that has the largest
weight it is s − log p. That P times the values is what the layer gives out is checked in every pass.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.families.family import Family, Handle, Seen

_OF_ITSELF = {torch.float16: -1e3}
"""The score of a token with itself, which it looks at only where it sees no other; else −1e5."""
_TOLERANCE = 2e-2
_SEED = 0


class Reformer(Family):
    name, title = "reformer", "Reformer"

    def prepare(self, model: Any) -> str:
        return "Its tokens are compared within buckets; the maps show them in the order of the text."

    def watch(self, model: Any, seen: Seen) -> list[Handle]:
        handles: list[Handle] = []
        for part in model.modules():
            if hasattr(part, "chunk_length") and hasattr(part, "value"):
                handles.append(part.register_forward_hook(_tell(seen), with_kwargs=True))
                if getattr(part, "hash_seed", 0) is None:
                    handles.append(_Seeded(part))
        return handles

    def laid_out(
        self, output: Mapping[str, Any], n_tokens: int, *, config: Any, seen: Seen
    ) -> Mapping[str, Any]:
        # without tokens given, embeddings were: a text as long as it is padded
        n = n_tokens or (seen[0].shape[-1] if seen else 0)
        return {**output, "attentions": tuple(weights[..., :n, :n] for weights in seen)}


class _Seeded:
    """Hashing that draws the same rotations in every pass, until removed."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self._part.hash_seed = _SEED

    def remove(self) -> None:
        self._part.hash_seed = None


def _tell(seen: Seen) -> Callable[..., None]:
    """A hook that puts P of each layer into `seen`."""

    def tell(part: Any, args: Any, kwargs: Mapping[str, Any], output: Any) -> None:
        if not isinstance(output.attention_probs, Tensor):
            return
        x = args[0] if args else kwargs["hidden_states"]
        with torch.no_grad():
            weights = lay_chunks(part, x, output.attention_probs, getattr(output, "buckets", None))
            _check(part, x, weights, output.hidden_states)
        # a score of −1e5 is rounded to 0.008, and the weight of a token that sees only itself to 1 ± 0.004
        seen.append((weights / weights.sum(dim=-1, keepdim=True)).detach())

    return tell


def lay_chunks(part: Any, x: Tensor, p: Tensor, buckets: Tensor | None) -> Tensor:
    """P of a layer that read x [B, T, d], before its rows are divided by their sums.

    `buckets` [B, H, R, T] are those of hashing, in each round others.
    """
    if p.ndim == 4:  # a text of one chunk is read whole
        return p
    n_batch, n_heads, _, size, _ = p.shape
    n = x.shape[1]
    if buckets is None:
        order = torch.arange(n, device=x.device).expand(n_batch, n_heads, n)
    else:
        order = torch.sort(buckets.flatten(2), dim=-1, stable=True).indices % n
    queries = order.reshape(n_batch, n_heads, -1, size)  # [B, H, R·T/C, C]
    around = range(-part.num_chunks_before, part.num_chunks_after + 1)
    keys = torch.cat([queries.roll(-k, dims=2) for k in around], dim=3)  # [B, H, R·T/C, K]
    n_rounds = queries.shape[2] * size // n
    if n_rounds > 1:
        p = p * _round_weights(part, x, p, queries, keys, n_rounds)[..., None]
    cells = (queries[..., None] * n + keys[..., None, :]).flatten(2)  # [B, H, R·T·K]
    whole = p.new_zeros(n_batch, n_heads, n * n)
    return whole.scatter_add(2, cells, p.flatten(2)).reshape(n_batch, n_heads, n, n)


def _round_weights(part: Any, x: Tensor, p: Tensor, queries: Tensor, keys: Tensor, n_rounds: int) -> Tensor:
    """Weight of each row of p among the rounds of its query, [B, H, R·T/C, C]."""
    (n_batch, n_heads), n = p.shape[:2], x.shape[1]
    q = part.query_key(x).reshape(n_batch, n, n_heads, -1).transpose(1, 2)  # [B, H, T, D]
    k = q * torch.rsqrt(q.square().mean(dim=-1, keepdim=True) + 1e-6) / q.shape[-1] ** 0.5
    largest, at = p.max(dim=-1)
    best = keys[..., None, :].expand(p.shape).gather(4, at[..., None]).squeeze(4)

    def rows(values: Tensor, which: Tensor) -> Tensor:
        flat = which.flatten(2)[..., None].expand(-1, -1, -1, values.shape[-1])
        return values.gather(2, flat)

    scores = (rows(q, queries) * rows(k, best)).sum(dim=-1).reshape(queries.shape)
    own = _OF_ITSELF.get(p.dtype, -1e5)
    z = torch.where(best == queries, torch.full_like(scores, own), scores) - largest.log()
    flat = z.reshape(n_batch, n_heads, n_rounds, n)
    of_token = queries.reshape(n_batch, n_heads, n_rounds, n)  # [B, H, R, T]
    by_token = torch.empty_like(flat).scatter(3, of_token, flat)
    shares = by_token.softmax(dim=2).gather(3, of_token)
    return shares.reshape(queries.shape)


def _check(part: Any, x: Tensor, weights: Tensor, out: Tensor) -> None:
    """Raise UserError unless the weights times the values give the layer's output."""
    values = part.value(x).reshape(*x.shape[:2], weights.shape[1], -1).transpose(1, 2)
    found = (weights @ values).transpose(1, 2).flatten(2)
    error = float((found - out).abs().max() / out.abs().max().clamp(min=1e-6))
    if not error <= _TOLERANCE:
        raise UserError(
            f"The weights of a {type(part).__name__}, laid out token by token, give other values than the "
            f"layer: they differ by {error:.2g} of the largest.",
            expected=f"at most {_TOLERANCE:g}",
            action="Its maps would not be the model's own, so they are not shown.",
        )


class Nystromformer(Family):
    name, title = "nystromformer", "Nyströmformer"
    not_a_map = "its weights are approximated and never computed as a map"


class Yoso(Family):
    name, title = "yoso", "YOSO"
    not_a_map = "its weights are drawn by hashing"

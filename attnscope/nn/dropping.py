"""Dropout on a CPU: draws the places to drop, not a number for every place.

    symbol   meaning                                                     shape
    p        the share that is dropped                                   one number
    gap      places kept before the next one that is dropped             [n_dropped]
    q, k, v  queries, keys and values                                    [batch, n_heads, n_tokens, d_head]
    P        weights of a block of queries, dropped ones being 0         [texts · n_heads, rows, n_keys]

Places dropped independently with the probability p lie gaps apart that follow the geometric law,
floor(ln U / ln(1 − p)) for a U that is anywhere between 0 and 1 (Devroye 1986, section X.2). The first 16
bits of a U mostly tell the gap, from a table; where they do not, the others are drawn. So a draw costs 16
bits for each place that is dropped, and nothing but a list of places is kept. Equal in law to
`torch.nn.functional.dropout`, which draws one number after the other, 5 to 15 ns each; other devices, and
torch.compile, are left to that. Draws come from the generator of torch, or from a thread's own: equal seeds
drop equal places.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd

_ROWS = 64
"""Queries of a block; the fused operator takes as many, and leaves out what is in the future as well."""
_BLOCK, KEPT_WEIGHTS = 2**18, 2**20
"""Weights of a block, which stay in the cache, and of all blocks together that are kept for the gradient."""
_BITS = 2**16
_THREAD = threading.local()


@contextmanager
def own_dice(seed: int) -> Iterator[None]:
    """Let this thread's dropout use a generator of its own, independent of other threads."""
    before = getattr(_THREAD, "generator", None)
    _THREAD.generator = _generator(seed)
    try:
        yield
    finally:
        _THREAD.generator = before


def new_seed() -> int:
    """A seed for `own_dice`, from this thread's generator or torch's."""
    random = getattr(_THREAD, "generator", None)
    return int(torch.randint(2**62, ())) if random is None else int(random.integers(2**62))


def is_quick_on(x: Tensor) -> bool:
    """Whether this method is used for such a tensor."""
    return x.device.type == "cpu" and x.is_floating_point() and not torch.compiler.is_compiling()


def drop(x: Tensor, share: float) -> Tensor:
    """Zero `share` of the numbers, drawn anew at each call; the others are divided by 1 − share."""
    if share <= 0.0 or not is_quick_on(x):
        return F.dropout(x, share)
    dropped: Tensor = _Dropped.apply(x, None, share)  # type: ignore[no-untyped-call]
    return dropped


def add_dropping(stream: Tensor, x: Tensor, share: float) -> Tensor:
    """`stream + drop(x, share)`, in one pass if shapes and types match."""
    if share <= 0.0 or not is_quick_on(x) or (stream.shape, stream.dtype) != (x.shape, x.dtype):
        return stream + drop(x, share)
    added: Tensor = _Dropped.apply(x, stream, share)  # type: ignore[no-untyped-call]
    return added


def draw_places(n_places: int, share: float) -> Tensor:
    """Dropped places of `n_places`, int64 in rising order; each independently with probability `share`."""
    random = getattr(_THREAD, "generator", None) or _generator(new_seed())
    found, last = [], -1
    while last < n_places:
        left = n_places - last
        places = _draw_gaps(random, int(left * share + 6.0 * math.sqrt(left * share) + 16.0), share, left)
        places[0] += last
        summed = torch.from_numpy(places)  # numpy takes five times as long to add up
        torch.cumsum(summed, 0, out=summed)
        last = int(places[-1])
        found.append(places)
    places = found[0] if len(found) == 1 else np.concatenate(found)
    return torch.from_numpy(places[: np.searchsorted(places, n_places)])


def _generator(seed: int) -> "np.random.Generator":
    return np.random.Generator(np.random.SFC64(seed))


def _draw_gaps(random: "np.random.Generator", n: int, share: float, most: int) -> NDArray[np.int64]:
    """Gaps between each of the next n dropped places and the one before: 1 to `most`."""
    bits = random.bit_generator.random_raw(-(-n // 4)).view(np.uint16)[:n]
    told = _gaps_of_bits(share).take(bits, mode="clip")  # the bits are never out of range
    gaps = told.astype(np.int64)
    open_ = np.flatnonzero(told == 0)
    left = (float(_BITS) - bits[open_] - random.random(len(open_))) / _BITS  # 1 − U
    gaps[open_] = np.minimum(_gap(left, share), most)
    return gaps


@lru_cache(maxsize=16)
def _gaps_of_bits(share: float) -> NDArray[np.uint8]:
    """The gap determined by the first bits of a U; 0 if the others decide, or it is longer than 255."""
    borders = np.arange(_BITS, -1, -1) / _BITS
    with np.errstate(divide="ignore"):  # the last gap has no end
        gaps = _gap(borders, share)
    is_told = (gaps[:-1] == gaps[1:]) & (gaps[:-1] < 256.0)
    return np.where(is_told, gaps[:-1], 0.0).astype(np.uint8)


def _gap(left: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    gaps: NDArray[np.float64] = np.floor(np.log(left) / math.log1p(-share)) + 1.0
    return gaps


class _Dropped(torch.autograd.Function):
    """The rest of x after dropout, added to a stream if one is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stream: Tensor | None, share: float) -> Tensor:
        places, ctx.scale = draw_places(x.numel(), share), 1.0 / (1.0 - share)
        ctx.save_for_backward(places)
        if stream is None:
            return _without(x, places, ctx.scale)
        stream = stream.contiguous()
        out = torch.add(stream, x.contiguous(), alpha=ctx.scale)
        out.view(-1).index_copy_(0, places, stream.view(-1).index_select(0, places))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (places,) = ctx.saved_tensors
        of_stream = gradients[0] if ctx.needs_input_grad[1] else None
        return _without(gradients[0], places, ctx.scale), of_stream, None


def _without(x: Tensor, places: Tensor, scale: float) -> Tensor:
    out = x.contiguous() * scale
    out.view(-1).index_fill_(0, places, 0.0)
    return out


def attend_dropping(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, share: float, scale: float
) -> Tensor:
    """Attention with `share` of its weights dropped, as defined by `scaled_dot_product_attention`.

    `mask` is broadcast to [batch, n_heads, n_queries, n_keys]: bool, True for what may be seen, or added to
    the scores. A query must see at least one key; under the causal rule there are as many queries as keys.
    """
    n_groups = q.shape[1] // k.shape[1]
    if n_groups > 1:
        k, v = k.repeat_interleave(n_groups, dim=1), v.repeat_interleave(n_groups, dim=1)
    if mask is not None and mask.dtype == torch.bool:
        mask = q.new_zeros(mask.shape).masked_fill_(~mask, -math.inf)
    if mask is not None and mask.requires_grad:
        weights = (q @ k.transpose(2, 3) * scale + mask).softmax(dim=-1)
        return drop(weights, share) @ v
    attended: Tensor = _Attended.apply(q, k, v, mask, is_causal, share, scale)  # type: ignore[no-untyped-call]
    return attended


class _Attended(torch.autograd.Function):
    """Block by block; the weights of large maps are recomputed for the gradient."""

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)  # type: ignore[untyped-decorator]
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        share: float,
        scale: float,
    ) -> Tensor:
        blocks = _Blocks(q, k, v, mask, is_causal=is_causal, scale=scale)
        out, kept = q.new_empty(*blocks.q.shape[:2], v.shape[3]), []
        for block in blocks:
            heads, rows, keys = block
            p = blocks.weights(block)
            places = draw_places(p.numel(), share)
            kept += [places, p, p.view(-1)[places]] if blocks.are_kept else [places]
            p.view(-1).index_fill_(0, places, 0.0)
            part = out[heads, rows]
            torch.baddbmm(part, p, blocks.v[heads, keys], beta=0, alpha=1.0 / (1.0 - share), out=part)
        ctx.save_for_backward(q, k, v, mask, *kept)
        ctx.is_causal, ctx.share, ctx.scale = is_causal, share, scale
        return out.view(*q.shape[:3], v.shape[3])

    @staticmethod
    @custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """DS = P ∘ (dP − Σ dP ∘ P) for P before dropout, with dP 0 where it dropped."""
        saved = ctx.saved_tensors
        given, kept = saved[:4], iter(saved[4:])
        blocks = _Blocks(*given, is_causal=ctx.is_causal, scale=ctx.scale)
        q, k, v = blocks.q, blocks.k, blocks.v
        gradient = gradients[0].reshape(*q.shape[:2], -1) * (1.0 / (1.0 - ctx.share))
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for block, places in zip(blocks, kept, strict=False):
            heads, rows, keys = block
            p = next(kept) if blocks.are_kept else blocks.weights(block)
            flat = p.data.view(-1)  # what is changed in it is put back: a second pass may follow
            own = next(kept) if blocks.are_kept else flat[places]
            flat.index_fill_(0, places, 0.0)
            part = gradient[heads, rows]
            of_v[heads, keys].baddbmm_(p.transpose(1, 2), part)
            change = torch.bmm(part, v[heads, keys].transpose(1, 2))
            change.view(-1).index_fill_(0, places, 0.0)
            flat.index_copy_(0, places, own)
            torch.ops.aten._softmax_backward_data.out(change, p, -1, p.dtype, grad_input=change)
            part = of_q[heads, rows]
            torch.baddbmm(part, change, k[heads, keys], beta=0, alpha=ctx.scale, out=part)
            of_k[heads, keys].baddbmm_(change.transpose(1, 2), q[heads, rows], alpha=ctx.scale)
        found = (of.view(one.shape) for of, one in zip((of_q, of_k, of_v), given, strict=False))
        return *found, None, None, None, None


_Block = tuple[slice, slice, slice]


class _Blocks:
    """The parts of an attention call that are computed one after the other: heads, rows, keys."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float
    ) -> None:
        self.q, self.k, self.v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        self._scale, self._is_causal = scale, is_causal
        self._n_texts, self._n_heads, self._n_queries = q.shape[:3]
        self._n_keys = k.shape[2]
        self._mask = mask
        n_rows = min(_ROWS, self._n_queries)
        self._future = q.new_full((n_rows, n_rows), -math.inf).triu_(1) if is_causal else None
        self.are_kept = self._n_texts * self._n_heads * self._n_queries * self._n_keys <= KEPT_WEIGHTS

    def __iter__(self) -> Iterator[_Block]:
        for start in range(0, self._n_queries, _ROWS):
            rows = slice(start, min(start + _ROWS, self._n_queries))
            keys = slice(0, rows.stop if self._is_causal else self._n_keys)
            n = max(1, _BLOCK // ((rows.stop - start) * keys.stop * self._n_heads))
            for text in range(0, self._n_texts, n):
                stop = min(text + n, self._n_texts)
                yield slice(text * self._n_heads, stop * self._n_heads), rows, keys

    def weights(self, block: _Block) -> Tensor:
        """P of one block before anything is dropped."""
        heads, rows, keys = block
        n_rows = rows.stop - rows.start
        p = torch.bmm(self.q[heads, rows] * self._scale, self.k[heads, keys].transpose(1, 2))
        if self._future is not None:
            p[:, :, rows].add_(self._future[:n_rows, :n_rows])
        if self._mask is not None:
            of_heads = p.view(-1, self._n_heads, n_rows, keys.stop)
            texts = slice(heads.start // self._n_heads, heads.stop // self._n_heads)
            of_heads.add_(_part(_part(self._mask, 0, texts), 2, rows)[..., keys])
        return torch.softmax(p, dim=-1, out=p)


def _part(mask: Tensor, axis: int, part: slice) -> Tensor:
    return mask if mask.shape[axis] == 1 else mask.narrow(axis, part.start, part.stop - part.start)

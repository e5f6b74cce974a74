"""The modules of mixers other than attention (`schemes/mixers`): linear recurrences, and convolution.

Linear recurrences: a state in the place of the map, so that the cost grows with the text alone.

    symbol   meaning                                                        shape
    q, k, v  queries, keys and values                                       [B, H, T, D]
    a        logarithm of what is left of the state at a token, ≤ 0         [B, H, T]
    b        how much a token writes                                        [B, H, T]
    S        S_i = e^(a_i) S_(i−1) + b_i k_i v_iᵀ, the state                [B, H, D, D]
    w        w_ij = q_i·k_j b_j e^(a_(j+1) + … + a_i) for j ≤ i, else 0     [B, H, T, T]

q_i S_i = Σ_j w_ij v_j: w, the unrolled recurrence, is what a map of attention would be. Sun et al. 2023
(RetNet), equations 5 to 8; Dao and Gu 2024 (Mamba-2), sections 3 and 6. Letters: B batch, H heads, T
tokens, D d_head.

Dilated convolution in the place of attention: weights that depend on the distance and on nothing else.

    symbol   meaning                                                     shape
    v        (x W + b) ⊙ σ(x W' + b'), the values                        [B, H, T, D]
    u        what a head learns of each place, in a softmax              [H, kernel_width]
    o        o_i = Σ_n softmax(u)_n v_(i − n · dilation^layer)           [B, H, T, D]

Wu et al. 2019, section 3; places before the text give nothing, so that the first rows add up to less than 1.
Letters: B batch, H heads, T tokens, D d_head.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from attnscope.nn.cache import KeyValueCache
from attnscope.nn.config import ModelConfig
from attnscope.nn.masks import MaskRule
from attnscope.nn.scores import Rotary, apply_rotary
from attnscope.schemes.mixers.retention import CHUNK

_FIRST_DECAY = 5
"""RetNet's γ of head h is 1 − 2^(−5 − h)."""
_LEAST_STEP, _MOST_STEP = 1e-3, 1e-1
"""Mamba-2's first Δ."""
_LEAST_RATE, _MOST_RATE = 0.02, 0.2
"""The first A. Mamba-2's, from 1 to 16, forgets within a few tokens: small models hardly leave that."""


def recur(q: Tensor, k: Tensor, v: Tensor, a: Tensor, *, chunk: int = CHUNK) -> Tensor:
    """q_i S_i for every token, [B, H, T, D], with b already in k: within chunks pair by pair."""
    return recur_on(q, k, v, a, None, chunk=chunk)[0]


def recur_on(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, state: Tensor | None, *, chunk: int = CHUNK
) -> tuple[Tensor, Tensor]:
    """As `recur`, starting from the `state` S [B, H, D, D] of earlier tokens, or none; also gives the final
    state.
    """
    n_tokens = q.shape[2]
    size = min(chunk, n_tokens)
    short = -n_tokens % size
    q, k, v = (torch.stack(torch.split(F.pad(x, (0, 0, 0, short)), size, dim=2), dim=2) for x in (q, k, v))
    total = torch.stack(torch.split(F.pad(a, (0, short)), size, dim=2), dim=2).cumsum(dim=-1)  # [B, H, N, C]
    inside = (q @ k.transpose(-1, -2) * fading(total)) @ v
    written = (k * (total[..., -1:] - total).exp()[..., None]).transpose(-1, -2) @ v  # [B, H, N, D, D]
    state = torch.zeros_like(written[:, :, 0]) if state is None else state
    before = []
    for n in range(written.shape[2]):
        before.append(state)
        state = state * total[:, :, n, -1].exp()[..., None, None] + written[:, :, n]
    found: Tensor = inside + (q * total.exp()[..., None]) @ torch.stack(before, dim=2)
    return found.flatten(2, 3)[:, :, :n_tokens], state


def fading(total: Tensor) -> Tensor:
    """e^(a_(j+1) + … + a_i) of the running sums of a [..., T]: [..., T, T], 0 for j > i."""
    n = total.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool, device=total.device).triu(1)
    between = total[..., :, None] - total[..., None, :]
    return between.masked_fill(later, -math.inf).exp()


class Recurrence(nn.Module):
    """Shared by retention and state spaces: projections, a norm of each head, a gate, the output.

    The head outputs are brought to a root mean square of 1, multiplied by swish(x W_G), and projected.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.n_heads, self.d_head, self.epsilon = config.n_heads, config.head_width, config.norm_epsilon
        self.layer = layer
        n = config.n_heads * config.head_width
        self.qkv = nn.Linear(config.d_model, 3 * n, bias=config.bias)
        self.gate = nn.Linear(config.d_model, n, bias=config.bias)
        self.output = nn.Linear(n, config.d_model, bias=config.bias)

    def forward(
        self,
        x: Tensor,
        *,
        rule: MaskRule,
        rotary: Rotary | None = None,
        cache: KeyValueCache | None = None,
        **_: object,
    ) -> Tensor:
        """Mix the tokens and project: [B, T, d_model]. A cache holds the state, and rows that are near."""
        carried = () if cache is None else cache.carried(self.layer)
        (q, k, v, a, b), rows = self._read_on(x, rotary, rule.key_valid, carried[1:])
        with torch.autocast(x.device.type, enabled=False):
            found, state = recur_on(q, k * b[..., None], v, a, carried[0] if carried else None)
            if cache is not None:
                cache.carry(self.layer, state, *rows)
            out = found + self._kept(v)
            out = F.rms_norm(out, (self.d_head,), eps=self.epsilon)
        joined = out.transpose(1, 2).flatten(2).to(x.dtype)  # [B, T, H · D]
        projected: Tensor = self.output(joined * F.silu(self.gate(x)))
        return projected

    def unrolled(self, x: Tensor, *, rotary: Rotary | None = None, **_: object) -> tuple[Tensor, Tensor]:
        """w, and a softmax of the same products q·k: both [B, H, T, T]."""
        q, k, v, a, b = self._read(x, rotary, None)
        products = q @ k.transpose(-1, -2)  # [B, H, T, T]
        later = torch.ones_like(products, dtype=torch.bool).triu(1)
        weights = products * b[:, :, None, :] * fading(a.cumsum(dim=-1))
        scores = (products / math.sqrt(self.d_head)).masked_fill(later, -math.inf)
        one = self._kept(torch.ones_like(v[..., :1]))  # what a token keeps of its own value
        return weights + torch.diag_embed(one[..., 0]), scores.softmax(dim=-1)

    def _read(
        self, x: Tensor, rotary: Rotary | None, valid: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """q, k, v, a and b, in float32 or better; padding writes nothing."""
        return self._read_on(x, rotary, valid, ())[0]

    def _read_on(
        self, x: Tensor, rotary: Rotary | None, valid: Tensor | None, before: Sequence[Tensor]
    ) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]:
        """As `_read`, after tokens that left the rows `before`; also gives the rows that these leave."""
        rows = self.qkv(x)
        if valid is not None:
            rows = rows.masked_fill(~valid[..., None], 0.0)
        rows, left = self._near(rows, before)
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        parts = rows.view(*rows.shape[:2], 3, self.n_heads, self.d_head)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each [B, H, T, D]
        if rotary is not None:
            q, k = apply_rotary(q, *rotary), apply_rotary(k, *rotary)
        a, b = self._steps(x, q)
        if valid is not None:
            b = b * valid[:, None]
        return (q, k, v, a, b), left

    def _near(self, rows: Tensor, before: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The rows of queries, keys and values in use, [B, T, 3 · H · D], and those used later.

        `before` are those that earlier tokens left.
        """
        return rows, ()

    def _steps(self, x: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers a and b, [B, H, T]."""
        raise NotImplementedError

    def _kept(self, v: Tensor) -> Tensor:
        """Share of its own value that each token adds, shaped like `v`."""
        return torch.zeros_like(v)

    def fill(self, generator: Generator) -> None:
        """Initialise the parameters outside linear layers."""


class Retention(Recurrence):
    """The γ of head h is 1 − 2^(−5 − h), and b = 1 / √d_head."""

    def _steps(self, x: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        heads = torch.arange(self.n_heads, dtype=q.dtype, device=q.device)
        a = (-(2.0 ** (-_FIRST_DECAY - heads))).log1p()
        return a[None, :, None].expand(q.shape[:3]), q.new_full(q.shape[:3], self.d_head**-0.5)


class SelectiveSpace(Recurrence):
    """a = −A Δ, b = Δ = softplus(x W_Δ + b_Δ): queries are Mamba's C, keys its B, values its x.

    A short causal convolution and swish come before (Gu and Dao 2023, section 3.4); each token keeps D of its
    own value.
    """

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__(config, layer)
        n = 3 * config.n_heads * config.head_width
        self.near = nn.Conv1d(n, n, config.kernel_width, groups=n, padding=config.kernel_width - 1)
        self.step = nn.Linear(config.d_model, config.n_heads)
        self.log_rate = nn.Parameter(torch.zeros(config.n_heads))
        self.own = nn.Parameter(torch.ones(config.n_heads))

    def _near(self, rows: Tensor, before: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        n_tokens, n_near = rows.shape[1], self.near.weight.shape[-1] - 1
        rows = torch.cat((*before, rows), dim=1)
        found: Tensor = self.near(rows.transpose(1, 2))[..., rows.shape[1] - n_tokens : rows.shape[1]]
        return F.silu(found.transpose(1, 2)), (rows[:, max(0, rows.shape[1] - n_near) :],)

    def _steps(self, x: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        step = F.softplus(self.step(x).to(q.dtype)).transpose(1, 2)  # [B, H, T]
        return -self.log_rate.to(q.dtype).exp()[:, None] * step, step

    def _kept(self, v: Tensor) -> Tensor:
        return self.own.to(v.dtype)[:, None, None] * v

    def fill(self, generator: Generator) -> None:
        """Initialise A from 0.02 to 0.2, Δ from 0.001 to 0.1 (evenly in its logarithm), and D 0."""
        bound = self.near.weight.shape[-1] ** -0.5
        self.near.weight.uniform_(-bound, bound, generator=generator)
        if self.near.bias is not None:
            self.near.bias.zero_()
        self.log_rate.uniform_(_LEAST_RATE, _MOST_RATE, generator=generator).log_()
        self.own.zero_()
        step = self.step.bias.uniform_(
            math.log(_LEAST_STEP), math.log(_MOST_STEP), generator=generator
        ).exp_()
        step.add_((-(-step).expm1()).log())  # what softplus makes Δ of


class Convolution(nn.Module):
    """One layer: values through a gated linear unit, the convolution, the output."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.n_heads, self.d_head, self.layer = config.n_heads, config.head_width, layer
        self.step = config.dilation**layer
        n = config.n_heads * config.head_width
        self.values = nn.Linear(config.d_model, 2 * n, bias=config.bias)
        self.kernel = nn.Parameter(torch.zeros(config.n_heads, config.kernel_width))
        self.output = nn.Linear(n, config.d_model, bias=config.bias)

    def forward(
        self, x: Tensor, *, rule: MaskRule, cache: KeyValueCache | None = None, **_: object
    ) -> Tensor:
        """Mix the tokens and project: [B, T, d_model]. A cache holds the values that later tokens read."""
        v = F.glu(self.values(x), dim=-1)
        if rule.key_valid is not None:
            v = v.masked_fill(~rule.key_valid[..., None], 0.0)
        v = v.view(*v.shape[:2], self.n_heads, self.d_head)
        shares, n_tokens = self.kernel.softmax(dim=-1).to(v.dtype), v.shape[1]
        if cache is not None:
            v = self._with_earlier(v, cache)
        out, n_earlier = torch.zeros_like(v[:, :n_tokens]), v.shape[1] - n_tokens
        for n in range(min(shares.shape[1], -(-v.shape[1] // self.step))):
            back = n * self.step
            moved = F.pad(v, (0, 0, 0, 0, max(0, back - n_earlier), 0))
            first = max(0, n_earlier - back)
            out = out + shares[:, n, None] * moved[:, first : first + n_tokens]
        projected: Tensor = self.output(out.flatten(2))
        return projected

    def _with_earlier(self, v: Tensor, cache: KeyValueCache) -> Tensor:
        """The values and the earlier ones still read, [B, up to reach + T, H, D]."""
        v = torch.cat((*cache.carried(self.layer), v), dim=1)
        reach = (self.kernel.shape[1] - 1) * self.step
        cache.carry(self.layer, v[:, max(0, v.shape[1] - reach) :].clone())
        return v

    def unrolled(self, x: Tensor, **_: object) -> tuple[Tensor, None]:
        """The weights of every pair, [B, H, T, T], the same for every text; no products for a softmax."""
        n_tokens = x.shape[1]
        weights = x.new_zeros(self.n_heads, n_tokens, n_tokens)
        for n, share in enumerate(self.kernel.softmax(dim=-1).T):
            back = n * self.step
            if back < n_tokens:
                weights.diagonal(-back, dim1=1, dim2=2).copy_(share.detach()[:, None])
        return weights.expand(len(x), -1, -1, -1), None

    def fill(self, generator: Generator) -> None:
        """Initialise: nearly even weights, so that no two heads are alike."""
        self.kernel.normal_(std=0.5, generator=generator)


_MADE = {"retention": Retention, "selective": SelectiveSpace, "convolution": Convolution}


def make_mixer(config: ModelConfig, layer: int) -> nn.Module:
    return _MADE[config.mixer](config, layer)

"""What a good positional encoding is asked for, measured of every position scheme.

The list is that of lectures: the same each time, distinct for each position, of use past the trained length,
relative, and simple. An encoder of one untrained layer reads one token repeated.

    symbol   meaning                                                    shape
    s        scores of the layer                                        [n_heads, T, T]
    P        vectors of positions, of a scheme that has them            [n, d]
    A        the matrix with the least |A P_t − P_(t + 1)| over even t  [d, d]
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.nn.edits import Call, Edits
from attnscope.nn.scores import scores
from attnscope.nn.transformer import Transformer, build_transformer
from attnscope.records.positions import PositionCheck
from attnscope.records.sites import SiteKey
from attnscope.schemes.positions import POSITIONS, PositionScheme

_CONFIG = ModelConfig(
    form="encoder", vocab_size=8, d_model=32, n_layers=1, n_heads=4, d_ff=8, max_tokens=32, n_buckets=8,
    max_distance=64, position="none",
)  # fmt: skip
N_VECTORS, WIDTH = 128, 32
"""So many positions, and so wide, are the vectors that A is fitted to."""
_NOTHING = 1e-4
"""Scores of float32 that are as near as this, in nats, are the same."""


def position_checks() -> tuple[PositionCheck, ...]:
    """Every position scheme, in order."""
    return tuple(_check(scheme) for scheme in POSITIONS.values())


@torch.no_grad()
def _check(scheme: PositionScheme) -> PositionCheck:
    config = replace(_CONFIG, position=scheme.name)
    n_parameters = count_parameters(config).total - count_parameters(_CONFIG).total
    model = build_transformer(config, seed=0).eval()
    trained = _scores(model, config.max_tokens)
    shift_error, shift = _shift(scheme)
    return PositionCheck(
        name=scheme.name,
        title=scheme.title,
        seed_change=_seed_change(model, trained),
        least_apart=_least_apart(trained),
        past_change=_past_change(model, trained),
        by_distance=_by_distance(trained),
        shift_error=shift_error,
        shift=shift.float().numpy(),
        n_parameters=n_parameters,
        formula=scheme.formula,
        source=scheme.source,
    )


def _seed_change(model: Transformer, trained: Tensor) -> float:
    """The largest |Δs| when the parameters that only this scheme has begin with another seed."""
    plain = {name for name, _ in build_transformer(_CONFIG, seed=0).named_parameters()}
    other = build_transformer(model.config, seed=1).eval()
    own = dict(model.named_parameters())
    for name, parameter in other.named_parameters():
        if name in plain:
            parameter.copy_(own[name])
    return float((_scores(other, model.config.max_tokens) - trained).abs().max())


def _least_apart(s: Tensor) -> float:
    """The largest difference of two rows, of the two rows where that is least."""
    rows = s.transpose(0, 1).flatten(1)  # [T, H · T]
    apart = (rows[:, None] - rows[None]).abs().amax(dim=-1)
    apart.fill_diagonal_(math.inf)
    found = float(apart.min())
    return found if found > _NOTHING else 0.0


def _past_change(model: Transformer, trained: Tensor) -> float:
    if not model.can_read_past:
        return math.nan
    n = model.config.max_tokens
    model.reach_past(2 * n)
    return float((_scores(model, 2 * n)[:, :n, :n] - trained).abs().max())


def _by_distance(s: Tensor) -> float:
    """1 − variance around the means of the diagonals over that of all scores, each head by itself."""
    n = s.shape[-1]
    around = torch.cat(
        [s.diagonal(k, 1, 2) - s.diagonal(k, 1, 2).mean(-1, keepdim=True) for k in range(1 - n, n)], 1
    )
    whole = (s - s.mean(dim=(1, 2), keepdim=True)).square().sum()
    return float(1.0 - around.square().sum() / whole) if float(s.std()) > _NOTHING else math.nan


def _shift(scheme: PositionScheme) -> tuple[float, Tensor]:
    nothing = torch.full((2, 2), math.nan)
    if not scheme.page_title:
        return math.nan, nothing
    vectors = scheme.page_matrix(N_VECTORS, WIDTH)[0].double()
    before, after = vectors[:-1], vectors[1:]
    a = torch.linalg.lstsq(before[::2], after[::2], driver="gelsd").solution.T  # [d, d]
    error = (before[1::2] @ a.T - after[1::2]).norm() / after[1::2].norm()
    first = list(scheme.first_wave(WIDTH))
    return float(error), a[first][:, first]


class _Looker:
    """Keeps the call of the only layer."""

    call: Call

    def gate(self, site: SiteKey) -> Tensor | None:
        return None

    def edits(self, site: SiteKey) -> Edits | None:
        return None

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        self.call = call


def _scores(model: Transformer, n: int) -> Tensor:
    """The scores of a text of one token repeated, [n_heads, n, n], in float64."""
    looker = _Looker()
    model.encode(torch.full((1, n), 5), probe=looker)
    call = looker.call
    return scores(call.q, call.k, rule=call.rule, score=call.score)[0].double()

"""Positional encodings as tables: the matrix, and how alike its positions are.

| symbol    | meaning                                    | shape                        |
|-----------|--------------------------------------------|------------------------------|
| matrix    | one row for each position                  | [n_positions, d_model]       |
| cosine    | cosine similarity of each pair             | [n_positions, n_positions]   |
| by_offset | mean over all pairs at offset 0, 1, …      | [n_positions]                |

The row of a position that is a zero vector (binary position 0) has no direction: its cosine is NaN.

An open model itself says something about positions: its table, its turns, or its biases by distance.

| symbol   | meaning                                                    | shape              |
|----------|------------------------------------------------------------|--------------------|
| matrix   | a vector for each position                                 | [n, d_model]       |
|          | T5, ALiBi: added to scores for keys 0, 1 … tokens back     | [n, n_heads]       |
|          | Shaw: the vector of keys 0, 1 … tokens back                | [n, d_head]        |
| inv_freq | radians that each pair of dimensions turns by at each token | [width / 2]       |

Models of other libraries are looked through by what they hold: a table under one of the usual names, turns
(`inv_freq`), or T5's buckets.

What a good positional encoding is asked for, measured of every position scheme.

The list is that of lectures: the same each time, distinct for each position, of use past the trained length,
relative, and simple. An encoder of one untrained layer reads one token repeated.

    symbol   meaning                                                    shape
    s        scores of the layer                                        [n_heads, T, T]
    P        vectors of positions, of a scheme that has them            [n, d]
    A        the matrix with the least |A P_t − P_(t + 1)| over even t  [d, d]
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.nn import (
    Call,
    ModelConfig,
    QuietProbe,
    Scoring,
    Transformer,
    build_transformer,
    count_parameters,
    scores_of,
)
from attnscope.records.maps import PositionCheck, PositionTable
from attnscope.records.sites import SiteKey
from attnscope.schemes.positions import POSITIONS, PositionScheme
from attnscope.schemes.positions.rotary import rotary_note, rotated
from attnscope.schemes.positions.scheme import BACK, BACK_NOTE, PLAIN_AXES
from attnscope.schemes.positions.t5 import relative_buckets

_TABLES = (
    "position_embeddings",
    "position_embedding",
    "wpe",
    "embed_positions",
    "positions_embed",
    "embed_position",
)
"""Names of position tables in models of other libraries."""


class OwnPositions(NamedTuple):
    """A model's own positional encoding: a matrix, its kind, its columns and rows, the name of the scheme."""

    matrix: Tensor
    note: str
    axes: tuple[str, str]
    scheme: str


def own_positions(n: int, model: Model) -> OwnPositions:
    """The matrix of the first n positions, or distances.

    Raises UserError for a model whose positions are nowhere to be read.
    """
    module = getattr(model.network, "module", None)
    if isinstance(module, Transformer):
        config = model.own.config
        return OwnPositions(*_of_own(n, config, module, model.info.name), config.position)
    if isinstance(module, nn.Module) and model.info.architecture:
        return _of_foreign(n, module, model.info.name)
    raise UserError(
        f"The model {model.info.name} is recurrent ({model.info.body}): its states carry the order.",
        expected="a Transformer with positions",
        action="Open another model.",
    )


def _of_own(
    n: int, config: ModelConfig, module: Transformer, name: str
) -> tuple[Tensor, str, tuple[str, str]]:
    positions = POSITIONS[config.position]
    if positions.learns_table:
        return *_learned(n, config, module), PLAIN_AXES
    for part in module.modules() if positions.scores_distances else ():
        if isinstance(part, Scoring) and part.reach:
            return positions.own_of_site(part.of_positions, n, part.reach)
    learned = module.encoder_relative or module.decoder_relative
    if learned is not None:
        stack = "encoder" if module.encoder_relative is not None else "decoder"
        with torch.no_grad():
            matrix = learned.values(-torch.arange(n, device=module.tokens.weight.device)).T.cpu()
        return matrix, f"{positions.bias_words}, the {stack}'s. {BACK_NOTE}", BACK
    found = positions.own(n, config)
    if found is None:
        raise _nothing(name, config.position)
    return found


def _learned(n: int, config: ModelConfig, module: Transformer) -> tuple[Tensor, str]:
    stack = module.encoder_embedding or module.decoder_embedding
    if stack is None or stack.positions is None:
        raise ValueError("a model with learned positions has no table of them")
    note = "Learned."
    if module.encoder_embedding is not None and module.decoder_embedding is not None:
        note = "Learned; the encoder's (the decoder has a table of its own)."
    return stack.positions.weight[:n], note + _end(n, config.max_tokens)


def _bucketed(n: int, weight: Tensor, max_distance: int, *, is_causal: bool) -> Tensor:
    """T5's biases of keys 0 … n − 1 tokens back, from `weight` [n_buckets, n_heads]."""
    back = -torch.arange(n)
    buckets = relative_buckets(back, n_buckets=len(weight), max_distance=max_distance, is_causal=is_causal)
    return weight.detach().cpu()[buckets]


def _of_foreign(n: int, module: nn.Module, name: str) -> OwnPositions:
    for path, part in module.named_modules():
        if isinstance(part, nn.Embedding) and path.rpartition(".")[2] in _TABLES:
            first = getattr(part, "offset", None)
            first = (
                first if isinstance(first, int) else 0 if part.padding_idx is None else part.padding_idx + 1
            )
            table = part.weight[first:]
            kind, scheme = ("Fixed", "sinusoidal") if _is_sinusoidal(table) else ("Learned", "learned")
            return OwnPositions(table[:n], f"{kind}: {path}.{_end(n, len(table))}", PLAIN_AXES, scheme)
    for path, parameter in module.named_parameters():
        if path.rpartition(".")[2] in _TABLES and parameter.ndim == 3 and len(parameter) == 1:
            note = f"Learned: {path}.{_end(n, parameter.shape[1])}"
            return OwnPositions(parameter[0, :n], note, PLAIN_AXES, "learned")
    for path, part in module.named_modules():
        if path.rpartition(".")[2] == "relative_attention_bias" and isinstance(part, nn.Embedding):
            around = module.get_submodule(path.rpartition(".")[0])
            matrix = _bucketed(
                n,
                part.weight,
                int(getattr(around, "relative_attention_max_distance", 128)),
                is_causal=bool(getattr(around, "is_decoder", False)),
            )
            return OwnPositions(matrix, f"T5's buckets, {path}. {BACK_NOTE}", BACK, "t5")
    for path, buffer in module.named_buffers():
        if path.rpartition(".")[2] == "inv_freq" and buffer.ndim == 1:
            note = rotary_note(2 * len(buffer), "dimensions of one head", f", {path}")
            return OwnPositions(rotated(n, buffer), note, PLAIN_AXES, "rotary")
    raise _nothing(name, "not held under a name that is known here")


def _is_sinusoidal(table: Tensor) -> bool:
    """Whether every row is as long as sines and cosines of the same angles: √(d / 2), in any order.

    Models are opened with no weight to be learned, so that weights do not say it themselves.
    """
    squares = table.detach().float().square().sum(dim=1)
    return torch.allclose(squares, torch.full_like(squares, table.shape[1] / 2), rtol=0.01)


def _end(n: int, n_positions: int) -> str:
    return f" The model has no more than {n_positions} positions." if n > n_positions else ""


def _nothing(name: str, position: str) -> UserError:
    return UserError(
        f"The model {name} has no positional encoding to draw: its position is {position}.",
        expected="positions that are learned, computed, turned or added to scores",
        action="Open another model.",
    )


NAMES = (*(scheme.name for scheme in POSITIONS.values() if scheme.page_title), "model")
MAX_POSITIONS = 4096
MAX_WIDTH = 16_384


def position_tables(
    names: Iterable[str], n_positions: int, d_model: int, model: Model | None = None
) -> tuple[PositionTable, ...]:
    """One table for each name, in order; `model` among the names is the given model's own encoding.

    Raises UserError for an unknown name, an impossible size, or a model without positions.
    """
    _check_size("positions", n_positions, MAX_POSITIONS)
    _check_size("dimensions", d_model, MAX_WIDTH)
    return tuple(_named_table(name, n_positions, d_model, model) for name in names)


def encoding_table(name: str, matrix: Tensor, note: str = "") -> PositionTable:
    """The record of one encoding, from its matrix [n_positions, d_model]; computed in float64."""
    exact = matrix.detach().cpu().double()
    lengths = exact.norm(dim=1)
    dots = exact @ exact.T
    pairs = lengths[:, None] * lengths[None, :]
    cosine = torch.where(pairs > 0, dots / pairs, torch.nan)
    return PositionTable(
        name=name,
        matrix=exact.float().numpy(),
        cosine=cosine.clamp(-1.0, 1.0).float().numpy(),
        by_offset=_by_offset(cosine).float().numpy(),
        dot_by_offset=_by_offset(dots).float().numpy(),
        note=note,
    )


def _named_table(name: str, n: int, d_model: int, model: Model | None) -> PositionTable:
    if name == "model":
        if model is None:
            raise UserError("No model is open.", action="Open a model to see its own positions.")
        own = own_positions(n, model)
        return replace(_explained(encoding_table(name, own.matrix, own.note), own.scheme), axes=own.axes)
    scheme = POSITIONS.get(name)
    if scheme is None or not scheme.page_title:
        raise UserError(f"There is no positional encoding {name!r}.", expected=", ".join(NAMES))
    return _explained(encoding_table(name, *scheme.page_matrix(n, d_model)), name)


def _explained(table: PositionTable, scheme: str) -> PositionTable:
    return replace(table, formula=POSITIONS[scheme].formula, source=POSITIONS[scheme].source)


def _by_offset(pairs: Tensor) -> Tensor:
    """Mean of each diagonal over the pairs that have a number; NaN where none has."""
    return torch.stack([pairs.diagonal(offset).nanmean() for offset in range(pairs.shape[0])])


def _check_size(what: str, n: int, most: int) -> None:
    if not 1 <= n <= most:
        raise UserError(
            f"{n} {what} cannot be shown.", expected=f"1 to {most:,}", action="Choose a number in that range."
        )


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
    """The largest |Δs| when the parameters unique to this scheme start from another seed."""
    plain = {name for name, _ in build_transformer(_CONFIG, seed=0).named_parameters()}
    other = build_transformer(model.config, seed=1).eval()
    own = dict(model.named_parameters())
    for name, parameter in other.named_parameters():
        if name in plain:
            parameter.copy_(own[name])
    return float((_scores(other, model.config.max_tokens) - trained).abs().max())


def _least_apart(s: Tensor) -> float:
    """The largest difference of two rows, minimised over pairs of rows."""
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


class _Looker(QuietProbe):
    """Keeps the call of the only layer."""

    call: Call

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        self.call = call


def _scores(model: Transformer, n: int) -> Tensor:
    """The scores of a text of one token repeated, [n_heads, n, n], in float64."""
    looker = _Looker()
    model.encode(torch.full((1, n), 5), probe=looker)
    call = looker.call
    return scores_of(call.q, call.k, rule=call.rule, score=call.score)[0].double()

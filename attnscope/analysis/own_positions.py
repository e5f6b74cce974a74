"""What an open model itself says about positions: its table, its turns, or its biases by distance.

| symbol   | meaning                                                    | shape              |
|----------|------------------------------------------------------------|--------------------|
| matrix   | a vector for each position                                 | [n, d_model]       |
|          | T5, ALiBi: added to scores for keys 0, 1 … tokens back     | [n, n_heads]       |
|          | Shaw: the vector of keys 0, 1 … tokens back                | [n, d_head]        |
| inv_freq | radians that each pair of dimensions turns by at each token | [width / 2]       |

Models of other libraries are looked through by what they hold: a table under one of the usual names, turns
(`inv_freq`), or T5's buckets.
"""

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.nn.config import ModelConfig
from attnscope.nn.positions import binary_table, sinusoidal_table
from attnscope.nn.relative import alibi_slopes, relative_buckets
from attnscope.nn.scoring import Scoring
from attnscope.nn.transformer import Transformer

_TABLES = (
    "position_embeddings",
    "position_embedding",
    "wpe",
    "embed_positions",
    "positions_embed",
    "embed_position",
)
"""What tables of positions are called in models of other libraries."""
BACK = ("head", "tokens back")
_BACK_NOTE = (
    "Added to the scores of keys so many tokens back, for each head; there are no vectors of positions."
)


def rotated(n: int, inv_freq: Tensor) -> Tensor:
    """The vector of equal parts and length 1, turned as each of n positions is; [n, 2 · pairs], float64.

    Pairs are the first and the second half of the dimensions (Su et al. 2021, equation 34).
    """
    angles = torch.arange(n, dtype=torch.float64)[:, None] * inv_freq.cpu().double()  # [n, pairs]
    cosines, sines = angles.cos(), angles.sin()
    turned: Tensor = torch.cat((cosines - sines, cosines + sines), dim=1) * (2 * len(inv_freq)) ** -0.5
    return turned


def rotary_note(width: int, what: str, base: str) -> str:
    """What the matrix of a rotary encoding holds."""
    turned = "The vector of equal parts and length 1, turned by each position"
    return f"{turned}; {width} {what}{base}."


def own_matrix(n: int, model: Model) -> tuple[Tensor, str, tuple[str, str]]:
    """The matrix of n positions, what it is, and the names of its columns and rows.

    Raises UserError for a model whose positions are nowhere to be read.
    """
    module = getattr(model.network, "module", None)
    if isinstance(module, Transformer):
        return _of_own(n, model.own.config, module, model.info.name)
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
    plain = ("dimension", "position")
    match config.position:
        case "sinusoidal":
            return sinusoidal_table(n, config.d_model), "Sinusoidal.", plain
        case "binary":
            return binary_table(n, config.d_model), "Binary.", plain
        case "rotary":
            pairs = torch.arange(0, config.head_width, 2, dtype=torch.float64)
            note = rotary_note(config.head_width, "dimensions of one head", f", base {config.rope_base:g}")
            return rotated(n, config.rope_base ** (-pairs / config.head_width)), note, plain
        case "learned":
            return *_learned(n, config, module), plain
        case "alibi":
            slopes = alibi_slopes(config.n_heads)
            return -torch.arange(n)[:, None] * slopes, f"ALiBi. {_BACK_NOTE}", BACK
        case "t5":
            stack = "encoder" if module.encoder_relative is not None else "decoder"
            table = module.encoder_relative or module.decoder_relative
            if table is None:
                raise ValueError("a model with T5's positions has no table of them")
            matrix = _bucketed(n, table.weight, table.max_distance, is_causal=table.is_causal)
            return matrix, f"T5's buckets, the {stack}'s. {_BACK_NOTE}", BACK
        case "shaw":
            return *_shaw(n, module), ("dimension", "tokens back")
        case _:
            raise _nothing(name, config.position)


def _learned(n: int, config: ModelConfig, module: Transformer) -> tuple[Tensor, str]:
    stack = module.encoder_embedding or module.decoder_embedding
    if stack is None or stack.positions is None:
        raise ValueError("a model with learned positions has no table of them")
    note = "Learned."
    if module.encoder_embedding is not None and module.decoder_embedding is not None:
        note = "Learned; the encoder's (the decoder has a table of its own)."
    return stack.positions.weight[:n], note + _end(n, config.max_tokens)


def _shaw(n: int, module: Transformer) -> tuple[Tensor, str]:
    """The vectors of the first attention that has them, from its own place back."""
    for part in module.modules():
        if isinstance(part, Scoring) and part.offsets is not None:
            reach = (len(part.offsets) - 1) // 2
            back = reach - torch.arange(n).clamp(max=reach)
            note = f"Shaw's vectors of the first layer; beyond {reach} tokens they are the last one."
            return part.offsets[back], note
    raise ValueError("a model with Shaw's positions has no vectors of them")


def _bucketed(n: int, weight: Tensor, max_distance: int, *, is_causal: bool) -> Tensor:
    """T5's biases of keys 0 … n − 1 tokens back, from `weight` [n_buckets, n_heads]."""
    back = -torch.arange(n)
    buckets = relative_buckets(back, n_buckets=len(weight), max_distance=max_distance, is_causal=is_causal)
    return weight.detach().cpu()[buckets]


def _of_foreign(n: int, module: nn.Module, name: str) -> tuple[Tensor, str, tuple[str, str]]:
    for path, part in module.named_modules():
        if isinstance(part, nn.Embedding) and path.rpartition(".")[2] in _TABLES:
            first = getattr(part, "offset", None)
            first = (
                first if isinstance(first, int) else 0 if part.padding_idx is None else part.padding_idx + 1
            )
            table = part.weight[first:]
            kind = "Fixed" if _is_sinusoidal(table) else "Learned"
            return table[:n], f"{kind}: {path}.{_end(n, len(table))}", ("dimension", "position")
    for path, parameter in module.named_parameters():
        if path.rpartition(".")[2] in _TABLES and parameter.ndim == 3 and len(parameter) == 1:
            return (
                parameter[0, :n],
                f"Learned: {path}.{_end(n, parameter.shape[1])}",
                ("dimension", "position"),
            )
    for path, part in module.named_modules():
        if path.rpartition(".")[2] == "relative_attention_bias" and isinstance(part, nn.Embedding):
            around = module.get_submodule(path.rpartition(".")[0])
            matrix = _bucketed(
                n,
                part.weight,
                int(getattr(around, "relative_attention_max_distance", 128)),
                is_causal=bool(getattr(around, "is_decoder", False)),
            )
            return matrix, f"T5's buckets, {path}. {_BACK_NOTE}", BACK
    for path, buffer in module.named_buffers():
        if path.rpartition(".")[2] == "inv_freq" and buffer.ndim == 1:
            note = rotary_note(2 * len(buffer), "dimensions of one head", f", {path}")
            return rotated(n, buffer), note, ("dimension", "position")
    raise _nothing(name, "not held under a name that is known here")


def _is_sinusoidal(table: Tensor) -> bool:
    """Whether every row is as long as sines and cosines of the same angles are: √(d / 2), in any order.

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

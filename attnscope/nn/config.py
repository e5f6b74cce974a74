"""What a Transformer is built from: one flat record, checked in one place, and its size on paper.

Nothing here allocates: a configuration from a stranger's file is judged before any tensor exists.
Must not import torch.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from attnscope.errors import RecipeError
from attnscope.records.models import Form

_LARGEST: dict[str, int] = {
    "vocab_size": 4_000_000,
    "d_model": 65_536,
    "n_layers": 1_024,
    "n_decoder_layers": 1_024,
    "n_heads": 1_024,
    "n_kv_heads": 1_024,
    "d_ff": 1_048_576,
    "max_tokens": 1_048_576,
    "n_segments": 1_024,
}
"""No model known in 2026 is larger in any of these; anything beyond is a slip of the keyboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Every choice of the architecture; the names are those of recipes and of config.json.

    `n_kv_heads` None means as many as heads, `n_decoder_layers` None as many as `n_layers`.
    `bias` covers every linear layer and LayerNorm. `transform_head`, `output_bias`, `embedding_norm`,
    `n_segments` and `has_pooler` are what BERT (Devlin et al. 2018) adds.
    """

    form: Form
    vocab_size: int
    d_model: int = 128
    n_layers: int = 2
    n_decoder_layers: int | None = None
    n_heads: int = 4
    n_kv_heads: int | None = None
    d_ff: int = 512
    max_tokens: int = 128
    position: Literal["sinusoidal", "learned", "rotary", "none"] = "learned"
    rope_base: float = 10000.0
    norm: Literal["layer", "rms"] = "layer"
    norm_place: Literal["pre", "post"] = "pre"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu", "gelu-tanh", "swiglu"] = "gelu"
    dropout: float = 0.0
    bias: bool = True
    tie_embeddings: bool = True
    scale_embeddings: bool = False
    embedding_norm: bool = False
    n_segments: int = 0
    transform_head: bool = False
    output_bias: bool = False
    has_pooler: bool = False

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads

    @property
    def kv_heads(self) -> int:
        """The number of key-value heads, whether given or not."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def decoder_layers(self) -> int:
        """The number of decoder layers, 0 for an encoder."""
        if self.form == "encoder":
            return 0
        if self.form == "decoder" or self.n_decoder_layers is None:
            return self.n_layers
        return self.n_decoder_layers

    @property
    def encoder_layers(self) -> int:
        """The number of encoder layers, 0 for a decoder."""
        return 0 if self.form == "decoder" else self.n_layers

    @classmethod
    def from_dict(cls, values: Mapping[str, object], *, where: str = "model") -> Self:
        """Read and check a configuration; `where` is put before each key in messages.

        Raises RecipeError for unknown or missing keys and whatever `check` refuses.
        """
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise RecipeError(
                    f"{where} has the unknown key {_shown(key)}.",
                    expected=f"only {', '.join(known)}",
                    action="Remove the key or correct its spelling.",
                )
        for key in ("form", "vocab_size"):
            if key not in values:
                raise RecipeError(
                    f"{where}.{key} is missing.",
                    expected=_expected(cls, key),
                    action=f"Add the key {key}.",
                )
        config = cls(**dict(values))  # type: ignore[arg-type]  # the types are what check() looks at
        config.check(where=where)
        return config

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON can hold it; keys without a value are left out."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def check(self, *, where: str = "model") -> None:
        """Raise RecipeError for a value of the wrong type, out of range, or against another value."""
        hints = get_type_hints(type(self))
        for field in fields(self):
            _check_type(where, field.name, getattr(self, field.name), hints[field.name])
        for key, most in _LARGEST.items():
            self._check_size(where, key, most)
        self._check_numbers(where)
        self._check_heads(where)
        self._check_form(where)

    def _check_size(self, where: str, key: str, most: int) -> None:
        value = getattr(self, key)
        least = 0 if key == "n_segments" else 1
        if value is not None and not least <= value <= most:
            raise _impossible(where, key, value, f"a whole number from {least} to {most:,}")

    def _check_numbers(self, where: str) -> None:
        for key, value, is_right, expected in (
            ("rope_base", self.rope_base, 1.0 <= self.rope_base <= 1e12, "a number from 1 to 1e12"),
            ("norm_epsilon", self.norm_epsilon, 0.0 < self.norm_epsilon <= 0.1, "above 0, at most 0.1"),
            ("dropout", self.dropout, 0.0 <= self.dropout < 1.0, "from 0 to below 1"),
        ):
            if not is_right:
                raise _impossible(where, key, value, expected)

    def _check_heads(self, where: str) -> None:
        if self.d_model % self.n_heads:
            raise _impossible(
                where, "n_heads", self.n_heads, f"a divisor of d_model, which is {self.d_model}"
            )
        if self.n_heads % self.kv_heads:
            raise _impossible(
                where, "n_kv_heads", self.kv_heads, f"a divisor of n_heads, which is {self.n_heads}"
            )
        if self.position == "rotary" and self.d_head % 2:
            raise _impossible(
                where, "position", self.position, f"an even d_model / n_heads, which is {self.d_head}"
            )

    def _check_form(self, where: str) -> None:
        only = (
            ("n_decoder_layers", self.n_decoder_layers is not None, ("encoder-decoder",)),
            ("n_segments", self.n_segments > 0, ("encoder", "encoder-decoder")),
            ("has_pooler", self.has_pooler, ("encoder",)),
        )
        for key, is_used, forms in only:
            if is_used and self.form not in forms:
                raise _impossible(
                    where, key, getattr(self, key), f"nothing here, since only the form {forms[0]} has it"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """How many numbers a model learns, part by part; tied weights are counted once."""

    parts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(n for _, n in self.parts)

    def part(self, name: str) -> int:
        """One part; 0 when the model has no such part."""
        return dict(self.parts).get(name, 0)


def count_parameters(config: ModelConfig) -> ParameterCount:
    """The exact number of parameters, computed on paper."""
    d = config.d_model
    n_stacks = bool(config.encoder_layers) + bool(config.decoder_layers)
    norm = d * (2 if config.norm == "layer" and config.bias else 1)
    is_learned = config.position == "learned"
    has_final = config.norm_place == "pre"
    parts = (
        ("token embedding", config.vocab_size * d),
        ("position embeddings", n_stacks * config.max_tokens * d if is_learned else 0),
        ("segment embedding", config.n_segments * d),
        ("embedding norms", n_stacks * norm if config.embedding_norm else 0),
        ("encoder", config.encoder_layers * _count_block(config, norm, has_cross=False)),
        (
            "decoder",
            config.decoder_layers * _count_block(config, norm, has_cross=config.form == "encoder-decoder"),
        ),
        ("final norms", n_stacks * norm if has_final else 0),
        ("head", _count_head(config, norm)),
        ("pooler", _count_linear(d, d, config.bias) if config.has_pooler else 0),
    )
    return ParameterCount(parts=tuple((name, n) for name, n in parts if n))


def check_fits(config: ModelConfig, available_bytes: int, *, is_training: bool = False) -> None:
    """Raise RecipeError when the model cannot be held in memory.

    Counts 4 bytes a parameter, and 16 in training (weight, gradient and two moments); activations and
    position tables come on top and are not judged here.
    """
    config.check()
    count = count_parameters(config)
    needed_bytes = count.total * (16 if is_training else 4)
    if needed_bytes <= available_bytes:
        return
    largest = max(count.parts, key=lambda part: part[1])
    raise RecipeError(
        f"The model has {count.total:,} parameters and needs {_gigabytes(needed_bytes)}"
        f"{' to be trained' if is_training else ''}; its largest part is the {largest[0]} "
        f"with {largest[1]:,}.",
        expected=f"at most the {_gigabytes(available_bytes)} of memory that are free",
        action="Make d_model, d_ff, the layers or vocab_size smaller, or close other programs.",
    )


def _count_block(config: ModelConfig, norm: int, *, has_cross: bool) -> int:
    d, bias = config.d_model, config.bias
    kv_rows = 2 * config.kv_heads * config.d_head
    attention = _count_linear(d, d + kv_rows, bias) + _count_linear(d, d, bias)
    up_rows = config.d_ff * (2 if config.activation == "swiglu" else 1)
    feed_forward = _count_linear(d, up_rows, bias) + _count_linear(config.d_ff, d, bias)
    n_attentions = 2 if has_cross else 1
    return n_attentions * (attention + norm) + feed_forward + norm


def _count_head(config: ModelConfig, norm: int) -> int:
    d = config.d_model
    transform = _count_linear(d, d, config.bias) + norm if config.transform_head else 0
    weight = 0 if config.tie_embeddings else config.vocab_size * d
    return transform + weight + (config.vocab_size if config.output_bias else 0)


def _count_linear(n_in: int, n_out: int, bias: bool) -> int:
    return n_in * n_out + (n_out if bias else 0)


def _check_type(where: str, key: str, value: object, hint: Any) -> None:
    if get_origin(hint) is Literal:
        is_right = isinstance(value, str) and value in get_args(hint)
    elif hint is bool:
        is_right = isinstance(value, bool)
    elif hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_right = is_number and _is_finite(value)
    else:
        may_be_none = type(None) in get_args(hint)
        is_right = (value is None and may_be_none) or (isinstance(value, int) and not isinstance(value, bool))
    if not is_right:
        raise _impossible(where, key, value, _expected(ModelConfig, key))


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _expected(cls: type, key: str) -> str:
    hint = get_type_hints(cls)[key]
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(get_args(hint))
    if hint is bool:
        return "true or false"
    return "a finite number" if hint is float else "a whole number without quotes"


def _impossible(where: str, key: str, value: object, expected: str) -> RecipeError:
    return RecipeError(
        f"{where}.{key} is {_shown(value)}.", expected=expected, action=f"Change {key} and try again."
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write whole numbers of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.2f} GB"

"""The presets as rows of a table: their sizes, what they cost on paper, and their keys in a recipe."""

from dataclasses import fields

from attnscope.models.cost import own_cost
from attnscope.nn.config import ModelConfig, count_parameters
from attnscope.nn.memory_on_paper import (
    GRADIENT_BYTES,
    MOMENT_BYTES,
    WEIGHT_BYTES,
    BatchShape,
    activation_bytes,
    loss_bytes,
)
from attnscope.nn.presets import PRESETS, PUBLISHED
from attnscope.records.plans import PresetRow
from attnscope.schemes.objectives import usual_objective
from attnscope.training.recipe import toml_text

_DERIVED = ("form", "vocab_size", "kept_heads")


def preset_rows(*, is_on_cpu: bool = True) -> tuple[PresetRow, ...]:
    """Every preset, in the order of the literature; one text of its greatest length is a batch."""
    return tuple(_row(name, config, is_on_cpu) for name, config in PRESETS.items())


def objective_of(config: ModelConfig) -> str:
    """The objective a model was made for; T5's positions belong to the spans it learned from."""
    if config.form == "encoder-decoder" and config.position == "t5":
        return "span-corruption"
    return usual_objective(config.form)


def preset_keys(config: ModelConfig) -> tuple[tuple[str, str], ...]:
    """What a recipe has to say under [model], with TOML values: the sizes, and what is not the default."""
    keys = []
    always = ("d_model", "n_layers", "n_heads", "d_ff", "max_tokens")
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in _DERIVED and (field.name in always or value != field.default):
            keys.append((field.name, toml_text(value)))
    return tuple(keys)


def _row(name: str, config: ModelConfig, is_on_cpu: bool) -> PresetRow:
    n, n_tokens = count_parameters(config).total, config.max_tokens
    shape = BatchShape(n_sequences=1, n_tokens=n_tokens, n_scored=n_tokens, is_on_cpu=is_on_cpu)
    return PresetRow(
        name=name,
        objective=objective_of(config),
        n_layers=config.n_layers,
        d_model=config.d_model,
        d_ff=config.d_ff,
        n_heads=config.n_heads,
        n_tokens=n_tokens,
        vocab_size=config.vocab_size,
        n_parameters=n,
        flops_a_token=own_cost(config, n_tokens).forward_a_token,
        training_bytes=(WEIGHT_BYTES + GRADIENT_BYTES + 2 * MOMENT_BYTES) * n,
        batch_bytes=activation_bytes(config, shape) + loss_bytes(config, shape),
        keys=preset_keys(config),
        published=PUBLISHED[name],
    )

"""What of a configuration a recurrent body does not look at, and what is asked of it all the same.

A model's own config.json may say anything of these; a recipe that sets one is refused, since its author
expects that it does something. Must not import torch, and of `config` only what the type checker needs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig

OF_TRANSFORMERS = frozenset(
    "d_ff position rope_base n_buckets max_distance tree_width tree_depth "
    "mask window dilation global_tokens random_blocks "
    "mask_block mask_seed random_links prefix_tokens norm norm_place norm_epsilon has_residual "
    "has_feed_forward "
    "activation attention_dropout embedding_norm n_segments has_pooler has_next_sentence n_projected "
    "mixer kernel_width shared_layers n_experts experts_per_token capacity_factor balance_weight "
    "span_limit span_kind span_ramp span_start span_penalty copies_source slot_kind "
    "segment_tokens segment_memory memory_tokens residual".split()
)
"""Choices that only a Transformer has."""
_OF_HEAD = ("norm", "norm_epsilon")
_TRUE_OF_CELLS = {"position": "none", "norm": "none", "has_residual": False, "has_feed_forward": False}


def ignored_choices(config: "ModelConfig", defaults: "ModelConfig") -> Iterator[tuple[str, object]]:
    """Every choice that differs from the default and does nothing beside recurrent cells, with its value.

    What says that cells lack something, such as `position = "none"`, is true and not ignored.
    """
    if not config.is_recurrent:
        return
    for name in sorted(OF_TRANSFORMERS):
        value = getattr(config, name)
        is_used = config.transform_head and name in _OF_HEAD
        if not is_used and value != getattr(defaults, name) and value != _TRUE_OF_CELLS.get(name):
            yield name, value

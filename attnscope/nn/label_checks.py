"""What a model that tells labels, and one whose keys are projected to slots, may be built from.

Must not import torch, and of the configuration only what the type checker needs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.schemes.masks import MASKS
from attnscope.schemes.positions import POSITIONS

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig

_MOST_ENDS = 1_000_000


def label_faults(config: "ModelConfig") -> Iterator[tuple[str, str]]:
    """Keys of a model that tells labels that do not go together, with what was expected."""
    ends = config.sentence_ends
    is_list = isinstance(ends, tuple) and len(ends) <= _MOST_ENDS and all(type(id) is int for id in ends)
    if not is_list or not all(0 <= id < config.vocab_size for id in ends):
        yield "sentence_ends", f"a list of token ids from 0 to {config.vocab_size - 1:,}"
    if config.sentence_encoder != "none" and not (config.n_labels and config.pooling == "hierarchical"):
        yield "sentence_encoder", "none, since only hierarchical pooling has sentences"
    if config.sentence_encoder == "gru" and config.d_model % 2:
        yield "d_model", "an even number: the sentence encoder has one half for each direction"
    if not config.n_labels:
        if config.reads_pair:
            yield "reads_pair", "false, since only a model that tells labels matches two texts"
        return
    if config.n_labels == 1:
        yield "n_labels", "at least 2 labels"
    if config.form == "encoder-decoder":
        yield "form", "encoder or decoder: labels are told of what was read, and nothing is written"
    if config.has_pooler:
        yield "has_pooler", "false: pooling says how a text becomes one row"
    if config.form == "decoder":
        if config.reads_pair:
            yield "reads_pair", "false, since only the form encoder matches two texts"
        if MASKS[config.mask].has_prefix:
            yield "mask", "another mask: a text of which a label is told has no prefix"
        if config.pooling == "first":
            yield "pooling", "another way: the first token of a decoder sees nothing but itself"
    if config.pooling == "hierarchical" and config.reads_pair:
        yield "pooling", "another way: hierarchical pooling is of one text"


def slot_faults(config: "ModelConfig") -> Iterator[tuple[str, str]]:
    """What does not go with keys and values that are projected along the tokens."""
    if not config.n_projected:
        return
    if config.form == "decoder":
        yield "n_projected", "0: a projection mixes all tokens, so that no query of a decoder could be causal"
    if config.n_projected > config.max_tokens:
        yield "n_projected", f"at most max_tokens, which is {config.max_tokens}"
    if not MASKS[config.mask].is_full:
        yield "mask", "full: the columns of a projected head are slots and no tokens that a mask could hide"
    if POSITIONS[config.position].is_of_text:
        yield "position", "learned, sinusoidal, binary or none: a slot stands at no place of the text"

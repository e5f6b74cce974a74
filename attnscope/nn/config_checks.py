"""Checks a configuration: every value by itself, then against the others.

What masks and the rest need, in one place; scores and position schemes say it themselves. Must not import
torch, and of `config` only what the type checker needs.

Also what of a configuration a recurrent body does not look at: a model's own config.json may say anything of
these; a recipe that sets one is refused, since its author expects that it does something.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from attnscope.codec import Caps, Codec
from attnscope.codec import Fault as WrongValue
from attnscope.errors import RecipeError, meant
from attnscope.nn.kept_heads import fault_in_kept, site_name
from attnscope.schemes.masks import MASKS
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.residuals import RESIDUALS
from attnscope.schemes.scores import SCORES

if TYPE_CHECKING:
    from attnscope.nn.config import ModelConfig

# What a model that tells labels, and one whose keys are projected to slots, may be built from.

_MOST_IDS = 1_000_000
ID_LISTS = ("sentence_ends", "opening", "closing")
"""The keys that are lists of token ids."""


def label_faults(config: "ModelConfig") -> Iterator[tuple[str, str]]:
    """Conflicting keys of a model that predicts labels, with what is expected."""
    for key in ID_LISTS:
        ids = getattr(config, key)
        is_list = isinstance(ids, tuple) and len(ids) <= _MOST_IDS and all(type(id) is int for id in ids)
        if not is_list or not all(0 <= id < config.vocab_size for id in ids):
            yield key, f"a list of token ids from 0 to {config.vocab_size - 1:,}"
    if config.sentence_encoder != "none" and not (config.n_labels and config.pooling == "hierarchical"):
        yield "sentence_encoder", "none, since only hierarchical pooling has sentences"
    if config.sentence_encoder == "gru" and config.d_model % 2:
        yield "d_model", "an even number: the sentence encoder has one half for each direction"
    if config.n_numbers and not (config.n_labels and config.form == "encoder"):
        yield "n_numbers", "0, since only an encoder that labels or points reads given vectors"
    if not config.n_labels:
        if config.reads_pair:
            yield "reads_pair", "false, since only a model that predicts labels matches two texts"
        return
    if config.n_labels == 1 and config.pooling != "pointer":
        yield "n_labels", "at least 2 labels"
    if config.n_labels > 2 and config.pooling == "pointer":
        yield "n_labels", "1 or 2: a place, or a start and an end"
    if config.form == "encoder-decoder":
        yield "form", "encoder or decoder: labels are predicted from what was read, and nothing is generated"
    if config.has_pooler:
        yield "has_pooler", "false: pooling says how a text becomes one row"
    if config.pooling in ("none", "pointer") and (config.form != "encoder" or config.reads_pair):
        yield (
            "pooling",
            "a way to make one row: only an encoder of one text labels each token or points to one",
        )
    if config.form == "decoder":
        if config.reads_pair:
            yield "reads_pair", "false, since only the form encoder matches two texts"
        if MASKS[config.mask].has_prefix:
            yield "mask", "another mask: a text to be labelled has no prefix"
        if config.pooling == "first":
            yield "pooling", "another way: the first token of a decoder sees nothing but itself"
    if config.pooling == "hierarchical" and config.reads_pair:
        yield "pooling", "another way: hierarchical pooling is of one text"


def picture_faults(config: "ModelConfig") -> Iterator[tuple[str, str]]:
    """Conflicts with reading pictures in patches."""
    size, height, width = config.patch_size, config.picture_height, config.picture_width
    if not size:
        for key, side in (("picture_height", height), ("picture_width", width)):
            if side:
                yield key, "0 beside a patch_size of 0"
        return
    if not (config.form == "encoder" and config.labels_texts):
        yield "patch_size", "0, since only an encoder that tells a label of a whole picture reads patches"
    if config.pooling == "hierarchical":
        yield "pooling", "another way: pictures have no sentences"
    if config.reads_pair:
        yield "reads_pair", "false: one picture is read"
    if config.n_segments:
        yield "n_segments", "0: a picture is one"
    if not (height or width):
        return  # a recipe, before its data are read
    if height % size or width % size or not height * width:
        yield "patch_size", f"a divisor of the height and the width of the pictures, {height} and {width} px"
    if config.n_numbers not in (size**2, 3 * size**2):
        yield "n_numbers", f"{size**2} for a patch of greys, or {3 * size**2} for one of colours"
    if config.n_patch_tokens > config.max_tokens:
        n = config.n_patch_tokens
        yield "max_tokens", f"at least {n:,}: a class token and {n - 1:,} patches of {size} × {size} px"


_SLOTS = {"inducing": "inducing points", "latents": "latents"}


def slot_faults(config: "ModelConfig") -> Iterator[tuple[str, str]]:
    """Conflicts with keys and values that are projected along the tokens."""
    if not config.n_projected:
        if config.slot_kind != "projected":
            yield "slot_kind", '"projected", unless n_projected says how many slots there are'
        return
    if config.slot_kind == "latents" and (not config.labels_texts or config.pooling == "hierarchical"):
        yield "slot_kind", '"inducing" or "projected": latents tell one label of a whole text, and no tokens'
    if config.slot_kind != "projected" and config.reads_pair:
        yield (
            "slot_kind",
            f'"projected", since the second text would need {_SLOTS[config.slot_kind]} of its own',
        )
    if config.slot_kind != "projected" and config.kept_heads is not None:
        yield "kept_heads", f"nothing: heads of {_SLOTS[config.slot_kind]} are not removed; close their gates"
    if config.slot_kind != "projected" and NORMS[config.norm].is_of_batch:
        yield "norm", f"a norm of single tokens: {_SLOTS[config.slot_kind]} are not tokens of the batch"
    if config.form == "decoder":
        yield "n_projected", "0: a projection mixes all tokens, so that no query of a decoder could be causal"
    if config.n_projected > config.max_tokens:
        yield "n_projected", f"at most max_tokens, which is {config.max_tokens}"
    if not MASKS[config.mask].is_full:
        yield "mask", "full: the columns of a projected head are slots, not tokens that a mask could hide"
    if POSITIONS[config.position].is_of_text:
        yield "position", "learned, sinusoidal, binary or none: a slot has no position in the text"


def memory_faults(config: "ModelConfig") -> Iterator[tuple[str, str]]:
    """Conflicts with learned tokens in front of a text."""
    if not config.memory_tokens:
        return
    if config.form == "encoder-decoder" or config.n_labels:
        yield "memory_tokens", "0: only a decoder or an encoder that predicts tokens reads memory tokens"
    if config.memory_tokens >= config.max_tokens:
        yield "memory_tokens", f"less than max_tokens, which is {config.max_tokens}: a text follows them"
    if not MASKS[config.mask].is_full:
        yield "mask", "full beside memory_tokens: all tokens see them"
    if not MIXERS[config.mixer].is_attention:
        yield "mixer", "attention beside memory_tokens, which are read by attention"
    if config.n_projected:
        yield "n_projected", "0 beside memory_tokens: slots are another way to keep what a text says"


def span_faults(config: "ModelConfig") -> Iterator[tuple[str, str]]:
    """Conflicts with learned spans of heads."""
    if not config.span_limit:
        if config.span_penalty:
            yield "span_penalty", "0, unless span_limit lets heads learn a span"
        if config.span_kind != "ramp":
            yield "span_kind", '"ramp", unless span_limit says how many offsets a head may open'
        if config.span_start:
            yield "span_start", "0, unless span_limit lets heads learn a span"
        return
    if config.span_start and config.span_kind != "ramp":
        yield "span_start", '0 beside span_kind = "offsets", whose offsets all begin open'
    if config.span_start > config.span_limit:
        yield "span_start", f"at most span_limit, {config.span_limit}"
    position = POSITIONS[config.position]
    if position.is_of_text and not position.is_turn:
        usual = [one.name for one in POSITIONS.values() if not one.is_of_text or one.is_turn]
        yield "position", f"{', '.join(usual)} beside span_limit: the score has room for one bias"
    if config.n_projected:
        yield "n_projected", "0 beside span_limit: a slot has no distance"
    if not MIXERS[config.mixer].is_attention:
        yield "span_limit", f'0 beside mixer = "{config.mixer}", which has no heads'


KEYS = Codec(caps=Caps(whole=2**53, number=math.inf))
"""Least and most of the sizes: no model known in 2026 is larger in any, so it is a slip of the keyboard."""
_MOST_IN_TABLE = 2**25
"""Numbers of a position table that is worked out when a model opens: about three seconds of it."""
_ACTIONS = {
    "has_attention": 'Start from a recipe whose body is "rnn", "gru" or "lstm", such as reverse-bahdanau, '
    "or leave has_attention out."
}
"""Advice for a key in conflict with another."""
Fault = tuple[str, str]
"""The key that is wrong, and what was expected of it."""


@cache
def _readers(kind: "type[ModelConfig]") -> Mapping[str, Callable[[Any], Any]]:
    """Readers of each key; `check_together` searches the table and the list among them."""
    hints = get_type_hints(kind, include_extras=True)
    return {k: KEYS.form(h).read for k, h in hints.items() if k not in ("kept_heads", *ID_LISTS)}


def check_types(config: "ModelConfig", where: str) -> None:
    """Raise RecipeError for a value of the wrong type or out of range, independent of the others."""
    for key, read in _readers(type(config)).items():  # type: ignore[arg-type]  # a class has a hash
        try:
            read(getattr(config, key))
        except WrongValue as fault:
            raise impossible(where, key, getattr(config, key), fault.expected) from fault
    for key, is_right, expected in _number_ranges(config):
        if not is_right:
            raise impossible(where, key, getattr(config, key), expected)


def check_together(config: "ModelConfig", where: str) -> None:
    """Raise RecipeError for a value in conflict with another."""
    of_transformers = (
        _form_faults,
        _scheme_faults,
        _position_faults,
        _norm_faults,
        slot_faults,
        span_faults,
        memory_faults,
        _mixer_faults,
        _expert_faults,
    )
    of_body = (_recurrent_faults,) if config.is_recurrent else of_transformers
    for faults in (_head_faults, *of_body, label_faults, picture_faults):
        for key, expected in faults(config):
            raise impossible(where, key, getattr(config, key), expected)
    if config.kept_heads is not None:
        names = tuple(site_name(stack, layer) for stack, layer in config.headed_keys())
        fault = fault_in_kept(config.kept_heads, site_names=names, n_heads=config.n_heads)
        if fault:
            raise impossible(where, "kept_heads", config.kept_heads, fault)


def impossible(where: str, key: str, value: object, expected: str) -> RecipeError:
    action = _ACTIONS.get(key, f"Change {key} and try again.")
    return RecipeError(f"{where}.{key} is {value_words(value)}.", expected=expected, action=action)


def unknown_key(where: str, key: str, known: Sequence[str]) -> RecipeError:
    """The error for an unknown key, with a similar known one if there is one."""
    action = "Remove the key or correct its spelling."
    if key == "preset":
        action = "A preset replaces the recipe: attnscope info --presets lists their names."
    near = meant(str(key), known)
    return RecipeError(
        f"{where} has the unknown key {value_words(key)}. {near}".rstrip(),
        expected="" if near else f"only {', '.join(known)}",
        action=action,
    )


def value_words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write whole numbers of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def _number_ranges(config: "ModelConfig") -> Iterator[tuple[str, bool, str]]:
    yield "rope_base", 1.0 <= config.rope_base <= 1e12, "a number from 1 to 1e12"
    yield "norm_epsilon", 0.0 < config.norm_epsilon <= 0.1, "above 0, at most 0.1"
    yield "dropout", 0.0 <= config.dropout < 1.0, "from 0 to below 1"
    yield "attention_dropout", 0.0 <= config.weight_dropout < 1.0, "from 0 to below 1, or nothing: as dropout"
    yield "capacity_factor", 0.0 <= config.capacity_factor <= 1_000, "from 0, for no limit, to 1,000"
    yield "balance_weight", 0.0 <= config.balance_weight <= 1_000, "from 0 to 1,000"
    for score in SCORES.values():
        yield from score.ranges(config)


def _head_faults(config: "ModelConfig") -> Iterator[Fault]:
    if config.d_head is None and config.d_model % config.n_heads:
        yield "n_heads", f"a divisor of d_model, which is {config.d_model}, unless d_head is given"
    if config.n_heads % config.kv_heads:
        yield "n_kv_heads", f"a divisor of n_heads, which is {config.n_heads}"


def _form_faults(config: "ModelConfig") -> Iterator[Fault]:
    only = (
        ("n_decoder_layers", config.n_decoder_layers is not None, ("encoder-decoder",)),
        ("n_segments", config.n_segments > 0, ("encoder", "encoder-decoder")),
        ("has_pooler", config.has_pooler, ("encoder",)),
    )
    if not config.has_attention:
        yield "has_attention", "true, since only recurrent cells carry a text from token to token without it"
    for key, is_used, forms in only:
        if is_used and config.form not in forms:
            yield key, f"nothing here, since only the form {forms[0]} has it"
    if config.copies_source and config.form != "encoder-decoder":
        yield "copies_source", "false, since only the form encoder-decoder has a source to copy from"
    if config.has_next_sentence and not (config.has_pooler and config.n_segments >= 2):
        yield "has_next_sentence", "a pooler and at least two segments beside it"


def _recurrent_faults(config: "ModelConfig") -> Iterator[Fault]:
    if config.form != "encoder-decoder":
        yield "body", f'"transformer" with the form {config.form}: cells need the objective translation'
    if config.d_head is not None:
        yield "d_head", "nothing here: beside recurrent cells a head is d_model / n_heads wide"
    if config.d_model % 2:
        yield "d_model", "an even number: the encoder has one half for each direction"


def _scheme_faults(config: "ModelConfig") -> Iterator[Fault]:
    yield from SCORES[config.score].faults(config)
    yield from MASKS[config.mask].faults(config)


def _position_faults(config: "ModelConfig") -> Iterator[Fault]:
    positions = POSITIONS[config.position]
    width = positions.width(config)
    if config.max_tokens * width > _MOST_IN_TABLE:
        yield "max_tokens", f"at most {_MOST_IN_TABLE // width:,} beside positions of {width:,} numbers each"
    yield from positions.faults(config)


def _norm_faults(config: "ModelConfig") -> Iterator[Fault]:
    yield from NORMS[config.norm].faults(config)
    yield from RESIDUALS[config.residual].faults(config)


def _mixer_faults(config: "ModelConfig") -> Iterator[Fault]:
    if config.shared_layers and config.kept_heads is not None:
        yield "kept_heads", "nothing: a head of shared layers is in all of them; close its gate in one"
    yield from MIXERS[config.mixer].faults(config)


def _expert_faults(config: "ModelConfig") -> Iterator[Fault]:
    if not config.n_experts:
        return
    if config.n_experts == 1:
        yield "n_experts", "0 for none, or at least 2"
    if config.experts_per_token > config.n_experts:
        yield "experts_per_token", f"at most n_experts, which is {config.n_experts}"
    if not config.has_feed_forward:
        yield "n_experts", "0, since experts are feed-forward parts and has_feed_forward is false"
    if config.form == "encoder-decoder":
        yield "n_experts", "0: only the forms encoder and decoder have experts"


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
    """Every choice that differs from the default but has no effect with recurrent cells.

    What says that cells lack something, such as `position = "none"`, is true and not ignored.
    """
    if not config.is_recurrent:
        return
    for name in sorted(OF_TRANSFORMERS):
        value = getattr(config, name)
        is_used = config.transform_head and name in _OF_HEAD
        if not is_used and value != getattr(defaults, name) and value != _TRUE_OF_CELLS.get(name):
            yield name, value

"""Memory that training takes, on paper: nothing is allocated. Must not import torch.

Korthikanti et al. 2022, section 4.1, add up what every operation of a layer keeps for its backward pass; the
same is done here for what our own blocks keep, which differs: attention is fused, so that no map of scores
is kept unless a dropout, a learned bias or an unfused score asks for one.

    symbol   meaning                                                        bytes
    w        a number of the residual stream, of norms and of softmax       4
    s        a number between the matrices                                  4, in bfloat16 2
    d, f     d_model; rows of the first feed-forward matrix
    n, k     queries of all heads; keys of all key-value heads
    H, T, S  heads, queries and keys of a text

For each token of a branch: what its norm reads, w·d (twice that for RMSNorm), and what its first matrix
reads, s·d. Attention adds queries, keys and values s·(n + 2k), turned ones again under rotary positions
s·(n + k), its output s·n and one sum for each head. The feed-forward branch adds f numbers before the
activation (none for ReLU, which needs only its result), those after it, and for gated ones their product.
Maps of H·T·S numbers are kept where `_n_maps` says. At the end every scored token has V log-probabilities
of w bytes, and for a moment their logits and gradients beside them. Of recurrent bodies only whole numbers
of d_model are counted, to within a fifth.
"""

from dataclasses import dataclass, replace

from attnscope.nn.config import GATED, ModelConfig
from attnscope.nn.dropping import KEPT_WEIGHTS
from attnscope.nn.vocabulary_loss import PIECE_NUMBERS
from attnscope.records.sites import Stack
from attnscope.schemes.masks import MASKS
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES

WIDE, PLACE = 4, 8
"""Bytes of a float32, and of the number of a place that was dropped."""
WEIGHT_BYTES, GRADIENT_BYTES, MOMENT_BYTES = 4, 4, 4
"""Of one parameter: weights, gradients and each moment of the optimiser are float32, whatever products are
made in.
"""
_OF_CELL = {"rnn": 4, "gru": 16, "lstm": 38}
"""Numbers of d_model that a recurrent layer, encoder's and decoder's, keeps of one token; measured."""
_AROUND_CELLS = 10
"""The same of what stands around them: attention, embeddings, output."""
AT_ONCE_BYTES = 2**28
"""Most that is kept at once of a batch whose rows may be worked out in turns."""
_CHUNK = 64
"""Cells of linear attention are laid out in squares of this side (`nn/attention.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShape:
    """What is read at once: sequences of `n_tokens`, targets as long in the form encoder–decoder.

    `n_scored` tokens of the batch are told; `has_bfloat16` says that products are made in bfloat16,
    `is_on_cpu` that the CPU's operators are used, `is_recomputed` that each block keeps only what it reads
    and computes the rest again in the backward pass (gradient checkpointing, Chen et al. 2016), or reversible
    layers not even that.
    """

    n_sequences: int
    n_tokens: int
    n_scored: int
    has_bfloat16: bool = False
    is_on_cpu: bool = True
    is_recomputed: bool = False

    @property
    def narrow(self) -> int:
        """Bytes of a number between the matrices."""
        return 2 if self.has_bfloat16 else WIDE

    @property
    def n_rows(self) -> int:
        return self.n_sequences * self.n_tokens


def activation_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """What the forward pass keeps for the backward pass, the loss left out."""
    if config.is_recurrent:
        a_token = _AROUND_CELLS + config.n_layers * _OF_CELL[config.body]
        return shape.n_rows * config.d_model * a_token * WIDE
    if config.memory_tokens:
        longer = replace(shape, n_tokens=shape.n_tokens + config.memory_tokens)
        return activation_bytes(replace(config, memory_tokens=0), longer)
    if config.has_latents:
        return _latents_bytes(config, shape)
    stacks: tuple[tuple[Stack, int], ...] = (
        ("encoder", config.encoder_layers),
        ("decoder", config.decoder_layers),
    )
    total = 0
    for stack, n_layers in stacks:
        if not n_layers:
            continue
        blocks = [_branches_bytes(config, shape, stack, layer) for layer in range(n_layers)]
        # What is computed again needs the input of each block, of reversible ones the last two streams alone.
        n_inputs = 2 if config.is_reversible else n_layers
        again = max(map(max, blocks)) if config.is_reversible else max(map(sum, blocks))
        inputs = n_inputs * shape.n_rows * config.d_model * WIDE
        total += inputs + again if shape.is_recomputed else sum(map(sum, blocks))
        total += _ends_bytes(config, shape)
    if config.form == "encoder-decoder":
        total += shape.n_rows * config.d_model * shape.narrow  # the memory, read by every cross site
    hidden = shape.n_scored * config.d_model * shape.narrow
    if config.transform_head:
        hidden += shape.n_scored * (2 * config.d_model * shape.narrow + _norm_numbers(config) * WIDE)
    if config.copies_source:  # pieces as they are copied, rows of them, and both summands of P
        hidden += 4 * shape.n_scored * config.vocab_size * WIDE
        total += config.n_heads * shape.n_sequences * shape.n_tokens**2 * WIDE
    return total + hidden + _weight_copies(config, shape)


def _latents_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Blocks of latents, which are few, and in each the keys and values of the tokens."""
    plain = replace(config, n_projected=0, slot_kind="projected")
    few = replace(shape, n_tokens=config.n_projected)
    k = config.kv_heads * config.head_width
    total = _ends_bytes(config, shape) + shape.n_rows * _branch_bytes(config, shape)
    for layer in range(config.encoder_layers):
        total += sum(_branches_bytes(plain, few, "encoder", layer)) + _attention_bytes(
            plain, few, "cross", layer
        )
        total += shape.n_rows * 2 * k * shape.narrow
    return total + _ends_bytes(config, few) + shape.n_scored * config.d_model * shape.narrow


def n_turns_of(config: ModelConfig, shape: BatchShape) -> int:
    """In so many turns the rows of a batch keep no more than `AT_ONCE_BYTES` at once, if one row allows."""
    return min(shape.n_sequences, -(-activation_bytes(config, shape) // AT_ONCE_BYTES))


def rows_at_once(config: ModelConfig, shape: BatchShape) -> BatchShape:
    n = n_turns_of(config, shape)
    return replace(shape, n_sequences=-(-shape.n_sequences // n), n_scored=-(-shape.n_scored // n))


def passing_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """What the backward pass holds of one branch at a time: gradients of its widest numbers and stream."""
    widest = 2 * max(config.up_rows, config.d_ff, 3 * config.d_model)
    return shape.n_rows * (widest + 2 * config.d_model) * WIDE


def loss_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """What the loss takes at its largest: log-probabilities, their logits, and the gradient of these."""
    n_classes = config.n_labels or config.vocab_size
    n_logits = shape.n_scored * n_classes
    n_logits = min(n_logits, max(n_classes, PIECE_NUMBERS)) if shape.is_on_cpu else n_logits
    return n_logits * (2 * WIDE + (2 if shape.has_bfloat16 else 0))


def _branches_bytes(config: ModelConfig, shape: BatchShape, stack: Stack, layer: int) -> list[int]:
    found = [_attention_bytes(config, shape, stack, layer)]
    if stack == "decoder" and config.form == "encoder-decoder":
        found.append(_attention_bytes(config, shape, "cross", layer))
    if config.has_feed_forward:
        inner = _inner_numbers(config)
        if config.n_experts:  # of each reader: what it reads, says, and says with its weight
            inner = config.experts_per_token * (inner + 3 * config.d_model) + 4 * config.n_experts
        found.append(shape.n_rows * (_branch_bytes(config, shape) + inner * shape.narrow))
    return found


def _branch_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Of one token: what a branch's norms and first matrix read, and what its dropout drew."""
    n_norms = 2 if config.norm_place == "sandwich" else 1
    total = n_norms * _norm_numbers(config) * WIDE + config.d_model * shape.narrow
    if config.dropout:
        total += _dropped_bytes(config, shape)
    return total


def _dropped_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Of one token: the places that were dropped of its stream, or a truth for each place."""
    return round(config.d_model * config.dropout * PLACE) if shape.is_on_cpu else config.d_model


def _norm_numbers(config: ModelConfig) -> int:
    """Numbers a norm keeps of one token: what it read, and its mean and spread."""
    return NORMS[config.norm].n_kept(config.d_model)


def _inner_numbers(config: ModelConfig) -> int:
    """Numbers between the feed-forward matrices of one token."""
    if config.activation in GATED:
        return config.up_rows + 2 * config.d_ff
    return config.d_ff if config.activation == "relu" else 2 * config.d_ff


def _attention_bytes(config: ModelConfig, shape: BatchShape, stack: Stack, layer: int) -> int:
    if not config.has_sites:
        return _mixer_bytes(config, shape)
    layout = config.layout(stack, layer)
    d_head = config.head_width
    n, k = layout.n_heads * d_head, layout.n_kv_heads * d_head
    is_wide = shape.has_bfloat16 and shape.is_on_cpu  # float32 attention between bfloat16 products
    inner = WIDE if is_wide else shape.narrow
    numbers = 2 * n + 2 * k + SCORES[config.score].n_kept(n, k, layout.n_heads)
    positions = POSITIONS[config.position]
    if stack != "cross":
        numbers += positions.n_kept(config, n, k, is_wide=is_wide)
        if MASKS[config.mask].recalls and shape.n_tokens > config.segment_tokens:
            # The output as the segments gave it, and the keys and values that each remembers.
            memory = min(config.segment_memory, shape.n_tokens - config.segment_tokens)
            numbers += n + 2 * k * memory // config.segment_tokens
    a_token = _branch_bytes(config, shape) + numbers * inner + layout.n_heads * WIDE
    a_token += n * shape.narrow if is_wide else 0
    cells = layout.n_heads * shape.n_tokens**2
    total = shape.n_rows * a_token + round(shape.n_sequences * cells * _n_maps(config, shape, stack) * inner)
    if SCORES[config.score].comparison == "kernel":
        total += shape.n_rows * layout.n_heads * min(_CHUNK, shape.n_tokens) * WIDE
    if config.span_limit and stack != "cross":
        # The soft mask of each head, before and after it is cut, and where; of gates the offset of each cell.
        is_ramp = config.span_kind == "ramp"
        total += cells * (3 * WIDE + 1) if is_ramp else shape.n_tokens**2 * PLACE + cells
    return total + (cells * WIDE if positions.falls and stack != "cross" else 0)


def _mixer_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Of one layer whose mixer is not attention; numbers between its matrices are float32."""
    between = MIXERS[config.mixer].n_kept(config, shape.n_tokens) * WIDE
    return shape.n_rows * (_branch_bytes(config, shape) + between)


def _n_maps(config: ModelConfig, shape: BatchShape, stack: Stack) -> float:
    """Maps of all cells that one site keeps of each text; the places that were dropped count as a part."""
    positions = POSITIONS[config.position]
    has_bias = bool(positions.bias_shapes(config) or config.span_limit) and stack != "cross"
    dropped = config.weight_dropout * PLACE / WIDE if shape.is_on_cpu else 1.0
    comparison = SCORES[config.score].comparison
    if comparison == "kernel":
        return 0
    if comparison == "additive":
        return 3 + dropped if config.weight_dropout else 2
    if positions.scores_distances and stack != "cross":
        return 2 + dropped if config.weight_dropout else 1
    if not (config.weight_dropout and shape.is_on_cpu):
        return int(has_bias)
    if has_bias:
        return 2 + dropped
    n_cells = shape.n_sequences * config.n_heads * shape.n_tokens**2
    return 1 + config.weight_dropout + dropped if n_cells <= KEPT_WEIGHTS else dropped


def _ends_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Of one stack: token ids, the norms before and after it, the dropout of the embedding."""
    n_norms = int(config.has_final_norm) + int(config.embedding_norm)
    a_token = 8 + n_norms * _norm_numbers(config) * WIDE
    if config.dropout:
        a_token += _dropped_bytes(config, shape)
    return shape.n_rows * a_token


def _weight_copies(config: ModelConfig, shape: BatchShape) -> int:
    """The bfloat16 copies of all matrices, which live as long as a step."""
    if not shape.has_bfloat16:
        return 0
    d, d_head = config.d_model, config.head_width
    total = config.vocab_size * d + (d * d if config.transform_head else 0)
    for stack, layer in config.headed_keys():
        if layer not in config.own_layers(stack):
            continue
        layout = config.layout(stack, layer)
        n_times = 2 if config.has_inducing and stack == "encoder" else 1
        total += n_times * 2 * d * d_head * (layout.n_heads + layout.n_kv_heads)
    if not config.has_sites:
        matrices = MIXERS[config.mixer].matrices(config)
        total += len(config.own_layers("decoder")) * sum(n_in * n_out for n_in, n_out in matrices)
    if config.has_feed_forward:
        n_layers = len(config.own_layers("encoder")) + len(config.own_layers("decoder"))
        total += n_layers * d * max(1, config.n_experts) * (config.up_rows + config.d_ff)
    return 2 * total

"""Floating-point operations of a model, on paper: nothing is run.

    symbol   meaning
    T, S     tokens of the source and of the target
    W        a matrix of a linear layer, n_in · n_out numbers

A product with a matrix costs 2 · n_in · n_out operations a token, a multiplication and an addition for each
number; scores and weighted sums of one head cost 2 · n_queries · n_keys · d_head each (Kaplan et al. 2020,
section 2.1 and table 1; Hoffmann et al. 2022, appendix F, whose convention is followed: the whole rectangle
is counted, whatever causality forbids; a window or another sparse mask of our own models counts with the
cells it leaves, inducing points with T · m cells each way, and linear attention with its two products of
d_head² a token). The Gaussian score is two columns wider, the additive one counts as a product, and what a
score learns is one more matrix. A recurrent cell is its matrices, gone through once a token; local attention
is counted as if it saw every key, since all scores are made. Embedding look-ups, biases, norms, activations
and softmax are left out; the last layer, which gives the logits, is counted for every token. The backward
pass costs twice the forward pass, so a training step three times as much (Kaplan et al. 2020, section 2.1).

Memory that training takes, on paper: nothing is allocated. Must not import torch.

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

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.models.passes import hooked
from attnscope.nn import Call, ModelConfig, QuietProbe, build_self_mask
from attnscope.nn.config import GATED, recurrent_matrices
from attnscope.nn.dropping import KEPT_WEIGHTS
from attnscope.nn.own_module import PIECE_NUMBERS
from attnscope.records.sites import SiteKey, Stack
from attnscope.schemes.masks import MASKS
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES

FORMULA = (
    "2 · n_in · n_out a token for each matrix, 4 · n_queries · n_keys · d_head for each head, training 3 × "
    "forward (Kaplan et al. 2020, section 2.1; Hoffmann et al. 2022, appendix F)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Operations of one forward pass over `n_tokens`, with a target of the same length, if any.

    `parts` add up to `forward`. `is_whole` is False when some part could not be counted.
    """

    n_tokens: int
    parts: tuple[tuple[str, int], ...]
    is_whole: bool = True

    @property
    def forward(self) -> int:
        return sum(n for _, n in self.parts)

    @property
    def forward_a_token(self) -> float:
        """Operations of the forward pass, for each token of the source."""
        return self.forward / self.n_tokens

    @property
    def training_a_token(self) -> float:
        """Operations of forward and backward pass, for each token of the source."""
        return 3 * self.forward / self.n_tokens


def count_cost(model: Model, n_tokens: int) -> Cost:
    """The cost of a model over `n_tokens` tokens."""
    network = model.network
    if isinstance(network, OwnNetwork):
        return own_cost(network.config, n_tokens)
    if isinstance(network, HuggingFaceNetwork):
        return foreign_cost(network, model, n_tokens)
    return Cost(n_tokens=n_tokens, parts=(), is_whole=False)


def own_cost(config: ModelConfig, n_tokens: int) -> Cost:
    """The cost of one of our own models, exact by the convention above."""
    if config.is_recurrent:
        return _recurrent_cost(config, n_tokens)
    if config.memory_tokens:  # read like tokens of the text
        plain = own_cost(replace(config, memory_tokens=0), n_tokens + config.memory_tokens)
        return replace(plain, n_tokens=n_tokens)
    if config.has_latents:
        return _latents_cost(config, n_tokens)
    linear = {"encoder": 0, "decoder": 0}
    attention = 0
    n_all = n_tokens * n_tokens
    n_seen = build_self_mask(config, n_tokens).count(n_tokens)
    slots, score, positions = config.n_projected, SCORES[config.score], POSITIONS[config.position]
    for stack, layer in config.headed_keys():
        layout = config.layout(stack, layer)
        n, k = layout.n_heads * config.head_width, layout.n_kv_heads * config.head_width
        part = "encoder" if stack == "encoder" else "decoder"
        # Keys and values of a memory are made of the source, all else of the stack's own text: both T here.
        linear[part] += 2 * config.d_model * (2 * n + 2 * k)
        linear[part] += 2 * layout.n_heads * score.n_products(config.head_width)
        if stack != "cross":
            linear[part] += 2 * n * positions.n_products(config)
            attention += 2 * n * positions.n_products_once(config)
        if slots and stack == "encoder":
            attention += _slots_cost(config, layout.n_heads, k, n_tokens)
            linear[part] += 0 if config.has_inducing else 4 * slots * k
            continue
        n_cells = n_all if stack == "cross" else n_seen
        attention += _cells_cost(config, layout.n_heads, n_tokens, n_cells)
    if not config.has_sites:
        mixer = MIXERS[config.mixer]
        linear["decoder"] += 2 * config.decoder_layers * sum(n * m for n, m in mixer.matrices(config))
        attention += 2 * config.decoder_layers * n_tokens * mixer.n_products(config)
    for part, n_layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        if config.has_feed_forward:
            n_read = min(config.experts_per_token, config.n_experts) if config.n_experts else 1
            linear[part] += n_layers * 2 * config.d_model * n_read * (config.up_rows + config.d_ff)
            linear[part] += n_layers * 2 * config.d_model * config.n_experts
    if config.n_labels:
        return label_cost(config, n_tokens, {**linear, "attention": attention})
    head = 2 * config.d_model * config.vocab_size
    head += 2 * config.d_model**2 if config.transform_head else 0
    if config.copies_source:  # p_gen, and the mean of the last weights
        head += 2 * config.d_model
        attention += n_all * config.layout("cross", config.decoder_layers - 1).n_heads
    parts = (
        *((f"{part} matrices", n_tokens * n) for part, n in linear.items()),
        ("attention" if config.has_sites else config.mixer, attention),
    )
    return Cost(
        n_tokens=n_tokens, parts=tuple((name, n) for name, n in (*parts, ("logits", n_tokens * head)) if n)
    )


def label_cost(config: ModelConfig, n_tokens: int, body: Mapping[str, int], *, n_besides: int = 0) -> Cost:
    """The cost of a model that predicts labels; `body` is that of its stacks, matrices for one token,
    and `n_besides` what its encoder multiplies besides.

    A second text counts as long as the first, and is read by the same stack. A hierarchical summary counts
    with the words of all sentences and with one sentence, since nobody knows their number beforehand.
    """
    d, n_texts = config.d_model, 2 if config.reads_pair else 1
    n_pools = {"attention": 1, "hierarchical": 1}.get(config.pooling, 0)
    pooling = n_texts * n_pools * n_tokens * (2 * d * d + 4 * d)
    pooling += 2 * d * d + 4 * d if config.pooling == "hierarchical" else 0
    pooling += {"gru": 9 * d * d, "dense": 2 * d * d}.get(config.sentence_encoder, 0)
    # Two sites of one head as wide as the model; then the composed row of each token, and of both texts.
    matching = 2 * 4 * n_tokens**2 * d + 2 * n_tokens * 2 * 4 * d * d + 2 * 2 * d * d
    parts = (
        ("encoder matrices", n_texts * n_tokens * body["encoder"] + n_besides),
        ("decoder matrices", n_texts * n_tokens * body["decoder"]),
        ("attention", n_texts * body["attention"]),
        ("matching", matching if config.reads_pair else 0),
        ("pooling", pooling),
        ("logits", 2 * d * config.n_labels * (n_tokens if config.labels_tokens or config.points else 1)),
    )
    return Cost(n_tokens=n_tokens, parts=tuple((name, n) for name, n in parts if n))


def _latents_cost(config: ModelConfig, n_tokens: int) -> Cost:
    """Latents read the tokens and one another in each layer; the label is predicted from them."""
    d, n_slots, n_layers = config.d_model, config.n_projected, config.encoder_layers
    n, k = config.n_heads * config.head_width, config.kv_heads * config.head_width
    a_latent = 2 * d * (2 * n + 2 * n + 2 * k) + 2 * 2 * config.n_heads * SCORES[config.score].n_products(
        config.head_width
    )
    if config.has_feed_forward:
        n_read = min(config.experts_per_token, config.n_experts) if config.n_experts else 1
        a_latent += 2 * d * (n_read * (config.up_rows + config.d_ff) + config.n_experts)
    cells = _cells_cost(config, config.n_heads, n_tokens, n_tokens * n_slots)
    cells += _cells_cost(config, config.n_heads, n_slots, n_slots * n_slots)
    body = {"encoder": n_layers * a_latent, "decoder": 0, "attention": n_layers * cells}
    of_tokens = n_layers * 2 * d * 2 * k * n_tokens  # their keys and values
    return replace(label_cost(config, n_slots, body, n_besides=of_tokens), n_tokens=n_tokens)


def _recurrent_cost(config: ModelConfig, n_tokens: int) -> Cost:
    """The matrices of the cells are applied token by token; the first states are computed once."""
    source, target = recurrent_matrices(config)
    n_first = config.d_model**2 * config.decoder_layers * (2 if config.body == "lstm" else 1)
    n_first += 0 if config.has_attention or not config.feeds_context else config.d_model**2
    n_heads = config.layout("cross", 0).n_heads if config.has_attention else 0
    head = config.d_model * (config.vocab_size + (config.d_model if config.transform_head else 0))
    parts = (
        ("encoder matrices", 2 * n_tokens * source),
        ("decoder matrices", 2 * (n_tokens * target + n_first)),
        ("attention", _cells_cost(config, n_heads, n_tokens, n_tokens**2)),
        ("logits", 2 * n_tokens * head),
    )
    return Cost(n_tokens=n_tokens, parts=tuple((name, n) for name, n in parts if n))


def _cells_cost(config: ModelConfig, n_heads: int, n_tokens: int, n_cells: int) -> int:
    d_head, score = config.head_width, SCORES[config.score]
    if score.comparison == "kernel" and n_cells == n_tokens * n_tokens:
        return 4 * n_tokens * n_heads * d_head * (d_head + 1)  # the column more sums the weights
    return 2 * n_cells * n_heads * (2 * d_head + score.n_more_columns)


def _slots_cost(config: ModelConfig, n_heads: int, n_key_rows: int, n_tokens: int) -> int:
    """A layer of an encoder whose tokens read slots; inducing points have additional matrices."""
    slots, n = config.n_projected, n_heads * config.head_width
    read = _cells_cost(config, n_heads, n_tokens, n_tokens * slots)
    if not config.has_inducing:
        return read
    # Queries and output of the points, and their keys and values for the tokens.
    of_points = config.d_model * (2 * n + 2 * n_key_rows)
    return 2 * read + 2 * slots * (of_points + n_heads * SCORES[config.score].n_products(config.head_width))


def foreign_cost(network: HuggingFaceNetwork, model: Model, n_tokens: int) -> Cost:
    """The cost of a library model, from its sites and from the matrix products of a short pass.

    Shared layers count as often as they run, experts with those that read a token, and what reads one row of
    a text (a pooler, a label) once. The maps of every site count whole. No pass is made over a recording:
    there each matrix counts once for each token.
    """
    found, widths = _Products(network.module), _Widths()
    if model.info.reads == "recording":
        found.a_token = sum(_n_numbers(part) for part in network.module.modules() if _is_matrix(part))
    else:
        case, n_read = _example(network, model)
        with found.watching(n_read):
            network.say_all(case, widths)
    d_head = _d_head(network.module.config)
    n_columns = [
        site.n_heads * (widths.of_site.get(site.key) or 2 * (d_head or 0)) for site in model.sites
    ]  # of queries and values
    parts = [("matrices", round(2 * (n_tokens * found.a_token + found.once)))]
    n_layers = max(Counter(site.stack for site in model.sites).values(), default=0)
    has_others = n_layers < (getattr(network.module.config, "num_hidden_layers", None) or 0)  # recurrences
    is_known = all(n_columns) and not has_others
    if all(n_columns):
        parts.append(("attention", 2 * n_tokens * n_tokens * sum(n_columns)))
    return Cost(n_tokens=n_tokens, parts=tuple(parts), is_whole=is_known and found.is_whole)


class _Widths(QuietProbe):
    """Columns of a head's queries and values together, if a network passes both to the attention."""

    def __init__(self) -> None:
        self.of_site: dict[SiteKey, int] = {}

    def wants(self, site: SiteKey) -> bool:
        return True

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Record the widths; weights that a network returns itself have none."""
        if call.q.shape[-1]:
            self.of_site[site] = call.q.shape[-1] + call.v.shape[-1]


def _example(network: HuggingFaceNetwork, model: Model) -> tuple[Inputs | Tensor, int]:
    """A short input for a network, with its number of tokens; both texts are equally long."""
    size = model.info.picture_px
    if size is not None:
        n_channels = getattr(network.module.config, "num_channels", 3)
        return torch.zeros(1, n_channels, *size), model.info.max_tokens
    inputs = network.encode("a b c d e f g h")
    is_double = network.form == "encoder-decoder"
    return (replace(inputs, target=inputs.source) if is_double else inputs), len(inputs.source)


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class _Products:
    """Multiplications of a module with its matrices, in one pass.

    `a_token` of them are made for each token, `once` for the whole text.
    """

    def __init__(self, module: Any) -> None:
        self.a_token = self.once = 0.0
        self.is_whole = True
        self._module, self._n_read, self._n_filled = module, 0, 0

    @contextmanager
    def watching(self, n_read: int) -> Iterator[None]:
        """Count the multiplications of a pass over so many tokens."""
        self._n_read = self._n_filled = n_read
        hooks = [
            part.register_forward_hook(self._count, with_kwargs=True)
            for part in self._module.modules()
            if _is_matrix(part) or _are_experts(part) or isinstance(part, nn.Embedding)
        ]
        with hooked(hooks):
            yield

    def _count(self, part: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any], out: Any) -> None:
        tensors = [one for one in (*given, *named.values()) if isinstance(one, Tensor)]
        if isinstance(part, nn.Embedding):
            if part is self._module.get_input_embeddings():
                self._n_filled = max(self._n_read, tensors[0].shape[-1])  # a text may be filled up
        elif _are_experts(part):
            chosen = [one for one in tensors if one.dtype == torch.int64]
            stacks = [one for one in part.parameters(recurse=False) if one.ndim == 3]
            self._add(sum(one[0].numel() for one in stacks), chosen[0].numel() if chosen else 0)
            self.is_whole &= bool(chosen)
        elif isinstance(part, _CONVOLUTIONS):
            self._add(_n_numbers(part), out.numel() // part.out_channels)
        else:
            self._add(_n_numbers(part), tensors[0].numel() // tensors[0].shape[-1])

    def _add(self, n_numbers: int, n_rows: int) -> None:
        if n_rows == 1 < self._n_read:
            self.once += n_numbers
        else:
            self.a_token += n_numbers * (1 if n_rows == self._n_read else n_rows / self._n_filled)


def _is_matrix(part: nn.Module) -> bool:
    """Whether a module multiplies every row that it reads with its own numbers."""
    names = ("Linear", "Conv1D", "Router", "Gate")
    is_named = type(part).__name__.endswith(names) and _n_numbers(part) > 0
    return isinstance(part, (nn.Linear, *_CONVOLUTIONS)) or is_named


def _are_experts(part: nn.Module) -> bool:
    """Whether a module holds the matrices of experts, stacked, and reads which one a token chose."""
    return "Experts" in type(part).__name__ and any(one.ndim == 3 for one in part.parameters(recurse=False))


def _n_numbers(part: nn.Module) -> int:
    """Numbers in the matrix of a module, of any shape in a convolution."""
    weight = getattr(part, "weight", None)
    is_matrix = isinstance(weight, Tensor) and (weight.ndim == 2 or isinstance(part, _CONVOLUTIONS))
    return int(weight.numel()) if is_matrix and isinstance(weight, Tensor) else 0


def _d_head(config: Any) -> int | None:
    for name in ("head_dim", "d_kv", "attention_head_size"):
        found = getattr(config, name, None)
        if isinstance(found, int):
            return found
    width, n_heads = getattr(config, "hidden_size", None), getattr(config, "num_attention_heads", None)
    if isinstance(width, int) and isinstance(n_heads, int) and n_heads:
        return width // n_heads
    return None


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
    """A batch: sequences of `n_tokens`, with equally long targets for an encoder–decoder.

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
    """Bytes kept by the forward pass for the backward pass, without the loss."""
    if config.is_recurrent:
        a_token = _AROUND_CELLS + config.n_layers * _OF_CELL[config.body]
        return shape.n_rows * config.d_model * a_token * WIDE
    if config.memory_tokens:
        longer = replace(shape, n_tokens=shape.n_tokens + config.memory_tokens)
        return activation_bytes(replace(config, memory_tokens=0), longer)
    if config.has_latents:
        return _latents_bytes(config, shape)
    if (
        config.reads_pair
    ):  # of each token also what it finds in the other text, the four compared, the composed
        of_text = activation_bytes(replace(config, reads_pair=False), shape)
        return 2 * (of_text + 6 * shape.n_rows * config.d_model * shape.narrow)
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
    """Number of turns in which the rows of a batch keep at most `AT_ONCE_BYTES`, if possible."""
    return min(shape.n_sequences, -(-activation_bytes(config, shape) // AT_ONCE_BYTES))


def rows_at_once(config: ModelConfig, shape: BatchShape) -> BatchShape:
    n = n_turns_of(config, shape)
    return replace(shape, n_sequences=-(-shape.n_sequences // n), n_scored=-(-shape.n_scored // n))


def passing_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Bytes held by the backward pass for one branch at a time: gradients of its widest numbers and
    stream.
    """
    widest = 2 * max(config.up_rows, config.d_ff, 3 * config.d_model)
    return shape.n_rows * (widest + 2 * config.d_model) * WIDE


def loss_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Peak bytes of the loss: log-probabilities, their logits, and the gradient of these."""
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
    """Bytes for one token: the inputs of a branch's norms and first matrix, and its dropout mask."""
    n_norms = 2 if config.norm_place == "sandwich" else 1
    total = n_norms * _norm_numbers(config) * WIDE + config.d_model * shape.narrow
    if config.dropout:
        total += _dropped_bytes(config, shape)
    return total


def _dropped_bytes(config: ModelConfig, shape: BatchShape) -> int:
    """Bytes for one token: the dropped places of its stream, or a mask for each place."""
    return round(config.d_model * config.dropout * PLACE) if shape.is_on_cpu else config.d_model


def _norm_numbers(config: ModelConfig) -> int:
    """Numbers that a norm keeps of one token: its input, mean and spread."""
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
    """Bytes of one layer whose mixer is not attention; numbers between its matrices are float32."""
    between = MIXERS[config.mixer].n_kept(config, shape.n_tokens) * WIDE
    return shape.n_rows * (_branch_bytes(config, shape) + between)


def _n_maps(config: ModelConfig, shape: BatchShape, stack: Stack) -> float:
    """Number of full maps that one site keeps of each text; dropped places count as a part."""
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
    """Bytes of one stack: token ids, the norms before and after it, the dropout of the embedding."""
    n_norms = int(config.has_final_norm) + int(config.embedding_norm)
    a_token = 8 + n_norms * _norm_numbers(config) * WIDE
    if config.dropout:
        a_token += _dropped_bytes(config, shape)
    return shape.n_rows * a_token


def _weight_copies(config: ModelConfig, shape: BatchShape) -> int:
    """The bfloat16 copies of all matrices, which live for one step."""
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

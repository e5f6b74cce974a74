"""How many floating-point operations a model costs, on paper: nothing is run.

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
"""

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
from attnscope.nn.config import ModelConfig, recurrent_matrices
from attnscope.nn.self_masks import build_self_mask
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES

FORMULA = (
    "2 · n_in · n_out a token for each matrix, 4 · n_queries · n_keys · d_head for each head, training 3 × "
    "forward (Kaplan et al. 2020, section 2.1; Hoffmann et al. 2022, appendix F)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Operations of one forward pass over a text of `n_tokens`, and a target as long where one is read.

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
        """Of the forward pass, for each token of the source."""
        return self.forward / self.n_tokens

    @property
    def training_a_token(self) -> float:
        """Forward and backward, for each token of the source."""
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


def label_cost(config: ModelConfig, n_tokens: int, body: Mapping[str, int]) -> Cost:
    """The cost of a model that tells labels; `body` is that of its stacks, matrices for one token.

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
        *((f"{part} matrices", n_texts * n_tokens * body[part]) for part in ("encoder", "decoder")),
        ("attention", n_texts * body["attention"]),
        ("matching", matching if config.reads_pair else 0),
        ("pooling", pooling),
        ("logits", 2 * d * config.n_labels * (n_tokens if config.labels_tokens or config.points else 1)),
    )
    return Cost(n_tokens=n_tokens, parts=tuple((name, n) for name, n in parts if n))


def _latents_cost(config: ModelConfig, n_tokens: int) -> Cost:
    """Latents read the tokens and one another in each layer; the label is told from them."""
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
    told = label_cost(config, n_slots, body)
    parts = ((name, c + (of_tokens if name == "encoder matrices" else 0)) for name, c in told.parts)
    return Cost(n_tokens=n_tokens, parts=tuple(parts))


def _recurrent_cost(config: ModelConfig, n_tokens: int) -> Cost:
    """The matrices of the cells are gone through token by token; the first states are made once."""
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
    """Scores and weighted sums of one site."""
    d_head, score = config.head_width, SCORES[config.score]
    if score.comparison == "kernel" and n_cells == n_tokens * n_tokens:
        return 4 * n_tokens * n_heads * d_head * (d_head + 1)  # the column more sums the weights
    return 2 * n_cells * n_heads * (2 * d_head + score.n_more_columns)


def _slots_cost(config: ModelConfig, n_heads: int, n_key_rows: int, n_tokens: int) -> int:
    """A layer of an encoder whose tokens read slots; inducing points have matrices of their own besides."""
    slots, n = config.n_projected, n_heads * config.head_width
    read = _cells_cost(config, n_heads, n_tokens, n_tokens * slots)
    if not config.has_inducing:
        return read
    # Queries and output of the points, and their keys and values for the tokens.
    of_points = config.d_model * (2 * n + 2 * n_key_rows)
    return 2 * read + 2 * slots * (of_points + n_heads * SCORES[config.score].n_products(config.head_width))


def foreign_cost(network: HuggingFaceNetwork, model: Model, n_tokens: int) -> Cost:
    """The cost of a model of the library, from its sites and from what its matrices multiply in a short pass.

    Shared layers count as often as they run, experts with those that read a token, and what reads one row of
    a text (a pooler, a label) once. The maps of every site count whole. No pass is made over a recording:
    there each matrix counts once for each token.
    """
    found = _Products(network.module)
    if model.info.reads == "recording":
        found.a_token = sum(_n_numbers(part) for part in network.module.modules() if _is_matrix(part))
    else:
        case, n_read = _example(network, model)
        with found.watching(n_read):
            network.say_all(case)
    d_head = _d_head(network.module.config)
    n_heads = sum(site.n_heads for site in model.sites)
    parts = [("matrices", round(2 * (n_tokens * found.a_token + found.once)))]
    if d_head is not None:
        parts.append(("attention", 4 * n_tokens * n_tokens * n_heads * d_head))
    return Cost(n_tokens=n_tokens, parts=tuple(parts), is_whole=d_head is not None and found.is_whole)


def _example(network: HuggingFaceNetwork, model: Model) -> tuple[Inputs | Tensor, int]:
    """Something short that a network reads, with its number of tokens; both texts are equally long."""
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
        """Count what a pass over so many tokens multiplies."""
        self._n_read = self._n_filled = n_read
        hooks = [
            part.register_forward_hook(self._count, with_kwargs=True)
            for part in self._module.modules()
            if _is_matrix(part) or _are_experts(part) or isinstance(part, nn.Embedding)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

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
    """Whether a module holds the matrices of experts, one below the other, and reads which a token chose."""
    return "Experts" in type(part).__name__ and any(one.ndim == 3 for one in part.parameters(recurse=False))


def _n_numbers(part: nn.Module) -> int:
    """Numbers of the matrix of a module, of whatever shape in a convolution."""
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

"""The configuration of a Transformer: one flat record, checked in one place.

Nothing here allocates: a configuration from a stranger's file is judged before any tensor exists.
Must not import torch.

Of a recurrent model:

    symbol   meaning                                                  value
    gates    matrices of a cell: one a gate, and the new state's      RNN 1, GRU 3, LSTM 4
    cell     gates · (d · n_in + d · d), and two biases a gate        numbers
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal, Self, get_type_hints

from attnscope.codec import AllowedNames, Between
from attnscope.counting import bytes_text
from attnscope.errors import RecipeError
from attnscope.nn.config_checks import ID_LISTS, KEYS, check_together, check_types, unknown_key
from attnscope.nn.kept_heads import HeadLayout, KeptHeads, build_layout, kept_from_mapping, site_name
from attnscope.records.models import Form
from attnscope.records.sites import SiteKey, Stack
from attnscope.schemes.masks import MASKS
from attnscope.schemes.mixers import MIXERS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.residuals import RESIDUALS
from attnscope.schemes.scores import SCORES

Body = Literal["transformer", "rnn", "gru", "lstm"]
RandomLinks = Literal["each", "both"]
Mask = Annotated[str, AllowedNames(MASKS)]
Mixer = Annotated[str, AllowedNames(MIXERS)]
Position = Annotated[str, AllowedNames(POSITIONS)]
Score = Annotated[str, AllowedNames(SCORES)]
Norm = Annotated[str, AllowedNames(NORMS)]
Residual = Annotated[str, AllowedNames(RESIDUALS)]
NormPlace = Literal["pre", "post", "sandwich"]
Pooling = Literal["first", "last", "mean", "max", "attention", "hierarchical", "none", "pointer"]
SpanKind = Literal["ramp", "offsets"]
SlotKind = Literal["projected", "inducing", "latents"]
SentenceEncoding = Literal["none", "gru", "dense"]
Activation = Literal["relu", "gelu", "gelu-tanh", "swish", "glu", "reglu", "geglu", "swiglu"]
GATED: tuple[Activation, ...] = ("glu", "reglu", "geglu", "swiglu")
"""Activations of which one half of the columns gates the other (Shazeer 2020)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Every choice of the architecture, under the names of recipes and of config.json.

    `n_kv_heads` None means as many as heads, `n_decoder_layers` None as many as `n_layers`, `d_head` None
    d_model / n_heads; given, heads may be wider or narrower, as those of T5's largest models are.
    `bias` covers every linear layer and LayerNorm. `transform_head`, `output_bias`, `embedding_norm`,
    `n_segments`, `has_pooler` and `has_next_sentence` are what BERT (Devlin et al. 2018) adds. `kept_heads`
    names the heads that are left at the sites that lost some; `n_heads` stays the number before, since it
    gives the width of a head where `d_head` does not. `dropout` acts on what each branch adds and on the
    embedding, `attention_dropout` on the attention weights, None as much as `dropout`: on a CPU, weights of
    which none is dropped stay on the fused path.

    `mask` limits self-attention (`schemes/masks`): `window` is the most tokens that a query looks back and
    ahead, in steps of `dilation` for dilated; `global_tokens`, `random_blocks` of `mask_block` tokens drawn
    from `mask_seed`, and `prefix_tokens` belong to the masks of these names; `segment_tokens` and
    `segment_memory`, tokens before a segment that it remembers, are those of segment-recurrence. With
    `random_links` "each" a query sees the blocks drawn for its own; "both" lets links to earlier blocks
    hold both ways, as before version 0.8, so that an encoder's blocks see from none to many. `score` is how
    a query scores a key (`schemes/scores`): `temperature` is that of cosine, `sigma` the width of gaussian,
    None for the fourth root of d_head, as wide as the scaled product. `n_buckets` and `max_distance` are
    those of the positions t5; shaw clips distances to `max_distance`. The positions tree tell `tree_width`
    children of a list apart and know the last `tree_depth` steps to each, None for as many as d_model has
    room for; a list begins with one of the token ids `opening` and ends with one of `closing`. What a choice
    does not use is not looked at.

    With a `span_limit` above 0 each head of self-attention learns how many tokens it looks back (and
    ahead, in an encoder), up to that, beginning with `span_start`, and its mask falls to 0 over
    `span_ramp` tokens more (`nn/spans.py`); with the `span_kind` offsets it learns at which offsets up to
    that it looks, a hard mask (`nn/spans.py`). A token of span, or an open offset, as the mean over all
    heads, counts `span_penalty` nats for each scored token.

    With `shared_layers` all layers of a stack have the same weights, as in ALBERT (Lan et al. 2020) and the
    Universal Transformer (Dehghani et al. 2019), whose embedding of the depth and halting are left out.

    `residual` is how branches add to what they read (`schemes/residuals`); reversible layers keep nothing for
    the backward pass but what the last of them gave (`nn/block.py`).

    `mixer` is what moves numbers from token to token in a decoder's layers (`schemes/mixers`); with any but
    attention there is no site. `kernel_width` is how many tokens its convolution reads.

    With `n_experts` the feed-forward part of each layer is as many, and a token is sent to
    `experts_per_token` of them (`nn/block.py`). An expert takes at most `capacity_factor` times its even
    share of a text's tokens, 0 for any number; the balance loss counts `balance_weight` times in training.

    With `n_labels` the model tells a label of the whole text and no pieces, or with the pooling none a label
    of every token, or with pointer so many places in the text, each by a softmax over its tokens
    (`pointed`). `pooling` makes one row of the text (`nn/pooling.py`), where hierarchical ends a
    sentence after each of the token ids `sentence_ends` and may have a `sentence_encoder` between its two
    poolings. `reads_pair` lets it match two texts (`nn/pooling.py`); with two segments it reads two as one.
    `n_projected` is the number of slots that stand for the encoder's keys and values, 0 for none: with the
    `slot_kind` projected they are mixtures of tokens (`nn/layers.py`), with inducing learned points that
    have attended to the tokens (`nn/layers.py`); with latents the encoder's layers are of Perceiver's
    learned latents, which read the tokens. With `n_numbers` a token is a given vector of so
    many numbers, which stays as it is and is projected to d_model, and no learned embedding. With a
    `patch_size` these vectors are patches, so many pixels a side, of a picture of `picture_height` ×
    `picture_width` pixels, behind a class token (`nn/embedding_and_head.py`).

    With `memory_tokens` so many learned vectors stand in front of each text, counted among `max_tokens`, and
    are read like its tokens (`nn/embedding_and_head.py`).

    With `copies_source` an encoder-decoder may copy a token of the source in the place of writing one of the
    vocabulary, by the weights of its last cross-attention (`nn/copying.py`).

    `body` is what carries a text from token to token. A recurrent one (`nn/recurrent.py`) needs the form
    encoder-decoder and has one site, the attention of its decoder: with `feeds_context` what that found goes
    into the next state (Bahdanau 2014), else only into the output (Luong 2015). A `local_reach` above 0
    limits it to so many tokens around a predicted place. Without `has_attention` it has no site at all: one
    vector is all that the decoder knows of the source, told again at every token with `feeds_context` (Cho
    2014), else only in its first state (Sutskever 2014). Masks, positions, norms, activations, residuals and
    the feed-forward layers are those of a Transformer.
    """

    form: Form
    vocab_size: Annotated[int, Between(1, 4_000_000)]
    body: Body = "transformer"
    has_attention: bool = True
    feeds_context: bool = True
    local_reach: Annotated[int, Between(0, 1_048_576)] = 0
    d_model: Annotated[int, Between(1, 65_536)] = 128
    n_layers: Annotated[int, Between(1, 1_024)] = 2
    n_decoder_layers: Annotated[int, Between(1, 1_024)] | None = None
    n_heads: Annotated[int, Between(1, 1_024)] = 4
    n_kv_heads: Annotated[int, Between(1, 1_024)] | None = None
    d_head: Annotated[int, Between(1, 65_536)] | None = None
    d_ff: Annotated[int, Between(1, 1_048_576)] = 512
    max_tokens: Annotated[int, Between(1, 1_048_576)] = 128
    position: Position = "learned"
    rope_base: float = 10000.0
    n_buckets: Annotated[int, Between(4, 4_096)] = 32
    max_distance: Annotated[int, Between(1, 65_536)] = 128
    tree_width: Annotated[int, Between(2, 1_024)] = 8
    tree_depth: Annotated[int, Between(1, 1_024)] | None = None
    mask: Mask = "full"
    window: Annotated[int, Between(0, 1_048_576)] = 16
    dilation: Annotated[int, Between(2, 65_536)] = 2
    global_tokens: Annotated[int, Between(0, 1_048_576)] = 1
    random_blocks: Annotated[int, Between(0, 64)] = 2
    mask_block: Annotated[int, Between(1, 65_536)] = 8
    mask_seed: Annotated[int, Between(0, 2**31 - 1)] = 0
    random_links: RandomLinks = "each"
    prefix_tokens: Annotated[int, Between(1, 1_048_576)] = 16
    segment_tokens: Annotated[int, Between(1, 1_048_576)] = 16
    segment_memory: Annotated[int, Between(0, 1_048_576)] = 16
    span_limit: Annotated[int, Between(0, 1_048_576)] = 0
    span_kind: SpanKind = "ramp"
    span_ramp: Annotated[int, Between(1, 1_048_576)] = 8
    span_start: Annotated[int, Between(0, 1_048_576)] = 0
    span_penalty: Annotated[float, Between(0.0, 1_000.0)] = 0.0
    score: Score = "scaled-dot"
    temperature: float = 0.1
    sigma: float | None = None
    shared_layers: bool = False
    mixer: Mixer = "attention"
    kernel_width: Annotated[int, Between(1, 256)] = 4
    n_experts: Annotated[int, Between(0, 1_024)] = 0
    experts_per_token: Annotated[int, Between(1, 1_024)] = 1
    capacity_factor: float = 0.0
    balance_weight: float = 0.01
    norm: Norm = "layer"
    norm_place: NormPlace = "pre"
    norm_epsilon: float = 1e-5
    has_residual: bool = True
    residual: Residual = "plain"
    has_feed_forward: bool = True
    activation: Activation = "gelu"
    dropout: float = 0.0
    attention_dropout: float | None = None
    bias: bool = True
    tie_embeddings: bool = True
    scale_embeddings: bool = False
    embedding_norm: bool = False
    n_segments: Annotated[int, Between(0, 1_024)] = 0
    transform_head: bool = False
    output_bias: bool = False
    has_pooler: bool = False
    has_next_sentence: bool = False
    kept_heads: KeptHeads | None = None
    n_labels: Annotated[int, Between(0, 100_000)] = 0
    pooling: Pooling = "attention"
    sentence_ends: tuple[int, ...] = ()
    sentence_encoder: SentenceEncoding = "none"
    opening: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()
    reads_pair: bool = False
    n_numbers: Annotated[int, Between(0, 65_536)] = 0
    patch_size: Annotated[int, Between(0, 1_024)] = 0
    picture_height: Annotated[int, Between(0, 1_024)] = 0
    picture_width: Annotated[int, Between(0, 1_024)] = 0
    n_projected: Annotated[int, Between(0, 65_536)] = 0
    slot_kind: SlotKind = "projected"
    copies_source: bool = False
    memory_tokens: Annotated[int, Between(0, 1_024)] = 0

    @property
    def head_width(self) -> int:
        return self.d_model // self.n_heads if self.d_head is None else self.d_head

    @property
    def weight_dropout(self) -> float:
        """Share of the attention weights dropped in training, given or default."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout

    @property
    def is_recurrent(self) -> bool:
        """Whether the body is made of recurrent cells."""
        return self.body != "transformer"

    @property
    def is_reversible(self) -> bool:
        """Whether layers have two streams, so that their input can be recomputed from their output."""
        return RESIDUALS[self.residual].n_streams == 2

    @property
    def has_inducing(self) -> bool:
        """Whether the encoder's tokens read inducing points, which read the tokens first."""
        return bool(self.n_projected and self.encoder_layers) and self.slot_kind == "inducing"

    @property
    def has_latents(self) -> bool:
        """Whether the encoder's layers are of latents, which read the tokens."""
        return bool(self.n_projected and self.encoder_layers) and self.slot_kind == "latents"

    @property
    def has_sites(self) -> bool:
        """Whether its layers mix tokens by attention."""
        return MIXERS[self.mixer].is_attention

    @property
    def joins_texts(self) -> bool:
        """Whether it reads two texts as one, `<s>` first `</s>` second `</s>` in two segments."""
        return self.has_next_sentence or (self.labels_texts and self.n_segments > 1 and not self.reads_pair)

    @property
    def labels_texts(self) -> bool:
        """Whether it predicts a label of a whole text, and no pieces."""
        return bool(self.n_labels) and self.pooling not in ("none", "pointer")

    @property
    def labels_tokens(self) -> bool:
        """Whether it predicts a label of every token, and no pieces."""
        return bool(self.n_labels) and self.pooling == "none"

    @property
    def points(self) -> bool:
        """Whether it predicts positions in the text, one or a start and an end, and no pieces."""
        return bool(self.n_labels) and self.pooling == "pointer"

    @property
    def patch_grid(self) -> tuple[int, int]:
        """Rows and columns of the patches of a picture; 0 if none is read, or if unknown so far."""
        size = max(1, self.patch_size)
        return self.picture_height // size, self.picture_width // size

    @property
    def n_channels(self) -> int:
        """Numbers of a pixel: 1 for grey, 3 for colour; 0 if no picture is read."""
        return self.n_numbers // self.patch_size**2 if self.patch_size else 0

    @property
    def n_patch_tokens(self) -> int:
        """The class token and the patches of a picture; 0 if none is read."""
        n_rows, n_columns = self.patch_grid
        return 1 + n_rows * n_columns if n_rows * n_columns else 0

    @property
    def up_rows(self) -> int:
        """Rows of the first feed-forward matrix: gates and values, if there are both."""
        return self.d_ff * (2 if self.activation in GATED else 1)

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last layer of each stack."""
        return not NORMS[self.norm].is_nothing and self.norm_place != "post"

    @property
    def kv_heads(self) -> int:
        """The number of key-value heads, given or default."""
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

    def own_layers(self, stack: str) -> range:
        """Number of layers in a stack with their own weights: of shared ones, one."""
        n_layers = self.encoder_layers if stack == "encoder" else self.decoder_layers
        return range(min(n_layers, 1) if self.shared_layers else n_layers)

    def layout(self, stack: str, layer: int) -> HeadLayout:
        """The heads of one site; pooling and matching have one, the second text is read like the first."""
        if self.n_labels and stack not in ("encoder", "decoder", "second", "read-in", "latents"):
            return build_layout((0,), n_heads=1, n_kv_heads=1)
        stack = "encoder" if stack == "second" else stack
        kept = dict(self.kept_heads or ()).get(site_name(stack, layer), tuple(range(self.n_heads)))
        return build_layout(kept, n_heads=self.n_heads, n_kv_heads=self.kv_heads)

    def sites_without_heads(self) -> tuple[SiteKey, ...]:
        """Attention modules that lost all their heads and so cannot be seen."""
        return tuple(key for key in self.site_keys() if not self.layout(*key).heads)

    def site_keys(self) -> tuple[SiteKey, ...]:
        """Stack and layer of every attention module, with heads or without, in the model's order."""
        if self.is_recurrent:
            return (("cross", 0),) if self.has_attention else ()
        n_cross = self.decoder_layers if self.form == "encoder-decoder" else 0
        n_decoder = self.decoder_layers if self.has_sites else 0
        stacks: tuple[tuple[Stack, int], ...] = (
            ("read-in", self.encoder_layers if self.has_inducing or self.has_latents else 0),
            ("encoder", 0 if self.has_latents else self.encoder_layers),
            ("latents", self.encoder_layers if self.has_latents else 0),
            ("decoder", n_decoder),
            ("cross", n_cross),
            *self._label_stacks(),
        )
        return tuple((stack, layer) for stack, n_layers in stacks for layer in range(n_layers))

    def headed_keys(self) -> tuple[SiteKey, ...]:
        """The sites with heads of their own: not those of pooling and matching, nor of a text read a second
        time.

        Nor of inducing points, whose heads go with those of their layer.
        """
        if not self.n_labels:
            return tuple(key for key in self.site_keys() if key[0] != "read-in")
        return tuple(key for key in self.site_keys() if key[0] in ("encoder", "decoder"))

    def _label_stacks(self) -> tuple[tuple[Stack, int], ...]:
        """The stacks of a label model, with their numbers of layers."""
        if not self.n_labels:
            return ()
        n_pools = int(self.pooling in ("attention", "hierarchical"))
        words: tuple[tuple[Stack, int], ...] = (("sentence", int(self.pooling == "hierarchical")),)
        if not self.reads_pair:
            return (*words, ("pool", n_pools))
        pair: tuple[tuple[Stack, int], ...] = (("second", self.encoder_layers), ("cross", 1), ("back", 1))
        return (*pair, ("pool", n_pools), ("second-pool", n_pools))

    @classmethod
    def from_dict(cls, values: Mapping[str, object], *, where: str = "model") -> Self:
        """Read and check a configuration; `where` precedes each key in messages.

        Raises RecipeError for unknown or missing keys and whatever `check` refuses.
        """
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise unknown_key(where, key, known)
        for key in ("form", "vocab_size"):
            if key not in values:
                raise RecipeError(
                    f"{where}.{key} is missing.",
                    expected=KEYS.expected(get_type_hints(cls, include_extras=True)[key]),
                    action=f"Add the key {key}.",
                )
        read = {k: kept_from_mapping(v) if k == "kept_heads" else v for k, v in values.items()}
        for key in ID_LISTS:
            if isinstance(read.get(key), list):
                read[key] = tuple(values[key])  # type: ignore[arg-type]
        config = cls(**read)  # type: ignore[arg-type]  # the types are what check() looks at
        config.check(where=where)
        return config

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON; keys without a value are left out."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        if self.kept_heads is not None:
            values["kept_heads"] = {name: list(heads) for name, heads in self.kept_heads}
        for key in ID_LISTS:
            values[key] = list(getattr(self, key))
        return values

    def check(self, *, where: str = "model") -> None:
        """Raise RecipeError for a value of the wrong type, out of range, or in conflict with another."""
        check_types(self, where)
        check_together(self, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """The parameters of a model, part by part; tied weights are counted once."""

    parts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        return sum(n for _, n in self.parts)

    def part(self, name: str) -> int:
        """One part; 0 if the model has no such part."""
        return dict(self.parts).get(name, 0)


def count_parameters(config: ModelConfig) -> ParameterCount:
    """The exact number of parameters, computed on paper."""
    if config.is_recurrent:
        return ParameterCount(parts=tuple((name, n) for name, n in recurrent_parts(config) if n))
    d = config.d_model
    n_stacks = bool(config.encoder_layers) + bool(config.decoder_layers)
    norm = NORMS[config.norm].n_learned(d, has_bias=config.bias)
    positions = POSITIONS[config.position]
    parts = (
        ("token embedding", 0 if config.n_numbers else config.vocab_size * d),
        ("given vectors", config.n_numbers * config.vocab_size),
        ("projection of vectors", _count_linear(config.n_numbers, d, config.bias) if config.n_numbers else 0),
        ("memory tokens", config.memory_tokens * d),
        ("latents", config.n_projected * d + norm if config.has_latents else 0),
        (positions.learned_part, n_stacks * positions.n_learned(config)),
        ("segment embedding", config.n_segments * d),
        ("embedding norms", n_stacks * norm if config.embedding_norm else 0),
        ("encoder", sum(_count_block(config, norm, "encoder", i) for i in config.own_layers("encoder"))),
        ("decoder", sum(_count_block(config, norm, "decoder", i) for i in config.own_layers("decoder"))),
        ("final norms", n_stacks * norm if config.has_final_norm else 0),
        ("pooling", _count_pooling(config)),
        ("matching", _count_linear(6 * d, d, False) + 2 * d * config.bias if config.reads_pair else 0),
        ("head", _count_head(config, norm)),
        ("pooler", _count_linear(d, d, config.bias) if config.has_pooler else 0),
        ("next sentence", _count_linear(d, 2, config.bias) if config.has_next_sentence else 0),
    )
    return ParameterCount(parts=tuple((name, n) for name, n in parts if n))


def check_fits(config: ModelConfig, available_bytes: int, *, is_training: bool = False) -> None:
    """Raise RecipeError if the model does not fit into memory.

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
        f"The model has {count.total:,} parameters and needs {bytes_text(needed_bytes)}"
        f"{' to be trained' if is_training else ''}; its largest part is the {largest[0]} "
        f"with {largest[1]:,}.",
        expected=f"at most the {bytes_text(available_bytes)} of free memory",
        action="Make d_model, d_ff, the layers or vocab_size smaller, or close other programs.",
    )


def _count_block(config: ModelConfig, norm: int, stack: str, layer: int) -> int:
    d, bias = config.d_model, config.bias
    n_branches = 1
    total = _count_attention(config, stack, layer)
    if stack == "decoder" and config.form == "encoder-decoder":
        n_branches += 1
        total += _count_attention(config, "cross", layer)
    if config.has_latents:
        n_branches += 1
        total += _count_attention(config, "read-in", layer)
    if config.has_feed_forward:
        n_branches += 1
        one = _count_linear(d, config.up_rows, bias) + _count_linear(config.d_ff, d, bias)
        total += max(1, config.n_experts) * one + d * config.n_experts
    return total + n_branches * norm * (2 if config.norm_place == "sandwich" else 1)


def _count_attention(config: ModelConfig, stack: str, layer: int) -> int:
    d, d_head, bias = config.d_model, config.head_width, config.bias
    if not config.has_sites:
        return MIXERS[config.mixer].n_learned(config)
    layout = config.layout(stack, layer)
    n_rows = (layout.n_heads + 2 * layout.n_kv_heads) * d_head
    total = _count_linear(d, n_rows, bias) + _count_linear(layout.n_heads * d_head, d, bias)
    total += layout.n_heads * SCORES[config.score].n_learned(d_head)
    if config.has_inducing and stack == "encoder":
        return 2 * total + config.n_projected * d + NORMS[config.norm].n_learned(d, has_bias=bias)
    if stack != "cross" and layout.heads:
        total += POSITIONS[config.position].n_learned_of_site(config, layout.n_heads)
    if config.span_limit and stack != "cross":
        total += layout.n_heads * (config.span_limit if config.span_kind == "offsets" else 1)
    if config.n_projected and config.slot_kind == "projected" and stack == "encoder" and layout.heads:
        total += 2 * config.n_projected * config.max_tokens
    return total


def _count_pooling(config: ModelConfig) -> int:
    d, bias = config.d_model, config.bias
    n_pools = {"attention": 1, "hierarchical": 2}.get(config.pooling, 0) if config.n_labels else 0
    gru = 3 * (d * (d + d // 2) + (2 * d if bias else 0))  # of both ways together, each d / 2 wide
    between = {"gru": gru, "dense": _count_linear(d, d, bias)}.get(config.sentence_encoder, 0)
    return n_pools * (_count_linear(d, d, bias) + d) + (between if n_pools else 0)


def _count_head(config: ModelConfig, norm: int) -> int:
    d = config.d_model
    if config.n_labels:
        return _count_linear(d, config.n_labels, bias=True)
    transform = _count_linear(d, d, config.bias) + norm if config.transform_head else 0
    transform += _count_linear(d, 1, bias=True) if config.copies_source else 0
    weight = 0 if config.tie_embeddings else config.vocab_size * d
    return transform + weight + (config.vocab_size if config.output_bias else 0)


def _count_linear(n_in: int, n_out: int, bias: bool) -> int:
    return n_in * n_out + (n_out if bias else 0)


N_GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def recurrent_parts(config: "ModelConfig") -> Iterator[tuple[str, int]]:
    """Every part with its number of parameters; a part may have none."""
    d, bias = config.d_model, config.bias
    yield "token embedding", config.vocab_size * d
    yield "encoder", sum(matrices + biases for matrices, biases in _encoder_cells(config))
    yield "decoder", sum(matrices + biases for matrices, biases in _decoder_cells(config))
    n_first = (2 if config.body == "lstm" else 1) * config.decoder_layers * d
    yield "first states", d * n_first + (n_first if bias else 0)
    if config.has_attention:
        yield "attention", _attention(config) + (_attention_biases(config) if bias else 0)
        yield "predicted position", _centre(config)
    elif config.feeds_context:
        yield "source vector", d * d + (d if bias else 0)
    yield "readout", _readout(config)
    transform = d * d + (d if bias else 0) if config.transform_head else 0
    norm = NORMS[config.norm].n_learned(d, has_bias=bias)
    weight = 0 if config.tie_embeddings else config.vocab_size * d
    head = transform + (norm if config.transform_head else 0) + weight
    yield "head", head + (config.vocab_size if config.output_bias else 0)


def recurrent_matrices(config: "ModelConfig") -> tuple[int, int]:
    """Numbers in the matrices applied to each source token, and to each target token."""
    d, layout = config.d_model, config.layout("cross", 0)
    if not config.has_attention:
        cells = sum(matrices for matrices, _ in _encoder_cells(config))
        return cells, sum(matrices for matrices, _ in _decoder_cells(config)) + _readout(config)
    n, k = layout.n_heads * config.head_width, layout.n_kv_heads * config.head_width
    score = layout.n_heads * SCORES[config.score].n_products(config.head_width)
    source = sum(matrices for matrices, _ in _encoder_cells(config)) + 2 * k * d
    target = sum(matrices for matrices, _ in _decoder_cells(config)) + _readout(config)
    return source, target + 2 * n * d + score + _centre(config)


def _encoder_cells(config: "ModelConfig") -> Iterator[tuple[int, int]]:
    """Numbers of the matrices and biases of each layer, both directions together."""
    for _ in range(config.encoder_layers):
        matrices, biases = _cell(config, config.d_model, config.d_model // 2)
        yield 2 * matrices, 2 * biases


def _decoder_cells(config: "ModelConfig") -> Iterator[tuple[int, int]]:
    for layer in range(config.decoder_layers):
        yield _cell(config, config.d_model * (2 if config.feeds_context and not layer else 1), config.d_model)


def _cell(config: "ModelConfig", n_in: int, width: int) -> tuple[int, int]:
    n_rows = N_GATES[config.body] * width
    return n_rows * (n_in + width), 2 * n_rows if config.bias else 0


def _attention(config: "ModelConfig") -> int:
    layout, d_head = config.layout("cross", 0), config.head_width
    matrices = (2 * layout.n_heads + 2 * layout.n_kv_heads) * d_head * config.d_model
    return matrices + layout.n_heads * SCORES[config.score].n_learned(d_head)


def _attention_biases(config: "ModelConfig") -> int:
    layout = config.layout("cross", 0)
    return (layout.n_heads + 2 * layout.n_kv_heads) * config.head_width + config.d_model


def _centre(config: "ModelConfig") -> int:
    if not config.local_reach:
        return 0
    return config.layout("cross", 0).n_heads * (config.head_width * config.d_model + config.head_width)


def _readout(config: "ModelConfig") -> int:
    return config.d_model**2 * (2 if config.feeds_context else 1)

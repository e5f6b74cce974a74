"""One Transformer with three forms: encoder, decoder, encoder–decoder.

    symbol   meaning                              shape
    ids      token ids                            [batch, n_tokens], int64
             of pictures: numbers of patches      [batch, n_tokens, n_numbers], int64
    valid    False where a token is padding       [batch, n_tokens], bool
    hidden   the stream after the last norm       [batch, n_tokens, d_model]
    logits   one number per piece                 [batch, n_tokens, vocab_size]

The names of parameters are those of saved models: changing one breaks every saved model.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnscope.nn.attention import Probe
from attnscope.nn.block import Block, BlockArguments, one_stream, through_reversible
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.config import ModelConfig
from attnscope.nn.copying import as_read, copied_pieces, ids_of, with_ids
from attnscope.nn.dropping import drop
from attnscope.nn.embedding_and_head import Embedding, as_vectors, make_head, n_memory_ids, unfilled_embedding
from attnscope.nn.layers import DistanceBias, Latents, Norm, make_norm
from attnscope.nn.masks import Pattern, build_rule
from attnscope.nn.own_module import OwnModule
from attnscope.nn.pooling import Matching, make_summary
from attnscope.nn.scores import Bias, Rotary, SlopeBias
from attnscope.nn.self_masks import SelfMask, build_self_mask
from attnscope.schemes.masks import MASKS
from attnscope.schemes.positions import POSITIONS

# Gradient checkpointing: what a block computed is thrown away and computed again for its gradients.


def through(block: nn.Module, x: Tensor, *, is_recomputed: bool, **choices: Any) -> Tensor:
    """The stream after one block; with `is_recomputed` and gradients, nothing is stored."""
    if not (is_recomputed and block.training and torch.is_grad_enabled()):
        stream: Tensor = block(x, **choices)
        return stream
    stream = checkpoint(block, x, use_reentrant=False, **choices)
    return stream


class Transformer(OwnModule):
    """Vaswani et al. 2017 with the choices of `ModelConfig`; all attention goes through `attend`.

    In the form encoder–decoder both stacks share the token embedding. Embeddings start unfilled; use
    `build_transformer` for a model that is to be trained, or load its weights.
    """

    rotary_cosines: Tensor | None
    rotary_sines: Tensor | None
    position_table: Tensor | None
    slopes: Tensor | None
    self_mask: SelfMask

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        config.check()
        self.config = config
        has_cross = config.form == "encoder-decoder"
        self.tokens = unfilled_embedding(config.vocab_size, config.n_numbers or config.d_model)
        self.tokens.weight.requires_grad_(not config.n_numbers)
        n_numbers, bias = config.n_numbers, config.bias
        self.projection = nn.Linear(n_numbers, config.d_model, bias=bias) if n_numbers else nn.Identity()
        has_encoder, has_decoder = config.encoder_layers > 0, config.decoder_layers > 0
        n_memory = config.memory_tokens
        self.memory = unfilled_embedding(n_memory, config.d_model) if n_memory else None
        self.encoder_embedding = Embedding(config, n_segments=config.n_segments) if has_encoder else None
        layouts = [config.layout("encoder", i) for i in range(config.encoder_layers)]
        self.encoder = nn.ModuleList(
            Block(config, stack="encoder", layer=i, has_cross=config.has_latents, layout=layout)
            for i, layout in enumerate(layouts)
        )
        self.latents = Latents(config) if config.has_latents else None
        self.decoder_embedding = Embedding(config, n_segments=0) if has_decoder else None
        self.decoder = nn.ModuleList(
            Block(
                config,
                stack="decoder",
                layer=i,
                has_cross=has_cross,
                layout=config.layout("decoder", i),
                cross_layout=config.layout("cross", i) if has_cross else None,
            )
            for i in range(config.decoder_layers)
        )
        self.encoder_relative = _distance_bias(config, is_causal=False) if has_encoder else None
        self.decoder_relative = _distance_bias(config, is_causal=True) if has_decoder else None
        self.encoder_norm = make_norm(config) if config.has_final_norm and has_encoder else None
        self.decoder_norm = make_norm(config) if config.has_final_norm and has_decoder else None
        self.head = make_head(config)
        self.summary = make_summary(config) if config.labels_texts else None
        self.matching = Matching(config) if config.reads_pair else None
        self.pooler = (
            nn.Linear(config.d_model, config.d_model, bias=config.bias) if config.has_pooler else None
        )
        self.next_sentence = (
            nn.Linear(config.d_model, 2, bias=config.bias) if config.has_next_sentence else None
        )
        self._n_axes = 3 if config.patch_size else 2
        self.is_recomputing = False
        self._batch_norms = [m for m in self.modules() if isinstance(m, Norm) and m.scheme.is_of_batch]
        self._scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        for name in ("rotary_cosines", "rotary_sines", "position_table", "slopes"):
            self.register_buffer(name, None, persistent=False)
        self.n_positions = config.max_tokens
        self.fill_tables()

    def _share_layers(self) -> None:
        """Make shared layers of a stack separate modules, with the parameters of the first."""
        for stack in (self.encoder, self.decoder) if self.config.shared_layers else ():
            for block in stack[1:]:
                for first, own in zip(stack[0].modules(), block.modules(), strict=True):
                    for name, parameter in first.named_parameters(recurse=False):
                        setattr(own, name, parameter)

    def fill_tables(self) -> None:
        """Compute the position tables, and join the weights of shared layers."""
        self._share_layers()
        config, device = self.config, self.tokens.weight.device
        self.self_mask = build_self_mask(config, self.n_positions)
        positions = POSITIONS[config.position]
        with torch.device("cpu"):  # whatever device a model is built on
            turns = positions.turns(self.n_positions, config)
            table = positions.table(self.n_positions, config.d_model)
            slopes = positions.slopes(config.n_heads)
        if turns is not None:
            self.rotary_cosines, self.rotary_sines = (turn.to(device) for turn in turns)
        self.position_table = None if table is None else table.to(device)
        self.slopes = None if slopes is None else slopes.to(device)

    @property
    def can_cache(self) -> bool:
        """Whether a text may be read in parts: if no first tokens look ahead, no experts take a share of the
        whole text, and positions do not depend on all earlier tokens.
        """
        has_share = bool(self.config.n_experts and self.config.capacity_factor)
        reads_row = POSITIONS[self.config.position].reads_row
        return not (MASKS[self.config.mask].has_prefix or has_share or reads_row)

    @property
    def can_read_past(self) -> bool:
        """Whether positions past the trained ones exist: not for learned ones."""
        is_projected = self.config.n_projected and not self.config.has_inducing
        return not POSITIONS[self.config.position].learns_table and not is_projected

    def reach_past(self, n_tokens: int) -> None:
        """Allow texts of `n_tokens`, though the model was never trained on such positions.

        Raises ValueError for learned positions: there are none past the last one.
        """
        if n_tokens <= self.n_positions:
            return
        if not self.can_read_past:
            is_learned = POSITIONS[self.config.position].learns_table
            what = "learned positions end" if is_learned else "the projection ends"
            raise ValueError(f"{what} at {self.config.max_tokens}")
        self.n_positions = n_tokens
        self.fill_tables()

    def encode(
        self,
        ids: Tensor,
        *,
        valid: Tensor | None = None,
        segments: Tensor | None = None,
        pattern: Pattern | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """The encoder's hidden stream; `segments` are ids of the shape of `ids`.

        `pattern` is a mask that stands in the place of the configuration's, for instance of edges.
        """
        if self.encoder_embedding is None:
            raise ValueError("a model of the form decoder has no encoder")
        for norm in self._batch_norms:
            norm.valid = valid
        x = self._embed(self.encoder_embedding, ids, segments)
        memory, memory_rule, n = None, None, ids.shape[1]
        if self.latents is not None:
            x, memory = self.latents(x)
            memory_rule, valid, n = build_rule(is_causal=False, key_valid=valid), None, x.shape[1]
        rule = self.self_mask.rule(n, n, is_causal=False, key_valid=valid, pattern=pattern, device=x.device)
        rotary, bias = self._rotary(n), self._bias(self.encoder_relative, n, n)
        choices: BlockArguments = {"rule": rule, "rotary": rotary, "bias": bias, "probe": probe}
        x = self._through(self.encoder, x, choices | {"memory": memory, "memory_rule": memory_rule})
        x = x if self.encoder_norm is None else self.encoder_norm(x)
        return with_ids(x, ids) if self.config.copies_source else x

    def decode(
        self,
        ids: Tensor,
        *,
        memory: Tensor | None = None,
        memory_valid: Tensor | None = None,
        valid: Tensor | None = None,
        pattern: Pattern | None = None,
        prefix: Tensor | None = None,
        probe: Probe | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """The decoder's hidden stream; `memory` is the encoder's, in the form encoder–decoder.

        With a cache, `ids` follow the tokens it holds, and only their rows are computed and returned;
        the memory must be the same each time. There is no padding then, and no prefix or pattern. `pattern`
        is as in `encode`, and causal besides; `prefix` is how many tokens of each text all may see, int64
        [batch], whatever the configuration's mask.
        """
        if self.decoder_embedding is None:
            raise ValueError("a model of the form encoder has no decoder")
        if (memory is None) == (self.config.form == "encoder-decoder"):
            raise ValueError(f"memory does not go with the form {self.config.form}")
        if cache is not None and not (self.can_cache and prefix is None and pattern is None):
            raise ValueError(
                "a text with a prefix, tree positions or a given mask is read at once and not read in parts"
            )
        first, n = 0 if cache is None else cache.n_tokens, ids.shape[-1]
        x = self._embed(self.decoder_embedding, ids, None, first)
        rule = self.self_mask.rule(
            n,
            first + n,
            # One token after others sees them all: attention is quickest without a rule.
            is_causal=first == 0 or n > 1,
            key_valid=valid,
            pattern=pattern,
            prefix=prefix,
            device=x.device,
        )
        memory_rule = build_rule(is_causal=False, key_valid=memory_valid)
        found: list[Tensor] | None = None
        source_ids: Tensor | None = None
        if memory is not None and self.config.copies_source:
            found, source_ids, memory = [], ids_of(memory), memory[..., : self.config.d_model]
        choices: BlockArguments = {
            "rule": rule,
            "rotary": self._rotary(n, first),
            "bias": self._bias(self.decoder_relative, n, first + n),
            "memory": memory,
            "memory_rule": memory_rule,
            "probe": probe,
            "cache": cache,
        }
        x = self._through(self.decoder, x, choices, found)
        if cache is not None:
            cache.note(*ids.shape)
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        if found is None or source_ids is None:
            return x
        weights = found[0] if found else x.new_zeros(len(x), 1, n, source_ids.shape[1])  # no head is left
        return torch.cat([x, copied_pieces(weights, source_ids, self.config.vocab_size).to(x)], dim=-1)

    def pool(self, hidden: Tensor) -> Tensor:
        """BERT's summary of a sequence from its first token, [B, d_model]; needs `has_pooler`."""
        if self.pooler is None:
            raise ValueError("the model has no pooler")
        pooled: Tensor = self.pooler(hidden[:, 0])
        return pooled.tanh()

    def next_sentence_logits(self, hidden: Tensor) -> Tensor:
        """Whether the second segment follows the first: logits of no (column 0) and yes (1), [B, 2].

        Read from the pooled first token (Devlin et al. 2018, section 3.1); needs `has_next_sentence`.
        """
        if self.next_sentence is None:
            raise ValueError("the model was never asked whether a sentence follows")
        logits: Tensor = self.next_sentence(self.pool(hidden))
        return logits

    def forward(
        self,
        ids: Tensor,
        *,
        target_ids: Tensor | None = None,
        valid: Tensor | None = None,
        target_valid: Tensor | None = None,
        segments: Tensor | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """Logits of each token: of `ids`, or of `target_ids` in the form encoder–decoder.

        Of a model that tells labels those of the whole text, [batch, n_labels], or of each token, [batch,
        n_tokens, n_labels]; `target_ids` are the second text of one that reads two.
        """
        if not self.config.labels_texts:
            if (target_ids is None) == (self.config.form == "encoder-decoder"):
                raise ValueError(f"target_ids does not go with the form {self.config.form}")
            if self.config.form == "decoder" and segments is not None:
                raise ValueError("a model of the form decoder takes no segments")
        hidden = self.told_from(
            ids, second=target_ids, valid=valid, second_valid=target_valid, segments=segments, probe=probe
        )
        return self.logits(hidden)

    def _through(
        self, blocks: nn.ModuleList, x: Tensor, choices: BlockArguments, found: list[Tensor] | None = None
    ) -> Tensor:
        """The stream after all layers of a stack; the last one adds its copying weights to `found`."""
        layers = cast("tuple[Block, ...]", tuple(blocks))
        is_reversible = layers[-1].is_reversible
        if is_reversible and self.training and torch.is_grad_enabled() and choices.get("probe") is None:
            return through_reversible(layers, x, choices)
        x = torch.cat((x / 2, x / 2), dim=-1) if is_reversible else x
        for block in layers[:-1]:
            x = through(block, x, is_recomputed=self.is_recomputing, **choices)
        is_recomputed = self.is_recomputing and found is None  # or its weights would be found twice
        x = through(layers[-1], x, is_recomputed=is_recomputed, **choices, found=found)
        return one_stream(layers[-1], x) if is_reversible else x

    def _embed(self, embedding: Embedding, ids: Tensor, segments: Tensor | None, first: int = 0) -> Tensor:
        n_most = self.n_positions - first
        if ids.ndim != self._n_axes or not 1 <= ids.shape[1] <= n_most:
            more = f", {self.config.n_numbers}" if self._n_axes == 3 else ""
            raise ValueError(f"ids are {list(ids.shape)}, expected [batch, 1 to {n_most}{more}]")
        if self.memory is not None:
            return self._embed_behind_memory(embedding, self.memory, ids, segments, first)
        if self.config.copies_source:
            ids = as_read(ids, self.config.vocab_size)
        x: Tensor = self.tokens(ids) if self._n_axes == 2 else as_vectors(ids, self.tokens.weight)
        x = self.projection(x)
        if self._scale != 1.0:
            x = x * self._scale
        return self._dropped(embedding(x, table=self.added_positions(ids), segments=segments, first=first))

    def added_positions(self, ids: Tensor) -> Tensor | None:
        """Fixed terms added to embeddings: [n_positions, d_model], or for each text [batch, n_tokens,
        d_model].
        """
        positions = POSITIONS[self.config.position]
        return positions.of_rows(ids, self.config) if positions.reads_row else self.position_table

    def _embed_behind_memory(
        self, embedding: Embedding, memory: nn.Embedding, ids: Tensor, segments: Tensor | None, first: int
    ) -> Tensor:
        n_pieces = self.config.vocab_size
        n = n_memory_ids(ids, n_pieces)  # in front, or none: of a text that goes on, or of one without them
        x = self._scale * self.tokens(ids[:, n:])
        n_before = max(0, first - len(memory.weight)) if first else 0
        segments = None if segments is None else segments[:, n:]
        x = embedding(x, table=self.added_positions(ids[:, n:]), segments=segments, first=n_before)
        known = self._scale * memory(ids[:, :n] - n_pieces)
        return self._dropped(torch.cat([known, x], dim=1))

    def _dropped(self, x: Tensor) -> Tensor:
        return drop(x, self.config.dropout) if self.config.dropout and self.training else x

    def _bias(self, learned: DistanceBias | None, n_queries: int, n_keys: int) -> Bias | None:
        if self.slopes is not None:
            return SlopeBias(slopes=self.slopes)
        return None if learned is None else learned.bias(n_queries, n_keys)

    def _rotary(self, n_tokens: int, first: int = 0) -> Rotary | None:
        if self.rotary_cosines is None or self.rotary_sines is None:
            return None
        part = slice(first, first + n_tokens)
        return self.rotary_cosines[part], self.rotary_sines[part]


def _distance_bias(config: ModelConfig, *, is_causal: bool) -> DistanceBias | None:
    has_any = POSITIONS[config.position].bias_shapes(config)
    return DistanceBias(config, is_causal=is_causal) if has_any else None

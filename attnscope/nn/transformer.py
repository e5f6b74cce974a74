"""One Transformer with three forms: encoder, decoder, encoder–decoder.

    symbol   meaning                              shape
    ids      token ids                            [batch, n_tokens], int64
    valid    False where a token is padding       [batch, n_tokens], bool
    hidden   the stream after the last norm       [batch, n_tokens, d_model]
    logits   one number per piece                 [batch, n_tokens, vocab_size]

The names of parameters are those of saved models: changing one breaks every saved model.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.nn.attention import Probe
from attnscope.nn.config import ModelConfig
from attnscope.nn.ends import Embedding, Head, unfilled_embedding
from attnscope.nn.layers import Block, BlockShape, Rotary
from attnscope.nn.masks import build_rule
from attnscope.nn.positions import rotary_tables, sinusoidal_table
from attnscope.nn.weights import fill_weights
from attnscope.records.sites import Site


class Transformer(nn.Module):
    """Vaswani et al. 2017 with the choices of `ModelConfig`; all attention goes through `attend`.

    In the form encoder–decoder both stacks share the token embedding. Embeddings start unfilled; use
    `build_transformer` for a model that is to be trained, or load its weights.
    """

    rotary_cosines: Tensor | None
    rotary_sines: Tensor | None
    sinusoids: Tensor | None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        config.check()
        self.config = config
        shape = _block_shape(config)
        has_cross = config.form == "encoder-decoder"
        self.tokens = unfilled_embedding(config.vocab_size, config.d_model)
        has_encoder, has_decoder = config.encoder_layers > 0, config.decoder_layers > 0
        self.encoder_embedding = (
            Embedding(config, shape, n_segments=config.n_segments) if has_encoder else None
        )
        self.encoder = nn.ModuleList(
            Block(shape, stack="encoder", layer=i, has_cross=False) for i in range(config.encoder_layers)
        )
        self.decoder_embedding = Embedding(config, shape, n_segments=0) if has_decoder else None
        self.decoder = nn.ModuleList(
            Block(shape, stack="decoder", layer=i, has_cross=has_cross) for i in range(config.decoder_layers)
        )
        has_final = config.norm_place == "pre"
        self.encoder_norm = shape.make_norm() if has_final and has_encoder else None
        self.decoder_norm = shape.make_norm() if has_final and has_decoder else None
        self.head = Head(config, shape)
        self.pooler = (
            nn.Linear(config.d_model, config.d_model, bias=config.bias) if config.has_pooler else None
        )
        self._scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        for name in ("rotary_cosines", "rotary_sines", "sinusoids"):
            self.register_buffer(name, None, persistent=False)
        self.fill_tables()

    def fill_tables(self) -> None:
        """Compute the position tables; call again after `to_empty`, which forgets them."""
        config, device = self.config, self.tokens.weight.device
        if config.position == "rotary":
            cosines, sines = rotary_tables(config.max_tokens, config.d_head, config.rope_base)
            self.rotary_cosines, self.rotary_sines = cosines.to(device), sines.to(device)
        elif config.position == "sinusoidal":
            self.sinusoids = sinusoidal_table(config.max_tokens, config.d_model).to(device)

    def sites(self) -> tuple[Site, ...]:
        """Every attention module: encoder layers, decoder layers, then cross layers."""
        config = self.config
        n_cross = config.decoder_layers if config.form == "encoder-decoder" else 0
        stacks = (("encoder", config.encoder_layers), ("decoder", config.decoder_layers), ("cross", n_cross))
        return tuple(
            Site(stack=stack, layer=layer, n_heads=config.n_heads, n_kv_heads=config.kv_heads)  # type: ignore[arg-type]
            for stack, n_layers in stacks
            for layer in range(n_layers)
        )

    def encode(
        self,
        ids: Tensor,
        *,
        valid: Tensor | None = None,
        segments: Tensor | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """The encoder's hidden stream; `segments` are ids of the shape of `ids`."""
        if self.encoder_embedding is None:
            raise ValueError("a model of the form decoder has no encoder")
        x = self._embed(self.encoder_embedding, ids, segments)
        rule = build_rule(is_causal=False, key_valid=valid)
        rotary = self._rotary(ids.shape[1])
        for block in self.encoder:
            x = block(x, rule=rule, rotary=rotary, probe=probe)
        return x if self.encoder_norm is None else self.encoder_norm(x)

    def decode(
        self,
        ids: Tensor,
        *,
        memory: Tensor | None = None,
        memory_valid: Tensor | None = None,
        valid: Tensor | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """The decoder's hidden stream; `memory` is the encoder's, in the form encoder–decoder."""
        if self.decoder_embedding is None:
            raise ValueError("a model of the form encoder has no decoder")
        if (memory is None) == (self.config.form == "encoder-decoder"):
            raise ValueError(f"memory does not go with the form {self.config.form}")
        x = self._embed(self.decoder_embedding, ids, None)
        rule = build_rule(is_causal=True, key_valid=valid)
        memory_rule = build_rule(is_causal=False, key_valid=memory_valid)
        rotary = self._rotary(ids.shape[1])
        for block in self.decoder:
            x = block(x, rule=rule, rotary=rotary, memory=memory, memory_rule=memory_rule, probe=probe)
        return x if self.decoder_norm is None else self.decoder_norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """One number per piece for any rows of a hidden stream, [..., vocab_size]."""
        logits: Tensor = self.head(hidden, self.tokens.weight)
        return logits

    def pool(self, hidden: Tensor) -> Tensor:
        """BERT's summary of a sequence from its first token, [B, d_model]; needs `has_pooler`."""
        if self.pooler is None:
            raise ValueError("the model has no pooler")
        pooled: Tensor = self.pooler(hidden[:, 0])
        return pooled.tanh()

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
        """Logits of each token: of `ids`, or of `target_ids` in the form encoder–decoder."""
        form = self.config.form
        if (target_ids is None) == (form == "encoder-decoder"):
            raise ValueError(f"target_ids does not go with the form {form}")
        if form == "decoder":
            if segments is not None:
                raise ValueError("a model of the form decoder takes no segments")
            return self.logits(self.decode(ids, valid=valid, probe=probe))
        hidden = self.encode(ids, valid=valid, segments=segments, probe=probe)
        if target_ids is None:
            return self.logits(hidden)
        hidden = self.decode(target_ids, memory=hidden, memory_valid=valid, valid=target_valid, probe=probe)
        return self.logits(hidden)

    def _embed(self, embedding: Embedding, ids: Tensor, segments: Tensor | None) -> Tensor:
        if ids.ndim != 2 or not 1 <= ids.shape[1] <= self.config.max_tokens:
            raise ValueError(f"ids are {list(ids.shape)}, expected [batch, 1 to {self.config.max_tokens}]")
        x: Tensor = self.tokens(ids)
        if self._scale != 1.0:
            x = x * self._scale
        x = embedding(x, table=self.sinusoids, segments=segments)
        if self.config.dropout and self.training:
            return F.dropout(x, self.config.dropout)
        return x

    def _rotary(self, n_tokens: int) -> Rotary | None:
        if self.rotary_cosines is None or self.rotary_sines is None:
            return None
        return self.rotary_cosines[:n_tokens], self.rotary_sines[:n_tokens]


def build_transformer(config: ModelConfig, seed: int) -> Transformer:
    """A model ready to be trained, in float32 on the CPU; equal seeds give equal weights.

    The first weights are those of `fill_weights`; the program's own random numbers are not touched.
    """
    model = empty_transformer(config)
    fill_weights(model, config, torch.Generator(device="cpu").manual_seed(seed))
    return model


def empty_transformer(config: ModelConfig, device: str | torch.device = "cpu") -> Transformer:
    """A model whose weights are whatever the memory held: for those who load every one of them next."""
    with torch.device("meta"):
        model = Transformer(config)
    model = model.to_empty(device=device)
    model.fill_tables()
    return model


def _block_shape(config: ModelConfig) -> BlockShape:
    return BlockShape(
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_kv_heads=config.kv_heads,
        d_ff=config.d_ff,
        bias=config.bias,
        dropout=config.dropout,
        activation=config.activation,
        norm=config.norm,
        norm_place=config.norm_place,
        norm_epsilon=config.norm_epsilon,
    )

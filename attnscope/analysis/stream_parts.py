"""What one pass of our Transformer wrote into the stream at one position, part by part.

| symbol  | meaning                                            | shape              |
|---------|----------------------------------------------------|--------------------|
| vectors | what each part adds to the stream, float64         | [n_parts, d_model] |
| inputs  | what a norm read at this position, float64         | [d_model]          |

The parts of the stack that predicts, in order, with the norms that the stream itself passes through: all of
a post-norm model, the last one of a pre-norm model. A head's part is its output times its own columns of the
projection; the projection's bias is a part of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnscope.analysis.model_adapter import Batch, OwnSubject, TensorGates, predicting_stack
from attnscope.analysis.reading import watched_heads
from attnscope.errors import UserError
from attnscope.nn.block import Block
from attnscope.nn.layers import NoHeads
from attnscope.nn.norms import Norm
from attnscope.nn.precision import exact
from attnscope.records.attribution import PartKind
from attnscope.records.sites import HeadRef, SiteKey, Stack
from attnscope.schemes.norms import NORMS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Addition:
    """One part: its name and the vector it adds."""

    label: str
    kind: PartKind
    vector: Tensor
    layer: int = -1
    head: HeadRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassedNorm:
    """A norm on the stream's way, with the scale it had in this run."""

    label: str
    module: Norm
    inputs: Tensor
    layer: int = -1

    def frozen_scale(self) -> Tensor:
        """1/σ of this run: what LayerNorm or RMSNorm multiplied by, before its weight."""
        return self.module.scheme.scale(self.inputs, self.module)

    def pull_back(self, direction: Tensor) -> Tensor:
        """The direction before the norm that has the same product as `direction` after it, scale frozen."""
        gain = self.module.scheme.gain(self.module)
        before = direction * self.frozen_scale() * (1.0 if gain is None else exact(gain.detach()))
        return before - before.mean() if self.module.scheme.is_centred else before

    @property
    def bias(self) -> Tensor | None:
        """What the norm adds."""
        added = self.module.scheme.added(self.module)
        return None if added is None else exact(added.detach())


Part = Addition | PassedNorm


def stream_parts(
    subject: OwnSubject, batch: Batch, position: int, gates: TensorGates | None = None
) -> tuple[list[Part], Tensor]:
    """The parts at one position of a batch of one, and the hidden stream there, [d_model].

    Raises UserError for a head with a layer of its own (BERT's), which no sum of parts goes through.
    """
    if subject.module.head.transform is not None:
        raise UserError(
            "The model's output passes through one more layer with an activation.",
            expected="logits that are a sum over the parts of the stream",
            action="Use activation patching or relevance for this model.",
        )
    _refuse_other_streams(subject)
    stack = predicting_stack(subject.form)
    blocks = [block for block in subject.blocks(stack) if isinstance(block, Block)]
    sites = [site.key for site in subject.sites if site.stack in (stack, "cross")]
    with subject.studying(), _watched(_watched_modules(subject, stack, blocks), position) as seen:
        with watched_heads(subject, sites) as joined:
            hidden = exact(subject.hidden(batch, gates)[0, position])
        parts = list(_embedding_parts(subject, batch, stack, position, seen))
        for layer, block in enumerate(blocks):
            parts += _block_parts(subject, block, stack, layer, position, joined, seen)
        final = subject.module.encoder_norm if stack == "encoder" else subject.module.decoder_norm
        if final is not None:
            parts.append(PassedNorm(label="last norm", module=final, inputs=seen[final][0]))
    return parts, hidden


def _refuse_other_streams(subject: OwnSubject) -> None:
    config = subject.module.config
    if not config.has_residual or (config.norm_place == "sandwich" and not NORMS[config.norm].is_nothing):
        raise UserError(
            "What the parts of this model add passes through a norm or replaces the stream.",
            expected="residuals, and norms before or after them (norm_place pre or post)",
            action="Use activation patching or relevance for this model.",
        )


def _watched_modules(subject: OwnSubject, stack: Stack, blocks: list[Block]) -> list[nn.Module]:
    module = subject.module
    embedding = module.encoder_embedding if stack == "encoder" else module.decoder_embedding
    final = module.encoder_norm if stack == "encoder" else module.decoder_norm
    found: list[nn.Module | None] = [final, None if embedding is None else embedding.norm]
    for block in blocks:
        found += [block.attention_norm, block.cross_norm, block.feed_forward_norm]
        found += [block.attention, block.cross, block.feed_forward]
    return [one for one in found if one is not None]


@contextmanager
def _watched(modules: list[nn.Module], position: int) -> Iterator[dict[nn.Module, tuple[Tensor, Tensor]]]:
    """What each module read and gave at one position of the first text, float64 [d_model]."""
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def after(module: nn.Module, arguments: tuple[Tensor, ...], result: Tensor) -> None:
        seen[module] = (exact(arguments[0][0, position].detach()), exact(result[0, position].detach()))

    handles = [module.register_forward_hook(after) for module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _embedding_parts(
    subject: OwnSubject,
    batch: Batch,
    stack: Stack,
    position: int,
    seen: dict[nn.Module, tuple[Tensor, Tensor]],
) -> Iterator[Part]:
    module, config = subject.module, subject.module.config
    ids = batch.ids if batch.target_ids is None else batch.target_ids
    scale = config.d_model**0.5 if config.scale_embeddings else 1.0
    token = exact(module.tokens.weight.detach()[ids[0, position]]) * scale
    yield Addition(label="token", kind="embedding", vector=token)
    embedding = module.encoder_embedding if stack == "encoder" else module.decoder_embedding
    if embedding is None:
        raise ValueError(f"the model has no {stack}")
    if embedding.positions is not None:
        yield Addition(
            label="position", kind="embedding", vector=exact(embedding.positions.weight.detach()[position])
        )
    elif module.position_table is not None:
        yield Addition(label="position", kind="embedding", vector=exact(module.position_table[position]))
    if embedding.segments is not None:
        segment = 0 if batch.segments is None else int(batch.segments[0, position])
        vector = exact(embedding.segments.weight.detach()[segment])
        yield Addition(label="segment", kind="embedding", vector=vector)
    if embedding.norm is not None:
        yield PassedNorm(label="embedding norm", module=embedding.norm, inputs=seen[embedding.norm][0])


def _block_parts(
    subject: OwnSubject,
    block: Block,
    stack: Stack,
    layer: int,
    position: int,
    joined: dict[SiteKey, Tensor],
    seen: dict[nn.Module, tuple[Tensor, Tensor]],
) -> Iterator[Part]:
    """The parts of one layer; a post-norm layer's norms stand behind what they read."""
    steps: list[tuple[SiteKey | None, nn.Module | None, Norm | None]] = [
        ((stack, layer), block.attention, block.attention_norm),
        (("cross", layer), block.cross, block.cross_norm),
        (None, block.feed_forward, block.feed_forward_norm),
    ]
    for site, module, norm in steps:
        if module is None or norm is None:
            continue
        if site is None:
            yield Addition(
                label=f"L{layer} feed-forward", kind="feed-forward", vector=seen[module][1], layer=layer
            )
        elif isinstance(module, NoHeads):
            yield Addition(label=f"L{layer} {site[0]} bias", kind="bias", vector=seen[module][1], layer=layer)
        else:
            yield from _head_parts(subject, site, joined[site][0, position])
        if not block.is_pre:
            yield PassedNorm(label=f"L{layer} norm", module=norm, inputs=seen[norm][0], layer=layer)


def _head_parts(subject: OwnSubject, site: SiteKey, joined: Tensor) -> Iterator[Addition]:
    stack, layer = site
    projection = subject.projection(site)
    n_heads = next(one.n_heads for one in subject.sites if one.key == site)
    outputs = exact(joined).reshape(n_heads, -1)  # [H, D]
    weight = exact(projection.weight.detach()).reshape(-1, *outputs.shape)  # [d_model, H, D]
    vectors = torch.einsum("hd,mhd->hm", outputs, weight)
    has_others = any(one.stack == "cross" for one in subject.sites)
    for index in range(n_heads):
        head = HeadRef(stack=stack, layer=layer, head=index)
        label = f"{stack} {head.label}" if has_others else head.label
        yield Addition(label=label, kind="head", vector=vectors[index], layer=layer, head=head)
    if projection.bias is not None:
        label = f"L{layer} {stack} bias"
        yield Addition(label=label, kind="bias", vector=exact(projection.bias.detach()), layer=layer)

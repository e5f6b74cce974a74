"""From a configuration to its network, whatever its body, and the initial weights.

The first weights of a model that is to be trained.

Pre-norm models start as GPT-2 does (Radford et al. 2019): normal weights with a standard deviation of
0.02 at d_model 768, scaled by sqrt(768 / d_model) for other widths so that a product of any width
starts with the same variance; the projections back into the stream are divided by the square root of
the number of such projections in their stack. Post-norm models start with Xavier's uniform weights
(Glorot and Bengio 2010), queries, keys and values each as a matrix of its own. Embeddings are normal
with 0.02, or with 1 / sqrt(d_model) where the model multiplies them by sqrt(d_model)
(Vaswani et al. 2017, section 3.4). Biases are 0 and norms 1. A sandwich starts as pre-norm does, but for the
division, which its last norms would undo; so does a model without residuals, which would fade.

Recurrent cells start with an orthogonal matrix from state to state for each gate (Saxe et al. 2014; Bahdanau
et al. 2014, appendix B.1), with Xavier's from their inputs, and an LSTM forgets little (bias 1, Jozefowicz
et al. 2015). Other matrices of a recurrent model, which has no norms, start with Xavier's weights too.
"""

import math
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.overrides import TorchFunctionMode

from attnscope.nn.block import Block
from attnscope.nn.config import GATED, ModelConfig
from attnscope.nn.embedding_and_head import Head
from attnscope.nn.layers import (
    CrossAttention,
    DistanceBias,
    InducedAttention,
    NoHeads,
    Norm,
    Projection,
    SelfAttention,
)
from attnscope.nn.masks import Centre
from attnscope.nn.mixing import Convolution, Recurrence
from attnscope.nn.own_module import OwnModule
from attnscope.nn.pooling import AttentionPool
from attnscope.nn.recurrent import Recurrent
from attnscope.nn.scores import Scoring
from attnscope.nn.transformer import Transformer


class _Unfilled(TorchFunctionMode):
    """Skips torch's own initialisation: our weights are filled later, once they have memory."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        is_first_weights = getattr(function, "__module__", None) == "torch.nn.init"
        return given["tensor"] if is_first_weights else function(*args, **given)


def unfilled_own(config: ModelConfig) -> OwnModule:
    """The network on the device "meta": without any memory for its weights."""
    with torch.device("meta"), _Unfilled():
        return Recurrent(config) if config.is_recurrent else Transformer(config)


def empty_own(config: ModelConfig, device: str | torch.device = "cpu") -> OwnModule:
    """A network with uninitialised weights, for callers who load every one of them next."""
    module = unfilled_own(config)
    module.take_memory(device)
    return module


def build_own(config: ModelConfig, seed: int) -> OwnModule:
    """A network ready for training, in float32 on the CPU; equal seeds give equal weights.

    The first weights are those of `fill_weights`; the program's own random numbers are not touched.
    """
    module = empty_own(config)
    fill_weights(module, config, torch.Generator(device="cpu").manual_seed(seed))
    return module


def build_transformer(config: ModelConfig, seed: int) -> Transformer:
    """The same for a configuration that is not recurrent."""
    module = build_own(config, seed)
    if not isinstance(module, Transformer):
        raise ValueError(f"the body {config.body!r} is no Transformer")
    return module


@torch.no_grad()
def fill_weights(model: nn.Module, config: ModelConfig, generator: Generator) -> None:
    """Initialise every parameter of a network of this configuration."""
    for name, module in model.named_modules():
        match module:
            case nn.Embedding():
                # Only the tokens are scaled up when they are read, positions and segments are not.
                is_scaled = config.scale_embeddings and name in ("tokens", "memory")
                module.weight.normal_(std=config.d_model**-0.5 if is_scaled else 0.02, generator=generator)
            case Norm():
                module.fill()
            case nn.Linear():
                _fill_weight(module.weight, config, generator)
                _zero(module.bias)
            case NoHeads():
                _zero(module.bias)
            case Scoring():
                module.fill(generator)
            case Centre():
                module.fill(generator)
            case nn.RNNBase() | nn.RNNCellBase():
                _fill_cells(module, generator)
            case AttentionPool() | Projection() | InducedAttention() | Recurrence() | Convolution():
                module.fill(generator)
            case DistanceBias():
                module.fill(generator)
            case Head():
                if module.weight is not None:
                    module.weight.normal_(std=_normal_std(config), generator=generator)
                _zero(module.bias)
    # Blocks come last: products made of several matrices are filled again, each matrix by itself.
    for module in model.modules():
        if isinstance(module, Block) and module.layer in config.own_layers(module.stack):
            _fill_block(module, config, generator)


def _fill_cells(cells: nn.RNNBase | nn.RNNCellBase, generator: Generator) -> None:
    n_gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[type(cells).__name__.removesuffix("Cell")]
    for name, parameter in cells.named_parameters():
        width = len(parameter) // n_gates
        if name.startswith("bias"):
            parameter.zero_()
            if n_gates == 4 and name.startswith("bias_ih"):
                parameter[width : 2 * width] = 1.0
        for part in torch.split(parameter, width) if name.startswith("weight") else ():
            if name.startswith("weight_hh"):
                nn.init.orthogonal_(part, generator=generator)
            else:
                bound = math.sqrt(6.0 / sum(part.shape))
                part.uniform_(-bound, bound, generator=generator)


def _zero(bias: Tensor | None) -> None:
    if bias is not None:
        bias.zero_()


def _fill_block(block: Block, config: ModelConfig, generator: Generator) -> None:
    is_encoder = block.stack == "encoder"
    n_layers = config.encoder_layers if is_encoder else config.decoder_layers
    n_branches = n_layers * sum(
        part is not None for part in (block.attention, block.cross, block.feed_forward)
    )
    is_adding_up = block.is_pre and block.has_residual and not block.is_sandwich
    shrink = 1.0 / math.sqrt(n_branches) if is_adding_up else 1.0
    if isinstance(block.attention, SelfAttention):
        n, k = block.attention.n_heads, block.attention.n_kv_heads
        _fill_parts(block.attention.qkv.weight, _head_rows(config, (n, k, k)), config, generator)
    if isinstance(block.attention, SelfAttention | Recurrence | Convolution | InducedAttention):
        block.attention.output.weight.mul_(shrink)
    if isinstance(block.attention, InducedAttention):
        for site in (block.attention.read_in, block.attention.read_out):
            k = site.n_kv_heads
            _fill_parts(site.kv.weight, _head_rows(config, (k, k)), config, generator)
    if isinstance(block.cross, CrossAttention):
        k = block.cross.n_kv_heads
        _fill_parts(block.cross.kv.weight, _head_rows(config, (k, k)), config, generator)
        block.cross.output.weight.mul_(shrink)
    if block.feed_forward is None:
        return
    for part in block.feed_forward.parts:
        if config.activation in GATED:
            _fill_parts(part.up.weight, [config.d_ff, config.d_ff], config, generator)
        part.down.weight.mul_(shrink)


def _head_rows(config: ModelConfig, n_heads: tuple[int, ...]) -> list[int]:
    return [n * config.head_width for n in n_heads]


def _fill_parts(weight: Tensor, sizes: list[int], config: ModelConfig, generator: Generator) -> None:
    for part in torch.split(weight, sizes):
        _fill_weight(part, config, generator)


def _fill_weight(weight: Tensor, config: ModelConfig, generator: Generator) -> None:
    if config.norm_place != "post" and not config.is_recurrent:
        weight.normal_(std=_normal_std(config), generator=generator)
    else:
        bound = math.sqrt(6.0 / (weight.shape[0] + weight.shape[1]))
        weight.uniform_(-bound, bound, generator=generator)


def _normal_std(config: ModelConfig) -> float:
    return 0.02 * math.sqrt(768 / config.d_model)

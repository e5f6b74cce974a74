"""Rank collapse: how fast tokens become alike when skips and feed-forward layers are taken out.

| symbol | meaning                                             | shape               |
|--------|-----------------------------------------------------|---------------------|
| X      | the stream, of one text                             | [n_tokens, d_model] |
| res    | X − 1 · mean over tokens of X                       | [n_tokens, d_model] |
| ratio  | ‖res(X)‖ / ‖X‖ (Frobenius); 0: all tokens alike     | one number          |

Dong, Cordonnier and Loukas 2021: with attention alone the residual falls doubly exponentially with depth;
skips prevent it, feed-forward layers slow it down. The layers of the opened model run one after the other
with its own weights and norms; what is off adds nothing. With everything on this is the model's own pass.
Models of Hugging Face's library are run as `huggingface/skips.py` says.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from attnscope.analysis.model_adapter import OwnSubject, TokenBatch, own_subject, telling_subject
from attnscope.analysis.reading import batch_of
from attnscope.errors import UserError
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.skips import streams_without
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.nn.block import Block
from attnscope.records.redundancy import CollapseCurve
from attnscope.records.sites import Stack

Ratios = Callable[[bool, bool], tuple[float, ...]]
"""The ratio of the input and after each layer, by whether there are skips and feed-forward."""
SETTINGS: tuple[tuple[bool, bool], ...] = ((True, True), (True, False), (False, True), (False, False))
"""Whether there are skips, and whether there is feed-forward: all four."""


def rank_collapse(
    model: Model,
    text: str,
    target: str | None = None,
    stack: Stack | None = None,
    settings: Iterable[tuple[bool, bool]] = SETTINGS,
) -> tuple[CollapseCurve, ...]:
    """The ratio of the input and after each layer, for each setting of (skips, feed-forward).

    `stack` None is the encoder where there is one. Raises UserError for a decoder with cross-attention,
    which brings in another text at each layer, and for a text of a single token.
    """
    subject = telling_subject(model)
    stack = stack or ("decoder" if subject.form == "decoder" else "encoder")
    if stack not in ("encoder", "decoder") or (stack == "decoder" and subject.form != "decoder"):
        raise UserError(
            f"The stack '{stack}' of {model.info.name} reads more than one text.",
            expected="a stack of self-attention alone",
            action="Choose the encoder.",
        )
    inputs = model.encode(text, target)
    if len(inputs.source) < 2:
        raise UserError("One token alone cannot become like others.", action="Give a longer text.")
    network = model.network
    if isinstance(network, HuggingFaceNetwork):
        ratios = _foreign_ratios(network, inputs, stack)
    else:
        ratios = _own_ratios(own_subject(model), stack, batch_of(inputs, model.device))
    return tuple(
        CollapseCurve(
            stack=stack,
            has_skips=has_skips,
            has_feed_forward=has_feed_forward,
            ratios=ratios(has_skips, has_feed_forward),
        )
        for has_skips, has_feed_forward in settings
    )


def residual_ratio(x: Tensor) -> float:
    """‖res(X)‖ / ‖X‖ of a stream [n_tokens, d_model], in float64."""
    wide = x.detach().cpu().double()
    return float((wide - wide.mean(dim=0)).norm() / wide.norm())


def run_block(
    block: Block, x: Tensor, choices: dict[str, Any], *, has_skips: bool, has_feed_forward: bool
) -> Tensor:
    """One layer of self-attention with parts of it off; with both on it is the block itself."""
    change = block.attention(block.read(x, "attention"), **choices)
    x = block.join(x, change, "attention", has_skip=has_skips)
    if not has_feed_forward or block.feed_forward is None:
        return x
    change = block.feed_forward(block.read(x, "feed_forward"))
    return block.join(x, change, "feed_forward", has_skip=has_skips)


def _first_call(subject: OwnSubject, block: Block, batch: TokenBatch) -> tuple[Tensor, dict[str, Any]]:
    """What the first block of a stack reads in a pass: the stream, and what its attention is told."""
    calls: list[tuple[Tensor, dict[str, Any]]] = []

    def before(_: nn.Module, arguments: tuple[Tensor, ...], named: dict[str, Any]) -> None:
        calls.append(
            (arguments[0], {name: named[name] for name in ("rule", "rotary", "bias") if name in named})
        )

    handle = block.register_forward_pre_hook(before, with_kwargs=True)
    try:
        subject.hidden(batch)
    finally:
        handle.remove()
    return calls[0]


def _own_ratios(subject: OwnSubject, stack: Stack, batch: TokenBatch) -> Ratios:
    blocks = [block for block in subject.blocks(stack) if isinstance(block, Block)]
    if subject.module.config.is_reversible:
        raise UserError(
            "Reversible layers have two streams, of which each keeps the other alive.",
            expected="a model with one residual stream",
            action='Choose a model whose residual is "plain".',
        )
    with subject.studying():
        first, choices = _first_call(subject, blocks[0], batch)

    def ratios(has_skips: bool, has_feed_forward: bool) -> tuple[float, ...]:
        x, found = first, [residual_ratio(first[0])]
        with subject.studying():
            for block in blocks:
                x = run_block(block, x, choices, has_skips=has_skips, has_feed_forward=has_feed_forward)
                found.append(residual_ratio(x[0]))
        return tuple(found)

    return ratios


def _foreign_ratios(network: HuggingFaceNetwork, inputs: Inputs, stack: Stack) -> Ratios:
    def ratios(has_skips: bool, has_feed_forward: bool) -> tuple[float, ...]:
        streams = streams_without(
            network, inputs, stack, has_skips=has_skips, has_feed_forward=has_feed_forward
        )
        return tuple(residual_ratio(stream) for stream in streams)

    return ratios

"""Rank collapse: how fast tokens become alike when skips and feed-forward layers are taken out.

| symbol | meaning                                             | shape               |
|--------|-----------------------------------------------------|---------------------|
| X      | the stream, of one text                             | [n_tokens, d_model] |
| res    | X − 1 · mean over tokens of X                       | [n_tokens, d_model] |
| ratio  | ‖res(X)‖ / ‖X‖ (Frobenius); 0: all tokens alike     | one number          |

Dong, Cordonnier and Loukas 2021: with attention alone the residual falls doubly exponentially with depth;
skips prevent it, feed-forward layers slow it down. The layers of the opened model run one after the other
with its own weights and norms; what is off adds nothing. With everything on this is the model's own pass.
"""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from attnscope.analysis.reading import read_text
from attnscope.analysis.subject import Batch, OwnSubject, own_subject
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.nn.block import Block
from attnscope.records.redundancy import CollapseCurve
from attnscope.records.sites import Stack

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
    subject = own_subject(model)
    stack = stack or ("decoder" if subject.form == "decoder" else "encoder")
    if stack not in ("encoder", "decoder") or (stack == "decoder" and subject.form != "decoder"):
        raise UserError(
            f"The stack '{stack}' of {model.info.name} reads more than one text.",
            expected="a stack of self-attention alone",
            action="Choose the encoder.",
        )
    inputs, batch = read_text(model, text, target)
    if len(inputs.source) < 2:
        raise UserError("One token alone cannot become like others.", action="Give a longer text.")
    blocks = [block for block in subject.blocks(stack) if isinstance(block, Block)]
    with subject.studying():
        x, choices = _first_call(subject, blocks[0], batch)
        return tuple(
            CollapseCurve(
                stack=stack,
                has_skips=has_skips,
                has_feed_forward=has_feed_forward,
                ratios=_ratios(blocks, x, choices, has_skips, has_feed_forward),
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


def _first_call(subject: OwnSubject, block: Block, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
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


def _ratios(
    blocks: list[Block], x: Tensor, choices: dict[str, Any], has_skips: bool, has_feed_forward: bool
) -> tuple[float, ...]:
    ratios = [residual_ratio(x[0])]
    for block in blocks:
        x = run_block(block, x, choices, has_skips=has_skips, has_feed_forward=has_feed_forward)
        ratios.append(residual_ratio(x[0]))
    return tuple(ratios)

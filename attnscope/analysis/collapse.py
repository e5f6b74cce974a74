"""Rank collapse: how fast tokens become alike without skip connections and feed-forward layers.

| symbol | meaning                                             | shape               |
|--------|-----------------------------------------------------|---------------------|
| X      | the stream, of one text                             | [n_tokens, d_model] |
| res    | X − 1 · mean over tokens of X                       | [n_tokens, d_model] |
| ratio  | ‖res(X)‖ / ‖X‖ (Frobenius); 0: all tokens alike     | one number          |

Dong, Cordonnier and Loukas 2021: with attention alone the residual falls doubly exponentially with depth;
skips prevent it, feed-forward layers slow it down. The layers of the opened model run one after the other
with its own weights and norms; what is off adds nothing. With everything on this is the model's own pass.

While a layer runs, every sum is looked at: one with exactly one operand that *is* the layer's stream (the
very tensor that entered, another view of it, a norm of it, or an earlier sum) is a skip. Without skips such a
sum gives its other operand alone; without feed-forward parts the sum behind one gives the stream alone, and
the norm that a post-norm layer would put on it is left out. No weight is touched. A layer has one sum behind
attention and one behind its feed-forward part, or one behind both that adds exactly what the two gave.

| symbol | meaning                                           | shape                 |
|--------|---------------------------------------------------|-----------------------|
| stream | what enters each layer, and what the last gives   | [n_tokens, d_model]   |
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnscope.analysis.model_adapter import OwnSubject, TokenBatch, own_subject, telling_subject
from attnscope.analysis.watched_pass import batch_of
from attnscope.errors import UserError
from attnscope.models import Inputs, Model
from attnscope.models.huggingface.anatomy import Anatomy, anatomy_of, is_norm, not_known
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.passes import changed_reads
from attnscope.nn.block import Block
from attnscope.records.measures import CollapseCurve
from attnscope.records.sites import Stack

_ADDS = frozenset((torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__))
_ATTENTION, _FEED_FORWARD = "attention", "feed-forward"
_SUMS: list[list[tuple[str, ...]]] = [
    [(_ATTENTION,), (_FEED_FORWARD,)],
    [(_ATTENTION, _FEED_FORWARD)],
    [(_FEED_FORWARD, _ATTENTION)],
]
_VIEWS = frozenset(
    (Tensor.reshape, Tensor.view, Tensor.contiguous, Tensor.to, Tensor.float, Tensor.flatten, Tensor.type_as)
)


def streams_without(
    network: HuggingFaceNetwork, inputs: Inputs, stack: Stack, *, has_skips: bool, has_feed_forward: bool
) -> tuple[Tensor, ...]:
    """The stream into each layer of a stack of self-attention, and out of the last.

    Raises UserError, by name, for layers whose sums are not those named above.
    """
    anatomy = anatomy_of(network)
    taken = _TakenOut(anatomy, stack, has_skips=has_skips, has_feed_forward=has_feed_forward)
    with torch.no_grad(), taken.watching(), taken:
        network.run(inputs)
    for layer, sums in enumerate(taken.sums):
        if sums not in _SUMS:
            found = "; ".join(" and ".join(one) or "nothing" for one in sums) or "nothing"
            raise not_known(network, f"the sums of {stack} layer {layer} were behind {found}")
    return tuple(stream[0] for stream in taken.streams)


class _TakenOut(TorchFunctionMode):
    """The modifications, and the streams recorded."""

    def __init__(self, anatomy: Anatomy, stack: Stack, *, has_skips: bool, has_feed_forward: bool) -> None:
        super().__init__()
        self.streams: list[Tensor] = []
        self.sums: list[list[tuple[str, ...]]] = []
        """For each layer, and each of its sums, the parts behind it."""
        self._anatomy, self._stack = anatomy, stack
        self._has_skips, self._has_feed_forward = has_skips, has_feed_forward
        self._own: list[Tensor] = []
        self._bare = torch.empty(0)
        """The stream that lacks a feed-forward."""
        self._is_inside = False
        self._gave: dict[str, Tensor] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hooks that track where in a layer the pass is."""
        anatomy, stack = self._anatomy, self._stack
        layers = anatomy.layers(stack)
        parts = {module for place in layers for module in place.module.modules()}
        with ExitStack() as kept:
            kept.enter_context(changed_reads([(place, self._enter) for place in layers]))
            for module in dict.fromkeys(place.module for place in layers):
                kept.callback(module.register_forward_hook(self._leave).remove)
            for name, places in ((_ATTENTION, anatomy.projections), (_FEED_FORWARD, anatomy.feed_forwards)):
                for module in dict.fromkeys(place.module for key, place in places.items() if key[0] == stack):
                    kept.callback(module.register_forward_hook(partial(self._pass, name)).remove)
            for part in parts:
                if is_norm(part):
                    kept.callback(part.register_forward_hook(self._norm).remove)
            yield

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Intercept every operation of the library."""
        if self._is_inside and func in _ADDS and len(args) > 1:
            first, second = self._is_stream(args[0]), self._is_stream(args[1])
            if first != second and isinstance(args[1 if first else 0], Tensor):
                if args[0].shape == args[1].shape:
                    return self._sum(func, args, kwargs or {}, 0 if first else 1)
        given = func(*args, **(kwargs or {}))
        if self._is_inside and func in _VIEWS and self._is_stream(args[0]) and isinstance(given, Tensor):
            self._own.append(given)
        return given

    def _sum(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], stream: int
    ) -> Tensor:
        branch: Tensor = args[1 - stream]
        found: Tensor
        if not self._has_feed_forward and tuple(self._gave) == (_FEED_FORWARD,):
            found = self._bare = args[stream]
        else:
            found = func(*args, **kwargs) if self._has_skips else branch
        parts = list(self._gave.values())
        is_both = len(parts) == 2 and torch.allclose(branch, parts[0] + parts[1], rtol=1e-4, atol=1e-5)
        self.sums[-1].append(tuple(self._gave) if len(parts) < 2 or is_both else ("other parts",))
        self._gave = {}
        self._own.append(found)
        return found

    def _is_stream(self, x: object) -> bool:
        return any(x is one for one in self._own)

    def _enter(self, x: Tensor) -> Tensor:
        self.streams.append(x.detach().clone())
        self.sums.append([])
        self._own, self._bare, self._is_inside, self._gave = [x], torch.empty(0), True, {}
        return x

    def _leave(self, module: nn.Module, _: Any, output: Any) -> None:
        if len(self.sums) == len(self._anatomy.layers(self._stack)):
            self.streams.append((output[0] if isinstance(output, tuple | list) else output).detach().clone())
        self._own, self._is_inside = [], False

    def _pass(self, name: str, _: nn.Module, __: Any, output: Any) -> Any:
        is_many = isinstance(output, tuple)
        given: Tensor = output[0] if is_many else output
        if name == _FEED_FORWARD and not self._has_feed_forward:
            given = torch.zeros_like(given)
        self._gave[name] = given
        return (given, *output[1:]) if is_many else given

    def _norm(self, _: nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
        if not self._is_inside or not arguments or not self._is_stream(arguments[0]):
            return None
        if arguments[0] is self._bare:
            return arguments[0]
        self._own.append(output)
        return None


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
    """The ratio at the input and after each layer, for each setting of (skips, feed-forward).

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
    """Run one layer of self-attention with parts of it off; with both on it is the block itself."""
    change = block.attention(block.read(x, "attention"), **choices)
    x = block.join(x, change, "attention", has_skip=has_skips)
    if not has_feed_forward or block.feed_forward is None:
        return x
    change = block.feed_forward(block.read(x, "feed_forward"))
    return block.join(x, change, "feed_forward", has_skip=has_skips)


def _first_call(subject: OwnSubject, block: Block, batch: TokenBatch) -> tuple[Tensor, dict[str, Any]]:
    """Input of the first block of a stack in a pass: the stream and the arguments of its attention."""
    calls: list[tuple[Tensor, dict[str, Any]]] = []

    def before(_: nn.Module, arguments: tuple[Tensor, ...], named: dict[str, Any]) -> None:
        calls.append(
            (arguments[0], {name: named[name] for name in ("rule", "rotary", "bias") if name in named})
        )

    with block.register_forward_pre_hook(before, with_kwargs=True):
        subject.hidden(batch)
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

"""What a model says about one text as it is, and with what was done to its heads, from one pass."""

from dataclasses import replace

from torch import Tensor

from attnscope.models.inputs import Inputs
from attnscope.models.network import Network, Pass
from attnscope.models.outputs import build_output, kl_nats, log_probabilities
from attnscope.models.own import OwnPass
from attnscope.models.spans import written_text
from attnscope.records.outputs import Comparison, Output


def compare_outputs(
    network: Network, inputs: Inputs, done: Pass, *, is_changed: bool, top: int
) -> Comparison:
    """The `top` candidates at the shown positions; of what is written only a target of the model's own.

    A pass `is_changed` when it holds two copies: the text as it is, then as it was changed.
    """
    positions = network.shown_positions(inputs)
    if not positions:
        nothing = Output(kind=network.output_kind, predictions=())
        return Comparison(before=nothing, after=nothing, kl_nats=())
    own = inputs.target.ids[1:] if inputs.target is not None and inputs.is_own_target else None
    known = "" if own is None else written_text(network, inputs, own)

    def output(log_p: Tensor, written: str, copy: int = -1) -> Output:
        told = build_output(network, inputs, positions, log_p, top=top, generated=written)
        return replace(told, follows=done.follows(copy)) if isinstance(done, OwnPass) else told

    after = log_probabilities(done.logits(positions))
    if not is_changed:
        same = output(after, known)
        return Comparison(before=same, after=same, kl_nats=(0.0,) * len(positions))
    before = log_probabilities(done.logits(positions, copy=0))
    return Comparison(
        before=output(before, known, 0), after=output(after, ""), kl_nats=kl_nats(before, after)
    )

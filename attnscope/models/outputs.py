"""From logits to what a model says, and how far two outputs lie apart.

| symbol | meaning                                | shape                    |
|--------|----------------------------------------|--------------------------|
| logits | one number per piece at each position  | [n_positions, vocab_size]|
| log_p  | log-softmax of the logits              | [n_positions, vocab_size]|
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from attnscope.errors import NotFiniteError
from attnscope.models.inputs import Inputs
from attnscope.models.network import Network, knowing
from attnscope.nn.computing import exact
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.records.models import Form
from attnscope.records.outputs import Candidate, Output, OutputKind, Prediction
from attnscope.records.tokens import Token
from attnscope.text.vocabulary import is_sentinel

KINDS: dict[Form, OutputKind] = {
    "decoder": "next-token",
    "encoder": "masked-token",
    "encoder-decoder": "translation",
}


def token_positions(kind: OutputKind, inputs: Inputs, mask_id: int | None) -> list[int]:
    """The positions whose prediction is shown; see `records.outputs.Output`."""
    if kind == "next-token":
        return [len(inputs.source) - 1]
    if kind == "translation":
        return list(range(len(inputs.target or ())))
    if kind == "class":
        return [0]
    if kind == "nothing":
        return []
    tokens = inputs.source.tokens
    masks = [i for i, token in enumerate(tokens) if token.id == mask_id]
    return masks or [i for i, token in enumerate(tokens) if not token.is_special]


def certainty_of(log_p: Tensor, ids: Sequence[int]) -> float:
    """The geometric mean of the probabilities of `ids`; row k of `log_p` [n, vocab] is of the k-th."""
    told = log_p[range(len(ids)), list(ids)]
    return float(told.double().mean().exp())


def build_output(
    network: Network, inputs: Inputs, positions: list[int], log_p: Tensor, *, top: int, generated: str = ""
) -> Output:
    """The `top` candidates at each position; `log_p` has one row for each of `positions`."""
    contexts = _contexts(network, inputs, positions)
    n_shown = max(0, min(top, log_p.shape[-1]))
    values, ids = log_p.topk(n_shown, dim=-1)
    shown = set(ids.flatten().tolist())  # long texts repeat them
    tokens = dict(zip(shown, map(knowing(network, inputs).answer, shown), strict=True))
    rows = zip(positions, contexts, ids.tolist(), values.exp().tolist(), strict=True)
    predictions = tuple(_prediction(tokens, *row) for row in rows)
    return Output(kind=network.output_kind, predictions=predictions, generated=generated)


def _prediction(
    tokens: Mapping[int, Token], position: int, context: str, ids: list[int], probabilities: list[float]
) -> Prediction:
    """One position's candidates; a pass that nobody waits for ends here."""
    stop_if_unwanted()
    pairs = zip(ids, probabilities, strict=True)
    candidates = tuple(Candidate(token=tokens[id], probability=probability) for id, probability in pairs)
    return Prediction(position=position, context=context, candidates=candidates)


def kl_nats(before: Tensor, after: Tensor) -> tuple[float, ...]:
    """KL(before ‖ after) of each row in nats, from log-probabilities over the whole vocabulary.

    Summed in float64, so that two nearly equal outputs do not come out below zero.
    """
    p = before.cpu().double()
    q = after.cpu().double()
    terms = torch.where(p > -torch.inf, p.exp() * (p - q), 0.0)
    return tuple(terms.sum(dim=-1).clamp(min=0.0).tolist())


def log_probabilities(logits: Tensor) -> Tensor:
    """Log-softmax in float64, on the CPU where the device has no double precision; see `finite`."""
    return exact(finite(logits)).log_softmax(dim=-1)


def best_ids(logits: Tensor) -> Tensor:
    """The id of the largest logit of each row; see `finite`."""
    values, ids = logits.max(dim=-1)
    _refuse_not_finite(values)
    return ids


def finite(logits: Tensor) -> Tensor:
    """The logits; raises NotFiniteError for NaN and infinity. −∞ only rules a token out."""
    _refuse_not_finite(logits.detach().amax(dim=-1))
    return logits


def _refuse_not_finite(largest: Tensor) -> None:
    if not largest.numel() or math.isfinite(float(largest.detach().abs().amax())):
        return
    raise NotFiniteError(
        "The model's output is not finite: its logits are NaN or infinite.",
        expected="finite numbers",
        action="Its weights are damaged, or too large: attnscope info says which. Open it from an "
        "undamaged copy.",
    )


def _contexts(network: Network, inputs: Inputs, positions: list[int]) -> list[str]:
    kind = network.output_kind
    tokens = inputs.source.tokens if inputs.target is None else inputs.target.tokens
    if kind == "class" and len(positions) == 1:
        return ["the whole input"]
    if kind not in ("masked-token", "class"):
        return [_after(tokens[position]) for position in positions]
    mask_id = network.vocabulary.mask_id if network.vocabulary.has("mask") else None
    contexts = []
    n_masks = 0
    for position in positions:
        if tokens[position].id == mask_id:
            n_masks += 1
            contexts.append(f"<mask> {n_masks}")
        else:
            contexts.append(f'at "{tokens[position].piece}"')
    return contexts


def _after(token: Token) -> str:
    is_start = token.is_special and not is_sentinel(token.piece)
    return "at the start" if is_start else f'after "{token.piece}"'

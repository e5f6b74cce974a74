"""The logit lens: softmax(W_U · norm(stream_l)), what each layer would say if it were the last.

nostalgebraist 2020. The stream after every layer goes through the model's own last norm and head, so that
the last layer says exactly what the model says; without the norm a pre-norm stream is not what the
vocabulary was trained on. Models of Hugging Face's library are read as `huggingface/head.py` says.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.analysis.batches import slices_of
from attnscope.analysis.importance import gate_tensors
from attnscope.analysis.influence import check_position
from attnscope.analysis.model_adapter import (
    OwnSubject,
    TensorGates,
    no_vocabulary,
    own_subject,
    predicting_stack,
    subject_of,
)
from attnscope.analysis.watched_pass import batch_of, predicting_tokens, watched_streams
from attnscope.models.huggingface.head import LayerStreams, read_layer_streams
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.outputs import log_probabilities
from attnscope.records.causes import LensTable
from attnscope.records.interventions import Interventions
from attnscope.records.outputs import Candidate
from attnscope.records.sites import NO_GATES, Gates, Stack
from attnscope.records.tokens import Token

_BLOCK_LOGITS = 4_000_000
_TELLING_TOKENS = ("next-token", "masked-token", "translation")


def logit_lens(
    model: Model,
    text: str,
    target: str | None = None,
    *,
    gates: Gates = NO_GATES,
    interventions: Interventions = (),
    positions: Sequence[int] | slice = slice(None),
    top: int = 5,
) -> LensTable:
    """What each layer of the stack that predicts would say at some positions, or all, with these changes.

    Raises UserError for a model without such a stream, or whose last norm and head are not known.
    """
    inputs = model.encode(text, target)
    tokens, stack = predicting_tokens(inputs), predicting_stack(model.network.form)
    n_tokens = len(tokens)
    chosen = range(n_tokens)[positions] if isinstance(positions, slice) else positions
    wanted = tuple(check_position(position, n_tokens) for position in chosen)
    network = model.network
    if isinstance(network, HuggingFaceNetwork):
        levels = _foreign_levels(model, network, inputs, gates, interventions)
    else:
        levels = _own_levels(model, inputs, stack, gates, interventions)
    with torch.no_grad():
        columns = _read_levels(levels, [stream[list(wanted)] for stream in levels.streams], top)
    return _table(model, stack, wanted, tuple(tokens[p] for p in wanted), columns)


def layer_logits(subject: OwnSubject, stream: Tensor) -> Tensor:
    """What a stream would say, float32 [..., vocab_size]."""
    return subject.logits(subject.finish(stream)).float()


def _own_levels(
    model: Model, inputs: Inputs, stack: Stack, gates: Gates, interventions: Interventions
) -> LayerStreams:
    subject = own_subject(model)
    probe = TensorGates(gate_tensors(subject, gates) if gates else {}, model.edits(interventions))
    with subject.studying(), watched_streams(subject, stack) as streams:
        subject.hidden(batch_of(inputs, model.device), probe)

    def logits(stream: Tensor) -> Tensor:
        with subject.studying():
            return layer_logits(subject, stream)

    return LayerStreams(tuple(stream[0] for stream in streams), logits)


def _foreign_levels(
    model: Model, network: HuggingFaceNetwork, inputs: Inputs, gates: Gates, interventions: Interventions
) -> LayerStreams:
    if network.output_kind not in _TELLING_TOKENS or network.info.reads != "text":
        raise no_vocabulary(model)
    tensors = gate_tensors(subject_of(model), gates) if gates else {}
    probe = TensorGates(tensors, model.edits(interventions))
    with torch.no_grad(), network.attached.probing(probe):
        return read_layer_streams(network.module, network.arguments(inputs))


def _read_levels(levels: LayerStreams, streams: Sequence[Tensor], top: int) -> list[list[tuple[Tensor, ...]]]:
    """For each block of positions and each level: top ids, top log p, p, rank, KL, entropy."""
    first = levels.logits(streams[-1][:1])
    size = max(1, _BLOCK_LOGITS // first.shape[-1])
    blocks = []
    for part in slices_of(len(streams[-1]), size):
        final = log_probabilities(levels.logits(streams[-1][part]))
        best = final.argmax(dim=-1, keepdim=True)
        blocks.append(
            [
                _read_level(log_probabilities(levels.logits(stream[part])), final, best, top)
                for stream in streams
            ]
        )
    return blocks


def _read_level(log_p: Tensor, final: Tensor, best: Tensor, top: int) -> tuple[Tensor, ...]:
    own = log_p.gather(-1, best)  # [n, 1]
    values, ids = log_p.topk(min(top, log_p.shape[-1]), dim=-1)
    p = final.exp()
    kl = torch.where(p > 0, p * (final - log_p), 0.0).sum(dim=-1).clamp(min=0.0)
    entropy = -torch.where(log_p > -torch.inf, log_p.exp() * log_p, 0.0).sum(dim=-1)
    return ids, values.exp(), own.exp()[:, 0], (log_p > own).sum(dim=-1), kl, entropy


def _table(
    model: Model,
    stack: str,
    positions: tuple[int, ...],
    tokens: tuple[Token, ...],
    blocks: Sequence[Sequence[tuple[Tensor, ...]]],
) -> LensTable:
    n_levels = len(blocks[0])

    def gathered(part: int, level: int) -> Tensor:
        return torch.cat([block[level][part] for block in blocks]).cpu()

    def rows(part: int) -> NDArray[np.float32]:
        return np.stack([gathered(part, level).float().numpy() for level in range(n_levels)])

    answer = model.network.answer
    return LensTable(
        stack=stack,  # type: ignore[arg-type]
        levels=("input", *(f"layer {layer}" for layer in range(n_levels - 1))),
        positions=positions,
        tokens=tokens,
        candidates=tuple(
            _candidates(gathered(0, level), gathered(1, level), answer) for level in range(n_levels)
        ),
        probability=rows(2),
        rank=rows(3).astype(np.int32),
        kl_nats=rows(4),
        entropy=rows(5),
    )


def _candidates(
    ids: Tensor, values: Tensor, answer: Callable[[int], Token]
) -> tuple[tuple[Candidate, ...], ...]:
    return tuple(
        tuple(Candidate(token=answer(id), probability=p) for id, p in zip(row_ids, row_values, strict=True))
        for row_ids, row_values in zip(ids.tolist(), values.tolist(), strict=True)
    )

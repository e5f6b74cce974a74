"""Direct logit attribution: what each head and feed-forward layer adds to the difference of two logits.

| symbol | meaning                                                        | shape      |
|--------|----------------------------------------------------------------|------------|
| u      | W_U[answer] − W_U[other], pulled back through frozen norms     | [d_model]  |
| value  | part · u                                                       | one number |

Elhage et al. 2021 ("A mathematical framework for transformer circuits"). Every norm on the way keeps the
scale it had in this run, which makes the way from a part to the logits linear: the values of all parts, of
the norms' biases and of the output's bias add up to logit(answer) − logit(other). A part recomputed with a
norm of its own would not. What a part does through later layers is not counted here.
"""

import torch
from torch import Tensor

from attnscope.analysis.class_logits import ClassSubject, reads_classes, told_position
from attnscope.analysis.flow import check_position
from attnscope.analysis.foreign_parts import Choose, PartsFound, foreign_parts
from attnscope.analysis.importance import gate_tensors
from attnscope.analysis.model_adapter import (
    Batch,
    OwnSubject,
    Subject,
    TensorGates,
    own_subject,
    predicting_stack,
    telling_subject,
)
from attnscope.analysis.reading import batch_of, predicting_tokens
from attnscope.analysis.stream_parts import Addition, Part, stream_parts
from attnscope.analysis.watched_calls import WatchedCalls
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.outputs import finite
from attnscope.nn.precision import exact
from attnscope.records.attribution import Attribution, Contribution
from attnscope.records.sites import NO_GATES, Gates, Stack


def attribute_logits(
    model: Model,
    text: str,
    target: str | None = None,
    *,
    position: int = -1,
    answer: int | None = None,
    other: int | None = None,
    gates: Gates = NO_GATES,
) -> Attribution:
    """What every part adds to logit(answer) − logit(other) at one position.

    `answer` None is the token, or the class, that the model says there, `other` None the one it would say
    next. Of a picture also what heads read at each patch (`Attribution.reads`). Raises UserError for models
    whose parts do not add up exactly (`stream_parts`, `foreign_parts`).
    """
    network = model.network
    inputs = model.encode(text, target)
    tokens = predicting_tokens(inputs)
    position = check_position(position, len(tokens))
    subject = _asked(model, inputs, position)
    tensors = gate_tensors(subject, gates) if gates else {}
    probe = WatchedCalls(tensors) if model.info.reads == "picture" else TensorGates(tensors)

    def choose(logits: Tensor) -> tuple[int, int]:
        return choose_answers(logits, answer, other)

    if isinstance(network, HuggingFaceNetwork):
        found = foreign_parts(network, inputs, position, choose, probe)
    else:
        found = _own_parts(own_subject(model), batch_of(inputs, model.device), position, choose, probe)
    return Attribution(
        contributions=tuple(found.contributions),
        position=position,
        token=tokens[position],
        answer=network.answer(found.answers[0]),
        other=network.answer(found.answers[1]),
        difference=found.difference,
        note=found.note,
        reads=found.reads,
    )


def _asked(model: Model, inputs: Inputs, position: int) -> Subject:
    """The subject whose logits are taken apart; raises UserError for a position where none are."""
    network = model.network
    if isinstance(network, HuggingFaceNetwork) and reads_classes(model):
        told_position(model, inputs, position)
        return ClassSubject(network, inputs)
    return telling_subject(model)


def _own_parts(
    subject: OwnSubject, batch: Batch, position: int, choose: Choose, probe: TensorGates
) -> PartsFound:
    """See `foreign_parts`, for a Transformer of this program."""
    parts, hidden = stream_parts(subject, batch, position, probe)
    with subject.studying():
        logits = subject.logits(hidden.to(subject.module.tokens.weight))
    answer, other = choose(logits)
    weight, bias = _direction(subject, answer, other)
    stack = predicting_stack(subject.form)
    contributions = _contributions(parts, weight, stack)
    if bias != 0.0:
        contributions.append(Contribution(label="output bias", kind="bias", value=bias, stack=stack))
    difference = float(exact(logits)[answer] - exact(logits)[other])
    return PartsFound(contributions=contributions, answers=(answer, other), difference=difference)


def choose_answers(logits: Tensor, answer: int | None, other: int | None) -> tuple[int, int]:
    """The two tokens to compare: those named, else the most probable ones; never the same twice."""
    ranked = [int(id) for id in finite(logits).topk(min(3, len(logits))).indices]
    first = next(id for id in ranked if id != other) if answer is None else answer
    second = next(id for id in ranked if id != first) if other is None else other
    return first, second


def _direction(subject: OwnSubject, answer: int, other: int) -> tuple[Tensor, float]:
    head = subject.module.head
    matrix = subject.module.tokens.weight if head.weight is None else head.weight
    with torch.no_grad():
        bias = 0.0 if head.bias is None else float(head.bias[answer] - head.bias[other])
        return exact(matrix[answer]) - exact(matrix[other]), bias


def _contributions(parts: list[Part], direction: Tensor, stack: Stack) -> list[Contribution]:
    """From the last part to the first: each norm turns the direction into the one before it."""
    found: list[Contribution] = []
    for part in reversed(parts):
        if isinstance(part, Addition):
            found.append(
                Contribution(
                    label=part.label,
                    kind=part.kind,
                    value=float(part.vector @ direction),
                    stack=stack if part.head is None else part.head.stack,
                    layer=part.layer,
                    head=part.head,
                )
            )
            continue
        if part.bias is not None:
            found.append(
                Contribution(
                    label=f"{part.label} bias",
                    kind="bias",
                    value=float(part.bias @ direction),
                    stack=stack,
                    layer=part.layer,
                )
            )
        direction = part.pull_back(direction)
    return found[::-1]

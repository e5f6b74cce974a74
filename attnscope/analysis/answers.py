"""Where a model gives an output, the outputs there, and the tokens that users name as answers.

| symbol | meaning                                             | shape               |
|--------|-----------------------------------------------------|---------------------|
| logits | one number per piece, at each token that predicts   | [n_tokens, n_pieces]|

A model of Hugging Face's library that tells classes, of a whole input or of each token, on one input.

| symbol | meaning                                                   | shape         |
|--------|-----------------------------------------------------------|---------------|
| y      | one logit                                                 | one number    |
| x_i    | what the last layer gives at token i                      | [d_model]     |
| p_i    | ‖∂y/∂x_i‖ over its sum: how much of y is read at token i  | [n_tokens]    |

A class of the whole input is read off one token (1 there, 0 elsewhere) or off a mean over tokens.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.analysis.model_adapter import TokenBatch, predicting_stack, refuse_gateless, require_answers
from attnscope.analysis.watched_pass import batch_of, first_tensor, predicting_tokens
from attnscope.errors import UserError
from attnscope.models import Inputs, Model, log_probabilities
from attnscope.models.huggingface.anatomy import anatomy_of
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.nn import Probe, QuietProbe, exact
from attnscope.records.causes import WishedToken
from attnscope.records.outputs import Candidate
from attnscope.records.sites import NO_GATES, Gates
from attnscope.text.vocabulary import Vocabulary
from attnscope.trace.record import GateProbe


class ClassSubject:
    """See `subject.Subject`; `hidden` reads the one input, whatever the batch, and gives its logits."""

    def __init__(self, network: HuggingFaceNetwork, inputs: Inputs) -> None:
        refuse_gateless(network)
        self.form, self.sites = network.form, network.sites
        self._network, self._inputs = network, inputs

    @property
    def device(self) -> torch.device:
        return self._network.device

    @property
    def is_of_whole(self) -> bool:
        """Whether the whole input has a single class."""
        return self._network.task.kind.is_pooled

    @property
    def batch(self) -> TokenBatch:
        return batch_of(self._inputs, self.device)

    def studying(self) -> AbstractContextManager[None]:
        """No gradients; such a model is always in evaluation mode."""
        return torch.no_grad()

    def hidden(self, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
        """The logits, [1, n_positions, n_classes]; one position if the whole input has one class."""
        network = self._network
        with network.attached.probing(probe or QuietProbe()):
            logits: Tensor = network.module(**network.arguments(self._inputs)).logits
        return logits[:, None] if network.task.kind.is_pooled else logits

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden

    def reading_shares(self, answer: int, place: int, probe: Probe | None = None) -> Tensor:
        """P of the logit of `answer` at one position of `hidden`, float64 [n_tokens]; sums to 1."""
        stack = predicting_stack(self.form)
        last = anatomy_of(self._network).layers(stack)[-1]
        kept: list[Tensor] = []

        def leave(_: nn.Module, __: Any, output: Any) -> Any:
            leaf = first_tensor(output).detach().requires_grad_()
            kept[:] = [leaf]
            return (leaf, *output[1:]) if isinstance(output, tuple | list) else leaf

        # where the module serves all layers, the last call counts
        with last.module.register_forward_hook(leave), torch.enable_grad():
            row = self.hidden(self.batch, probe)[0, place]
            gradient = torch.autograd.grad(row[answer], kept[0])[0][0]
        sizes = torch.linalg.vector_norm(exact(gradient), dim=-1)  # [n_tokens]
        shares: Tensor = sizes / sizes.sum()
        return shares


def told_position(model: Model, inputs: Inputs, position: int | None) -> int:
    """Position at which a class of the whole input is read; raises UserError for any other position.

    `position` None is any. For a model that tells a class of each token: the position as it is, or the first.
    """
    network = model.network
    told = network.shown_positions(inputs)
    if not (isinstance(network, HuggingFaceNetwork) and network.task.kind.is_pooled):
        return told[0] if position is None else position
    n_tokens = len(inputs.source if inputs.target is None else inputs.target)
    if position is not None and position % n_tokens != told[0]:
        raise UserError(
            f"{model.info.name} predicts one class for the whole {model.info.reads}, not for token "
            f"{position}.",
            expected=f"token {told[0]}, where that class stands",
            action="Leave the position out.",
        )
    return told[0]


def reads_classes(model: Model) -> bool:
    """Whether this is a library model that predicts classes."""
    return isinstance(model.network, HuggingFaceNetwork) and model.network.output_kind == "class"


def read_logits(model: Model, text: str, target: str | None = None, gates: Gates = NO_GATES) -> Tensor:
    """The logits at every token of the stack that predicts, float32 [n_tokens, n_pieces].

    A class of the whole input stands at one token, and NaN elsewhere. Raises UserError for recurrent models
    and those that tell neither tokens of a text nor classes.
    """
    require_answers(model)
    probe = GateProbe(model.sites, gates) if gates else None
    return model.network.run(model.encode(text, target), probe).logits()


def telling_position(model: Model, text: str, target: str | None = None) -> int:
    """Default output position: the first mask, else the last token; in a target, after a word."""
    inputs = model.encode(text, target)
    tokens = predicting_tokens(inputs)
    if reads_classes(model):
        return told_position(model, inputs, None)
    if model.network.form == "decoder":
        return len(tokens) - 1
    if model.network.form == "encoder":
        told = model.network.shown_positions(inputs)
        return told[0] if told else 0
    return min(1, len(tokens) - 1)


def differing_position(clean: Tensor, corrupt: Tensor) -> int:
    """The first of the positions where KL(clean ‖ corrupt) of two runs' logits is largest."""
    first, second = log_probabilities(clean), log_probabilities(corrupt)
    divergence = (first.exp() * (first - second)).sum(dim=-1)  # [n_tokens]
    return int(divergence.argmax())


def comparing_position(model: Model, text: str, target: str | None, clean: Tensor, corrupt: Tensor) -> int:
    """Default position for comparing two runs: where targets' logits differ most, or the output's.

    Without a target a run is asked where it tells a token (`telling_position`).
    """
    is_translated = model.network.form == "encoder-decoder" and not reads_classes(model)
    if is_translated and len(clean) == len(corrupt):
        return differing_position(clean, corrupt)
    return telling_position(model, text, target)


def candidates_of(model: Model, logits: Tensor, top: int = 8) -> tuple[Candidate, ...]:
    """The most probable tokens by one row of logits, [n_pieces], most probable first."""
    shares = log_probabilities(logits, is_each=model.info.tells_each).exp()
    values, ids = shares.topk(min(top, len(shares)))
    answer = model.network.answer
    return tuple(
        Candidate(token=answer(id), probability=value)
        for value, id in zip(values.tolist(), ids.tolist(), strict=True)
    )


def resolve_token(model: Model, wish: WishedToken, logits: Tensor) -> int | None:
    """Resolve a token's name to its id; of several, the one with the largest logit.

    Raises UserError when a text is not one token of this model's vocabulary.
    """
    if wish is None or isinstance(wish, int):
        if wish is not None and not 0 <= wish < len(logits):
            raise UserError(f"There is no token {wish}.", expected=f"0 to {len(logits) - 1}")
        return wish
    if reads_classes(model):
        return _class_id(model, wish, len(logits))
    entries = model.network.vocabulary.entries
    found = [id for id in _single_ids(entries, wish) if id < len(logits)]
    if found:
        return max(found, key=lambda id: float(logits[id]))
    ids = entries.library.encode(wish, add_special_tokens=False).ids
    pieces = ", ".join(entries.pieces(ids)[:8])
    is_split = len(ids) > 1
    raise UserError(
        f"“{wish}” is " + (f"{len(ids)} tokens here: {pieces}." if is_split else "not in the vocabulary."),
        expected="a text that is one token of this model",
        action="Choose one of the tokens that the model names, or a part of this word.",
    )


def _class_id(model: Model, wish: str, n_classes: int) -> int:
    """Class of a name, ignoring case."""
    names = [model.network.answer(id).piece for id in range(n_classes)]
    found = [id for id, name in enumerate(names) if name.casefold() == wish.strip().casefold()]
    if len(found) != 1:
        said = f"{len(found)} classes are" if found else "No class is"
        raise UserError(
            f"{said} called “{wish}”.",
            expected=", ".join(names[:6]) + (", …" if len(names) > 6 else ""),
            action="Choose one of the classes that the model names.",
        )
    return found[0]


def _single_ids(entries: Vocabulary, text: str) -> set[int]:
    """Candidate tokens for a text: the entry itself, or what is read, with or without a leading space."""
    unknown = entries.roles.get("unknown")
    found = {entries.library.token_to_id(text)}
    for written in (text, f" {text}"):
        ids = entries.library.encode(written, add_special_tokens=False).ids
        if len(ids) == 1:
            found.add(ids[0])
    return {id for id in found if id is not None and id != unknown}

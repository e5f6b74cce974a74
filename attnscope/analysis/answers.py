"""Where a model tells something, what it says there, and the tokens that people name as answers.

| symbol | meaning                                             | shape               |
|--------|-----------------------------------------------------|---------------------|
| logits | one number per piece, at each token that predicts   | [n_tokens, n_pieces]|
"""

from torch import Tensor

from attnscope.analysis.class_logits import reads_classes, told_position
from attnscope.analysis.model_adapter import require_answers
from attnscope.analysis.reading import predicting_tokens
from attnscope.errors import UserError
from attnscope.models.model import Model
from attnscope.models.outputs import log_probabilities
from attnscope.records.attribution import WishedToken
from attnscope.records.outputs import Candidate
from attnscope.records.sites import NO_GATES, Gates
from attnscope.text.vocabulary import Vocabulary
from attnscope.trace.probe import GateProbe


def read_logits(model: Model, text: str, target: str | None = None, gates: Gates = NO_GATES) -> Tensor:
    """The logits at every token of the stack that predicts, float32 [n_tokens, n_pieces].

    A class of the whole input stands at one token, and NaN elsewhere. Raises UserError for recurrent models
    and those that tell neither tokens of a text nor classes.
    """
    require_answers(model)
    probe = GateProbe(model.sites, gates) if gates else None
    return model.network.run(model.encode(text, target), probe).logits()


def telling_position(model: Model, text: str, target: str | None = None) -> int:
    """Where a model is asked by default: its first mask, after its last token; in a target, after a word."""
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
    """Where two runs are compared by default: where their targets' logits differ most, or where one tells.

    Without a target a run is asked where it tells a token (`telling_position`).
    """
    is_translated = model.network.form == "encoder-decoder" and not reads_classes(model)
    if is_translated and len(clean) == len(corrupt):
        return differing_position(clean, corrupt)
    return telling_position(model, text, target)


def candidates_of(model: Model, logits: Tensor, top: int = 8) -> tuple[Candidate, ...]:
    """The most probable tokens by one row of logits, [n_pieces], most probable first."""
    shares = log_probabilities(logits).exp()
    values, ids = shares.topk(min(top, len(shares)))
    answer = model.network.answer
    return tuple(
        Candidate(token=answer(id), probability=value)
        for value, id in zip(values.tolist(), ids.tolist(), strict=True)
    )


def resolve_token(model: Model, wish: WishedToken, logits: Tensor) -> int | None:
    """The id of a wished token; of several that read the same the one with the largest logit.

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
    """The class of a name, whatever its capitals."""
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
    """Every token that a text may stand for: the entry itself, or what is read, with or without a blank."""
    unknown = entries.roles.get("unknown")
    found = {entries.library.token_to_id(text)}
    for written in (text, f" {text}"):
        ids = entries.library.encode(written, add_special_tokens=False).ids
        if len(ids) == 1:
            found.add(ids[0])
    return {id for id in found if id is not None and id != unknown}

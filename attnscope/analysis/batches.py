"""Texts as padded batches with the tokens that the model is to predict.

    form              what is scored
    decoder           every token after the first; of an Example also its end, without what is given; of other
                      texts not the end that a tokenizer such as BERT's puts after them
    encoder           a fixed share of the tokens, hidden behind `<mask>` the same way every time
    encoder-decoder   every token of the target, and its end

The loss of a text is the mean cross-entropy, in nats, over its scored tokens.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.analysis.model_adapter import Subject, TokenBatch
from attnscope.analysis.words import AlignedPair
from attnscope.errors import UserError
from attnscope.models import Inputs, Model, finite
from attnscope.nn.attention import Probe
from attnscope.records.tokens import Token
from attnscope.text import Example, first_pieces, tagged_example

Sample = str | tuple[str, str] | Example | AlignedPair
"""A text, a pair of source and target, the same with gold links, or an example of a task."""

NOT_SCORED = -1
MASK_SHARE = 0.15
MASK_SEED = 20_190_524
_FILL = 0


def build_batches(model: Model, samples: Sequence[Sample], batch_size: int = 16) -> list[TokenBatch]:
    """Batch samples of similar length, on the model's device, in a fixed order.

    Raises UserError when there is nothing to score, or a translation model is given single texts.
    """
    if isinstance(samples, str):
        raise UserError(
            "One text was given instead of several.", expected="a list of texts", action="Write [text]."
        )
    form = model.info.form
    if model.info.labels:
        return label_batches(model, samples, batch_size)
    rows = [_row_of(model, sample) for sample in samples]
    if form == "encoder":
        rng = np.random.default_rng(MASK_SEED)
        rows = [_masked(model, row, rng) for row in rows]
    rows = [row for row in rows if row.has_scored]
    if not rows:
        raise UserError(
            "There is no text with anything to predict.",
            expected="texts of two tokens or more",
            action="Give other texts.",
        )
    # Stable order, so that equal samples give equal batches; like lengths waste little padding.
    rows.sort(key=lambda row: len(row.ids) + len(row.target_ids or ()))
    return [
        _pad(rows[part], model.device, is_masked=form != "decoder")
        for part in slices_of(len(rows), batch_size)
    ]


def hidden_batches(
    model: Model, inputs: Sequence[Inputs], hidden: Sequence[Sequence[int]], batch_size: int = 16
) -> list[TokenBatch]:
    """Batch the texts of a masked model, in order, with the tokens at some positions replaced by `<mask>`."""
    mask_id = model.network.vocabulary.mask_id
    rows = []
    for one, places in zip(inputs, hidden, strict=True):
        ids, labels = list(one.source.ids), [NOT_SCORED] * len(one.source.ids)
        for place in places:
            ids[place], labels[place] = mask_id, ids[place]
        rows.append(_Row(ids, labels, None, one.segments))
    return [_pad(rows[part], model.device, is_masked=True) for part in slices_of(len(rows), batch_size)]


def label_batches(model: Model, samples: Sequence[Sample], batch_size: int = 16) -> list[TokenBatch]:
    """Batch texts with labels; raises UserError if a text has none of the model's labels."""
    rows = [_labelled_row(model, sample) for sample in samples]
    rows.sort(key=lambda row: len(row.ids) + len(row.target_ids or ()))
    parts = slices_of(len(rows), batch_size)
    return [_pad(rows[part], model.device, is_masked=True, is_pair=True) for part in parts]


def token_losses(subject: Subject, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
    """Cross-entropy of each scored token in nats, float32 [batch, n_tokens]; 0 where nothing is scored."""
    logits, labels, is_scored = scored_logits(subject, batch, probe)
    losses = F.cross_entropy(logits, labels, reduction="none")
    return torch.zeros(is_scored.shape, device=losses.device).masked_scatter(is_scored, losses)


def text_losses(subject: Subject, batch: TokenBatch, probe: Probe | None = None) -> Tensor:
    """The loss of each text, [batch]."""
    n_scored = (batch.labels != NOT_SCORED).sum(dim=1)
    return token_losses(subject, batch, probe).sum(dim=1) / n_scored


def scored_logits(
    subject: Subject, batch: TokenBatch, probe: Probe | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits and labels of the scored tokens, row by row, and their positions, bool [batch, n_tokens].

    Only scored positions pass through the vocabulary.
    """
    is_scored = batch.labels != NOT_SCORED
    hidden = subject.hidden(batch, probe)[is_scored]  # [n_scored, d_model]
    return finite(subject.logits(hidden)).float(), batch.labels[is_scored], is_scored


def count_texts(batches: Sequence[TokenBatch]) -> int:
    return sum(batch.n_texts for batch in batches)


# -- inside ---------------------------------------------------------------------------------------


class _Row:
    """One text before padding, or the patches of a picture, which needs none.

    `labels` has one entry for each token of the predicting stack.
    """

    def __init__(
        self,
        ids: Sequence[Any],
        labels: Sequence[int],
        target_ids: Sequence[int] | None,
        segments: Sequence[int] = (),
    ) -> None:
        self.ids, self.labels, self.target_ids = list(ids), list(labels), target_ids
        self.segments = segments

    @property
    def has_scored(self) -> bool:
        return any(label != NOT_SCORED for label in self.labels)


def _row_of(model: Model, sample: Sample) -> _Row:
    form, words = model.info.form, model.network.vocabulary
    text, target, n_given = _parts(sample)
    if form == "encoder-decoder":
        if target is None:
            raise UserError(
                f"The model {model.info.name} translates: a source without a target has nothing to predict.",
                expected="pairs of two texts",
                action="Give source and target, separated by a tab.",
            )
        inputs = model.encode(text, target)
        told = inputs.target.ids if inputs.target is not None else ()
        return _Row(inputs.source.ids, [*told[1:], words.end_id], told)
    inputs = model.encode(text, target if model.info.reads_pairs else None)
    ids = inputs.source.ids
    if form == "encoder":
        return _Row(ids, ids, None, inputs.segments)
    ends = isinstance(sample, Example) and words.has("end")
    labels = [*ids[1:], words.end_id if ends else NOT_SCORED]
    n_given += sum(id >= model.info.vocab_size for id in ids)  # memory tokens are never predicted
    labels[:n_given] = [NOT_SCORED] * min(n_given, len(labels))
    if not isinstance(sample, Example):
        _leave_out_end(inputs.source.tokens, labels)
    return _Row(ids, labels, None)


def _leave_out_end(tokens: Sequence[Token], labels: list[int]) -> None:
    """Exclude from the score the special tokens after the last of the text."""
    for k in range(len(tokens) - 1, 0, -1):
        if not tokens[k].is_special or tokens[k].end:
            return
        labels[k - 1] = NOT_SCORED


def _labelled_row(model: Model, sample: Sample) -> _Row:
    labels = model.info.labels
    if model.own.config.points:
        raise UserError(
            f"The model {model.info.name} points to tokens: no single label of a text is scored.",
            expected="a model that predicts tokens or labels",
            action="Look at its maps, gates, measures or outputs.",
        )
    if model.own.config.labels_tokens:
        return _tagged_row(model, sample)
    if not isinstance(sample, Example) or sample.label not in labels:
        raise UserError(
            f"The model {model.info.name} predicts labels: a text without a label has none to predict.",
            expected=f"the texts of its own task, with the labels {', '.join(labels)[:80]}",
            action="Use its own texts.",
        )
    inputs = model.encode(sample.source, sample.target)
    target = None if inputs.target is None else inputs.target.ids
    ids = inputs.patches or inputs.source.ids
    return _Row(ids, [labels.index(sample.label)], target, inputs.segments)


def _tagged_row(model: Model, sample: Sample) -> _Row:
    labels = model.info.labels
    if not isinstance(sample, Example) or not sample.word_labels or set(sample.word_labels) - {*labels}:
        raise UserError(
            f"The model {model.info.name} predicts a label of each word: this text has none.",
            expected=f"the texts of its own task, with the labels {', '.join(labels)[:80]}",
            action="Use its own texts.",
        )
    source, text = model.encode(sample.source).source, tagged_example(sample)
    row = [NOT_SCORED] * len(source.tokens)
    for at, label in zip(first_pieces(source.tokens, text.starts), text.labels, strict=True):
        if at is not None and label is not None:
            row[at] = labels.index(label)
    return _Row(source.ids, row, None)


def _parts(sample: Sample) -> tuple[str, str | None, int]:
    if isinstance(sample, Example):
        return sample.source, sample.target, sample.n_given
    if isinstance(sample, AlignedPair):
        return *sample.texts, 0
    return (sample, None, 0) if isinstance(sample, str) else (*sample, 0)


def _masked(model: Model, row: _Row, rng: np.random.Generator) -> _Row:
    """The text with some tokens replaced by `<mask>`, at least one; special tokens are never hidden."""
    words = model.network.vocabulary
    n_pieces = model.info.vocab_size
    is_ordinary = np.array([id < n_pieces and not words.token(id).is_special for id in row.ids])
    draw = np.where(is_ordinary, rng.random(len(row.ids)), 2.0)
    is_hidden = ((draw < MASK_SHARE) | (draw == draw.min())) & is_ordinary
    shown = [words.mask_id if hidden else id for id, hidden in zip(row.ids, is_hidden, strict=True)]
    labels = [id if hidden else NOT_SCORED for id, hidden in zip(row.ids, is_hidden, strict=True)]
    return _Row(shown, labels, None, row.segments)


def _pad(rows: Sequence[_Row], device: torch.device, *, is_masked: bool, is_pair: bool = False) -> TokenBatch:
    targets = [list(row.target_ids) for row in rows if row.target_ids is not None]
    ids, valid = _padded([row.ids for row in rows], _FILL, device)
    labels, _ = _padded([row.labels for row in rows], NOT_SCORED, device)
    segments = [row.segments or [0] * len(row.ids) for row in rows]
    return TokenBatch(
        ids=ids,
        labels=labels,
        # A causal model never looks at padding behind the text, and stays quick without a mask.
        valid=valid if is_masked else None,
        target_ids=_padded(targets, _FILL, device)[0] if targets else None,
        # A decoder needs none; a second text that is matched does.
        target_valid=_padded(targets, _FILL, device)[1] if targets and is_pair else None,
        segments=_padded(segments, 0, device)[0] if any(any(row.segments) for row in rows) else None,
    )


def _padded(rows: Sequence[Sequence[Any]], fill: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    longest = max(len(row) for row in rows)
    matrix = torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], dtype=torch.int64)
    lengths = torch.tensor([len(row) for row in rows])
    valid = torch.arange(longest) < lengths[:, None]
    return matrix.to(device), None if bool(valid.all()) else valid.to(device)


def slices_of(n: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover range(n)."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))

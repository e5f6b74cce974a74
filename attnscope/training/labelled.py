"""Labelled texts as batches: from a file or a task, read whole, each told one label.

| symbol  | meaning                                                     | shape          |
|---------|-------------------------------------------------------------|----------------|
| ids     | `<s>` text `</s>`, in a decoder without `</s>`              | [B, T]         |
| second  | the second text, where two are matched                      | [B, S]         |
| segment | 0 and 1 where two are read as one: `<s>` text `</s>` second `</s>` | [B, T]  |
| scored  | the first token of each (second) text, flat over [B, T]     | [B]            |
| labels  | the label of each text                                      | [B]            |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnscope.errors import RecipeError
from attnscope.models.inputs import fitted_pair
from attnscope.text.corpora import split_pairs
from attnscope.text.labelled import LabelledText, read_labelled
from attnscope.text.tasks import Example
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import Ids, padded
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe

_CHUNKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows:
    """Padded texts with their labels; `seconds` where two texts of each are matched, `segments` where they
    are read as one.
    """

    ids: Ids
    lengths: Ids
    labels: Ids
    segments: Ids | None = None
    seconds: Ids | None = None
    second_lengths: Ids | None = None

    @property
    def total_lengths(self) -> Ids:
        """Tokens of each example, of both texts together."""
        return self.lengths if self.second_lengths is None else self.lengths + self.second_lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledBatches:
    """Whole texts with their labels, padded to the longest of the batch."""

    training: LabelledRows
    held_out: LabelledRows
    batch_size: int
    n_evaluation: int
    has_similar_lengths: bool = False

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """One random training batch; `progress` is how far the run is, 0…1."""
        n_rows, n_chunks = len(self.training.lengths), _CHUNKS if self.has_similar_lengths else 1
        rows = rng.integers(0, n_rows, size=self.batch_size * n_chunks)
        if n_chunks > 1:
            order = np.argsort(self.training.total_lengths[rows], kind="stable")
            rows = np.array_split(rows[order], n_chunks)[int(rng.integers(n_chunks))]
        return batch_of(self.training, rows)

    def evaluation(self) -> Sequence[Batch]:
        """The first held-out texts."""
        n_rows = min(len(self.held_out.lengths), self.n_evaluation * self.batch_size)
        starts = range(0, n_rows, self.batch_size)
        return tuple(
            batch_of(self.held_out, np.arange(start, min(start + self.batch_size, n_rows)))
            for start in starts
        )


def batch_of(texts: LabelledRows, rows: Ids) -> Batch:
    """Some rows as one batch."""
    ids, valid = _part(texts.ids, texts.lengths, rows)
    second = second_valid = None
    if texts.seconds is not None and texts.second_lengths is not None:
        second, second_valid = _part(texts.seconds, texts.second_lengths, rows)
    segments = None if texts.segments is None else _part(texts.segments, texts.lengths, rows)[0]
    return Batch(
        ids=ids,
        valid=valid,
        segments=segments,
        target_ids=second,
        target_valid=second_valid,
        scored=torch.arange(len(rows)) * (ids if second is None else second).shape[1],
        labels=torch.from_numpy(texts.labels[rows]),
    )


def labelled_of_task(examples: Sequence[Example]) -> list[LabelledText]:
    """A task's examples as labelled texts."""
    return [LabelledText(label=e.label, text=e.source, second=e.target) for e in examples]


def read_and_split(recipe: Recipe) -> tuple[list[LabelledText], list[LabelledText]]:
    """The texts of a recipe's file, to train on and held out: no text is on both sides."""
    texts = read_labelled(Path(recipe.data.path))
    pairs = [(text.text, text) for text in texts]
    training, held_out = split_pairs(pairs, recipe.data.validation_share)
    return [text for _, text in training], [text for _, text in held_out]


def labelled_batches(
    recipe: Recipe,
    tokenizer: Tokenizer,
    training: Sequence[LabelledText],
    held_out: Sequence[LabelledText],
    labels: Sequence[str],
) -> LabelledBatches:
    """Batches of labelled texts; raises RecipeError where the model reads another number of texts."""
    _check_texts(recipe, training)
    return LabelledBatches(
        training=_rows(recipe, tokenizer, training, labels),
        held_out=_rows(recipe, tokenizer, held_out, labels),
        batch_size=recipe.training.batch_size,
        n_evaluation=recipe.training.evaluation_batches,
        has_similar_lengths=recipe.data.similar_lengths,
    )


def sentence_ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids of tokens that end a sentence: those that end in . ! ? … or in a line break."""
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    texts = [
        (token.id, tokenizer.entries.reading(token.id).text or "") for token in tokens if not token.is_special
    ]
    return tuple(id for id, text in texts if text.endswith("\n") or text.strip().endswith(_ENDS))


_ENDS = (".", "!", "?", "…")


def _rows(
    recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[LabelledText], labels: Sequence[str]
) -> LabelledRows:
    number = {label: i for i, label in enumerate(labels)}
    rows = _read(recipe, tokenizer, [text.text for text in texts])
    segments = seconds = second_lengths = None
    if recipe.model.reads_pair:
        pairs = _read(recipe, tokenizer, [text.second or "" for text in texts])
        seconds, second_lengths = padded(pairs, tokenizer.pad_id)
    elif texts[0].second is not None:
        added = tokenizer.encode_lines(text.second or "" for text in texts)
        n_most = recipe.model.max_tokens
        parts = [
            fitted_pair(first, [*ids, tokenizer.end_id], n_most)
            for first, ids in zip(rows, added, strict=True)
        ]
        rows = [[*first, *second] for first, second in parts]
        segments, _ = padded([[0] * len(first) + [1] * len(second) for first, second in parts], 1)
    ids, lengths = padded(rows, tokenizer.pad_id)
    return LabelledRows(
        ids=ids,
        lengths=lengths,
        segments=segments,
        labels=np.array([number[text.label] for text in texts], dtype=np.int64),
        seconds=seconds,
        second_lengths=second_lengths,
    )


def _read(recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The texts as the model will read them when it is asked: cut so that the ends fit."""
    ends = [tokenizer.end_id] if recipe.model.form == "encoder" else []
    most = recipe.model.max_tokens - 1 - len(ends)
    return [[tokenizer.begin_id, *ids[:most], *ends] for ids in tokenizer.encode_lines(texts)]


def _part(ids: Ids, lengths: Ids, rows: Ids) -> tuple[Tensor, Tensor | None]:
    longest = int(lengths[rows].max())
    valid = np.arange(longest) < lengths[rows, None]
    some = torch.from_numpy(np.ascontiguousarray(ids[rows, :longest]))
    return some, None if valid.all() else torch.from_numpy(valid)


def _check_texts(recipe: Recipe, texts: Sequence[LabelledText]) -> None:
    has_second, model = texts[0].second is not None, recipe.model
    if has_second == model.reads_pair or (has_second and model.joins_texts):
        return
    found = "two texts" if has_second else "one text"
    raise RecipeError(
        f"The data have {found} in each example, but model.reads_pair is {str(not has_second).lower()}.",
        expected="true, or model.n_segments = 2 to read both as one text" if has_second else "false",
        action="Set one of them, or choose other data." if has_second else "Set it, or choose other data.",
    )

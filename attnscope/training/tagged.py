"""Texts with a label for each word as batches: the first token of each word is scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from attnscope.text.corpora import split_pairs
from attnscope.text.tagged import TaggedText, first_pieces, read_tagged
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import Ids, padded
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe

_NOT_SCORED = -1
_CHUNKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedRows:
    """Padded texts; `labels` has the number of a label at each token that is scored, else −1: [n, T] each."""

    ids: Ids
    lengths: Ids
    labels: Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedBatches:
    """Whole texts with a label for each word, padded to the longest of the batch."""

    training: TaggedRows
    held_out: TaggedRows
    batch_size: int
    n_evaluation: int
    has_similar_lengths: bool = False

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """One random training batch; `progress` is how far the run is, 0…1."""
        n_rows, n_chunks = len(self.training.lengths), _CHUNKS if self.has_similar_lengths else 1
        rows = rng.integers(0, n_rows, size=self.batch_size * n_chunks)
        if n_chunks > 1:
            order = np.argsort(self.training.lengths[rows], kind="stable")
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


def batch_of(texts: TaggedRows, rows: Ids) -> Batch:
    """Some rows as a batch."""
    longest = int(texts.lengths[rows].max())
    valid = np.arange(longest) < texts.lengths[rows, None]
    labels = texts.labels[rows, :longest].reshape(-1)
    scored = np.flatnonzero(labels != _NOT_SCORED)
    return Batch(
        ids=torch.from_numpy(np.ascontiguousarray(texts.ids[rows, :longest])),
        valid=None if valid.all() else torch.from_numpy(valid),
        scored=torch.from_numpy(scored),
        labels=torch.from_numpy(np.ascontiguousarray(labels[scored])),
    )


def read_and_split_tagged(recipe: Recipe) -> tuple[list[TaggedText], list[TaggedText]]:
    """The texts of a recipe's file, to train on and held out: no text is on both sides."""
    texts = read_tagged(Path(recipe.data.path), recipe.data.column)
    training, held_out = split_pairs([(text.text, text) for text in texts], recipe.data.validation_share)
    return [text for _, text in training], [text for _, text in held_out]


def tagged_batches(
    recipe: Recipe,
    tokenizer: Tokenizer,
    training: Sequence[TaggedText],
    held_out: Sequence[TaggedText],
    labels: Sequence[str],
) -> TaggedBatches:
    """Batches of texts with a label for each word."""
    return TaggedBatches(
        training=_rows(recipe, tokenizer, training, labels),
        held_out=_rows(recipe, tokenizer, held_out, labels),
        batch_size=recipe.training.batch_size,
        n_evaluation=recipe.training.evaluation_batches,
        has_similar_lengths=recipe.data.similar_lengths,
    )


def _rows(
    recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[TaggedText], labels: Sequence[str]
) -> TaggedRows:
    """The texts as the model will read them when it is asked."""
    number = {label: i for i, label in enumerate(labels)}
    ids, told = [], []
    for text in texts:
        read = tokenizer.encode(text.text, add_begin=True, add_end=True, max_tokens=recipe.model.max_tokens)
        row = [_NOT_SCORED] * len(read.tokens)
        for at, label in zip(first_pieces(read.tokens, text.starts), text.labels, strict=True):
            if at is not None and label is not None:
                row[at] = number[label]
        ids.append(read.ids)
        told.append(row)
    rows, lengths = padded(ids, tokenizer.pad_id)
    return TaggedRows(ids=rows, lengths=lengths, labels=padded(told, _NOT_SCORED)[0])

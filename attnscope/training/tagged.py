"""Texts with a label for each word as batches: the first token of each word is scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from attnscope.text.corpora import split_pairs
from attnscope.text.tagged import TaggedText, first_pieces, read_tagged
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import ExampleBatches, Ids, padded, part_of
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe

_NOT_SCORED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedRows:
    """Padded texts; `labels` has the number of a label at each token that is scored, else −1: [n, T] each."""

    ids: Ids
    lengths: Ids
    labels: Ids

    @property
    def total_lengths(self) -> Ids:
        """Tokens of each text."""
        return self.lengths

    def batch(self, rows: Ids) -> Batch:
        """The texts of these rows with the labels of their words."""
        ids, valid = part_of(self.ids, self.lengths, rows)
        labels = self.labels[rows, : ids.shape[1]].reshape(-1)
        scored = np.flatnonzero(labels != _NOT_SCORED)
        return Batch(
            ids=ids,
            valid=valid,
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
) -> ExampleBatches[TaggedRows]:
    """Batches of texts with a label for each word."""
    sides = (_rows(recipe, tokenizer, texts, labels) for texts in (training, held_out))
    return ExampleBatches.of_recipe(recipe, *sides)


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

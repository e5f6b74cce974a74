"""Texts with places in them as batches: every token but the special ones may be pointed to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from attnscope.errors import RecipeError
from attnscope.records.tokens import Tokens
from attnscope.text.corpora import split_pairs
from attnscope.text.pointed import PointedText, may_be_meant, read_spans
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import Ids, Mask, padded
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedRows:
    """Padded texts [n, T], where each may be pointed to, and the tokens meant [n, n_places]."""

    ids: Ids
    lengths: Ids
    may_be: Mask
    places: Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedBatches:
    """Whole texts with places in them, padded to the longest of the batch."""

    training: PointedRows
    held_out: PointedRows
    batch_size: int
    n_evaluation: int

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """One random training batch; `progress` is how far the run is, 0…1."""
        return batch_of(self.training, rng.integers(0, len(self.training.lengths), size=self.batch_size))

    def evaluation(self) -> Sequence[Batch]:
        """The first held-out texts."""
        n_rows = min(len(self.held_out.lengths), self.n_evaluation * self.batch_size)
        starts = range(0, n_rows, self.batch_size)
        return tuple(
            batch_of(self.held_out, np.arange(start, min(start + self.batch_size, n_rows)))
            for start in starts
        )


def batch_of(texts: PointedRows, rows: Ids) -> Batch:
    """Some rows as a batch."""
    longest = int(texts.lengths[rows].max())
    valid = np.arange(longest) < texts.lengths[rows, None]
    may_be = np.flatnonzero(texts.may_be[rows, :longest])
    return Batch(
        ids=torch.from_numpy(np.ascontiguousarray(texts.ids[rows, :longest])),
        valid=None if valid.all() else torch.from_numpy(valid),
        scored=torch.from_numpy(may_be),
        labels=torch.from_numpy(texts.places[rows].reshape(-1)),
        n_places=texts.places.shape[1],
    )


def read_and_split_spans(recipe: Recipe) -> tuple[list[PointedText], list[PointedText]]:
    """The texts of a recipe's file, to train on and held out: no text is on both sides."""
    texts = read_spans(Path(recipe.data.path))
    training, held_out = split_pairs([(text.text, text) for text in texts], recipe.data.validation_share)
    return [text for _, text in training], [text for _, text in held_out]


def pointed_batches(
    recipe: Recipe, tokenizer: Tokenizer, training: Sequence[PointedText], held_out: Sequence[PointedText]
) -> PointedBatches:
    """Batches of texts with places; raises RecipeError where every answer was cut off."""
    return PointedBatches(
        training=_rows(recipe, tokenizer, training),
        held_out=_rows(recipe, tokenizer, held_out),
        batch_size=recipe.training.batch_size,
        n_evaluation=recipe.training.evaluation_batches,
    )


def _rows(recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[PointedText]) -> PointedRows:
    """The texts as the model will read them when it is asked; one whose answer was cut off is left out."""
    ids, may_be, places = [], [], []
    for text in texts:
        read = tokenizer.encode(text.text, add_begin=True, add_end=True, max_tokens=recipe.model.max_tokens)
        found = [_token_of(read, stretch) for stretch in text.stretches]
        if None not in found:
            ids.append(read.ids)
            may_be.append([may_be_meant(token) for token in read.tokens])
            places.append(found)
    if texts and not ids:
        raise RecipeError(
            f"No answer lies within the first {recipe.model.max_tokens} tokens of its text.",
            expected="shorter texts",
            action="Make model.max_tokens larger.",
        )
    rows, lengths = padded(ids, tokenizer.pad_id)
    return PointedRows(
        ids=rows,
        lengths=lengths,
        may_be=padded(may_be, 0)[0].astype(np.bool_),
        places=np.asarray(places, dtype=np.int64),
    )


def _token_of(read: Tokens, stretch: tuple[int, int]) -> int | None:
    """The first token that shares a letter with the stretch; None where that was cut off."""
    for i, token in enumerate(read.tokens):
        if may_be_meant(token) and token.start < stretch[1] and token.end > stretch[0]:
            return i
    return None

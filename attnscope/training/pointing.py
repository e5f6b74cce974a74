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
from attnscope.training.batches import ExampleBatches, Ids, Mask, padded, part_of
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedRows:
    """Padded texts [n, T], where each may be pointed to, and the tokens meant [n, n_places]."""

    ids: Ids
    lengths: Ids
    may_be: Mask
    places: Ids

    @property
    def total_lengths(self) -> Ids:
        """Tokens of each text."""
        return self.lengths

    def batch(self, rows: Ids) -> Batch:
        """The texts of these rows with the places that are meant."""
        ids, valid = part_of(self.ids, self.lengths, rows)
        may_be = np.flatnonzero(self.may_be[rows, : ids.shape[1]])
        return Batch(
            ids=ids,
            valid=valid,
            scored=torch.from_numpy(may_be),
            labels=torch.from_numpy(self.places[rows].reshape(-1)),
            n_places=self.places.shape[1],
        )


def read_and_split_spans(recipe: Recipe) -> tuple[list[PointedText], list[PointedText]]:
    """The texts of a recipe's file, to train on and held out: no text is on both sides."""
    texts = read_spans(Path(recipe.data.path))
    training, held_out = split_pairs([(text.text, text) for text in texts], recipe.data.validation_share)
    return [text for _, text in training], [text for _, text in held_out]


def pointed_batches(
    recipe: Recipe, tokenizer: Tokenizer, training: Sequence[PointedText], held_out: Sequence[PointedText]
) -> ExampleBatches[PointedRows]:
    """Batches of texts with places; raises RecipeError where every answer was cut off."""
    sides = (_rows(recipe, tokenizer, texts) for texts in (training, held_out))
    return ExampleBatches.of_recipe(recipe, *sides)


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

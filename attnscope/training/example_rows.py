"""Whole examples as batches, a row for each: pictures, tagged texts, texts with places in them.

pictures       the numbers of their patches, and a label of each picture
tagged texts   a label for each word: the first token of each word is scored
places         every token but the special ones may be pointed to
pairs          two sentences as one text, whether the second follows, and hidden tokens
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.errors import RecipeError
from attnscope.models.inputs import fitted_pair
from attnscope.nn.embedding_and_head import patch_numbers
from attnscope.records.tokens import Tokens
from attnscope.text.corpora import (
    LabelledText,
    PointedText,
    TaggedText,
    first_pieces,
    may_be_meant,
    read_spans,
    read_tagged,
    split_pairs,
)
from attnscope.text.examples import Example
from attnscope.text.pictures import LabelledPictures, fitted_pixels, read_labelled_pictures, read_picture
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import (
    ExampleBatches,
    Ids,
    Mask,
    PaddedRows,
    VocabularyIds,
    masked_batch,
    padded,
    part_of,
)
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe

T = TypeVar("T", LabelledText, PointedText, TaggedText)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedRows(PaddedRows):
    """Where each text may be pointed to, [n, T], and the tokens meant, [n, n_places]."""

    may_be: Mask
    places: Ids

    @property
    def parts(self) -> tuple[Ids, ...]:
        return self.ids, self.places

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


def split_texts(texts: Sequence[T], recipe: Recipe) -> tuple[list[T], list[T]]:
    """Texts to train on and held out ones: none is on both sides."""
    training, held_out = split_pairs([(text.text, text) for text in texts], recipe.data.validation_share)
    return [text for _, text in training], [text for _, text in held_out]


def read_and_split_spans(recipe: Recipe) -> tuple[list[PointedText], list[PointedText]]:
    """The texts of a recipe's file, to train on and held out: no text is on both sides."""
    return split_texts(read_spans(Path(recipe.data.path)), recipe)


def pointed_batches(
    recipe: Recipe, tokenizer: Tokenizer, training: Sequence[PointedText], held_out: Sequence[PointedText]
) -> ExampleBatches[PointedRows]:
    """Batches of texts with places; raises RecipeError where every answer was cut off."""
    sides = (_pointed_rows(recipe, tokenizer, texts) for texts in (training, held_out))
    return ExampleBatches.of_recipe(recipe, *sides)


def _pointed_rows(recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[PointedText]) -> PointedRows:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRows:
    """Pictures [n, height, width, n_channels], uint8, and the number of the label of each, [n].

    All have as many tokens.
    """

    pixels: NDArray[np.uint8]
    labels: Ids
    patch_size: int

    @property
    def parts(self) -> tuple[Ids, ...]:
        return (self.labels,)

    @property
    def total_lengths(self) -> Ids:
        _, height, width, _ = self.pixels.shape
        n_patches = (height // self.patch_size) * (width // self.patch_size)
        return np.full(len(self.pixels), 1 + n_patches, dtype=np.int64)

    @property
    def longest_lengths(self) -> Ids:
        return self.total_lengths

    def batch(self, rows: Ids) -> Batch:
        """The pictures of these rows with their labels; the class token of each is scored."""
        numbers = patch_numbers(self.pixels[rows], self.patch_size)  # [B, T, n_numbers]
        return Batch(
            ids=torch.from_numpy(numbers),
            scored=torch.arange(len(rows)) * numbers.shape[1],
            labels=torch.from_numpy(self.labels[rows]),
        )


def pictures_of_task(examples: Sequence[Example], shape: tuple[int, int, int]) -> LabelledPictures:
    """The pictures that the sources of a task name, all of one `shape` (height, width, channels)."""
    pixels = np.stack([fitted_pixels(read_picture(example.source), *shape) for example in examples])
    return LabelledPictures(pixels=pixels, labels=tuple(example.label for example in examples))


def read_and_split_pictures(recipe: Recipe) -> tuple[LabelledPictures, LabelledPictures]:
    """The pictures of a recipe's file or folder, to train on and held out: none is on both sides."""
    found = read_labelled_pictures(Path(recipe.data.path))
    numbered = [(pixels.tobytes().hex(), i) for i, pixels in enumerate(found.pixels)]
    sides = split_pairs(numbered, recipe.data.validation_share, what="picture")
    training, held_out = ([i for _, i in side] for side in sides)
    return _some(found, training), _some(found, held_out)


def picture_batches(
    recipe: Recipe, training: LabelledPictures, held_out: LabelledPictures, labels: Sequence[str]
) -> ExampleBatches[PictureRows]:
    """Batches of pictures; `labels` are the names in the order of the model's outputs."""
    number = {label: i for i, label in enumerate(labels)}
    sides = (
        PictureRows(
            pixels=side.pixels,
            labels=np.array([number[label] for label in side.labels], dtype=np.int64),
            patch_size=recipe.model.patch_size,
        )
        for side in (training, held_out)
    )
    return ExampleBatches.of_recipe(recipe, *sides)


def _some(pictures: LabelledPictures, rows: Sequence[int]) -> LabelledPictures:
    chosen = tuple(pictures.labels[row] for row in rows)
    return LabelledPictures(pixels=pictures.pixels[list(rows)], labels=chosen)


_NOT_SCORED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedRows(PaddedRows):
    """`labels` has the number of a label at each token that is scored, else −1: [n, T]."""

    labels: Ids

    @property
    def parts(self) -> tuple[Ids, ...]:
        return self.ids, self.labels

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
    return split_texts(read_tagged(Path(recipe.data.path), recipe.data.column), recipe)


def tagged_batches(
    recipe: Recipe,
    tokenizer: Tokenizer,
    training: Sequence[TaggedText],
    held_out: Sequence[TaggedText],
    labels: Sequence[str],
) -> ExampleBatches[TaggedRows]:
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


_PAIRS_SEED = 20_181_012


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePairRows(PaddedRows):
    """Pairs `<s>` A `</s>` B `</s>`: which of both each token is of, [n, T], and whether B follows A, [n]."""

    segments: Ids
    is_next: Ids

    @property
    def parts(self) -> tuple[Ids, ...]:
        return self.ids, self.is_next

    def batch(self, rows: Ids) -> Batch:
        """The pairs of these rows, of which no token is hidden yet."""
        ids, valid = part_of(self.ids, self.lengths, rows)
        nothing = torch.empty(0, dtype=torch.int64)
        return Batch(
            ids=ids,
            valid=valid,
            segments=part_of(self.segments, self.lengths, rows)[0],
            is_next=torch.from_numpy(self.is_next[rows]),
            scored=nothing,
            labels=nothing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePairBatches:
    """Pairs of sentences with other tokens hidden each time they are drawn (Devlin et al. 2018)."""

    pairs: ExampleBatches[SentencePairRows]
    vocabulary: VocabularyIds
    mask_share: float

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """One random training batch; `progress` is how far the run is, 0…1."""
        return self._hidden(self.pairs.draw(rng, progress), rng)

    def evaluation(self) -> Sequence[Batch]:
        """The first held-out pairs, the same tokens hidden every time."""
        rng = np.random.default_rng(_PAIRS_SEED)
        return tuple(self._hidden(batch, rng) for batch in self.pairs.evaluation())

    def sized(self, n_texts: int, n_tokens: int) -> "SentencePairBatches":
        """The pairs that are no longer than `n_tokens`, `n_texts` at a time."""
        return replace(self, pairs=self.pairs.sized(n_texts, n_tokens))

    def _hidden(self, pairs: Batch, rng: np.random.Generator) -> Batch:
        hidden = masked_batch(pairs.ids.numpy(), self.vocabulary, self.mask_share, rng)
        n_pairs = len(pairs.ids)
        return replace(
            pairs,
            ids=hidden.ids,
            scored=hidden.scored,
            labels=hidden.labels,
            pair_weight=len(hidden.labels) / n_pairs,
        )


def sentence_pair_batches(
    recipe: Recipe,
    tokenizer: Tokenizer,
    vocabulary: VocabularyIds,
    training: Sequence[Example],
    held_out: Sequence[Example],
) -> SentencePairBatches:
    """Batches of pairs of sentences, as the model will read them when it is asked."""
    sides = (_sentence_pair_rows(recipe, tokenizer, pairs) for pairs in (training, held_out))
    return SentencePairBatches(
        pairs=ExampleBatches.of_recipe(recipe, *sides),
        vocabulary=vocabulary,
        mask_share=recipe.objective.mask_share,
    )


def _sentence_pair_rows(recipe: Recipe, tokenizer: Tokenizer, pairs: Sequence[Example]) -> SentencePairRows:
    begin, end = [tokenizer.begin_id], [tokenizer.end_id]
    firsts = tokenizer.encode_lines(pair.source for pair in pairs)
    seconds = tokenizer.encode_lines(pair.target or "" for pair in pairs)
    fitted = [
        fitted_pair([*begin, *a, *end], [*b, *end], recipe.model.max_tokens)
        for a, b in zip(firsts, seconds, strict=True)
    ]
    ids, lengths = padded([[*a, *b] for a, b in fitted], tokenizer.pad_id)
    return SentencePairRows(
        ids=ids,
        lengths=lengths,
        segments=padded([[0] * len(a) + [1] * len(b) for a, b in fitted], 1)[0],
        is_next=np.array([bool(pair.is_next) for pair in pairs], dtype=np.int64),
    )

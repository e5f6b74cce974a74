"""Turns token ids into batches: windows of running text, repeated random words, padded examples.

Every random draw comes from the generator that is passed in; nothing here keeps a random state. Ids are
held once, in flat arrays; a batch is gathered from them.

Whole examples as batches, a row for each: pictures, tagged texts, texts with places in them.

pictures       the numbers of their patches, and a label of each picture
tagged texts   a label for each word: the first token of each word is scored
places         every token but the special ones may be pointed to
pairs          two sentences as one text, whether the second follows, and hidden tokens
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.errors import RecipeError
from attnscope.models.inputs import fitted_pair
from attnscope.nn import Guide, patch_numbers
from attnscope.records.tokens import Tokens
from attnscope.text import (
    Example,
    LabelledPictures,
    LabelledText,
    PointedText,
    TaggedText,
    Tokenizer,
    first_pieces,
    fitted_pixels,
    may_be_meant,
    read_labelled_pictures,
    read_picture,
    split_pairs,
)
from attnscope.training.objectives import Batch
from attnscope.training.optimizers import growing_steps, texts_at, tokens_at
from attnscope.training.recipe import Recipe

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]
_STRETCH = (5, 31)
_LARGEST_GAP = 10
_FIRST_POOL = 40
_POOL_GROWS = (0.2, 0.5)
_EVALUATION_SEED = 20_170_612
_CHUNKS = 16
"""As many batches are drawn and sorted by length for each one that is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyIds:
    """The ids that a batch maker needs; `ordinary` are the ids of non-special tokens.

    For masking whole words, `continues` and `is_in_word` say of every id whether it goes on with a word that
    the token before is in, and whether it is in a word at all: [vocab_size] each.
    """

    pad_id: int
    begin_id: int
    end_id: int
    mask_id: int
    ordinary: Ids
    words: Ids
    continues: Mask | None = None
    is_in_word: Mask | None = None


class BatchMaker(Protocol):
    """A source of batches."""

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        """Draw one random training batch; `progress` is that of the run, 0…1."""

    def evaluation(self) -> Sequence[Batch]:
        """The same held-out batches every time; none if nothing is held out."""

    def sized(self, n_texts: int, n_tokens: int) -> "BatchMaker":
        """The same texts in batches of `n_texts`, of at most `n_tokens` tokens each."""


def batches_of_step(batches: BatchMaker, recipe: Recipe, step: int) -> BatchMaker:
    """The data for the batches of a step: smaller and shorter ones while they grow."""
    if step > growing_steps(recipe):
        return batches
    return batches.sized(texts_at(step, recipe), tokens_at(step, recipe))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBatches:
    """The source of batches of running text: at most `n_tokens` in each of `batch_size` sequences."""

    training: Ids
    held_out: Ids
    vocabulary: VocabularyIds
    n_tokens: int
    batch_size: int
    n_evaluation: int

    def sized(self, n_texts: int, n_tokens: int) -> Self:
        """The same text in sequences of `n_tokens`, `n_texts` at a time."""
        return replace(self, batch_size=n_texts, n_tokens=n_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBatches(RunningBatches):
    """Windows of running text for causal (`mask_share` None) or masked models.

    Causal: `<s>` and n_tokens − 1 tokens, each to tell the next. Masked: `<s>` … `</s>`. In a share of
    the sequences the text is random words repeated, of which what cannot be known is not scored.
    """

    mask_share: float | None
    repeated_share: float

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        length = self._body_length
        starts = rng.integers(0, max(1, len(self.training) - length + 1), size=self.batch_size)
        bodies = self._windows(self.training, starts, length)  # [B, length]
        is_scored = np.ones(bodies.shape, dtype=np.bool_)
        n_repeated = int(rng.binomial(self.batch_size, self.repeated_share)) if self.repeated_share else 0
        for row in range(n_repeated):
            bodies[row], is_scored[row] = repeated_words(self.vocabulary, bodies.shape[1], rng, progress)
        return self._batch(bodies, is_scored, rng)

    def evaluation(self) -> Sequence[Batch]:
        """Windows spread evenly over the held-out text, masked the same way every time."""
        length = self._body_length
        if len(self.held_out) < 2:
            return ()
        length = min(length, len(self.held_out))
        n_windows = min(self.n_evaluation * self.batch_size, len(self.held_out) // length)
        starts = np.linspace(0, len(self.held_out) - length, n_windows).astype(np.int64)
        rng = np.random.default_rng(_EVALUATION_SEED)
        return tuple(
            self._batch(self._windows(self.held_out, some, length), True, rng)
            for some in np.array_split(starts, -(-n_windows // self.batch_size))
        )

    @property
    def _body_length(self) -> int:
        return self.n_tokens if self.mask_share is None else self.n_tokens - 2

    def _windows(self, ids: Ids, starts: Ids, length: int) -> Ids:
        windows: Ids = ids[starts[:, None] + np.arange(min(length, len(ids)))]  # [B, length]
        return windows

    def _batch(self, bodies: Ids, is_scored: Mask | bool, rng: np.random.Generator) -> Batch:
        begin = np.full((len(bodies), 1), self.vocabulary.begin_id)
        if self.mask_share is not None:
            end = np.full((len(bodies), 1), self.vocabulary.end_id)
            whole = np.concatenate([begin, bodies, end], axis=1)  # [B, T]
            return masked_batch(whole, self.vocabulary, self.mask_share, rng)
        ids = np.concatenate([begin, bodies[:, :-1]], axis=1)  # [B, T]
        return _scored_batch(ids, bodies, np.broadcast_to(is_scored, ids.shape))


class Rows(Protocol):
    """Whole examples of one kind, one to a row."""

    @property
    def parts(self) -> tuple[Ids, ...]:
        """Parts of the data's hash."""

    @property
    def total_lengths(self) -> Ids:
        """Tokens of each example, summed over its parts, [n]."""

    @property
    def longest_lengths(self) -> Ids:
        """Tokens read of the longest part of each example, [n]."""

    def batch(self, rows: Ids) -> Batch:
        """The examples of these rows, padded to the longest of them."""


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedRows:
    """Padded texts [n, T], and the number of tokens in each."""

    ids: Ids
    lengths: Ids

    @property
    def total_lengths(self) -> Ids:
        return self.lengths

    @property
    def longest_lengths(self) -> Ids:
        return self.lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleBatches(Generic[R]):
    """Whole examples, whatever their targets, padded to the longest of the batch.

    Those of the rows `drawn` are trained on, all without them.
    """

    training: R
    held_out: R
    batch_size: int
    n_evaluation: int
    has_similar_lengths: bool = False
    drawn: Ids | None = None

    @classmethod
    def of_recipe(cls, recipe: Recipe, training: R, held_out: R) -> Self:
        """Batches with the recipe's number of examples, and of batches in an evaluation.

        Raises RecipeError for a length warm-up that short examples cannot follow.
        """
        if recipe.schedule.length_warmup_steps:
            _check_short_ones(training.longest_lengths, recipe.schedule.length_start)
        return cls(
            training=training,
            held_out=held_out,
            batch_size=recipe.training.batch_size,
            n_evaluation=recipe.training.evaluation_batches,
            has_similar_lengths=recipe.data.similar_lengths,
        )

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
        lengths, drawn = self.training.total_lengths, self.drawn
        n_chunks = _CHUNKS if self.has_similar_lengths else 1
        n = len(lengths) if drawn is None else len(drawn)
        rows = rng.integers(0, n, size=self.batch_size * n_chunks)
        rows = rows if drawn is None else drawn[rows]
        if n_chunks > 1:
            order = np.argsort(lengths[rows], kind="stable")
            rows = np.array_split(rows[order], n_chunks)[int(rng.integers(n_chunks))]
        return self.training.batch(rows)

    def sized(self, n_texts: int, n_tokens: int) -> Self:
        """The examples that are no longer than `n_tokens`, `n_texts` at a time."""
        return replace(
            self, batch_size=n_texts, drawn=np.flatnonzero(self.training.longest_lengths <= n_tokens)
        )

    def evaluation(self) -> Sequence[Batch]:
        """The first held-out examples."""
        n_rows = min(len(self.held_out.total_lengths), self.n_evaluation * self.batch_size)
        rows = np.arange(n_rows)
        return tuple(
            self.held_out.batch(rows[i : i + self.batch_size]) for i in range(0, n_rows, self.batch_size)
        )


def _check_short_ones(lengths: Ids, most: int) -> None:
    """Raise RecipeError if no example has at most `most` tokens, or none has more."""
    if not len(lengths):
        return  # what is missing is told where it is read
    least, longest = int(lengths.min()), int(lengths.max())
    if least <= most < longest:
        return
    raise RecipeError(
        f"schedule.length_start is {most}, and the examples have {least} to {longest} tokens.",
        expected=f"a length from {least} to {longest - 1}, so that short examples can come first"
        if least < longest
        else "examples of different lengths, or no length warm-up",
        action="Change schedule.length_start, or set schedule.length_warmup_steps to 0.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Padded examples: `ids` are predicted token by token, the first `n_given` after `<s>` unscored because
    nobody can know them; `sources`, in pairs, are translated. `links` are corresponding positions of target
    and source, [n_links, 2] of each example, for the head that `guide` names. `words` are those of each
    source with ids after the vocabulary.
    """

    ids: Ids
    lengths: Ids
    n_given: Ids
    sources: Ids | None = None
    source_lengths: Ids | None = None
    links: Sequence[Ids] | None = None
    guide: Guide | None = None
    words: Sequence[tuple[str, ...]] = ()

    @property
    def parts(self) -> tuple[Ids, ...]:
        return (self.ids,) if self.sources is None else (self.ids, self.sources)

    @property
    def total_lengths(self) -> Ids:
        """Tokens of each example, of source and target together."""
        return self.lengths if self.source_lengths is None else self.lengths + self.source_lengths

    @property
    def longest_lengths(self) -> Ids:
        """Tokens read of the longer of source and target, without the last of a target."""
        read = self.lengths - 1
        return read if self.source_lengths is None else np.maximum(read, self.source_lengths)

    def batch(self, rows: Ids) -> Batch:
        """The examples of these rows, each read from `<s>` on and ended by `</s>`."""
        longest = int(self.lengths[rows].max())
        whole = self.ids[rows, :longest]  # [B, T + 1]
        is_scored = np.arange(1, longest) < self.lengths[rows, None]
        is_scored &= np.arange(1, longest) > self.n_given[rows, None]
        batch = _scored_batch(whole[:, :-1], whole[:, 1:], is_scored)
        if self.sources is None or self.source_lengths is None:
            return batch
        sources, valid = part_of(self.sources, self.source_lengths, rows)
        links = None if self.links is None else _stacked(self.links, rows)
        return Batch(
            ids=sources,
            valid=valid,
            target_ids=batch.ids,
            scored=batch.scored,
            labels=batch.labels,
            links=None if links is None else torch.from_numpy(links),
            link_weight=0.0 if links is None else len(batch.labels) / max(1, len(links)),
            guide=self.guide,
            words=tuple(self.words[row] for row in rows.tolist()) if self.words else (),
        )


def _stacked(links: Sequence[Ids], rows: Ids) -> Ids:
    """The links of some examples, stacked, [n_links, 3]: index in the batch, in target, in source."""
    chosen = [links[row] for row in rows.tolist()]
    texts = np.repeat(np.arange(len(chosen)), [len(some) for some in chosen])
    return np.concatenate([texts[:, None], np.concatenate(chosen)], axis=1)


def padded(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Ids, Ids]:
    """The rows as one matrix padded with `pad_id`, and their lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    matrix = np.full((len(rows), int(lengths.max(initial=0))), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return matrix, lengths


def part_of(ids: Ids, lengths: Ids, rows: Ids) -> tuple[Tensor, Tensor | None]:
    """Some rows of padded ids, cut to the longest [B, T], and the mask of real tokens: None, all."""
    longest = int(lengths[rows].max())
    valid = np.arange(longest) < lengths[rows, None]
    some = torch.from_numpy(np.ascontiguousarray(ids[rows, :longest]))
    return some, None if valid.all() else torch.from_numpy(valid)


def repeated_words(
    vocabulary: VocabularyIds, length: int, rng: np.random.Generator, progress: float = 1.0
) -> tuple[Ids, Mask]:
    """Random words with some repeated stretches; and which of them can be predicted.

    Between the stretches stand random words too, so that neither looking a fixed number of tokens back nor
    knowing which words have occurred tells the next one: only what followed the same word before does.
    The pool of words is small at first and grows with `progress` (0…1): with 40 words induction heads formed
    within 500 steps, with 190 at once there were none after 600 (3 layers, rotary positions of base 100).
    """
    pool = _pool(vocabulary, progress, rng)
    ids = rng.choice(pool, size=length)
    can_know = np.zeros(length, dtype=np.bool_)
    start = int(rng.integers(0, _LARGEST_GAP + 1))
    while length - start >= 4:
        n_words = min(int(rng.integers(*_STRETCH)), (length - start) // 2, len(pool))
        stretch = rng.choice(pool, size=n_words, replace=False)
        ids[start : start + n_words] = ids[start + n_words : start + 2 * n_words] = stretch
        can_know[start + n_words + 1 : start + 2 * n_words] = True
        start += 2 * n_words + int(rng.integers(0, _LARGEST_GAP + 1))
    return ids, can_know


def _pool(vocabulary: VocabularyIds, progress: float, rng: np.random.Generator) -> Ids:
    """The words to draw from: a few until a fifth of the run, every token from its middle on."""
    others = np.setdiff1d(vocabulary.ordinary, vocabulary.words)
    ranked = np.concatenate([vocabulary.words, others])
    growth = min(1.0, max(0.0, (progress - _POOL_GROWS[0]) / (_POOL_GROWS[1] - _POOL_GROWS[0])))
    n = round(_FIRST_POOL * max(1.0, len(ranked) / _FIRST_POOL) ** growth)
    if rng.random() < 0.5 and len(vocabulary.words):
        n = min(n, len(vocabulary.words))
    return ranked[:n]


def masked_batch(whole: Ids, vocabulary: VocabularyIds, share: float, rng: np.random.Generator) -> Batch:
    """Hide a share of tokens: 80 % become `<mask>`, 10 % another token, 10 % stay (Devlin et al. 2019).

    Specials are never hidden; every sequence has at least one token hidden where it has an ordinary one. A
    vocabulary that tells where words go on has the pieces of a word hidden together.
    """
    is_ordinary = np.isin(whole, vocabulary.ordinary)
    draw = rng.random(whole.shape)
    if vocabulary.continues is not None and vocabulary.is_in_word is not None:
        draw = _same_in_words(draw, whole, vocabulary.continues, vocabulary.is_in_word)
    draw = np.where(is_ordinary, draw, 2.0)
    is_hidden = (draw < share) | ((draw == draw.min(axis=1, keepdims=True)) & is_ordinary)
    fate = rng.random(whole.shape)
    others = rng.choice(vocabulary.ordinary, size=whole.shape)
    shown = np.where(is_hidden & (fate < 0.8), vocabulary.mask_id, whole)
    shown = np.where(is_hidden & (fate >= 0.9), others, shown)
    return _scored_batch(shown, whole, is_hidden)


def _same_in_words(
    draw: NDArray[np.float64], ids: Ids, continues: Mask, is_in_word: Mask
) -> NDArray[np.float64]:
    """The draws, with each word sharing that of its first piece; [B, T] as `ids`."""
    goes_on = np.zeros(ids.shape, dtype=np.bool_)
    goes_on[:, 1:] = continues[ids[:, 1:]] & is_in_word[ids[:, :-1]]
    first = np.where(goes_on, 0, np.arange(ids.shape[1]))  # [B, T]
    return np.take_along_axis(draw, np.maximum.accumulate(first, axis=1), axis=1)


def _scored_batch(ids: Ids, labels: Ids, is_scored: NDArray[np.bool_]) -> Batch:
    scored = np.flatnonzero(is_scored)
    return Batch(
        ids=torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64)),
        scored=torch.from_numpy(scored),
        labels=torch.from_numpy(np.ascontiguousarray(labels.reshape(-1)[scored], dtype=np.int64)),
    )


T = TypeVar("T", LabelledText, PointedText, TaggedText)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointedRows(PaddedRows):
    """The positions that each text may point to, [n, T], and the tokens meant, [n, n_places]."""

    may_be: Mask
    places: Ids

    @property
    def parts(self) -> tuple[Ids, ...]:
        return self.ids, self.places

    def batch(self, rows: Ids) -> Batch:
        """The texts of these rows with the positions pointed to."""
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
    """Training and held-out texts, without overlap."""
    training, held_out = split_pairs([(text.text, text) for text in texts], recipe.data.validation_share)
    return [text for _, text in training], [text for _, text in held_out]


def pointed_batches(
    recipe: Recipe, tokenizer: Tokenizer, training: Sequence[PointedText], held_out: Sequence[PointedText]
) -> ExampleBatches[PointedRows]:
    """Batches of texts with positions; raises RecipeError if every answer was cut off."""
    sides = (_pointed_rows(recipe, tokenizer, texts) for texts in (training, held_out))
    return ExampleBatches.of_recipe(recipe, *sides)


def _pointed_rows(recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[PointedText]) -> PointedRows:
    """The texts as the model will read them in use; one whose answer was cut off is omitted."""
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
    """The first token that shares a letter with the stretch; None if that was cut off."""
    for i, token in enumerate(read.tokens):
        if may_be_meant(token) and token.start < stretch[1] and token.end > stretch[0]:
            return i
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRows:
    """Pictures [n, height, width, n_channels], uint8, and the index of each one's label, [n].

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
    """The pictures named by a task's sources, all of one `shape` (height, width, channels)."""
    pixels = np.stack([fitted_pixels(read_picture(example.source), *shape) for example in examples])
    return LabelledPictures(pixels=pixels, labels=tuple(example.label for example in examples))


def read_and_split_pictures(recipe: Recipe) -> tuple[LabelledPictures, LabelledPictures]:
    """The pictures of a recipe's file or folder, split into training and held-out ones without overlap."""
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
    """`labels` has the index of a label at each scored token, else −1: [n, T]."""

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
    """The texts as the model will read them in use."""
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
    """Pairs `<s>` A `</s>` B `</s>`: the segment of each token, [n, T], and whether B follows A, [n]."""

    segments: Ids
    is_next: Ids

    @property
    def parts(self) -> tuple[Ids, ...]:
        return self.ids, self.is_next

    def batch(self, rows: Ids) -> Batch:
        """The pairs of these rows, with no token hidden yet."""
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
    """Pairs of sentences with tokens hidden anew for each draw (Devlin et al. 2018)."""

    pairs: ExampleBatches[SentencePairRows]
    vocabulary: VocabularyIds
    mask_share: float

    def draw(self, rng: np.random.Generator, progress: float) -> Batch:
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
    """Batches of pairs of sentences, as the model will read them in use."""
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

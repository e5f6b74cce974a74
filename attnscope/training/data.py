"""From a recipe's [data] to batches: reading, splitting, tokenizing, once at the start of a run.

Raises LoadError for files that cannot be read (with the line where it matters) and RecipeError when the
data is too little for the recipe.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.errors import RecipeError
from attnscope.models.inputs import fitted_pair
from attnscope.nn import UNKNOWN_ID, ModelConfig
from attnscope.nn.own_module import OwnModule
from attnscope.schemes.masks import MASKS
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.tokenizers import SPECIALS
from attnscope.text import (
    POINTERS,
    LabelledPictures,
    LabelledText,
    PointedText,
    TaggedText,
    Tokenizer,
    align_texts,
    carelessly,
    exchanged_pairs,
    is_of_word,
    joined_pairs,
    joining_words,
    label_names,
    pointed_example,
    read_labelled,
    read_lines,
    read_pairs,
    read_spans,
    read_tagged,
    read_vectors,
    renamed,
    renamed_pairs,
    split,
    split_lines,
    split_pairs,
    tag_names,
    tagged_example,
    train_tokenizer,
)
from attnscope.text.examples import TOKENIZER_KIND, picture_shape_of, pointers_of, tells_next, vectors_of
from attnscope.text.tasks import Example, labels_of, task_tokenizer, word_labels_of
from attnscope.training.batches import (
    BatchMaker,
    ExampleBatches,
    Examples,
    Ids,
    Mask,
    PaddedRows,
    R,
    VocabularyIds,
    padded,
    part_of,
    picture_batches,
    pictures_of_task,
    pointed_batches,
    read_and_split_pictures,
    sentence_pair_batches,
    split_texts,
    tagged_batches,
)
from attnscope.training.objectives import Batch
from attnscope.training.parts import ObjectivePart
from attnscope.training.recipe import Recipe, make_recipe_task
from attnscope.training.text_batches import AfterPrefix, BehindMemory, TextOfRecipe, with_sentinels

# Labelled texts as batches: from a file or a task, read whole, each told one label.


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows(PaddedRows):
    """Padded texts with their labels; `segments` if two texts of each are read as one."""

    labels: Ids
    segments: Ids | None = None

    @property
    def parts(self) -> tuple[Ids, ...]:
        return self.ids, self.labels

    def batch(self, rows: Ids) -> Batch:
        ids, valid = part_of(self.ids, self.lengths, rows)
        segments = None if self.segments is None else part_of(self.segments, self.lengths, rows)[0]
        return Batch(
            ids=ids,
            valid=valid,
            segments=segments,
            scored=torch.arange(len(rows)) * ids.shape[1],
            labels=torch.from_numpy(self.labels[rows]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPairs(LabelledRows):
    """The same with a second text of each, to be matched."""

    seconds: Ids
    second_lengths: Ids

    @property
    def parts(self) -> tuple[Ids, ...]:
        return self.ids, self.seconds, self.labels

    @property
    def total_lengths(self) -> Ids:
        return self.lengths + self.second_lengths

    @property
    def longest_lengths(self) -> Ids:
        return np.maximum(self.lengths, self.second_lengths)

    def batch(self, rows: Ids) -> Batch:
        second, valid = part_of(self.seconds, self.second_lengths, rows)
        return replace(
            LabelledRows.batch(self, rows),
            target_ids=second,
            target_valid=valid,
            scored=torch.arange(len(rows)) * second.shape[1],
        )


def labelled_of_task(examples: Sequence[Example]) -> list[LabelledText]:
    return [LabelledText(label=e.label, text=e.source, second=e.target) for e in examples]


def labelled_batches(
    recipe: Recipe,
    tokenizer: Tokenizer,
    training: Sequence[LabelledText],
    held_out: Sequence[LabelledText],
    labels: Sequence[str],
) -> ExampleBatches[LabelledRows]:
    """Batches of labelled texts; raises RecipeError if the model reads another number of texts."""
    _check_texts(recipe, training)
    sides = (_rows(recipe, tokenizer, texts, labels) for texts in (training, held_out))
    return ExampleBatches.of_recipe(recipe, *sides)


def sentence_ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids of tokens that end a sentence: those that end in . ! ? … or in a line break."""
    texts = _read_as(tokenizer)
    return tuple(id for id, text in texts.items() if text.endswith("\n") or text.strip().endswith(_ENDS))


_ENDS = (".", "!", "?", "…")


def bracket_ids(tokenizer: Tokenizer, brackets: str) -> tuple[int, ...]:
    """The ids of tokens that are brackets of some kind, ignoring spaces."""
    texts = {id: text.strip() for id, text in _read_as(tokenizer).items()}
    return tuple(id for id, text in texts.items() if len(text) == 1 and text in brackets)


def _read_as(tokenizer: Tokenizer) -> dict[int, str]:
    """Text of each token except the special ones."""
    tokens = (tokenizer.token(id) for id in range(tokenizer.vocab_size))
    return {t.id: tokenizer.entries.reading(t.id).text or "" for t in tokens if not t.is_special}


def _rows(
    recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[LabelledText], labels: Sequence[str]
) -> LabelledRows:
    number = {label: i for i, label in enumerate(labels)}
    rows = _read(recipe, tokenizer, [text.text for text in texts])
    numbers = np.array([number[text.label] for text in texts], dtype=np.int64)
    if recipe.model.reads_pair:
        ids, lengths = padded(rows, tokenizer.pad_id)
        pairs = _read(recipe, tokenizer, [text.second or "" for text in texts])
        seconds, second_lengths = padded(pairs, tokenizer.pad_id)
        return LabelledPairs(
            ids=ids, lengths=lengths, labels=numbers, seconds=seconds, second_lengths=second_lengths
        )
    segments = None
    if texts[0].second is not None:
        added = tokenizer.encode_lines(text.second or "" for text in texts)
        n_most = recipe.model.max_tokens
        parts = [
            fitted_pair(first, [*ids, tokenizer.end_id], n_most)
            for first, ids in zip(rows, added, strict=True)
        ]
        rows = [[*first, *second] for first, second in parts]
        segments, _ = padded([[0] * len(first) + [1] * len(second) for first, second in parts], 1)
    ids, lengths = padded(rows, tokenizer.pad_id)
    return LabelledRows(ids=ids, lengths=lengths, labels=numbers, segments=segments)


def _read(recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The texts as the model will read them in use: cut so that the end tokens fit."""
    ends = [tokenizer.end_id] if recipe.model.form == "encoder" else []
    most = recipe.model.max_tokens - 1 - len(ends)
    if most < 1:
        raise RecipeError(
            f"model.max_tokens is {recipe.model.max_tokens}: nothing of a text would be read.",
            expected=f"at least {2 + len(ends)}",
            action="Make it larger.",
        )
    return [[tokenizer.begin_id, *ids[:most], *ends] for ids in tokenizer.encode_lines(texts)]


def _check_texts(recipe: Recipe, texts: Sequence[LabelledText]) -> None:
    has_second, model = texts[0].second is not None, recipe.model
    if has_second == model.reads_pair or (has_second and model.joins_texts):
        return
    found = "two texts" if has_second else "one text"
    raise RecipeError(
        f"Each example of the data has {found}, but model.reads_pair is {str(not has_second).lower()}.",
        expected="true, or model.n_segments = 2 to read both as one text" if has_second else "false",
        action="Set one of them, or choose other data." if has_second else "Set it, or choose other data.",
    )


_LINES_IN_BLOCK = 64
_HELD_OUT_SEED = 1
_N_LOOKS = 4
"""Batches that are drawn to see whether anything is scored: one may have nothing by chance."""
_LEAST_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Data ready for training; `sha256` is of the tokens, so it detects any relevant change.

    `characters_per_token` is that of held-out running text, NaN for pairs and tasks. `labels` are the names
    of the labels to be told, in the order of the model's outputs; `vectors` [vocab_size, n_numbers] are what
    is read of each token, where that is no learned embedding. `picture_px` are height and width of pictures.
    """

    tokenizer: Tokenizer
    batches: BatchMaker
    sha256: str
    characters_per_token: float = math.nan
    labels: tuple[str, ...] = ()
    vectors: NDArray[np.float32] | None = None
    picture_px: tuple[int, int] = (0, 0)

    def give_vectors(self, module: OwnModule) -> None:
        """Write the vectors into a model that reads them; no change for others."""
        if self.vectors is not None and not module.tokens.weight.is_meta:
            with torch.no_grad():
                module.tokens.weight.copy_(torch.from_numpy(self.vectors))

    def fitted(self, model: ModelConfig) -> ModelConfig:
        """A recipe's model section completed from the data: pieces, labels, ends of sentences.

        A model that could read two texts as one keeps no second segment where the data have one text each.
        """
        is_by_sentence = bool(self.labels) and model.pooling == "hierarchical"
        rows = self.batches.training if isinstance(self.batches, ExampleBatches) else None
        has_one_text = isinstance(rows, LabelledRows) and rows.segments is None
        opening, closing = self._brackets(model)
        is_one_text = has_one_text and model.joins_texts and POSITIONS[model.position].learns_table
        return replace(
            model,
            n_segments=0 if is_one_text else model.n_segments,
            vocab_size=self.tokenizer.vocab_size,
            n_labels=len(self.labels),
            n_numbers=0 if self.vectors is None else self.vectors.shape[1],
            picture_height=self.picture_px[0],
            picture_width=self.picture_px[1],
            sentence_ends=sentence_ends(self.tokenizer) if is_by_sentence else (),
            opening=opening,
            closing=closing,
        )

    def _brackets(self, model: ModelConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens that open and close lists, for positions in a tree; raises RecipeError without any."""
        if not POSITIONS[model.position].reads_row:
            return (), ()
        opening, closing = (bracket_ids(self.tokenizer, some) for some in ("([{", ")]}"))
        if not opening or not closing:
            raise RecipeError(
                f'model.position is "{model.position}", but the data have no token that is an opening '
                "bracket, or none that is a closing one.",
                expected="a text with brackets as tokens of their own, which make the tree",
                action="Choose other data, or another model.position.",
            )
        return opening, closing


def prepare(recipe: Recipe, tokenizer: Tokenizer | None = None) -> Prepared:
    """Read the data that the recipe names; `tokenizer` is that of an earlier run, else one is trained."""
    prepared = _in_full(recipe, tokenizer)
    prepared.fitted(recipe.model).check()
    _check_scored(recipe, prepared.batches)
    return prepared


def _in_full(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    """The data with the tokens in front of each text."""
    n_memory = recipe.model.memory_tokens
    if n_memory:
        room = replace(recipe.model, max_tokens=recipe.model.max_tokens - n_memory, memory_tokens=0)
        behind = replace(recipe.schedule, length_start=recipe.schedule.length_start - n_memory)
        prepared = _prepare(replace(recipe, model=room, schedule=behind), tokenizer)
        first = prepared.tokenizer.vocab_size
        return replace(
            prepared, batches=BehindMemory(batches=prepared.batches, vocab_size=first, n_memory=n_memory)
        )
    prepared = _prepare(recipe, tokenizer)
    if not MASKS[recipe.model.mask].has_prefix:
        return prepared
    batches = AfterPrefix(batches=prepared.batches, n_prefix=recipe.model.prefix_tokens)
    return replace(prepared, batches=batches)


def _check_scored(recipe: Recipe, batches: BatchMaker) -> None:
    """Raise RecipeError if texts are cut so short that nothing of them is predicted."""
    rng = np.random.default_rng(recipe.training.seed)
    if any(len(batches.draw(rng, 0.0).scored) for _ in range(_N_LOOKS)):
        return
    n_read = recipe.model.max_tokens - recipe.model.memory_tokens
    raise RecipeError(
        f"Of each text {plural(n_read, 'token')} would be read: too little for anything to be predicted.",
        expected="a model that reads what follows the tokens that are given",
        action="Make model.max_tokens larger.",
    )


def _prepare(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    path = Path(recipe.data.path)
    match recipe.data.kind:
        case "text":
            return _prepare_text(recipe, tokenizer)
        case "pairs":
            return _prepare_pairs(recipe, tokenizer)
        case "task":
            return _prepare_task(recipe, tokenizer)
        case "labelled":
            return _prepare_labelled(recipe, tokenizer, *split_texts(read_labelled(path), recipe))
        case "tagged":
            texts = read_tagged(path, recipe.data.column)
            return _prepare_tagged(recipe, tokenizer, *split_texts(texts, recipe))
        case "spans":
            return _prepare_pointed(recipe, tokenizer, *split_texts(read_spans(path), recipe), POINTERS)
        case "vectors":
            return _prepare_vectors(recipe, tokenizer)
        case "pictures":
            return _prepare_pictures(recipe, tokenizer, *read_and_split_pictures(recipe))
        case kind:
            raise ValueError(f"no data kind {kind!r}")


def _prepare_text(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    lines = read_lines(Path(recipe.data.path))
    divide = split if recipe.data.held_out_by == "lines" else split_lines
    training, held_out = divide(lines, recipe.data.validation_share)
    if recipe.data.renamed_share:
        training = renamed(training, recipe.data.renamed_share, np.random.default_rng(recipe.training.seed))
    tokenizer = with_sentinels(recipe, tokenizer or _trained_on(_blocks(training), recipe))
    ids, held_out_ids = _encode_text(tokenizer, training), _encode_text(tokenizer, held_out)
    if len(ids) < 2:
        raise RecipeError(
            f"{recipe.data.path} has only {plural(len(ids), 'token')} to train on.",
            expected="at least 2, better many thousands",
            action="Choose a longer text, or a smaller data.validation_share.",
        )
    text = TextOfRecipe(
        recipe=recipe,
        tokenizer=tokenizer,
        vocabulary=vocabulary_of(tokenizer, recipe.objective),
        training=ids,
        held_out=held_out_ids,
    )
    return Prepared(
        tokenizer=tokenizer,
        batches=OBJECTIVES[recipe.objective.kind].batches(recipe.objective, text),
        sha256=_hash(ids, held_out_ids),
        characters_per_token=sum(len(line) + 1 for line in held_out) / max(1, len(held_out_ids)),
    )


def _blocks(lines: Sequence[str]) -> Iterable[str]:
    """The text in blocks of a few lines: as users will type it, and small enough for the tokenizer."""
    for start in range(0, len(lines), _LINES_IN_BLOCK):
        yield "".join(f"{line}\n" for line in lines[start : start + _LINES_IN_BLOCK])


def _encode_text(tokenizer: Tokenizer, lines: Sequence[str]) -> Ids:
    arrays = [np.asarray(ids, dtype=np.int64) for ids in tokenizer.encode_lines(_blocks(lines))]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)


def _prepare_pairs(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    training, held_out = _split(recipe)
    exchanged = _with_rare_nouns(recipe, training)
    if recipe.data.joined_share:
        rng = np.random.default_rng([recipe.training.seed, 2])
        words = joining_words(recipe.data.joined_by)
        training = [*training, *joined_pairs(training, recipe.data.joined_share, words, rng)]
    if recipe.data.careless_share:
        rng = np.random.default_rng(recipe.training.seed)
        n_more = round(recipe.data.careless_share * len(training))
        chosen = [training[i] for i in rng.choice(len(training), n_more, replace=False).tolist()]
        training = [*training, *((carelessly(source), target) for source, target in chosen)]
    if recipe.data.renamed_share:
        rng = np.random.default_rng([recipe.training.seed, 1])
        training = [*training, *renamed_pairs(training, recipe.data.renamed_share, rng)]
    training = [*training, *exchanged]
    tokenizer = tokenizer or _trained_on(chain.from_iterable(training), recipe)
    return _from_pairs(recipe, tokenizer, training, held_out)


def _with_rare_nouns(recipe: Recipe, training: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs added by data.exchanged_share; raises RecipeError if no noun could be exchanged."""
    share = recipe.data.exchanged_share
    if not round(share * len(training)):
        return []
    rng = np.random.default_rng([recipe.training.seed, 3])
    if made := exchanged_pairs(training, share, rng):
        return made
    raise RecipeError(
        f"data.exchanged_share is {share:g}, but {recipe.data.path} has no rare noun that can be exchanged.",
        expected="English and French, with nouns that stand in 3 to 60 pairs and after articles",
        action="Use more pairs, or set it to 0.",
    )


def held_out_pairs(recipe: Recipe) -> list[tuple[str, str]]:
    """The held-out pairs of the recipe's file; raises the errors of reading them."""
    return _split(recipe)[1]


def _split(recipe: Recipe) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    data = recipe.data
    return split_pairs(
        read_pairs(Path(data.path)), data.validation_share, by_checksum=data.held_out_by == "crc32"
    )


def _prepare_task(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    task = make_recipe_task(recipe)
    if tokenizer is not None:
        _check_reads(recipe, task.vocabulary, tokenizer)
    tokenizer = tokenizer or task_tokenizer(task)
    n_held_out = recipe.training.evaluation_batches * recipe.training.batch_size
    training = task.examples(recipe.data.n_examples, seed=recipe.training.seed, held_out=False)
    held_out = task.examples(n_held_out, seed=_HELD_OUT_SEED, held_out=True)
    if shape := picture_shape_of(task):
        learned, kept = (pictures_of_task(side, shape) for side in (training, held_out))
        return _prepare_pictures(recipe, tokenizer, learned, kept, labels_of(task))
    if labels_of(task):
        texts, others = labelled_of_task(training), labelled_of_task(held_out)
        return _prepare_labelled(recipe, tokenizer, texts, others, labels=labels_of(task))
    if labels := word_labels_of(task):
        rows, held = ([tagged_example(example) for example in side] for side in (training, held_out))
        return _prepare_tagged(recipe, tokenizer, rows, held, labels)
    if pointers := pointers_of(task):
        pointed, others_pointed = (
            [pointed_example(example) for example in side] for side in (training, held_out)
        )
        prepared = _prepare_pointed(recipe, tokenizer, pointed, others_pointed, pointers)
        vectors = vectors_of(task)
        return prepared if vectors is None else _reading_vectors(prepared, task.vocabulary, vectors)
    if tells_next(task):
        return _prepare_sentence_pairs(recipe, tokenizer, training, held_out)
    if task.form == "encoder-decoder":
        return _from_pairs(recipe, tokenizer, _as_pairs(training), _as_pairs(held_out))
    return _from_examples(
        recipe,
        tokenizer,
        _row_examples(recipe, tokenizer, training),
        _row_examples(recipe, tokenizer, held_out),
    )


def _prepare_labelled(
    recipe: Recipe,
    tokenizer: Tokenizer | None,
    training: Sequence[LabelledText],
    held_out: Sequence[LabelledText],
    labels: tuple[str, ...] = (),
) -> Prepared:
    labels = labels or label_names([*training, *held_out])
    if tokenizer is None:
        texts = chain.from_iterable((text.text, text.second or "") for text in training)
        tokenizer = _trained_on(texts, recipe)
    batches = labelled_batches(recipe, tokenizer, training, held_out, labels)
    digest = _digest(batches, labels)
    return Prepared(tokenizer=tokenizer, batches=batches, sha256=digest, labels=labels)


def _prepare_tagged(
    recipe: Recipe,
    tokenizer: Tokenizer | None,
    training: Sequence[TaggedText],
    held_out: Sequence[TaggedText],
    labels: tuple[str, ...] = (),
) -> Prepared:
    labels = labels or tag_names([*training, *held_out])
    tokenizer = tokenizer or _trained_on((text.text for text in training), recipe)
    batches = tagged_batches(recipe, tokenizer, training, held_out, labels)
    digest = _digest(batches, labels)
    return Prepared(tokenizer=tokenizer, batches=batches, sha256=digest, labels=labels)


def _prepare_pointed(
    recipe: Recipe,
    tokenizer: Tokenizer | None,
    training: Sequence[PointedText],
    held_out: Sequence[PointedText],
    pointers: tuple[str, ...],
) -> Prepared:
    tokenizer = tokenizer or _trained_on((text.text for text in training), recipe)
    batches = pointed_batches(recipe, tokenizer, training, held_out)
    return Prepared(tokenizer=tokenizer, batches=batches, sha256=_digest(batches), labels=pointers)


def _prepare_sentence_pairs(
    recipe: Recipe, tokenizer: Tokenizer, training: Sequence[Example], held_out: Sequence[Example]
) -> Prepared:
    vocabulary = vocabulary_of(tokenizer, recipe.objective)
    batches = sentence_pair_batches(recipe, tokenizer, vocabulary, training, held_out)
    return Prepared(tokenizer=tokenizer, batches=batches, sha256=_digest(batches.pairs))


def _prepare_vectors(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    found = read_vectors(Path(recipe.data.path))
    if tokenizer is None:
        n_pieces = len(found.names) + len(SPECIALS)
        tokenizer = train_tokenizer("words", [" ".join(found.names)], vocab_size=n_pieces)
    numbered = [(one.text, one) for one in found.sets]
    sides = split_pairs(numbered, recipe.data.validation_share, what="set")
    training, held_out = ([one for _, one in side] for side in sides)
    prepared = _prepare_pointed(recipe, tokenizer, training, held_out, ("odd one",))
    return _reading_vectors(prepared, found.names, found.vectors)


def _prepare_pictures(
    recipe: Recipe,
    tokenizer: Tokenizer | None,
    training: LabelledPictures,
    held_out: LabelledPictures,
    labels: tuple[str, ...] = (),
) -> Prepared:
    """Pictures need no tokenizer; one of the labels takes its place if none is given."""
    labels = labels or tuple(sorted({*training.labels, *held_out.labels}))
    if tokenizer is None:
        n_pieces = max(8, len(labels) + len(SPECIALS))
        tokenizer = train_tokenizer("words", [" ".join(labels)], vocab_size=n_pieces)
    batches = picture_batches(recipe, training, held_out, labels)
    height, width, n_channels = training.pixels.shape[1:]
    sides = (batches.training, batches.held_out)
    pixels = "".join(hashlib.sha256(side.pixels.tobytes()).hexdigest() for side in sides)
    digest = hashlib.sha256((_digest(batches, labels) + pixels).encode()).hexdigest()
    return Prepared(
        tokenizer=tokenizer,
        batches=batches,
        sha256=digest,
        labels=labels,
        vectors=np.zeros((tokenizer.vocab_size, n_channels * recipe.model.patch_size**2), dtype=np.float32),
        picture_px=(height, width),
    )


def _reading_vectors(prepared: Prepared, names: Sequence[str], vectors: NDArray[np.float64]) -> Prepared:
    """The data if each token is a given vector; special tokens are zeros."""
    table = np.zeros((prepared.tokenizer.vocab_size, vectors.shape[1]), dtype=np.float32)
    table[[ids[0] for ids in prepared.tokenizer.encode_lines(names)]] = vectors
    digest = hashlib.sha256(prepared.sha256.encode() + table.tobytes()).hexdigest()
    return replace(prepared, vectors=table, sha256=digest)


def _check_reads(recipe: Recipe, words: Iterable[str], tokenizer: Tokenizer) -> None:
    """Raise RecipeError if the tokenizer of an earlier model cannot read a task's words."""
    unknown = tokenizer.unknown_id if tokenizer.has("unknown") else -1
    strange = [word for word in words if unknown in tokenizer.encode_ids(word)]
    if strange:
        raise RecipeError(
            f'The model to start from does not know these words of the task "{recipe.data.task}": '
            f"{', '.join(strange)[:80]}.",
            expected="a model that was trained on a task with the same words",
            action="Change start.from, or the task and its options.",
        )


def _as_pairs(examples: Iterable[Example]) -> list[tuple[str, str]]:
    return [(example.source, example.target or "") for example in examples]


def _row_examples(recipe: Recipe, tokenizer: Tokenizer, examples: Sequence[Example]) -> Examples:
    ids, lengths = _told(recipe, tokenizer, [example.source for example in examples])
    return Examples(ids=ids, lengths=lengths, n_given=np.array(_given(tokenizer, examples), dtype=np.int64))


def _given(tokenizer: Tokenizer, examples: Sequence[Example]) -> list[int]:
    """The unpredictable tokens of each example: its words, or their pieces."""
    if tokenizer.kind == TOKENIZER_KIND:
        return [example.n_given for example in examples]
    given = (" ".join(example.source.split()[: example.n_given]) for example in examples)
    return [len(ids) for ids in tokenizer.encode_lines(given)]


def _from_pairs(
    recipe: Recipe,
    tokenizer: Tokenizer,
    training: Sequence[tuple[str, str]],
    held_out: Sequence[tuple[str, str]],
) -> Prepared:
    examples = _pair_examples(recipe, tokenizer, training)
    if recipe.objective.guided_head:
        examples = replace(examples, links=_links(examples))
    return _from_examples(recipe, tokenizer, examples, _pair_examples(recipe, tokenizer, held_out))


def _pair_examples(recipe: Recipe, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> Examples:
    ids, lengths = _told(recipe, tokenizer, [target for _, target in pairs])
    most = recipe.model.max_tokens - 1
    sources = [
        [*source[:most], tokenizer.end_id] for source in tokenizer.encode_lines(source for source, _ in pairs)
    ]
    source_ids, source_lengths = padded(sources, tokenizer.pad_id)
    examples = Examples(
        ids=ids, lengths=lengths, n_given=0 * lengths, sources=source_ids, source_lengths=source_lengths
    )
    if not recipe.model.copies_source or tokenizer.unknown_id != UNKNOWN_ID:
        return examples
    return _with_words(tokenizer, pairs, examples)


def _with_words(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], examples: Examples) -> Examples:
    """The examples with extra ids for unknown words of a source, in its target too.

    Written into the arrays of the examples; a text has as many tokens as before.
    """
    if examples.sources is None or examples.source_lengths is None:
        raise ValueError("only pairs have a source to copy from")
    words: list[tuple[str, ...]] = [()] * len(pairs)
    for row in np.flatnonzero((examples.sources == UNKNOWN_ID).any(axis=1)).tolist():
        n_source, n_target = int(examples.source_lengths[row]) - 1, int(examples.lengths[row]) - 2
        source, target = pairs[row]
        reader = tokenizer.knowing(tokenizer.encode(source, max_tokens=n_source))
        words[row] = reader.entries.words
        examples.sources[row, :n_source] = reader.encode(source, max_tokens=n_source).ids
        examples.ids[row, 1 : n_target + 1] = reader.encode(target, max_tokens=n_target).ids
    return replace(examples, words=words)


def _links(examples: Examples) -> list[Ids]:
    """Corresponding rows of the decoder and tokens of the source: a row predicts the next token."""
    if examples.sources is None or examples.source_lengths is None:
        raise ValueError("only pairs can be aligned")
    sources = zip(examples.sources, (examples.source_lengths - 1).tolist(), strict=True)  # without </s>
    targets = zip(examples.ids, (examples.lengths - 1).tolist(), strict=True)
    return align_texts([ids[:n] for ids, n in sources], [ids[1:n] for ids, n in targets])


def _told(recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Ids, Ids]:
    """`<s>` text `</s>` of each text; the last token is only predicted, never read, so one more fits."""
    most = recipe.model.max_tokens - 1
    rows = [[tokenizer.begin_id, *ids[:most], tokenizer.end_id] for ids in tokenizer.encode_lines(texts)]
    return padded(rows, tokenizer.pad_id)


def _from_examples(recipe: Recipe, tokenizer: Tokenizer, training: Examples, held_out: Examples) -> Prepared:
    batches = ExampleBatches.of_recipe(recipe, replace(training, guide=recipe.objective.guide), held_out)
    return Prepared(tokenizer=tokenizer, batches=batches, sha256=_digest(batches))


def vocabulary_of(tokenizer: Tokenizer, objective: ObjectivePart) -> VocabularyIds:
    """The ids that batches need; −1 for a missing mask token, unless tokens are hidden."""
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    ordinary = [token.id for token in tokens if not token.is_special]
    has_mask = OBJECTIVES[objective.kind].hides_tokens or tokenizer.has("mask")
    parts: dict[str, Mask] = {}
    if objective.whole_words:
        parts["continues"] = np.array([t.joins_previous and is_of_word(t.piece[:1]) for t in tokens])
        parts["is_in_word"] = np.array([not t.is_special and is_of_word(t.piece[-1:]) for t in tokens])
    return VocabularyIds(
        pad_id=tokenizer.pad_id,
        begin_id=tokenizer.begin_id,
        end_id=tokenizer.end_id,
        mask_id=tokenizer.mask_id if has_mask else -1,
        ordinary=np.asarray(ordinary, dtype=np.int64),
        words=np.asarray(word_ids(tokenizer), dtype=np.int64),
        **parts,
    )


def word_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids of the tokens that are whole words of at least two letters, in order.

    A vocabulary with too few of them (one of characters, say) gives its single letters, or whatever it has
    but the special tokens.
    """
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    plain = [token for token in tokens if not token.is_special and token.piece and "⟨" not in token.piece]
    words = [t.id for t in plain if len(t.piece) > 1 and t.piece.isalpha() and not t.joins_previous]
    if len(words) >= _LEAST_WORDS:
        return tuple(words)
    letters = [token.id for token in plain if token.piece.isalpha()]
    return tuple(letters if len(letters) >= _LEAST_WORDS else (token.id for token in plain))


def _trained_on(texts: Iterable[str], recipe: Recipe) -> Tokenizer:
    return train_tokenizer(recipe.tokenizer.kind, texts, vocab_size=recipe.tokenizer.vocab_size)


def _digest(batches: ExampleBatches[R], labels: Sequence[str] = ()) -> str:
    names = [np.frombuffer("\n".join(labels).encode(), dtype=np.uint8).astype(np.int64)] if labels else []
    return _hash(*names, *batches.training.parts, *batches.held_out.parts)


def _hash(*arrays: Ids) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

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

from attnscope.errors import RecipeError
from attnscope.text.corpora import read_lines, read_pairs, split, split_pairs
from attnscope.text.repeats import word_ids
from attnscope.text.tasks import Example, task_tokenizer
from attnscope.text.tokenizer import Tokenizer, train_tokenizer
from attnscope.training.batches import (
    BatchMaker,
    ExampleBatches,
    Examples,
    Ids,
    TextBatches,
    Vocabulary,
    padded,
)
from attnscope.training.prefixes import AfterPrefix
from attnscope.training.recipe import Recipe, make_recipe_task

_LINES_IN_BLOCK = 64
_HELD_OUT_SEED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Data ready to train on; `sha256` is of the tokens, so it notices any change that matters.

    `characters_per_token` is that of held-out running text, NaN for pairs and tasks.
    """

    tokenizer: Tokenizer
    batches: BatchMaker
    sha256: str
    characters_per_token: float = math.nan


def prepare(recipe: Recipe, tokenizer: Tokenizer | None = None) -> Prepared:
    """Read what the recipe names; `tokenizer` is that of an earlier run, else one is trained."""
    prepared = _prepare(recipe, tokenizer)
    if recipe.model.mask != "prefix":
        return prepared
    batches = AfterPrefix(batches=prepared.batches, n_prefix=recipe.model.prefix_tokens)
    return replace(prepared, batches=batches)


def _prepare(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    match recipe.data.kind:
        case "text":
            return _prepare_text(recipe, tokenizer)
        case "pairs":
            return _prepare_pairs(recipe, tokenizer)
        case "task":
            return _prepare_task(recipe, tokenizer)
        case kind:
            raise ValueError(f"no data kind {kind!r}")


def _prepare_text(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    lines = read_lines(Path(recipe.data.path))
    training, held_out = split(lines, recipe.data.validation_share)
    if tokenizer is None:
        tokenizer = train_tokenizer(
            recipe.tokenizer.kind, _blocks(training), vocab_size=recipe.tokenizer.vocab_size
        )
    ids, held_out_ids = _encode_text(tokenizer, training), _encode_text(tokenizer, held_out)
    if len(ids) < 2:
        raise RecipeError(
            f"{recipe.data.path} has only {len(ids)} tokens to train on.",
            expected="at least 2, better many thousands",
            action="Choose a longer text, or a smaller data.validation_share.",
        )
    batches = TextBatches(
        training=ids,
        held_out=held_out_ids,
        vocabulary=_vocabulary(tokenizer),
        n_tokens=recipe.model.max_tokens,
        batch_size=recipe.training.batch_size,
        mask_share=recipe.objective.mask_share if recipe.objective.kind == "masked" else None,
        repeated_share=recipe.data.repeated_share,
        n_evaluation=recipe.training.evaluation_batches,
    )
    return Prepared(
        tokenizer=tokenizer,
        batches=batches,
        sha256=_hash(ids, held_out_ids),
        characters_per_token=sum(len(line) + 1 for line in held_out) / max(1, len(held_out_ids)),
    )


def _blocks(lines: Sequence[str]) -> Iterable[str]:
    """The text in blocks of a few lines: as people will type it, and small enough for the tokenizer."""
    for start in range(0, len(lines), _LINES_IN_BLOCK):
        yield "".join(f"{line}\n" for line in lines[start : start + _LINES_IN_BLOCK])


def _encode_text(tokenizer: Tokenizer, lines: Sequence[str]) -> Ids:
    arrays = [np.asarray(ids, dtype=np.int64) for ids in tokenizer.encode_lines(_blocks(lines))]
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)


def _prepare_pairs(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    pairs = read_pairs(Path(recipe.data.path))
    training, held_out = split_pairs(pairs, recipe.data.validation_share)
    if tokenizer is None:
        tokenizer = train_tokenizer(
            recipe.tokenizer.kind, chain.from_iterable(training), vocab_size=recipe.tokenizer.vocab_size
        )
    return _from_pairs(recipe, tokenizer, training, held_out)


def _prepare_task(recipe: Recipe, tokenizer: Tokenizer | None) -> Prepared:
    task = make_recipe_task(recipe)
    tokenizer = tokenizer or task_tokenizer(task)
    n_held_out = recipe.training.evaluation_batches * recipe.training.batch_size
    training = task.examples(recipe.data.n_examples, seed=recipe.training.seed, held_out=False)
    held_out = task.examples(n_held_out, seed=_HELD_OUT_SEED, held_out=True)
    if task.form == "encoder-decoder":
        return _from_pairs(recipe, tokenizer, _as_pairs(training), _as_pairs(held_out))
    return _from_examples(
        recipe,
        tokenizer,
        _row_examples(recipe, tokenizer, training),
        _row_examples(recipe, tokenizer, held_out),
    )


def _as_pairs(examples: Iterable[Example]) -> list[tuple[str, str]]:
    return [(example.source, example.target or "") for example in examples]


def _row_examples(recipe: Recipe, tokenizer: Tokenizer, examples: Sequence[Example]) -> Examples:
    ids, lengths = _told(recipe, tokenizer, [example.source for example in examples])
    return Examples(ids=ids, lengths=lengths, n_given=np.array([example.n_given for example in examples]))


def _from_pairs(
    recipe: Recipe,
    tokenizer: Tokenizer,
    training: Sequence[tuple[str, str]],
    held_out: Sequence[tuple[str, str]],
) -> Prepared:
    return _from_examples(
        recipe,
        tokenizer,
        _pair_examples(recipe, tokenizer, training),
        _pair_examples(recipe, tokenizer, held_out),
    )


def _pair_examples(recipe: Recipe, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> Examples:
    ids, lengths = _told(recipe, tokenizer, [target for _, target in pairs])
    most = recipe.model.max_tokens - 1
    sources = [
        [*source[:most], tokenizer.end_id] for source in tokenizer.encode_lines(source for source, _ in pairs)
    ]
    source_ids, source_lengths = padded(sources, tokenizer.pad_id)
    return Examples(ids=ids, lengths=lengths, sources=source_ids, source_lengths=source_lengths)


def _told(recipe: Recipe, tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Ids, Ids]:
    """`<s>` text `</s>` of each text; the last token is only told, never read, so one more fits."""
    most = recipe.model.max_tokens - 1
    rows = [[tokenizer.begin_id, *ids[:most], tokenizer.end_id] for ids in tokenizer.encode_lines(texts)]
    return padded(rows, tokenizer.pad_id)


def _from_examples(recipe: Recipe, tokenizer: Tokenizer, training: Examples, held_out: Examples) -> Prepared:
    batches = ExampleBatches(
        training=training,
        held_out=held_out,
        batch_size=recipe.training.batch_size,
        n_evaluation=recipe.training.evaluation_batches,
    )
    arrays = [training.ids, training.sources, held_out.ids, held_out.sources]
    return Prepared(tokenizer=tokenizer, batches=batches, sha256=_hash(*(a for a in arrays if a is not None)))


def _vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    ordinary = [token.id for token in tokens if not token.is_special]
    return Vocabulary(
        pad_id=tokenizer.pad_id,
        begin_id=tokenizer.begin_id,
        end_id=tokenizer.end_id,
        mask_id=tokenizer.mask_id,
        ordinary=np.asarray(ordinary, dtype=np.int64),
        words=np.asarray(word_ids(tokenizer), dtype=np.int64),
    )


def _hash(*arrays: Ids) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

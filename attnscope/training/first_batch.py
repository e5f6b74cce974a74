"""The very batch that a run begins with, in pieces: what is hidden, what is to be predicted."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from attnscope.models.pictures import patch_tokens
from attnscope.nn.embedding_and_head import memory_piece
from attnscope.paths import resources_folder
from attnscope.records.plans import BatchCell, BatchRow, FirstBatch
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import batches_of_step
from attnscope.training.data import prepare
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe
from attnscope.training.starting import read_start


def with_sample_text(recipe: Recipe) -> Recipe | None:
    """A recipe of running text that names no file, with the sample text in its place; None for any other."""
    if recipe.data.kind != "text" or recipe.data.path:
        return None
    path = resources_folder() / "samples" / "tokenizing.txt"
    return replace(recipe, data=replace(recipe.data, path=str(path)))


def first_batch(recipe: Recipe, n_rows: int = 4) -> FirstBatch:
    """The first `n_rows` rows of a run's first batch; reads the data, and trains their tokenizer.

    Raises what reading the data raises.
    """
    start = read_start(recipe, has_weights=False) if recipe.start.source else None
    prepared = prepare(recipe, None if start is None else start.tokenizer)
    rng = np.random.default_rng((recipe.training.seed, 1))  # as the run draws it
    if recipe.model.dropout or recipe.model.weight_dropout:
        rng.integers(2**63)
    batch = batches_of_step(prepared.batches, recipe, 1).draw(rng, 0.0)
    hides = OBJECTIVES[recipe.objective.kind].hides_tokens
    told = _told(recipe, batch, prepared.tokenizer, prepared.labels)
    parts = (batch.ids, *(() if batch.target_ids is None else (batch.target_ids,)))
    n_padding = sum(int((part == prepared.tokenizer.pad_id).sum()) for part in parts if part.ndim == 2)
    grid = prepared.fitted(recipe.model).patch_grid
    rows = (
        _row(batch, i, told, prepared.tokenizer, hides=hides, grid=grid)
        for i in range(min(n_rows, len(batch.ids)))
    )
    return FirstBatch(
        rows=tuple(rows),
        n_rows=len(batch.ids),
        n_tokens=batch.n_tokens,
        n_padding=n_padding,
        n_predicted=len(batch.labels),
    )


def _told(recipe: Recipe, batch: Batch, tokenizer: Tokenizer, labels: Sequence[str]) -> dict[int, str]:
    """What is to be predicted, by its flat index in the ids that predict."""
    width = _predicting(batch).shape[1]
    if batch.n_places:
        found: dict[int, str] = {}
        for i, column in enumerate(batch.labels.tolist()):
            row, place = divmod(i, batch.n_places)
            at = row * width + column
            found[at] = f"{found[at]} and {labels[place]}" if at in found else labels[place]
        return found
    tells_labels = bool(OBJECTIVES[recipe.objective.kind].labels)
    names = labels if tells_labels else [tokenizer.token(id).piece for id in range(tokenizer.vocab_size)]
    pairs = zip(batch.scored.tolist(), batch.labels.tolist(), strict=True)
    return {
        at: names[label] if label < len(names) else _reader(batch, at // width, tokenizer).token(label).piece
        for at, label in pairs
    }


def _reader(batch: Batch, i: int, tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with the words that only row `i` has."""
    return tokenizer.with_words(batch.words[i]) if batch.words else tokenizer


def _predicting(batch: Batch) -> Tensor:
    return batch.ids if batch.target_ids is None else batch.target_ids


def _row(
    batch: Batch,
    i: int,
    told: dict[int, str],
    tokenizer: Tokenizer,
    *,
    hides: bool,
    grid: tuple[int, int],
) -> BatchRow:
    ids, tokenizer = _predicting(batch), _reader(batch, i, tokenizer)
    width, cells = ids.shape[1], []
    for j, (id, piece) in enumerate(_pieces(ids[i], tokenizer, grid)):
        answer, note = told.get(i * width + j), ""
        if answer is not None and hides and id != tokenizer.mask_id:
            note = "kept" if answer == piece else "random"
        cells.append(
            BatchCell(
                piece=piece,
                told=answer,
                note=note,
                segment="" if batch.segments is None else "AB"[int(batch.segments[i, j])],
                is_padding=ids.ndim == 2 and id == tokenizer.pad_id,
            )
        )
    return BatchRow(source=_source(batch, i, tokenizer), cells=tuple(cells), note=_note(batch, i))


def _pieces(ids: Tensor, tokenizer: Tokenizer, grid: tuple[int, int]) -> list[tuple[int, str]]:
    """Ids with their pieces; of patches [T, n_numbers] their places in the picture."""
    if ids.ndim == 2:
        return [(token.id, token.piece) for token in patch_tokens("", grid, len(ids)).tokens]
    return [(id, _piece(id, tokenizer)) for id in ids.tolist()]


def _piece(id: int, tokenizer: Tokenizer) -> str:
    n_pieces = tokenizer.vocab_size
    is_known = id < n_pieces or tokenizer.entries.words
    return tokenizer.token(id).piece if is_known else memory_piece(id, n_pieces)


def _source(batch: Batch, i: int, tokenizer: Tokenizer) -> tuple[BatchCell, ...]:
    if batch.target_ids is None:
        return ()
    return tuple(
        BatchCell(piece=tokenizer.token(id).piece, is_padding=id == tokenizer.pad_id)
        for id in batch.ids[i].tolist()
    )


def _note(batch: Batch, i: int) -> str:
    if batch.is_next is None:
        return ""
    is_next = int(batch.is_next[i])
    return "IsNext: B follows A" if is_next else "NotNext: B is from elsewhere"

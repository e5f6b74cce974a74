"""The beginning of a run: a new one, or the continuation of the one in its folder. Also the very first batch,
in pieces: hidden tokens and targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnscope import __version__
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.files import replace_file, sweep_temporary
from attnscope.models import Model, OwnNetwork, is_model_folder, patch_tokens
from attnscope.nn import available_bytes, check_fits
from attnscope.nn.building import unfilled_own
from attnscope.nn.embedding_and_head import memory_piece
from attnscope.nn.own_module import OwnModule
from attnscope.outside import read_toml_text
from attnscope.paths import resources_folder
from attnscope.records.plans import BatchCell, BatchRow, FirstBatch
from attnscope.schemes.objectives import OBJECTIVES
from attnscope.text.tokenizer import Tokenizer
from attnscope.training.batches import batches_of_step
from attnscope.training.data import Prepared, prepare
from attnscope.training.distributed import ALONE, Ranks, SharedLoss
from attnscope.training.objectives import Batch
from attnscope.training.optimizers import build_optimizer, restore_tensors, texts_at
from attnscope.training.parts import mended_recipe
from attnscope.training.recipe import Recipe, differences, parse_recipe, write_recipe
from attnscope.training.run import RunFolder, require_writable
from attnscope.training.saving import (
    ResumePoint,
    card_of,
    length_note,
    read_newest_point,
    read_point,
    require_states,
    set_aside,
)
from attnscope.training.starting import first_module, read_start, start_note
from attnscope.training.techniques import Techniques

_LENGTHENING = " For more steps: attnscope train --resume, or Go on… on the Train page."


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Everything a run needs for its next step.

    `model` is whole; it is the one in training unless `loss` has spread that over several processes. Then
    only the process that writes holds it, and the others have none but its shape.
    """

    folder: RunFolder
    data: Prepared
    model: Model
    loss: SharedLoss
    optimizer: torch.optim.Optimizer
    techniques: Techniques
    step: int
    note: str = ""


def begin(
    recipe: Recipe,
    folder: RunFolder,
    device: torch.device,
    ranks: Ranks = ALONE,
    *,
    may_lengthen: bool = False,
) -> Begun:
    """Begin or resume; an earlier run in the folder is only changed if it can be continued.

    With `may_lengthen` the recipe may have more steps than it began with, whatever its schedule. Of several
    processes the first one decides which, and it alone writes.
    """
    check_fits(recipe.model, available_bytes(), is_training=True)
    ranks.check_batch(recipe.training.batch_size)
    ranks.check_batch(texts_at(1, recipe), "schedule.batch_start")
    holds_state = ranks.is_writer and _holds_state(folder)
    if ranks.any(holds_state, device):
        return _resume(recipe, folder, device, ranks, may_lengthen=may_lengthen)
    return _begin_new(recipe, folder, device, ranks)


def _holds_state(folder: RunFolder) -> bool:
    """Whether there is a run to resume; raises UserError if the folder holds anything else."""
    for inner in (folder.folder, folder.folder / "checkpoints", folder.folder / "probes"):
        sweep_temporary(inner, stale_after_s=0.0)  # the lock is held: nobody else writes here
    if folder.holds_run:
        return bool(require_states(folder))
    found = "a model" if is_model_folder(folder.folder) else folder.leavings()
    if found:
        raise UserError(
            f"{folder.folder} holds {found}, but no recipe.toml.",
            expected="a new or an empty folder, or that of a run to resume",
            action="Choose another folder for the run; nothing was written.",
        )
    return False


def _begin_new(recipe: Recipe, folder: RunFolder, device: torch.device, ranks: Ranks) -> Begun:
    is_whole = _holds_whole(recipe, ranks)
    start = read_start(recipe, has_weights=is_whole) if recipe.start.source else None
    data = prepare(recipe, None if start is None else start.tokenizer)
    ranks.check_same("training data", data.sha256)
    module = first_module(recipe, data.fitted(recipe.model), start, has_weights=is_whole)
    data.give_vectors(module)
    whole, loss = _spread(module, recipe, device, ranks)
    _write_beginning(recipe, folder, ranks)
    model = Model(
        OwnNetwork(whole, data.tokenizer, card_of(recipe, 0, data.labels), source=str(folder.folder))
    )
    techniques = Techniques(recipe, loss.module, folder, device, ranks)
    return Begun(
        folder=folder,
        data=data,
        model=model,
        loss=loss,
        optimizer=build_optimizer(loss.module, recipe.optimizer, layer_decay=recipe.start.layer_decay),
        techniques=techniques,
        step=0,
        note=start_note(recipe, start),
    )


def _spread(
    module: OwnModule, recipe: Recipe, device: torch.device, ranks: Ranks
) -> tuple[OwnModule, SharedLoss]:
    """The whole model, and its loss over the processes; the same module if nothing is distributed.

    Where it is spread, only the process that writes holds the whole one, on the CPU.
    """
    if not _is_sharded(recipe, ranks):
        module = module.to(device)
        return module, SharedLoss(module, ranks, device, is_sharded=False)
    loss = SharedLoss(unfilled_own(module.config), ranks, device, is_sharded=True)
    loss.take_parts(module)
    return module, loss


def _is_sharded(recipe: Recipe, ranks: Ranks) -> bool:
    return recipe.training.sharded and ranks.n > 1


def _holds_whole(recipe: Recipe, ranks: Ranks) -> bool:
    """Whether this process ever has all weights at once; others get their parts from the writer."""
    return ranks.is_writer or not _is_sharded(recipe, ranks)


def _write_beginning(recipe: Recipe, folder: RunFolder, ranks: Ranks) -> None:
    if ranks.is_writer:
        require_writable(folder.folder)
        replace_file(folder.recipe, write_recipe(recipe).encode())


def _resume(
    recipe: Recipe, folder: RunFolder, device: torch.device, ranks: Ranks, *, may_lengthen: bool
) -> Begun:
    earlier, mending = _require_same_recipe(recipe, folder.recipe, may_lengthen=may_lengthen)
    point = _read_point(recipe, folder, device, ranks)
    state, loaded = point.state, point.loaded
    data = prepare(recipe, loaded.tokenizer)
    if data.sha256 != state.data_sha256:
        raise RecipeError(
            "The training data has changed since this run began.",
            expected=f"the fingerprint {state.data_sha256[:12]}…, found {data.sha256[:12]}…",
            action="Put the old data back, or start a new run in another folder.",
        )
    whole, loss = _spread(loaded.module, recipe, device, ranks)
    techniques = Techniques(recipe, loss.module, folder, device, ranks, is_resumed=True)
    optimizer = build_optimizer(loss.module, recipe.optimizer, layer_decay=recipe.start.layer_decay)
    restore_tensors(optimizer, loss.module, techniques.restore(point.tensors))
    aside = set_aside(folder, point.damaged)
    _write_beginning(recipe, folder, ranks)
    parts = (f"Resumed at step {state.step}.", aside, mending, length_note(earlier, recipe, state.step))
    note = " ".join(filter(None, parts))
    if state.version != __version__:
        note += f" The run was started with version {state.version}; this is {__version__}."
    model = Model(
        OwnNetwork(whole, data.tokenizer, card_of(recipe, state.step, data.labels), source=str(folder.folder))
    )
    return Begun(
        folder=folder,
        data=data,
        model=model,
        loss=loss,
        optimizer=optimizer,
        techniques=techniques,
        step=state.step,
        note=note,
    )


def _read_point(recipe: Recipe, folder: RunFolder, device: torch.device, ranks: Ranks) -> ResumePoint:
    """The point to resume from, chosen by the writing process for all."""
    point = read_newest_point(folder) if ranks.is_writer else None
    step = int(ranks.totals([point.state.step if point else 0], device)[0])
    return point or read_point(folder, step, is_whole=_holds_whole(recipe, ranks))


def _require_same_recipe(recipe: Recipe, path: Path, *, may_lengthen: bool) -> tuple[Recipe, str]:
    """The recipe that the run began with, and a note on keys that had to be omitted."""
    try:
        text, note = mended_recipe(read_toml_text(path))
        earlier = parse_recipe(text)
    except UserError as error:
        raise LoadError(
            f"The recipe of the run in {path.parent} cannot be read: {error}",
            kind="run",
            expected="the recipe.toml that training wrote",
            action="Start a new run in another folder.",
        ) from error
    changed = differences(earlier, recipe, may_lengthen=may_lengthen)
    if changed:
        raise RecipeError(
            f"The folder {path.parent} holds a run of a different recipe: {'; '.join(changed)}.",
            expected="the recipe it began with",
            action="Change these values back to resume it, or choose another folder."
            + _LENGTHENING * any(line.startswith("training.n_steps") for line in changed),
        )
    return earlier, note


def with_sample_text(recipe: Recipe) -> Recipe | None:
    """A recipe of running text without a file, with the sample text instead; None for any other."""
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
    """Targets of the prediction, by flat index in the ids that predict."""
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
    """The tokenizer with the words known only to row `i`."""
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
    """Ids with their pieces; for patches [T, n_numbers] their positions in the picture."""
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

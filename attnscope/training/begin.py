"""The beginning of a run: a new one, or the continuation of the one its folder holds."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from attnscope import __version__
from attnscope.errors import LoadError, RecipeError, UserError
from attnscope.files import replace_file, sweep_temporary
from attnscope.models.checkpoint import read_model_folder
from attnscope.models.memory import available_bytes
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.nn.config import check_fits
from attnscope.nn.transformer import build_transformer
from attnscope.training.data import Prepared, prepare
from attnscope.training.optimizers import build_optimizer, restore_tensors
from attnscope.training.recipe import Recipe, differences, parse_recipe, write_recipe
from attnscope.training.run import RunFolder, require_writable
from attnscope.training.saving import card_of
from attnscope.training.state import load_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Everything a run needs for its next step."""

    folder: RunFolder
    data: Prepared
    model: Model
    optimizer: torch.optim.Optimizer
    step: int
    note: str = ""


def begin(recipe: Recipe, folder: RunFolder, device: torch.device) -> Begun:
    """Begin or resume; an earlier run in the folder is only touched when it can be continued."""
    check_fits(recipe.model, available_bytes(), is_training=True)
    if folder.holds_run and folder.state.exists():
        return _resume(recipe, folder, device)
    if folder.holds_run and folder.checkpoints():
        load_state(folder.state)  # says that it is missing
    return _begin_new(recipe, folder, device)


def _begin_new(recipe: Recipe, folder: RunFolder, device: torch.device) -> Begun:
    data = prepare(recipe)
    config = replace(recipe.model, vocab_size=data.tokenizer.vocab_size)
    config.check()
    module = build_transformer(config, recipe.training.seed).to(device)
    require_writable(folder.folder)
    replace_file(folder.recipe, write_recipe(recipe).encode())
    model = Model(OwnNetwork(module, data.tokenizer, card_of(recipe, 0), source=str(folder.folder)))
    optimizer = build_optimizer(module, recipe.optimizer)
    return Begun(folder=folder, data=data, model=model, optimizer=optimizer, step=0)


def _resume(recipe: Recipe, folder: RunFolder, device: torch.device) -> Begun:
    _require_same_recipe(recipe, folder.recipe)
    state, tensors = load_state(folder.state)
    loaded = read_model_folder(folder.checkpoint(state.step))
    if loaded.sha256 != state.weights_sha256:
        raise LoadError(
            f"The checkpoint of step {state.step} is not the one the run was stopped at.",
            kind="state",
            expected=f"weights with the SHA-256 {state.weights_sha256[:12]}…",
            action="Restore the run folder from a copy, or start a new run in another folder.",
        )
    data = prepare(recipe, loaded.tokenizer)
    if data.sha256 != state.data_sha256:
        raise RecipeError(
            "The training data has changed since this run began.",
            expected=f"the fingerprint {state.data_sha256[:12]}…, found {data.sha256[:12]}…",
            action="Put the old data back, or start a new run in another folder.",
        )
    module = loaded.module.to(device)
    optimizer = build_optimizer(module, recipe.optimizer)
    restore_tensors(optimizer, module, tensors)
    require_writable(folder.folder)
    for inner in (folder.folder, folder.folder / "checkpoints", folder.folder / "probes"):
        sweep_temporary(inner)
    replace_file(folder.recipe, write_recipe(recipe).encode())
    note = f"Resumed at step {state.step}."
    if state.version != __version__:
        note += f" The run was begun with version {state.version}; this is {__version__}."
    model = Model(OwnNetwork(module, data.tokenizer, card_of(recipe, state.step), source=str(folder.folder)))
    return Begun(folder=folder, data=data, model=model, optimizer=optimizer, step=state.step, note=note)


def _require_same_recipe(recipe: Recipe, path: Path) -> None:
    try:
        earlier = parse_recipe(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, UserError) as error:
        raise LoadError(
            f"The recipe of the run in {path.parent} cannot be read: {error}",
            kind="run",
            expected="the recipe.toml that training wrote",
            action="Start a new run in another folder.",
        ) from error
    changed = differences(earlier, recipe)
    if changed:
        raise RecipeError(
            f"The folder {path.parent} holds a run of a different recipe: {'; '.join(changed)}.",
            expected="the recipe it began with",
            action="Change these values back to resume it, or choose another folder.",
        )

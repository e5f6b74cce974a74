"""One model from the mean of a run's last checkpoints' weights.

Vaswani et al. (2017, section 6.1) report the mean of the last 5 checkpoints, of the larger model the last 20;
why it does well is in Izmailov et al. (2018): steps of a high learning rate circle a minimum, their mean is
nearer to it. It costs no training: each checkpoint is read once, the sums are in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from attnscope.counting import counted
from attnscope.errors import LoadError, UserError
from attnscope.models.card import ModelCard
from attnscope.models.checkpoint import LoadedFolder, read_model_folder
from attnscope.models.device import choose_device
from attnscope.models.model import Model
from attnscope.models.own import OwnNetwork
from attnscope.records.training import Evaluated
from attnscope.strict_toml import read_toml_text
from attnscope.training.data import Prepared, prepare
from attnscope.training.distributed import ALONE, SharedLoss
from attnscope.training.evaluation import autocast_of, evaluate
from attnscope.training.old_recipes import mended_recipe
from attnscope.training.recipe import Recipe, parse_recipe
from attnscope.training.run import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged:
    """The model, the steps its weights are the mean of, and held-out losses of it and of the last step alone.

    Without its data a run has no held-out losses; `note` says so then.
    """

    model: Model
    steps: tuple[int, ...]
    held_out: Evaluated | None = None
    last_alone: Evaluated | None = None
    note: str = ""


def average_run(folder: Path, *, last: int = 5, device: str = "auto") -> Averaged:
    """The mean of the weights of a run's `last` checkpoints, the untrained one left out.

    Raises LoadError for a folder without a run, UserError where there are too few checkpoints, or where the
    run learns which heads to close: their gates are no weights that a mean is of.
    """
    run = RunFolder(folder)
    recipe = _recipe_of(run)
    found = [entry for entry in run.checkpoints() if entry[0]]
    if not 2 <= last <= len(found):
        raise UserError(
            f"{folder} has {counted(len(found), 'checkpoint')} after the beginning; {last} are "
            "to be averaged.",
            expected=f"2 to {len(found)}" if len(found) > 1 else "a run with 2 checkpoints or more",
            action="Train with a smaller training.save_every to keep more of them.",
        )
    steps, folders = zip(*found[-last:], strict=True)
    loaded = read_model_folder(folders[-1])
    place = choose_device(device)
    data, note = _held_out(recipe, loaded)
    alone = _loss_of(loaded, data, recipe, steps[-1], place)
    _fill_with_mean(loaded, folders)
    mean = _loss_of(loaded, data, recipe, steps[-1], place)
    card = _card(loaded.card, steps)
    network = OwnNetwork(loaded.module.to(place).eval(), loaded.tokenizer, card, source=str(folder))
    return Averaged(model=Model(network), steps=steps, held_out=mean, last_alone=alone, note=note)


def _recipe_of(run: RunFolder) -> Recipe:
    try:
        text, _ = mended_recipe(read_toml_text(run.recipe))
    except LoadError as error:
        raise LoadError(
            f"{run.folder} holds no run that can be read: {error.happened}",
            kind="run",
            expected="a folder with recipe.toml, as training writes it",
            action="Choose the folder that was given to the training.",
        ) from error
    recipe = parse_recipe(text, base_folder=run.folder, needs_data=False)
    if recipe.gates.l0_penalty:
        raise UserError(
            f"The run in {run.folder} learns which heads to close.",
            expected="a run without gates.l0_penalty",
            action="Open its last checkpoint, which has the closed heads in its card.",
        )
    return recipe


def _fill_with_mean(loaded: LoadedFolder, folders: Sequence[Path]) -> None:
    """Make the weights of the module, which are the last folder's, the mean of all folders'."""
    own = dict(loaded.module.named_parameters())
    sums = {name: weight.detach().cpu().double() for name, weight in own.items()}
    for folder in folders[:-1]:
        other = dict(read_model_folder(folder).module.named_parameters())
        if {n: w.shape for n, w in other.items()} != {n: w.shape for n, w in own.items()}:
            raise LoadError(
                f"The model in {folder} has other weights than that in {folders[-1]}.",
                kind="config",
                expected="checkpoints of one run",
                action="Average each run for itself.",
            )
        for name, weight in other.items():
            sums[name] += weight.detach().double()
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(sums[name] / len(folders))


def _card(card: ModelCard, steps: Sequence[int]) -> ModelCard:
    words = f"\nIts weights are the mean of those of the steps {', '.join(f'{s:,}' for s in steps)}.\n"
    return replace(card, training={**card.training, "averaged_steps": list(steps)}, text=card.text + words)


def _held_out(recipe: Recipe, loaded: LoadedFolder) -> tuple[Prepared | None, str]:
    """The data that the run held out; none, and the reason, where they are not there any more."""
    try:
        return prepare(recipe, loaded.tokenizer), ""
    except UserError as error:
        return None, f"The held-out data could not be read: {error}"


def _loss_of(
    loaded: LoadedFolder, data: Prepared | None, recipe: Recipe, step: int, device: torch.device
) -> Evaluated | None:
    if data is None:
        return None
    loss_of = SharedLoss(loaded.module.to(device), ALONE, device, is_sharded=False)
    with autocast_of(recipe.training.precision, device)():
        return evaluate(loss_of, data.batches.evaluation(), device, step)

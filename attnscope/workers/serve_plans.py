"""Answering what a recipe costs on paper. No Qt; allocates no model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from attnscope.errors import UserError
from attnscope.models.device import choose_device
from attnscope.records.plans import (
    BatchShown,
    PlanRecipe,
    PresetsShown,
    RecipePlanned,
    ShowBatch,
    ShowPresets,
)
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves


@serves(PlanRecipe)
def answer_plan(request: PlanRecipe, desk: Desk) -> Iterator[Reply]:
    """The plan of the recipe as it is typed; a recipe with a fault has a problem instead of a plan."""
    from attnscope.text.corpora import require_corpus
    from attnscope.training.paper import plan_recipe
    from attnscope.training.recipe import parse_recipe
    from attnscope.training.speed import pace_of
    from attnscope.training.starting import recipe_on_paper

    try:
        device = choose_device(request.device)
        base_folder = Path(request.base_folder) if request.base_folder else Path.cwd()
        recipe = recipe_on_paper(parse_recipe(request.recipe, base_folder=base_folder, needs_data=False))
        if recipe.data.kind != "task" and recipe.data.path:
            require_corpus(Path(recipe.data.path))
        folders = [Path(folder) for folder in request.run_folders]
        plan = plan_recipe(recipe, device, out=Path(request.out) if request.out else None)
        yield RecipePlanned(number=request.number, plan=plan)  # the time may take a moment longer
        pace = pace_of(recipe, device, folders)
    except UserError as error:
        yield RecipePlanned(number=request.number, plan=None, problem=str(error))
        return
    yield RecipePlanned(number=request.number, plan=replace(plan, pace=pace))


@serves(ShowBatch)
def show_batch(request: ShowBatch, desk: Desk) -> Iterator[Reply]:
    """What the model of a recipe will read first; a recipe with a fault has a problem instead.

    Where the recipe names no text yet, the sample text is read.
    """
    from attnscope.training.first_batch import first_batch, with_sample_text
    from attnscope.training.recipe import parse_recipe

    base_folder = Path(request.base_folder) if request.base_folder else Path.cwd()
    try:
        sample = with_sample_text(parse_recipe(request.recipe, base_folder=base_folder, needs_data=False))
        batch = first_batch(sample or parse_recipe(request.recipe, base_folder=base_folder))
    except UserError as error:
        yield BatchShown(number=request.number, batch=None, problem=str(error))
        return
    yield BatchShown(number=request.number, batch=batch, is_sample=sample is not None)


@serves(ShowPresets)
def show_presets(request: ShowPresets, desk: Desk) -> Iterator[Reply]:
    """The models of the literature, and what is free."""
    from attnscope.training.paper import free_bytes
    from attnscope.training.preset_rows import preset_rows

    device = choose_device("auto")
    yield PresetsShown(
        number=request.number,
        rows=preset_rows(is_on_cpu=device.type == "cpu"),
        available_bytes=free_bytes(device),
        device=str(device),
    )

"""Training runs: their cost on paper; starting, controlling, following and reading them.

No Qt; a plan allocates no model.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from attnscope.errors import UserError
from attnscope.nn.machine import choose_device
from attnscope.records.messages import ControlTraining, OpenRun, Progress, RunOpened, StartTraining
from attnscope.records.plans import (
    BatchShown,
    PlanRecipe,
    PresetsShown,
    RecipePlanned,
    ShowBatch,
    ShowPresets,
)
from attnscope.records.requests import Reply
from attnscope.records.runs import FollowRun, InspectionsShown, OpenRuns, RunsOpened, ShowInspections
from attnscope.workers.engine import Desk, TrainingJob, serves

if TYPE_CHECKING:
    from attnscope.training.summaries import RunsReader
    from attnscope.training.techniques import InspectionsReader


@serves(StartTraining)
def start_training(request: StartTraining, desk: Desk) -> Iterator[Reply]:
    """Begin or resume a run; raises UserError if one is in progress or the recipe is invalid."""
    from attnscope.training.loop import TrainingRun
    from attnscope.training.recipe import parse_recipe

    job = desk.models.training
    if job is not None and not job.is_finished:
        raise UserError(
            "A run is already in progress.",
            expected="one run at a time",
            action="Stop it first; it is saved and can be resumed.",
        )
    base_folder = Path(request.base_folder) if request.base_folder else Path.cwd()
    recipe = parse_recipe(request.recipe, base_folder=base_folder)
    run = TrainingRun(recipe, Path(request.out), request.device, may_lengthen=request.may_lengthen)
    if desk.may_choose_threads:
        yield Progress(number=request.number, what="Finding the quickest number of threads")
        run.choose_threads()
    job = desk.models.training = TrainingJob(request.number, run)
    yield job.news()


@serves(ControlTraining)
def control_training(request: ControlTraining, desk: Desk) -> Iterator[Reply]:
    """Pause, resume or stop the run in progress."""
    job = desk.models.training
    if job is None or job.is_finished:
        raise UserError("No run is in progress.", action="Start one on the training page.")
    match request.action:
        case "pause":
            yield job.pause()
        case "resume":
            yield job.resume()
        case "stop":
            job.stop()
            yield job.news()
        case _:
            raise ValueError(f"unknown action {request.action!r}")


@serves(OpenRun)
def open_run(request: OpenRun, desk: Desk) -> Iterator[Reply]:
    """Read a run folder: its recipe, its events, its checkpoints."""
    from attnscope.training.run import read_run

    run = read_run(Path(request.folder))
    yield RunOpened(
        number=request.number,
        folder=request.folder,
        recipe=run.recipe,
        events=run.events,
        checkpoints=tuple((step, str(path)) for step, path in run.checkpoints),
        probes=tuple((step, str(path)) for step, path in run.probes),
        n_bad_lines=run.n_bad_lines,
    )


class KnownRuns:
    """The runs read before, so that only appended lines are read again."""

    @cached_property
    def inspections(self) -> "InspectionsReader":
        """Created on first use."""
        from attnscope.training.techniques import InspectionsReader

        return InspectionsReader()

    @cached_property
    def reader(self) -> "RunsReader":
        """Created on first use."""
        from attnscope.training.summaries import RunsReader

        return RunsReader()


@serves(FollowRun)
def follow_run(request: FollowRun, desk: Desk) -> Iterator[Reply]:
    """Report the new entries of a run folder, in pieces that a window can handle at once."""
    from attnscope.training.summaries import read_news

    yield from read_news(Path(request.folder), request.mark, request.number)


@serves(OpenRuns)
def open_runs(request: OpenRuns, desk: Desk) -> Iterator[Reply]:
    """Read the runs of some folders side by side."""
    for read in desk.kept(KnownRuns).reader.read(request.folders):
        if isinstance(read, str):
            yield Progress(number=request.number, what=f"Reading {read}")
        else:
            runs, left_out = read
            yield RunsOpened(number=request.number, folders=request.folders, runs=runs, left_out=left_out)


@serves(ShowInspections)
def show_inspections(request: ShowInspections, desk: Desk) -> Iterator[Reply]:
    """Report the inspections of a run's steps, if new."""
    reader = desk.kept(KnownRuns).inspections
    for _ in reader.read(Path(request.folder)):
        yield Progress(number=request.number, what="Reading inspections")
    is_new = reader.version != request.seen
    yield InspectionsShown(
        number=request.number,
        folder=request.folder,
        version=reader.version,
        history=reader.history() if is_new else None,
    )


@serves(PlanRecipe)
def answer_plan(request: PlanRecipe, desk: Desk) -> Iterator[Reply]:
    """The plan of the recipe as typed; a faulty recipe has a problem instead of a plan."""
    from attnscope.training.paper import plan_recipe, require_data
    from attnscope.training.recipe import parse_recipe
    from attnscope.training.speed import pace_of
    from attnscope.training.starting import recipe_on_paper

    try:
        device = choose_device(request.device)
        base_folder = Path(request.base_folder) if request.base_folder else Path.cwd()
        recipe = recipe_on_paper(parse_recipe(request.recipe, base_folder=base_folder, needs_data=False))
        require_data(recipe)
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
    """Show the first batch of a recipe's model; a faulty recipe has a problem instead.

    Where the recipe names no text yet, the sample text is read.
    """
    from attnscope.training.beginning import first_batch, with_sample_text
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
    """Presets, with free memory and disk."""
    from attnscope.training.paper import free_bytes, preset_rows

    device = choose_device("auto")
    yield PresetsShown(
        number=request.number,
        rows=preset_rows(is_on_cpu=device.type == "cpu"),
        available_bytes=free_bytes(device),
        device=str(device),
    )

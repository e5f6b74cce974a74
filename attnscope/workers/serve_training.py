"""Starting, steering and reading training runs. No Qt."""

from collections.abc import Iterator
from pathlib import Path

from attnscope.errors import UserError
from attnscope.records.messages import ControlTraining, OpenRun, RunOpened, StartTraining
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves
from attnscope.workers.training_job import TrainingJob


@serves(StartTraining)
def start_training(request: StartTraining, desk: Desk) -> Iterator[Reply]:
    """Begin or resume a run; raises UserError when one is in progress or the recipe is wrong."""
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
    )

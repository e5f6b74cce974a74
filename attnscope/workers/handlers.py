"""The engine: every request becomes replies. No Qt; a test may drive it with a plain `for`.

Errors end here. What the person can mend becomes a Failed with the sentence; anything else, panics of
native libraries included, is written to the crash log first. Either way the state is as it was.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from attnscope.errors import UserError
from attnscope.models import demo_models
from attnscope.records.messages import (
    ControlTraining,
    Failed,
    LoadModel,
    OpenRun,
    Ready,
    Reply,
    Request,
    SaveModel,
    ShowHeads,
    ShowPositions,
    StartTraining,
    TraceText,
)
from attnscope.workers.serve_models import OpenModels, load_model, save_model
from attnscope.workers.serve_training import control_training, open_run, start_training
from attnscope.workers.serve_views import show_heads, show_positions, trace_text
from attnscope.workers.training_job import TrainingJob
from attnscope.workers.views import Views

CrashWriter = Callable[[BaseException, str], Path | None]


class Engine:
    """Everything the worker knows: the open models, the newest traces, the run in training."""

    def __init__(self, write_crash: CrashWriter) -> None:
        self._write_crash = write_crash
        self._models = OpenModels()
        self._views = Views()
        self._job: TrainingJob | None = None

    def ready(self) -> Ready:
        """What this machine offers."""
        devices = ["cpu"]
        if torch.cuda.is_available():
            devices.insert(0, "cuda")
        if torch.backends.mps.is_available():
            devices.insert(0, "mps")
        try:
            return Ready(devices=tuple(devices), demo_models=tuple(demo_models()))
        except UserError as error:
            return Ready(devices=tuple(devices), demo_models=(), note=str(error))

    def handle(self, request: Request) -> Iterator[Reply]:
        """Serve one request; never raises. Closing the iterator gives the request up."""
        try:
            yield from self._serve(request)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  an edge: panics of native libraries end here
            yield self._failed(request.number, request, error)

    @property
    def is_training(self) -> bool:
        """Whether `advance_training` would make progress."""
        return self._job is not None and self._job.is_active

    def advance_training(self) -> Iterator[Reply]:
        """Do one piece of training work and give the news when they are due; never raises."""
        job = self._job
        if job is None:
            return
        try:
            news = job.advance()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  an edge, as above
            yield job.news()
            yield self._failed(job.number, "StartTraining", error)
            return
        if news is not None:
            yield news

    def stop_training(self) -> None:
        """Ask the run in progress to save and finish."""
        if self._job is not None and not self._job.is_finished:
            self._job.stop()

    def _serve(self, request: Request) -> Iterator[Reply]:
        match request:
            case LoadModel():
                yield from load_model(request, self._models, self._views)
            case SaveModel():
                yield from save_model(request, self._models)
            case TraceText():
                yield from trace_text(request, self._models, self._views)
            case ShowHeads():
                yield from show_heads(request, self._views)
            case ShowPositions():
                yield from show_positions(request, self._models)
            case OpenRun():
                yield from open_run(request)
            case StartTraining():
                self._job = start_training(request, self._job)
                self._models.training = self._job
                yield self._job.news()
            case ControlTraining():
                yield from control_training(request, self._job)
            case _:
                raise TypeError(f"no handler for {type(request).__name__}")

    def _failed(self, number: int, request: Request | str, error: BaseException) -> Failed:
        name = request if isinstance(request, str) else type(request).__name__
        if isinstance(error, UserError):
            return Failed(number=number, request=name, message=str(error))
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return Failed(number=number, request=name, message=_MEMORY)
        log = self._write_crash(error, f"serving {request!r}"[:2000])
        return Failed(
            number=number,
            request=name,
            message=f"{name} failed through a fault of AttnScope ({type(error).__name__}). "
            "Everything else is as it was.",
            crash_log=str(log or ""),
        )


_MEMORY = (
    "There is not enough memory for this. Expected: enough for the model and its text. "
    "Choose a smaller model, a shorter text or a smaller batch, or close other programs."
)

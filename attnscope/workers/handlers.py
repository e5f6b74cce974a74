"""The engine: every request becomes replies. No Qt; a test may drive it with a plain `for`.

Errors end here. What the person can mend becomes a Failed with the sentence; anything else, panics of
native libraries included, is written to the crash log first. Either way the state is as it was.
"""

from collections.abc import Iterator

import torch

from attnscope.crash import CrashWriter
from attnscope.errors import UserError
from attnscope.hub.shelf import carried_models
from attnscope.models import demo_models
from attnscope.models.machine import lost_device
from attnscope.nn.long_work import Stopped
from attnscope.records.messages import Failed, Ready
from attnscope.records.requests import Reply, Request
from attnscope.workers.desk import Desk, import_answers, require_model, serve
from attnscope.workers.views import Views

import_answers()


class Engine:
    """Answers requests at its desk, one after another, and does long passes in between."""

    def __init__(self, write_crash: CrashWriter, views: Views | None = None) -> None:
        self._write_crash = write_crash
        self.desk = Desk(views)

    def ready(self) -> Ready:
        devices = ["cpu"]
        if torch.cuda.is_available():
            devices.insert(0, "cuda")
        if torch.backends.mps.is_available():
            devices.insert(0, "mps")
        try:
            names = (*demo_models(), *carried_models())
            return Ready(devices=tuple(devices), demo_models=names)
        except UserError as error:
            return Ready(devices=tuple(devices), demo_models=(), note=str(error))

    def handle(self, request: Request) -> Iterator[Reply]:
        """Serve one request; never raises. Closing the iterator gives the request up.

        A pass that is stopped in its middle ends the iterator; nothing comes of it.
        """
        try:
            yield from self._serve(request)
        except GeneratorExit:
            raise
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001  an edge: panics of native libraries end here
            yield self._failed(request.number, request, error)

    @property
    def is_training(self) -> bool:
        """Whether `advance_training` would make progress: in a run, or in a measuring pass."""
        job = self.desk.models.training
        return self.desk.background.is_active or (job is not None and job.is_active)

    def advance_training(self) -> Iterator[Reply]:
        """Do one piece of background work and give the news when they are due; never raises."""
        yield from self.desk.background.advance(self._failed)
        job = self.desk.models.training
        if job is None or not job.is_active:
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
        """Ask the run in progress to save and finish; passes in the background are given up."""
        self.desk.background.stop_all()
        job = self.desk.models.training
        if job is not None and not job.is_finished:
            job.stop()

    def _serve(self, request: Request) -> Iterator[Reply]:
        require_model(request, self.desk.models.open)
        yield from serve(request, self.desk)

    def _failed(self, number: int, request: Request | str, error: BaseException) -> Failed:
        name = request if isinstance(request, str) else type(request).__name__
        if isinstance(error, UserError):
            return Failed(number=number, request=name, message=str(error))
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return Failed(number=number, request=name, message=_MEMORY)
        lost = lost_device(error)
        if lost is not None:
            return Failed(number=number, request=name, message=str(lost))
        log = self._write_crash(error, f"serving {request!r}"[:2000])
        return Failed(
            number=number,
            request=name,
            message=f"{name} failed because of a fault in AttnScope ({type(error).__name__}). "
            "Everything else is as it was.",
            crash_log=str(log or ""),
        )


_MEMORY = (
    "There is not enough memory for this. Expected: enough for the model and its text. "
    "Choose a smaller model, a shorter text or a smaller batch, or close other programs."
)

"""The engine: every request becomes replies. No Qt; a test may drive it with a plain `for`.

Errors end here. What the user can mend becomes a Failed with the sentence; anything else, panics of native
libraries included, is written to the crash log first. Either way the state is as it was.

What answers share, and which function answers which request. No Qt.

A function that answers says so itself, in any module of this package called `serve_…`:

    @serves(ShowLens)
    def show_lens(request: ShowLens, desk: Desk) -> Iterator[Reply]: ...

`serves` is for what is answered at once; `works` for long passes: each `yield` is a place where other
requests come first, and a newer pass of the kind, a StopWork or another model ends it.

Passes take turns, one of each kind; a training run is advanced one event at a time.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from attnscope.crash import CrashWriter
from attnscope.errors import UserError, no_access
from attnscope.hub.shelf import carried_models
from attnscope.models import Model, demo_models, open_source
from attnscope.nn import lost_device, stop_if_unwanted
from attnscope.nn.long_work import Stopped
from attnscope.records.messages import OPEN_MODEL, TRAINING_MODEL, Failed, Ready, TrainingNews
from attnscope.records.models import needs_model
from attnscope.records.requests import Reply, Request, StopWork
from attnscope.records.runs import Finished, Started, Step, TrainingEvent
from attnscope.workers.mailbox import MAX_PER_S, RateLimit
from attnscope.workers.views import Views

if TYPE_CHECKING:
    from attnscope.training import TrainingRun

MakeFailed = Callable[[int, str, BaseException], Reply]
"""Makes the reply for a pass that ended with an error: its number, its kind, the error."""


class StepsJob:
    """A pass whose pieces of work are the steps of a generator.

    What only tells how far the pass is (`Reply.is_passing`) is given at most `max_per_s` times a second,
    everything else always.
    """

    def __init__(
        self,
        number: int,
        steps: Generator[Reply, None, None],
        *,
        max_per_s: float = MAX_PER_S,
    ) -> None:
        self.number = number
        self.is_active = True
        self._steps = steps
        self._limit = RateLimit(max_per_s)

    def advance(self) -> Reply | None:
        """Do one piece of work; returns the news to report now. An exception ends the job."""
        try:
            news = next(self._steps)
        except StopIteration:
            self.is_active = False
            return None
        except BaseException:
            self.is_active = False
            raise
        return news if not news.is_passing or self._limit.take() else None

    def stop(self) -> None:
        self._steps.close()
        self.is_active = False


class BackgroundJobs:
    """The passes in progress by the name of the request that began them."""

    def __init__(self) -> None:
        self._jobs: dict[str, StepsJob] = {}

    @property
    def is_active(self) -> bool:
        """Whether there is anything to do."""
        return any(job.is_active for job in self._jobs.values())

    def start(self, kind: str, job: StepsJob) -> None:
        """Begin a pass; an earlier one of its kind is cancelled."""
        self.stop(kind)
        self._jobs[kind] = job

    def stop(self, kind: str) -> None:
        """Cancel the pass of a kind, if there is one."""
        job = self._jobs.pop(kind, None)
        if job is not None:
            job.stop()

    def stop_all(self) -> None:
        """Cancel every pass."""
        for kind in tuple(self._jobs):
            self.stop(kind)

    def advance(self, make_failed: MakeFailed) -> Iterator[Reply]:
        """One piece of work of the pass whose turn it is; never raises."""
        kind = next((kind for kind, job in self._jobs.items() if job.is_active), None)
        if kind is None:
            return
        job = self._jobs.pop(kind)
        self._jobs[kind] = job  # the others come first next time
        try:
            news = job.advance()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  an edge: panics of native libraries end here
            self._jobs.pop(kind, None)
            yield make_failed(job.number, kind, error)
            return
        if not job.is_active:
            self._jobs.pop(kind, None)
        if news is not None:
            yield news


class TrainingJob:
    """Advances a run, collects its events and reports them at most 20 times a second."""

    def __init__(
        self, number: int, run: "TrainingRun", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.number = number
        self.is_paused = False
        self.is_finished = False
        self.step = 0
        self._run = run
        self._events = run.events()
        self._pending: list[TrainingEvent] = []
        self._limit = RateLimit(MAX_PER_S, clock)

    @property
    def model(self) -> Model:
        return self._run.model

    @property
    def is_active(self) -> bool:
        """Whether `advance` would make progress."""
        return not (self.is_paused or self.is_finished)

    def advance(self) -> TrainingNews | None:
        """Do one piece of work; returns the news if due.

        What the run raises passes through; the job is then finished.
        """
        try:
            event = next(self._events, None)
        except BaseException:
            self.is_finished = True
            raise
        if event is None:
            self.is_finished = True
        else:
            self._note(event)
        is_milestone = event is None or isinstance(event, Started | Finished)
        if self._pending and (self._limit.take() or is_milestone):
            return self.news()
        return None

    def news(self) -> TrainingNews:
        """Everything since the last news."""
        events, self._pending = tuple(self._pending), []
        return TrainingNews(number=self.number, events=events, is_paused=self.is_paused)

    def pause(self) -> TrainingNews:
        """Stop advancing until `resume`."""
        self.is_paused = True
        return self.news()

    def resume(self) -> TrainingNews:
        """Continue after `pause`."""
        self.is_paused = False
        return self.news()

    def stop(self) -> None:
        """Ask the run to save and finish; it keeps advancing until it has."""
        self._run.request_stop()
        self.is_paused = False

    def _note(self, event: TrainingEvent) -> None:
        self._pending.append(event)
        if isinstance(event, Started | Step | Finished):
            self.step = event.step
        if isinstance(event, Finished):
            self.is_finished = True
            self._events = iter(())


N_CHECKPOINTS_KEPT = 4


class OpenModels:
    """The open model, the one in training, and recently viewed checkpoints."""

    def __init__(self) -> None:
        self.open: Model | None = None
        self.training: TrainingJob | None = None
        self._checkpoints: OrderedDict[str, Model] = OrderedDict()

    def get(self, name: str) -> Model:
        """The model named in a request; raises UserError if there is none."""
        if name == OPEN_MODEL:
            return self._open_model()
        if name == TRAINING_MODEL:
            return self._training_model()
        if name not in self._checkpoints:
            self._checkpoints[name] = open_source(name, device="cpu")
        self._checkpoints.move_to_end(name)
        while len(self._checkpoints) > N_CHECKPOINTS_KEPT:
            self._checkpoints.popitem(last=False)
        return self._checkpoints[name]

    def has(self, name: str) -> bool:
        """Whether the model named in a request needs no opening."""
        return name in (OPEN_MODEL, TRAINING_MODEL) or name in self._checkpoints

    def step(self, name: str) -> int | None:
        """The training step of the model named in a request, if it has one."""
        if name == OPEN_MODEL:
            return None
        if name == TRAINING_MODEL:
            return None if self.training is None else self.training.step
        place = Path(name).name.removesuffix(".safetensors")  # a checkpoint, or attention that was kept
        return int(place) if place.isdecimal() else None

    def _open_model(self) -> Model:
        if self.open is None:
            raise UserError("No model is open.", action="Open a model first.")
        return self.open

    def _training_model(self) -> Model:
        if self.training is None:
            raise UserError("No model is being trained.", action="Start a run on the training page first.")
        return self.training.model


Kept = TypeVar("Kept")
Asked = TypeVar("Asked", bound=Request)
Served = Callable[[Asked, "Desk"], Iterator[Reply]]
Worked = Callable[[Asked, "Desk"], Generator[Reply, None, None]]


class Desk:
    """The open models, the newest traces, the background work, and the handlers' caches."""

    def __init__(self, views: Views | None = None, *, may_choose_threads: bool = False) -> None:
        self.views = views or Views()
        self.may_choose_threads = may_choose_threads
        """Whether runs try with how many threads they are quickest; else they take all of the worker's."""
        self.models = OpenModels()
        self.background = BackgroundJobs()
        self._kept: dict[type, object] = {}

    @property
    def model(self) -> Model:
        """The open model; raises UserError if there is none."""
        return self.models.get(OPEN_MODEL)

    def kept(self, kind: type[Kept]) -> Kept:
        """The single object of a class in which handlers cache results, created on first use."""
        one = self._kept.setdefault(kind, kind()) if kind not in self._kept else self._kept[kind]
        assert isinstance(one, kind)
        return one

    def forget_model(self) -> None:
        """Another model is open: end passes over the old one, and drop everything cached for it."""
        self.background.stop_all()
        for one in self._kept.values():
            forget = getattr(one, "forget_model", None)
            if forget is not None:
                forget()


_SERVED: dict[type[Request], Served[Any]] = {}


def serves(kind: type[Asked]) -> Callable[[Served[Asked]], Served[Asked]]:
    """Register a function as the handler of a kind of request."""

    def note(serve: Served[Asked]) -> Served[Asked]:
        _SERVED[kind] = serve
        return serve

    return note


def works(kind: type[Asked], *, max_per_s: float = MAX_PER_S) -> Callable[[Worked[Asked]], Worked[Asked]]:
    """Register a generator whose steps run in the background for a kind of request.

    Replies that only tell how far it is are given at most `max_per_s` times a second; of an idle pass never.
    """

    def note(steps: Worked[Asked]) -> Worked[Asked]:
        def start(request: Asked, desk: Desk) -> Iterator[Reply]:
            if request.is_idle:
                return _unseen(steps(request, desk))
            job = StepsJob(request.number, steps(request, desk), max_per_s=max_per_s)
            desk.background.start(request.work, job)
            return iter(())

        _SERVED[kind] = start
        return steps

    return note


def _unseen(steps: Iterator[Reply]) -> Iterator[Reply]:
    """Result of a pass without progress; ends as soon as it is no longer wanted."""
    for news in steps:
        stop_if_unwanted()
        if not news.is_passing:
            yield news


def serve(request: Request, desk: Desk) -> Iterator[Reply]:
    """The replies to a request, made as they are consumed."""
    found = _SERVED.get(type(request))
    if found is None:
        raise TypeError(f"no answer to {type(request).__name__}")
    return found(request, desk)


@serves(StopWork)
def stop_work(request: StopWork, desk: Desk) -> Iterator[Reply]:
    """Cancel a pass in the background."""
    desk.background.stop(request.work)
    return iter(())


def import_answers() -> None:
    """Import every module of this package with handlers."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        if module.name.startswith("serve_"):
            import_module(f"{package}.{module.name}")


def require_model(request: Request, model: Model | None) -> None:
    """Raise UserError if `model` is recorded attention and the request needs a real model."""
    if model is not None and request.beyond_recordings and model.info.is_recorded:
        raise needs_model(model.info.name, request.beyond_recordings)


def running(model: Model) -> Model:
    """The model, for an experiment with it; raises UserError for recorded attention."""
    if model.info.is_recorded:
        raise needs_model(model.info.name, "This experiment")
    return model


import_answers()


class Engine:
    """Handles requests at its desk, one after another, with long passes in between."""

    def __init__(
        self, write_crash: CrashWriter, views: Views | None = None, *, may_choose_threads: bool = False
    ) -> None:
        self._write_crash = write_crash
        self.desk = Desk(views, may_choose_threads=may_choose_threads)

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
        """Handle one request; never raises. Closing the iterator cancels the request.

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
        """Do one piece of background work and return the news if due; never raises."""
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
        """Ask the run in progress to save and finish; passes in the background are cancelled."""
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
        lost = no_access(error) or lost_device(error)
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

"""What answers share, and which function answers which request. No Qt.

A function that answers says so itself, in any module of this package called `serve_…`:

    @serves(ShowLens)
    def show_lens(request: ShowLens, desk: Desk) -> Iterator[Reply]: ...

`serves` is for what is answered at once; `works` for long passes: each `yield` is a place where other
requests come first, and a newer pass of the kind, a StopWork or another model ends it.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.models.recording.opening import open_source
from attnscope.nn.long_work import stop_if_unwanted
from attnscope.records.messages import OPEN_MODEL, TRAINING_MODEL
from attnscope.records.models import needs_model
from attnscope.records.requests import Reply, Request, StopWork
from attnscope.workers.background import BackgroundJobs, StepsJob, TrainingJob
from attnscope.workers.mailbox import MAX_PER_S
from attnscope.workers.views import Views

N_CHECKPOINTS_KEPT = 4


class OpenModels:
    """The open model, the one in training, and the checkpoints looked at last."""

    def __init__(self) -> None:
        self.open: Model | None = None
        self.training: TrainingJob | None = None
        self._checkpoints: OrderedDict[str, Model] = OrderedDict()

    def get(self, name: str) -> Model:
        """The model that a request names; raises UserError when there is none."""
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
        """Whether the model that a request names needs no opening."""
        return name in (OPEN_MODEL, TRAINING_MODEL) or name in self._checkpoints

    def step(self, name: str) -> int | None:
        """The training step of the model that a request names, if it has one."""
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
    """The open models, the newest traces, what is done in the background, and what answers keep."""

    def __init__(self, views: Views | None = None) -> None:
        self.views = views or Views()
        self.models = OpenModels()
        self.background = BackgroundJobs()
        self._kept: dict[type, object] = {}

    @property
    def model(self) -> Model:
        """The open model; raises UserError when there is none."""
        return self.models.get(OPEN_MODEL)

    def kept(self, kind: type[Kept]) -> Kept:
        """The one object of a class that answers keep something in, made when it is first needed."""
        one = self._kept.setdefault(kind, kind()) if kind not in self._kept else self._kept[kind]
        assert isinstance(one, kind)
        return one

    def forget_model(self) -> None:
        """Another model is open: passes over the one before end, and whatever was kept of it goes."""
        self.background.stop_all()
        for one in self._kept.values():
            forget = getattr(one, "forget_model", None)
            if forget is not None:
                forget()


_SERVED: dict[type[Request], Served[Any]] = {}


def serves(kind: type[Asked]) -> Callable[[Served[Asked]], Served[Asked]]:
    """Have a function answer requests of a kind."""

    def note(serve: Served[Asked]) -> Served[Asked]:
        _SERVED[kind] = serve
        return serve

    return note


def works(kind: type[Asked], *, max_per_s: float = MAX_PER_S) -> Callable[[Worked[Asked]], Worked[Asked]]:
    """Have the steps of a generator done in the background for requests of a kind.

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
    """What a pass finds, in one go that ends wherever it is not wanted any more."""
    for news in steps:
        stop_if_unwanted()
        if not news.is_passing:
            yield news


def serve(request: Request, desk: Desk) -> Iterator[Reply]:
    """The replies to a request, made as they are taken."""
    found = _SERVED.get(type(request))
    if found is None:
        raise TypeError(f"no answer to {type(request).__name__}")
    return found(request, desk)


@serves(StopWork)
def stop_work(request: StopWork, desk: Desk) -> Iterator[Reply]:
    """Give up a pass in the background."""
    desk.background.stop(request.work)
    return iter(())


def import_answers() -> None:
    """Import every module of this package that answers requests."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        if module.name.startswith("serve_"):
            import_module(f"{package}.{module.name}")


def require_model(request: Request, model: Model | None) -> None:
    """Raise UserError when `model` is recorded attention and the request is for what only a model can do."""
    if model is not None and model.info.is_recorded and request.beyond_recordings:
        raise needs_model(model.info.name, request.beyond_recordings)


def running(model: Model) -> Model:
    """The model, for an experiment with it; raises UserError for recorded attention."""
    if model.info.is_recorded:
        raise needs_model(model.info.name, "This experiment")
    return model

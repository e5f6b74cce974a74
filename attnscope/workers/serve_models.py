"""Opening and saving models, and finding the model that a request names. No Qt."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.models.recording.opening import open_source
from attnscope.records.messages import (
    OPEN_MODEL,
    TRAINING_MODEL,
    LoadModel,
    ModelLoaded,
    ModelSaved,
    Progress,
    Reply,
    SaveModel,
)
from attnscope.workers.training_job import TrainingJob
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
            raise UserError("No model is in training.", action="Start a run on the training page first.")
        return self.training.model


def load_model(request: LoadModel, models: OpenModels, views: Views) -> Iterator[Reply]:
    """Open a model; the one before stays open until the new one is complete."""
    yield Progress(number=request.number, what=f"Opening {Path(request.source).name or request.source}")
    model = open_source(request.source, request.device)
    yield ModelLoaded(number=request.number, info=model.info)
    # Only now: who gives the opening up at its last moment is not told of it, and keeps the model before.
    models.open = model
    views.forget(OPEN_MODEL)


def save_model(request: SaveModel, models: OpenModels) -> Iterator[Reply]:
    """Save the open model as a model folder."""
    model = models.get(OPEN_MODEL)
    yield Progress(number=request.number, what=f"Saving {model.info.name}")
    model.save(Path(request.folder))
    yield ModelSaved(number=request.number, folder=request.folder)

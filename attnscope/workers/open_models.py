"""The models that are open, and finding the one that a request names. No Qt."""

from collections import OrderedDict
from pathlib import Path

from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.models.recording.opening import open_source
from attnscope.records.messages import OPEN_MODEL, TRAINING_MODEL
from attnscope.workers.training_job import TrainingJob

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
